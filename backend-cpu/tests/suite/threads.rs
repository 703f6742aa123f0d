//! Which threads there are, and what they are like (contract L1, L3).

use crate::gate::Gate;
use crate::rig::{Rig, eventually};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::api::{CopyFlags, MemcpyKind, RuntimeApi, Stream};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The folders in `/proc` of the threads of a rig; each test has a device number of its own, which is
/// in their names.
fn workers(device: i32) -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").expect("there is /proc");
    let folders = tasks.filter_map(|task| Some(task.ok()?.path()));
    folders
        .filter(|folder| {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            name.starts_with(&format!("t{device}."))
        })
        .collect()
}

fn rig(device: i32, worker_idle: Duration) -> Rig {
    Rig::with(Configuration {
        devices: device + 1,
        worker_name: format!("t{device}"),
        threads: 2,
        worker_idle,
        ..Configuration::default()
    })
}

const LONG: Duration = Duration::from_secs(3_600);

#[test]
fn a_thread_starts_with_the_first_work_and_not_before() {
    const DEVICE: i32 = 101;
    let rig = rig(DEVICE, LONG);
    let streams = [(); 8].map(|()| rig.0.create_stream(DEVICE).expect("a stream"));
    let (mut a, b) = (0u8, 1u8);
    let (to, from) = ((&raw mut a).cast(), (&raw const b).cast());
    // SAFETY: both bytes are live; the copies are done when the calls return.
    unsafe {
        let (kind, flags) = (MemcpyKind::H2H, CopyFlags::AT_ONCE_IF_IDLE);
        rig.0.memcpy_async(DEVICE, to, from, 1, kind, streams[0], flags).expect("copied");
        rig.0.memcpy_sync(DEVICE, to, from, 1, kind, CopyFlags::NONE).expect("copied");
    }
    rig.0.device_synchronize(DEVICE).expect("synchronized");
    assert!(workers(DEVICE).is_empty());
    for stream in &streams {
        for _ in 0..100 {
            rig.call(DEVICE, *stream, || ());
        }
        rig.wait(DEVICE, *stream);
    }
    // Two workers serve all streams, and perhaps one thread that looks out for blocked ones.
    let threads = workers(DEVICE).len();
    assert!((1..=3).contains(&threads), "{threads} threads");
}

#[test]
fn host_functions_that_block_do_not_keep_other_streams_from_running() {
    const DEVICE: i32 = 106;
    const BLOCKED: usize = 20;
    let rig = Rig::with(Configuration {
        devices: DEVICE + 1,
        worker_name: format!("t{DEVICE}"),
        threads: 1,
        worker_idle: Duration::from_millis(1),
        ..Configuration::default()
    });
    let streams = [(); BLOCKED].map(|()| rig.0.create_stream(DEVICE).expect("a stream"));
    let gates = streams.map(|stream| Gate::reached_on(rig, DEVICE, stream));
    let free = rig.0.create_stream(DEVICE).expect("a stream");
    let log = crate::gate::Log::default();
    for number in 0..1_000 {
        log.note(rig, DEVICE, free, number);
    }
    rig.wait(DEVICE, free);
    assert!(log.numbers().len() == 1_000 && log.numbers().is_sorted());
    drop(gates);
    rig.0.device_synchronize(DEVICE).expect("synchronized");
    // What took their places goes again.
    eventually("the threads go", || workers(DEVICE).is_empty());
}

#[test]
fn streams_that_come_and_go_do_not_add_threads() {
    const DEVICE: i32 = 102;
    let rig = rig(DEVICE, LONG);
    for _ in 0..500 {
        let stream = rig.0.create_stream(DEVICE).expect("a stream");
        rig.call(DEVICE, stream, || ());
        // SAFETY: a live stream.
        unsafe { rig.0.destroy_stream(DEVICE, stream) }.expect("destroyed");
    }
    rig.0.device_synchronize(DEVICE).expect("synchronized");
    let threads = workers(DEVICE).len();
    assert!((1..=3).contains(&threads), "{threads} threads");
}

#[test]
fn an_idle_thread_ends_and_one_starts_again_when_there_is_work() {
    const DEVICE: i32 = 103;
    let rig = rig(DEVICE, Duration::from_millis(1));
    let stream = rig.0.create_stream(DEVICE).expect("a stream");
    for _ in 0..20 {
        for stream in [stream, Stream::DEFAULT] {
            rig.call(DEVICE, stream, || ());
            rig.wait(DEVICE, stream);
        }
        eventually("the idle threads end", || workers(DEVICE).is_empty());
    }
}

#[test]
fn workers_leave_signals_to_the_programs_own_threads() {
    const DEVICE: i32 = 104;
    let rig = rig(DEVICE, LONG);
    let _gate = Gate::reached_on(rig, DEVICE, Stream::DEFAULT);
    let workers = workers(DEVICE);
    assert!(!workers.is_empty());
    let status = fs::read_to_string(workers[0].join("status")).expect("readable");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("there");
    let blocked = u64::from_str_radix(blocked.trim(), 16).expect("a mask");
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGCHLD, libc::SIGUSR1] {
        assert_ne!(blocked & 1 << (signal - 1), 0, "signal {signal} is not blocked");
    }
    assert_eq!(blocked & 1 << (libc::SIGSEGV - 1), 0, "a fault must reach its handler");
}

#[test]
fn hundreds_of_busy_streams_all_get_done() {
    const DEVICE: i32 = 105;
    let rig = rig(DEVICE, LONG);
    let streams: Vec<_> = (0..300).map(|_| rig.0.create_stream(DEVICE).expect("made")).collect();
    let log = crate::gate::Log::default();
    for round in 0..10 {
        for stream in &streams {
            log.note(rig, DEVICE, *stream, round);
        }
        log.note(rig, DEVICE, Stream::DEFAULT, round);
    }
    rig.0.device_synchronize(DEVICE).expect("synchronized");
    let numbers = log.numbers();
    assert_eq!(numbers.len(), 3_010);
    assert!(numbers.is_sorted(), "the default stream separates the rounds");
    for stream in streams {
        // SAFETY: a live stream.
        unsafe { rig.0.destroy_stream(DEVICE, stream) }.expect("destroyed");
    }
}

#[test]
fn ten_thousand_streams_share_the_threads() {
    const DEVICE: i32 = 107;
    let rig = rig(DEVICE, LONG);
    let streams: Vec<_> = (0..10_000).map(|_| rig.0.create_stream(DEVICE).expect("made")).collect();
    let log = crate::gate::Log::default();
    for stream in &streams {
        log.note(rig, DEVICE, *stream, 1);
    }
    for stream in &streams {
        rig.wait(DEVICE, *stream);
    }
    assert_eq!(log.numbers().len(), streams.len());
    // Two workers and the lookout; and whom the lookout has called where the machine is so busy that
    // a host function takes a while.
    let threads = workers(DEVICE).len();
    assert!(threads < 100, "{threads} threads for 10,000 streams");
    for stream in streams {
        // SAFETY: a live stream.
        unsafe { rig.0.destroy_stream(DEVICE, stream) }.expect("destroyed");
    }
}
