//! `docs/doctor.md` shows what the command really prints.
//!
//! Rule: each example of the page is run again and compared, letter by letter but for white space (paths
//! have other lengths elsewhere, so lines break elsewhere) and for what varies between machines, which
//! is replaced. `DOCTOR_PAGE=write` puts what is printed now into the page.

mod machine;

use machine::{COMMAND, LIB, Machine, has_a_driver, squeeze};
use std::fs;
use std::path::Path;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/doctor.md");

/// Where the page says that the runtime is installed.
const FOLDER: &str = "/opt/llaisys";

const H200: &str = "NVIDIA H200";

/// An example of the page and the machine that it shows.
fn examples() -> Vec<(&'static str, Machine)> {
    let container = Machine::new("page_container").file("/.dockerenv", "");
    let wsl = Machine::new("page_wsl")
        .file("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
        .file("/usr/lib/wsl/lib/libcuda.so.1", "")
        .file("/etc/ld.so.conf", "/usr/lib/wsl/lib\n")
        .nodes(&["dxg"], 0o666)
        .libcuda(LIB, "535.104.05")
        .set("LD_LIBRARY_PATH", LIB);
    let mut examples = vec![
        (
            "a driver that works",
            Machine::new("page_works")
                .over_the_fake_driver()
                .set("FAKE_CUDA_DEVICES", "1")
                .toolkit("11.4", "11.4.148")
                .toolkit("12.4", "12.4.127")
                .link("/usr/local/cuda", "cuda-12.4"),
        ),
        (
            "a stub first on the path",
            Machine::new("page_stub")
                .driver("550.54.15", H200)
                .toolkit("12.4", "12.4.127")
                .link(
                    "/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs/libcuda.so.1",
                    "libcuda.so",
                )
                .set("LD_LIBRARY_PATH", "/usr/local/cuda-12.4/lib64/stubs"),
        ),
        (
            "a driver too old for the backend",
            Machine::new("page_old")
                .over_the_fake_driver()
                .set("FAKE_CUDA_DRIVER_VERSION", "11010"),
        ),
        (
            "a driver too old for a toolkit",
            Machine::new("page_toolkits")
                .driver("535.104.05", H200)
                .toolkit("12.4", "12.4.127")
                .toolkit("13.0", "13.0.48"),
        ),
        (
            "after an update without a reboot",
            Machine::new("page_mismatch")
                .module("535.54.03", H200)
                .nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"], 0o666)
                .libcuda(LIB, "535.104.05"),
        ),
        ("a container without a GPU", container.module("535.104.05", H200)),
        ("nouveau", Machine::new("page_nouveau").gpu("nouveau")),
        ("a Linux driver under WSL", wsl),
    ];
    if has_a_driver() {
        println!("not compared: `no driver`, because this machine has one");
    } else {
        beside_the_plugin();
        examples.push(("no driver", Machine::new("page_nothing").argument("--ask")));
    }
    examples
}

/// Without it the loader's record would be a shorter one.
fn beside_the_plugin() {
    machine::beside("libllaisys_backend_nvidia.so");
}

/// What the command prints for a machine, without what varies.
fn printed(machine: &Machine) -> String {
    let (_, text) = machine.doctor(&[]);
    let folder = Path::new(COMMAND).parent().expect("a folder").to_str().expect("UTF-8");
    let lines = text.lines().map(|line| {
        // The processor's name.
        if line.starts_with("  cpu:0") { "  cpu:0         (the processor)" } else { line }
    });
    let text: Vec<&str> = lines.collect();
    text.join("\n").replace(folder, FOLDER).replace(std::env::consts::ARCH, "x86_64")
}

/// The folder of the command has another length elsewhere, and may be broken over two lines.
fn without_the_folder(text: &str) -> String {
    let folder = Path::new(COMMAND).parent().expect("a folder").to_str().expect("UTF-8");
    squeeze(text).replace(&squeeze(folder), FOLDER)
}

/// Where the text of an example begins and ends in the page.
fn place(page: &str, name: &str) -> (usize, usize) {
    let mark = format!("<!-- printed: {name} -->\n```text\n");
    let begin = page.find(&mark).unwrap_or_else(|| panic!("docs/doctor.md lacks {mark:?}"));
    let begin = begin + mark.len();
    let length = page[begin..].find("\n```").expect("the example ends");
    (begin, begin + length)
}

#[test]
fn the_examples_of_the_page_are_what_is_printed() {
    let write = std::env::var_os("DOCTOR_PAGE").is_some_and(|value| value == "write");
    let mut page = fs::read_to_string(PAGE).expect("the page is there");
    let examples = examples();
    let shown = page.lines().filter_map(|line| {
        line.strip_prefix("<!-- printed: ").and_then(|line| line.strip_suffix(" -->"))
    });
    for name in shown.filter(|name| *name != "no driver") {
        assert!(examples.iter().any(|(run, _)| *run == name), "nothing runs `{name}`");
    }
    for (name, machine) in examples {
        let now = printed(&machine);
        let (begin, end) = place(&page, name);
        if write {
            page.replace_range(begin..end, &now);
            continue;
        }
        assert_eq!(
            without_the_folder(&page[begin..end]),
            without_the_folder(&now),
            "`{name}` in docs/doctor.md; DOCTOR_PAGE=write puts this there:\n{now}"
        );
    }
    if write {
        fs::write(PAGE, page).expect("the page can be written");
    }
}
