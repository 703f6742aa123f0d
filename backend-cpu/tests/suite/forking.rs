//! A child of `fork` (contract L2): it works, has the streams and the memory, and none of the work.

use crate::gate::{Gate, Log};
use crate::rig::{Rig, bytes, failure, fill};
use llaisys_backend_cpu::Configuration;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, EventFlags, RuntimeApi, Stream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const SIZE: usize = 4096;

/// Does `work` in a child and says whether it ended well. A child that hangs is ended.
fn in_child(work: impl FnOnce()) -> Result<(), String> {
    // SAFETY: the child runs `work`, which uses this crate and the allocator only, and leaves by
    // `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        let code = if catch_unwind(AssertUnwindSafe(work)).is_ok() { 0 } else { 1 };
        // SAFETY: ends the child without the parent's exit handlers.
        unsafe { libc::_exit(code) };
    }
    outcome(child)
}

fn outcome(child: libc::pid_t) -> Result<(), String> {
    let end = Instant::now() + Duration::from_secs(30);
    let mut status = 0;
    // SAFETY: waits for a child of ours; `status` is a local.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > end {
            // SAFETY: the child is ours and was not waited for.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return Err("the child hangs".to_owned());
        }
        thread::sleep(Duration::from_millis(1));
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        Ok(())
    } else {
        Err(format!("the child ended with {status:#x}"))
    }
}

/// Everything once, on a stream that the parent made.
fn use_everything(rig: Rig, inherited: Stream) {
    let own = rig.stream();
    for stream in [inherited, own, Stream::DEFAULT] {
        let (from, to) = (rig.pinned_memory(SIZE, 3), rig.device_memory(SIZE, 0));
        let log = Log::default();
        rig.copy(to, from, SIZE, stream, CopyFlags::NONE).expect("queued");
        log.note(rig, 0, stream, 1);
        let (event, timed) = (rig.event(EventFlags::NONE), rig.event(EventFlags::TIMING));
        rig.record(event, stream);
        rig.record(timed, stream);
        rig.wait_event(own, event);
        rig.synchronize(timed);
        rig.wait(0, stream);
        assert!(rig.is_reached(event) && rig.elapsed(timed, timed).is_ok());
        assert_eq!((bytes(to, SIZE), log.numbers()), (vec![3; SIZE], vec![1]));
        rig.destroy_event(event);
        rig.destroy_event(timed);
        rig.free_on(to, stream);
        // SAFETY: freed once.
        unsafe { rig.0.free_host(0, from.cast()) }.expect("freed");
    }
    rig.destroy(own);
    rig.0.device_synchronize(0).expect("synchronized");
}

#[test]
fn fork_in_the_middle_of_traffic() {
    let rig = Rig::with_devices(2);
    let stream = rig.stream();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..3 {
            let stop = &stop;
            scope.spawn(move || {
                let own = rig.stream();
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (from, to) = (rig.device_memory(SIZE, 1), rig.device_memory(SIZE, 0));
                    let on = if thread == 0 { Stream::DEFAULT } else { own };
                    rig.copy(to, from, SIZE, on, CopyFlags::NONE).expect("queued");
                    let local = vec![1u8; SIZE];
                    let flags = CopyFlags::SOURCE_PAGEABLE;
                    rig.copy(from, local.as_ptr(), SIZE, on, flags).expect("queued");
                    rig.free(from);
                    rig.free(to);
                    // A backlog now and then, which the children must not run.
                    if turn % 64 == 0 || thread == 2 {
                        rig.wait(0, on);
                    }
                }
            });
        }
        let mut failed = Vec::new();
        for round in 0..60 {
            let result = in_child(|| use_everything(rig, stream));
            failed.extend(result.err().map(|what| format!("round {round}: {what}")));
            // The parent is unharmed.
            use_everything(rig, stream);
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, Vec::<String>::new());
    });
}

/// The standard library's threads take a lock of their own when they start and end, which nobody
/// releases in a child; no worker of a child may need it.
#[test]
fn fork_while_threads_start_and_end_everywhere() {
    let rig = Rig::with_devices(1);
    let stream = rig.stream();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let started: Vec<_> = (0..8).map(|_| thread::spawn(|| ())).collect();
                    let own = rig.stream();
                    rig.call(0, own, || ());
                    rig.destroy(own);
                    for thread in started {
                        thread.join().expect("no panic");
                    }
                }
            });
        }
        let failed = (0..300).find_map(|_| in_child(|| use_everything(rig, stream)).err());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(failed, None);
    });
}

