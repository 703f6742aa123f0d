//! How a test gets a fake of its own: each story runs in a child process with its own environment.

#[path = "../../examples/ask/asker.rs"]
#[expect(dead_code, reason = "shared with the program `ask`, which uses all of it")]
pub mod asker;

#[allow(unused_imports, reason = "not every file of tests needs a word")]
pub use asker::Word;
pub use asker::{Driver, Gate};

const STORY: &str = "FAKE_CUDA_STORY";

/// Runs a story alone, in a child of this process; fails with what the child said.
pub fn alone(name: &str, environment: &[(&str, &str)], story: fn(&Driver)) {
    let program = std::env::current_exe().expect("a running program has a path");
    if std::env::var(STORY).is_ok_and(|value| value == name) {
        let library = program.with_file_name("libcuda.so");
        story(&Driver::open(&library.to_string_lossy()));
        return;
    }
    let mut child = std::process::Command::new(program);
    child.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(STORY, name);
    for (key, value) in environment {
        child.env(key, value);
    }
    let output = child.output().expect("the program can start itself");
    let said =
        [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{name} {:?}: {}\n{said}",
        environment,
        output.status
    );
}

/// Stories: a name, the environment, what happens.
#[macro_export]
macro_rules! stories {
    ($($(#[$doc:meta])* $name:ident [$($key:literal = $value:literal),*] $story:expr;)*) => {
        $(
            $(#[$doc])*
            #[test]
            fn $name() {
                support::alone(stringify!($name), &[$(($key, $value)),*], $story);
            }
        )*
    };
}

/// A count that the fake keeps.
#[allow(dead_code, reason = "not every file of tests counts")]
pub fn count(d: &Driver, name: &'static str) -> i32 {
    d.call(name, &[])
}

/// The bytes at an address of the host.
#[allow(dead_code, reason = "not every file of tests reads memory")]
pub fn bytes<'a>(address: usize, length: usize) -> &'a mut [u8] {
    // SAFETY: the tests pass ranges of their own pageable or pinned memory, which is never given back, and
    // look at them when no operation writes to them.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, length) }
}
