//! Has the protocols compiled as models, in this crate only.

fn main() {
    println!("cargo:rustc-cfg=loom");
}