#[test]
fn pending_work_belongs_to_the_parent_and_the_childs_streams_are_empty() {
    let rig = Rig::with(Configuration { memory_limit: Some(1 << 20), ..Configuration::default() });
    let (stream, destroyed, log) = (rig.stream(), rig.stream(), Log::default());
    let (kept, freed) = (rig.device_memory(SIZE, 7), rig.device_memory(SIZE, 8));
    let gate = Gate::reached_on(rig, 0, stream);
    let other = Gate::reached_on(rig, 0, destroyed);
    log.note(rig, 0, stream, 1);
    log.note(rig, 0, Stream::DEFAULT, 2);
    rig.destroy(destroyed);
    rig.free(freed);
    let result = in_child(|| {
        assert!(rig.is_idle(stream) && rig.is_idle(Stream::DEFAULT));
        // The work that the free waited for is not there; what is kept is, and can be freed.
        let free = || rig.0.get_memory_info(0).expect("information").free;
        assert_eq!(free(), (1 << 20) - SIZE as u64);
        assert_eq!(bytes(kept, SIZE), [7; SIZE]);
        rig.free(kept);
        assert_eq!(free(), 1 << 20);
        // SAFETY: stale handles are looked up only.
        let stale = unsafe { rig.0.stream_query(0, destroyed) };
        assert_eq!(failure(stale), Status::InvalidHandle);
        use_everything(rig, stream);
        assert_eq!(log.numbers(), [], "the parent's work must not run here");
    });
    assert_eq!(result, Ok(()));
    assert_eq!(log.numbers(), []);
    gate.open();
    other.open();
    rig.0.device_synchronize(0).expect("synchronized");
    assert_eq!(log.numbers(), [1, 2]);
    fill(kept, SIZE, 1);
    rig.free(kept);
}

#[test]
fn an_event_that_is_pending_at_the_fork_is_reached_in_the_child_and_has_no_time_there() {
    let rig = Rig::with_devices(1);
    let (stream, waiting, log) = (rig.stream(), rig.stream(), Log::default());
    let [event, start, end] =
        [EventFlags::NONE, EventFlags::TIMING, EventFlags::TIMING].map(|flags| rig.event(flags));
    rig.record(start, stream);
    let gate = Gate::reached_on(rig, 0, stream);
    rig.record(event, stream);
    rig.record(end, stream);
    rig.wait_event(waiting, event);
    log.note(rig, 0, waiting, 1);
    let result = in_child(|| {
        assert!(rig.is_reached(event) && rig.is_reached(end) && rig.is_idle(waiting));
        rig.synchronize(event);
        assert_eq!(failure(rig.elapsed(start, end)), Status::NotReady);
        rig.record(end, stream);
        assert!(rig.elapsed(start, end).expect("recorded here") >= 0);
        rig.destroy_event(event);
    });
    assert_eq!(result, Ok(()));
    assert!(!rig.is_reached(event) && log.numbers().is_empty());
    gate.open();
    rig.wait(0, waiting);
    rig.synchronize(end);
    assert!(log.numbers() == [1] && rig.elapsed(start, end).expect("both are reached") >= 0);
}

#[test]
fn a_child_that_forks_again_works_too() {
    let rig = Rig::with_devices(1);
    let stream = rig.stream();
    use_everything(rig, stream);
    let result = in_child(|| {
        use_everything(rig, stream);
        let grandchild = in_child(|| use_everything(rig, stream));
        assert_eq!(grandchild, Ok(()));
        use_everything(rig, stream);
    });
    assert_eq!(result, Ok(()));
}

#[test]
fn a_host_function_forks_and_both_processes_live() {
    let rig = Rig::with_devices(1);
    let (stream, log) = (rig.stream(), Log::default());
    let (sender, receiver) = mpsc::channel();
    rig.call(0, stream, move || {
        let result = in_child(|| use_everything(rig, stream));
        sender.send(result).expect("the test is there");
    });
    log.note(rig, 0, stream, 1);
    assert_eq!(receiver.recv().expect("it ran"), Ok(()));
    rig.wait(0, stream);
    assert_eq!(log.numbers(), [1]);
}

#[test]
fn the_copy_of_a_worker_ends_when_its_host_function_returns_in_the_child() {
    // A copy that took itself for the worker would wait for work this long.
    let worker_idle = Duration::from_secs(3_600);
    let rig = Rig::with(Configuration { worker_idle, ..Configuration::default() });
    let (stream, log) = (rig.stream(), Log::default());
    let (sender, receiver) = mpsc::channel();
    let other = rig.stream();
    rig.call(0, stream, move || {
        // SAFETY: the child returns from this function and ends as its only thread does.
        let child = unsafe { libc::fork() };
        if child != 0 {
            sender.send(child).expect("the test is there");
        } else {
            // Looked at, but without work: a worker of the child would keep it alive as well.
            assert!(rig.is_idle(other) && rig.is_idle(stream));
        }
    });
    log.note(rig, 0, stream, 1);
    assert_eq!(outcome(receiver.recv().expect("it ran")), Ok(()));
    rig.wait(0, stream);
    assert_eq!(log.numbers(), [1]);
}
