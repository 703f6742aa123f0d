//! Signals (L3).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::program::Bare;
use llaisys_runtime_core::api::MemcpyKind;
use std::sync::atomic::{AtomicUsize, Ordering};

cases! { Area::Life;
    "L3" no_signal_handler_is_installed [];
    "L3" a_storm_of_alarms_disturbs_nothing [];
    "L3" signals_reach_the_programs_own_threads [BuiltIn];
}

programs![compare_handlers, alarm_storm, signal_own_threads];

fn no_signal_handler_is_installed(context: &'static Context) -> Checked {
    context.program("compare_handlers").run()?.expect_success()
}

/// Which signals are caught, ignored and blocked, as the kernel tells it.
fn signals() -> Checked<Vec<String>> {
    let status = std::fs::read_to_string("/proc/self/status")
        .map_err(|error| Stop::skip(format!("/proc/self/status: {error}")))?;
    let wanted = ["SigBlk:", "SigIgn:", "SigCgt:"];
    let lines = status.lines().filter_map(|line| line.split_once('\t'));
    let chosen = lines.filter(|(name, _)| wanted.contains(name));
    Ok(chosen
        .map(|(name, mask)| {
            // Signals 32 and 33 are the C library's own; it arranges them when the first thread starts.
            let mask = u64::from_str_radix(mask, 16).unwrap_or(u64::MAX) & !(0b11 << 31);
            format!("{name} {mask:016x}")
        })
        .collect())
}

fn compare_handlers(bare: &Bare) -> Checked<i32> {
    let before = signals()?;
    ensure_eq!(before.len(), 3, "the lines of the kernel");
    let context = bare.context()?;
    ensure_eq!(signals()?, before, "signals after the library was opened and asked");
    let stream = context.stream()?;
    let bytes = context.bytes(1, 200_000);
    let block = Block::device(context, bytes.len())?;
    let (middle, size) = (block.address(), bytes.len());
    context.enqueue(middle, Address::of(&bytes), size, MemcpyKind::H2D, stream)?;
    context.wait(stream)?;
    context.t.set_device(-1);
    context.failure()?;
    ensure_eq!(signals()?, before, "signals after the library was used");
    context.destroy(stream)?;
    Ok(0)
}

fn a_storm_of_alarms_disturbs_nothing(context: &'static Context) -> Checked {
    context.program("alarm_storm").run()?.expect_success()
}

static ALARMS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_alarm(_: libc::c_int) {
    ALARMS.fetch_add(1, Ordering::Relaxed);
}

/// Catches a signal without restarting what it interrupts.
fn catch(signal: libc::c_int) {
    // SAFETY: the handler only touches an atomic; the struct is ours.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_alarm as *const () as libc::sighandler_t;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

fn alarm_storm(bare: &Bare) -> Checked<i32> {
    catch(libc::SIGALRM);
    let every = libc::timeval { tv_sec: 0, tv_usec: 500 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: the struct is ours.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
    let context = bare.context()?;
    let stream = context.stream()?;
    let size = 300_000;
    let mut round = 0;
    while ALARMS.load(Ordering::Relaxed) < context.times(400) || round < 50 {
        let bytes = context.bytes(round, size);
        let block = Block::device(context, size)?;
        let target = Block::pinned(context, size)?;
        let middle = block.address();
        context.enqueue(middle, Address::of(&bytes), size, MemcpyKind::H2D, stream)?;
        context.enqueue(target.address(), middle, size, MemcpyKind::D2H, stream)?;
        context.wait(stream)?;
        context.t.device_synchronize();
        context.clean("device_synchronize")?;
        ensure!(target.content()? == bytes, "round {round}: the data is wrong");
        block.free()?;
        target.free()?;
        round += 1;
    }
    context.destroy(stream)?;
    // The program's end is its own, not an alarm's.
    let timer = libc::itimerval {
        it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 },
        it_value: libc::timeval { tv_sec: 0, tv_usec: 0 },
    };
    // SAFETY: the struct is ours.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) };
    Ok(0)
}

fn signals_reach_the_programs_own_threads(context: &'static Context) -> Checked {
    context.program("signal_own_threads").run()?.expect_success()
}

/// Ctrl-C must interrupt the thread that waits for it: no thread of the runtime may take it.
fn signal_own_threads(bare: &Bare) -> Checked<i32> {
    static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
    static MAIN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn note(_: libc::c_int) {
        // SAFETY: takes nothing.
        let thread = unsafe { libc::gettid() } as usize;
        if thread != MAIN.load(Ordering::SeqCst) {
            ELSEWHERE.fetch_add(1, Ordering::SeqCst);
        }
    }
    // SAFETY: takes nothing.
    MAIN.store(unsafe { libc::gettid() } as usize, Ordering::SeqCst);
    let context = bare.context()?;
    let stream = context.stream()?;
    let block = Block::filled(context, Place::Device, &[1; 4096])?;
    let target = Block::pinned(context, 4096)?;
    // Whatever threads the runtime has are there now.
    for _ in 0..10 {
        let (dst, src) = (target.address(), block.address());
        context.enqueue(dst, src, 4096, MemcpyKind::D2H, stream)?;
    }
    context.wait(stream)?;
    // SAFETY: the handler touches atomics alone; this thread blocks the signal for a moment, so
    // that the kernel must give it to another thread if any would take it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut());
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::kill(libc::getpid(), libc::SIGINT);
        std::thread::sleep(std::time::Duration::from_millis(20));
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    ensure_eq!(ELSEWHERE.load(Ordering::SeqCst), 0, "signals that a thread of the runtime took");
    context.destroy(stream)?;
    Ok(0)
}
