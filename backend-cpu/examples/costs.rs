//! What the backend itself costs, without what the core adds: for who works on the engine.
//!
//! `cargo run --release -p llaisys-backend-cpu --example costs`

use llaisys_backend_cpu::Cpu;
use llaisys_runtime_core::api::{CopyFlags, EventFlags, MemcpyKind, Pattern, RuntimeApi, Stream};
use std::ffi::c_void;
use std::time::Instant;

const ROUNDS: u32 = 20_000;

/// The best of some runs, in nanoseconds a round: what the machine's other work leaves alone.
fn time(name: &str, mut round: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..30 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            round();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    }
    println!("{best:8.1} ns  {name}");
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// Long enough that the caller is ahead of the worker.
unsafe extern "C" fn a_moment(_: *mut c_void) {
    let start = Instant::now();
    while start.elapsed().as_micros() < 200 {
        std::hint::spin_loop();
    }
}

fn main() {
    let cpu: &'static Cpu = Box::leak(Box::new(Cpu::new()));
    let stream = || cpu.create_stream(0).expect("a stream");
    let (a, b) = (stream(), stream());
    let events = [(); 2].map(|()| cpu.create_event(0, EventFlags::NONE).expect("an event"));
    let to = cpu.malloc_device(0, 4096).expect("memory");
    let from = cpu.malloc_device(0, 4096).expect("memory");
    let byte = Pattern::new(&[1]).expect("a pattern");
    // SAFETY: in all of these, the handles are live and the memory outlives the work.
    let fill = |stream: Stream| unsafe { cpu.memset_async(0, to, byte, 1, stream) }.expect("done");
    let wait = |stream: Stream| {
        // SAFETY: as above.
        unsafe { cpu.stream_synchronize(0, stream) }.expect("done");
    };
    let call = |stream: Stream, function| {
        // SAFETY: the functions use nothing.
        unsafe { cpu.launch_host_function(0, stream, function, std::ptr::null_mut()) }
            .expect("done");
    };
    time("fill of 1 byte + synchronize", || {
        fill(a);
        wait(a);
    });
    time("copy of 4 KiB + synchronize", || {
        // SAFETY: as above.
        unsafe {
            cpu.memcpy_async(0, to, from, 4096, MemcpyKind::D2D, a, CopyFlags::NONE).expect("done");
        }
        wait(a);
    });
    time("fill of 1 byte", || fill(a));
    time("hop: fill, record, wait on the other stream", || {
        fill(a);
        // SAFETY: as above.
        unsafe {
            cpu.record_event(0, events[0], a).expect("done");
            cpu.stream_wait_event(0, b, events[0]).expect("done");
        }
    });
    let mut turn = 0;
    time("fill of 1 byte behind a worker", || {
        if turn % ROUNDS == 0 {
            wait(a);
            call(a, a_moment);
        }
        turn += 1;
        fill(a);
    });
    wait(a);
    time("hop behind a worker", || {
        if turn % ROUNDS == 0 {
            wait(a);
            wait(b);
            call(a, a_moment);
        }
        turn += 1;
        let (own, other) = if turn % 2 == 0 { (a, b) } else { (b, a) };
        fill(own);
        // SAFETY: as above.
        unsafe {
            cpu.record_event(0, events[turn as usize % 2], own).expect("done");
            cpu.stream_wait_event(0, other, events[turn as usize % 2]).expect("done");
        }
    });
    let mut best = f64::MAX;
    for _ in 0..2_000 {
        let start = Instant::now();
        call(a, nothing);
        wait(a);
        best = best.min(start.elapsed().as_nanos() as f64);
    }
    println!("{best:8.1} ns  host function + synchronize, at best");
    time("event_query of a reached event", || {
        // SAFETY: as above.
        let _ = unsafe { cpu.event_query(0, events[0]) };
    });
}
