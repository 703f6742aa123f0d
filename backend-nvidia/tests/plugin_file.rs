//! The plugin as a file: what it exports, what it needs, and that it opens on a machine without a
//! driver.

mod support;

use std::ffi::CStr;
use std::process::Command;
use support::{Plugin, in_a_child, plugin_file};

fn output_of(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool)
        .args(arguments)
        .arg(plugin_file())
        .output()
        .unwrap_or_else(|error| panic!("{tool} (binutils, as the linker): {error}"));
    assert!(output.status.success(), "{tool} {arguments:?}");
    String::from_utf8(output.stdout).expect("binutils write ASCII")
}

#[test]
fn exactly_one_symbol_is_exported() {
    let symbols: Vec<String> = output_of("nm", &["-D", "--defined-only"])
        .lines()
        .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
        .collect();
    assert_eq!(symbols, [llaisys_runtime_core::abi::QUERY_SYMBOL]);
}

#[test]
fn nothing_of_cuda_is_needed_or_left_open() {
    let needed = output_of("readelf", &["-d", "-W"]);
    assert!(needed.contains("NEEDED"), "{needed}");
    assert!(!needed.contains("cuda") && !needed.contains("nvidia-ml"), "{needed}");
    assert!(needed.contains("NODELETE"), "the plugin is never unloaded: {needed}");
    let undefined = output_of("nm", &["-D", "--undefined-only"]);
    for line in undefined.lines() {
        let name = line.split_whitespace().last().unwrap_or_default();
        let is_cuda =
            name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase));
        assert!(!is_cuda, "no door for {name}");
    }
}

#[test]
fn the_query_says_who_the_plugin_is_and_does_nothing_else() {
    // A driver that would end the process if anyone called it.
    let driver = support::driver_from(
        "untouchable",
        "#include <stdlib.h>\n\
         __attribute__((constructor)) static void opened(void) { abort(); }\n\
         int cuInit(unsigned flags) { abort(); } int cuDeviceGetCount(int *n) { abort(); }\n\
         int cuDriverGetVersion(int *v) { abort(); }\n",
    );
    let name = "the_query_says_who_the_plugin_is_and_does_nothing_else";
    in_a_child(name, &[("LLAISYS_CUDA_DRIVER", &driver)], || {
        let threads = || std::fs::read_dir("/proc/self/task").expect("Linux").count();
        let before = threads();
        let plugin = Plugin::open();
        let text = |pointer| {
            // SAFETY: the descriptor's texts are constants of the plugin.
            unsafe { CStr::from_ptr(pointer) }.to_str().expect("ASCII")
        };
        assert_eq!(text(plugin.descriptor.name), "nvidia");
        assert_eq!(text(plugin.descriptor.vendor), "NVIDIA");
        assert_eq!(text(plugin.descriptor.version), env!("CARGO_PKG_VERSION"));
        assert_eq!(plugin.descriptor.device_type, 1);
        assert_eq!(threads(), before);
    });
}
