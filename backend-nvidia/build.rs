//! Link arguments of the plugin file.
//!
//! Rule: what the file needs from outside is known when it is linked. (That it exports one symbol
//! and needs no `libcuda` follows from the source; `tests/plugin_file.rs` looks at the result.)

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for argument in [
        // A `cu*` symbol without a door fails here and not on a user's machine.
        "-Wl,--no-undefined",
        // Never unloaded: threads keep thread-local state of the plugin, and the driver keeps its
        // callbacks.
        "-Wl,-z,nodelete",
    ] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
