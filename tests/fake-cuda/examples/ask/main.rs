//! Asks a CUDA driver some three hundred questions about its behaviour and prints one line for each answer.
//!
//! `ask LIBRARY [AREA]`: with no area every area is asked, each in a process of its own. Run over the
//! real driver it gives `answers-h200.txt`; the test `answers` runs it over the fake and compares.
//! The rule it keeps: an answer holds nothing that differs from one run to the next.

mod asker;
mod batches;
mod contexts;
mod life;
mod managed;
mod memory;
mod peers;
mod pitched;
mod pools;
mod streams;
mod waiting;

use asker::Driver;

type Area = (&'static str, fn(&Driver));

const AREAS: &[Area] = &[
    ("before-init", life::before_init),
    ("no-context", contexts::none_current),
    ("no-context-objects", contexts::objects_without_a_context),
    ("primary", contexts::primary),
    ("primary-reset", contexts::primary_reset),
    ("broken-context", contexts::broken),
    ("two-contexts", contexts::two),
    ("destroyed-context", contexts::destroyed),
    ("device-memory", memory::device),
    ("copies", memory::copies),
    ("copies-odd", memory::odd_copies),
    ("fills", memory::fills),
    ("pointers", memory::pointers),
    ("pinned", memory::pinned),
    ("registered", memory::registered),
    ("streams", streams::streams),
    ("legacy", streams::legacy),
    ("events", streams::events),
    ("destroyed-event", streams::destroyed_event),
    ("destroyed-stream", streams::destroyed_stream),
    ("host-function", streams::inside_a_host_function),
    ("gate-blocking", waiting::gated_blocking_stream),
    ("gate-non-blocking", waiting::gated_non_blocking_stream),
    ("gate-two", waiting::two_gates),
    ("gate-depth", waiting::depth),
    ("staging", waiting::staging),
    ("managed", managed::memory),
    ("managed-hints", managed::hints),
    ("managed-gate", managed::gated),
    ("pitched", pitched::pitched),
    ("pitched-gate", pitched::gated),
    ("batches", batches::batches),
    ("batches-gate", batches::gated),
    ("pool-marks", pools::marks),
    ("pools", pools::pools),
    ("pool-frees", pools::frees),
    ("pool-made", pools::made),
    ("get-proc-address", life::get_proc_address),
    ("fork", life::fork),
    ("fork-before-init", life::fork_before_init),
    ("peers", peers::peers),
    ("peer-streams", peers::streams),
    ("peer-copies", peers::copies),
    ("peer-broken", peers::broken_elsewhere),
    ("peer-frees", peers::frees),
    ("peer-pitched", pitched::peers),
    ("visible", life::visible),
];

/// Values of `CUDA_VISIBLE_DEVICES` that are tried, for a machine with two devices.
const VISIBLE: &[&str] = &[
    "",
    "-1",
    "0",
    "1",
    "1,0",
    "0,0",
    "99,0",
    "0,99",
    "0,-1,1",
    " 0",
    "0,1,",
    "abc",
    "GPU-x",
    "0x1",
    "1,0,1",
    "NoDevFiles",
];

/// Asks. Public for the test that includes this file.
pub fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let library = arguments.get(1).map_or("libcuda.so.1", String::as_str);
    match arguments.get(2) {
        Some(area) => {
            let driver = Driver::open(library);
            match AREAS.iter().find(|(name, _)| name == area) {
                Some((_, ask)) => ask(&driver),
                None => println!("no such area"),
            }
            asker::leave();
        }
        None => {
            let path = std::env::current_exe().expect("a running program has a path");
            for (area, _) in AREAS {
                let values: &[&str] = if *area == "visible" { VISIBLE } else { &["unset"] };
                for value in values {
                    one_area(&path, library, area, value);
                }
            }
        }
    }
}

fn one_area(path: &std::path::Path, library: &str, area: &str, visible: &str) {
    let mut child = std::process::Command::new(path);
    child
        .arg(library)
        .arg(area)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped());
    if visible == "unset" {
        println!("== {area}");
    } else {
        println!("== {area} {visible:?}");
        child.env("CUDA_VISIBLE_DEVICES", visible);
    }
    let child = child.spawn().expect("the program can start itself");
    let pid = child.id();
    let (done, finished) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if finished.recv_timeout(std::time::Duration::from_secs(40)).is_err() {
            // SAFETY: kill with a number has no memory effects; the child is not yet reaped, so the number is its.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
    });
    let output = child.wait_with_output().expect("the child was started by us");
    done.send(()).ok();
    watchdog.join().ok();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if !output.status.success() {
        println!("ended with {}", output.status);
    }
}
