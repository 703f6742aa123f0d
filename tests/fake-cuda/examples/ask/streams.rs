//! Questions about streams, the legacy stream, events and host functions.

use super::asker::{Driver, Gate, Word, pageable};
use std::sync::OnceLock;

pub fn streams(d: &Driver) {
    let context = d.primary();
    let mut w = Word::default();
    d.ask("flags 2", "cuStreamCreate", &[w.at(), 2]);
    d.ask("into null", "cuStreamCreate", &[0, 0]);
    for priority in [-100isize, -6, -5, -1, 0, 1, 100] {
        let s = d.make("cuStreamCreateWithPriority", &[1, priority as usize]);
        d.must("cuStreamGetPriority", &[s, w.at()]);
        println!("priority {priority} becomes {}", w.int());
        d.must("cuStreamGetFlags", &[s, w.at()]);
        println!("flags {}", w.int());
        d.must("cuStreamGetCtx", &[s, w.at()]);
        println!("context is ours: {}", w.get() == context);
        d.ask("", "cuStreamDestroy_v2", &[s]);
    }
    let s = d.make("cuStreamCreate", &[0]);
    println!("a handle is a multiple of 8: {}", s.is_multiple_of(8));
    for (what, s) in [("a stream", s), ("null", 0), ("legacy", 1)] {
        d.ask(what, "cuStreamQuery", &[s]);
        d.ask(what, "cuStreamSynchronize", &[s]);
        d.ask(what, "cuStreamGetFlags", &[s, w.at()]);
        println!("flags of {what}: {}", w.int());
        d.ask(what, "cuStreamGetPriority", &[s, w.at()]);
        d.ask(what, "cuStreamGetCtx", &[s, w.at()]);
        println!("context of {what} is ours: {}", w.get() == context);
        d.ask(what, "cuStreamWaitEvent", &[s, d.make("cuEventCreate", &[0]), 0]);
        d.ask(what, "cuStreamGetId", &[s, w.at()]);
    }
    d.ask("null event", "cuStreamWaitEvent", &[s, 0, 0]);
    d.ask("flags 9", "cuStreamWaitEvent", &[s, d.make("cuEventCreate", &[0]), 9]);
    d.ask("null function", "cuLaunchHostFunc", &[s, 0, 0]);
    d.ask("null", "cuStreamDestroy_v2", &[0]);
    d.ask("legacy", "cuStreamDestroy_v2", &[1]);
}

pub fn legacy(d: &Driver) {
    let context = d.primary();
    let (blocking, free) = (d.make("cuStreamCreate", &[0]), d.make("cuStreamCreate", &[1]));
    let e = d.make("cuEventCreate", &[2]);
    for (what, stream) in [("blocking", blocking), ("non-blocking", free), ("the null stream", 0)] {
        println!("- held: {what}");
        let gate = Gate::on(d, stream);
        println!("reached: {}", gate.reached());
        d.ask("null", "cuStreamQuery", &[0]);
        d.ask("blocking", "cuStreamQuery", &[blocking]);
        d.ask("non-blocking", "cuStreamQuery", &[free]);
        d.must("cuEventRecord", &[e, blocking]);
        d.settle("recorded on blocking", "cuEventQuery", &[e]);
        d.must("cuEventRecord", &[e, free]);
        d.settle("recorded on non-blocking", "cuEventQuery", &[e]);
        d.settle("null, before anything on it", "cuStreamQuery", &[0]);
        let late = d.blocks(context, "null", "cuStreamSynchronize", &[0]);
        d.must("cuEventRecord", &[e, 0]);
        d.settle("recorded on null", "cuEventQuery", &[e]);
        d.settle("null, after a record on it", "cuStreamQuery", &[0]);
        d.must("cuEventRecord", &[e, blocking]);
        d.settle("recorded on blocking after null", "cuEventQuery", &[e]);
        gate.open();
        late.end();
        d.must("cuCtxSynchronize", &[]);
    }
}

pub fn events(d: &Driver) {
    let context = d.primary();
    let mut w = Word::default();
    let s = d.make("cuStreamCreate", &[0]);
    d.ask("flags 8", "cuEventCreate", &[w.at(), 8]);
    d.ask("interprocess with timing", "cuEventCreate", &[w.at(), 4]);
    d.ask("null", "cuEventDestroy_v2", &[0]);
    d.ask("null", "cuEventRecord", &[0, s]);
    let (a, b, untimed) = (
        d.make("cuEventCreate", &[0]),
        d.make("cuEventCreate", &[1]),
        d.make("cuEventCreate", &[2]),
    );
    d.ask("never recorded", "cuEventQuery", &[a]);
    d.ask("never recorded", "cuEventSynchronize", &[a]);
    d.ask("never recorded", "cuStreamWaitEvent", &[s, a, 0]);
    d.ask("never recorded", "cuEventElapsedTime", &[w.at(), a, b]);
    d.must("cuEventRecord", &[a, s]);
    d.ask("end never recorded", "cuEventElapsedTime", &[w.at(), a, b]);
    d.must("cuEventRecord", &[untimed, s]);
    let gate = Gate::on(d, s);
    d.must("cuEventRecord", &[b, s]);
    d.ask("pending", "cuEventQuery", &[b]);
    d.ask("end pending", "cuEventElapsedTime", &[w.at(), a, b]);
    d.ask("pending, untimed", "cuEventElapsedTime", &[w.at(), untimed, b]);
    let late = d.blocks(context, "pending", "cuEventSynchronize", &[b]);
    gate.open();
    late.end();
    d.must("cuCtxSynchronize", &[]);
    d.ask("untimed", "cuEventElapsedTime", &[w.at(), untimed, b]);
    d.ask("both", "cuEventElapsedTime", &[w.at(), a, b]);
    println!("positive: {}", f32::from_bits(w.get() as u32) > 0.0);
    d.ask("end before start", "cuEventElapsedTime", &[w.at(), b, a]);
    println!("negative: {}", f32::from_bits(w.get() as u32) < 0.0);
    d.ask("of itself", "cuEventElapsedTime", &[w.at(), a, a]);
    d.ask("into null", "cuEventElapsedTime", &[0, a, b]);
    d.ask("flags 9", "cuEventRecordWithFlags", &[a, s, 9]);
    d.ask("flags 0", "cuEventRecordWithFlags", &[a, s, 0]);
    d.must("cuStreamDestroy_v2", &[s]);
    d.settle("its stream is gone", "cuEventQuery", &[a]);
    d.ask("its stream is gone", "cuEventSynchronize", &[a]);
    d.ask("on the null stream", "cuEventRecord", &[a, 0]);
    d.ask("on the legacy stream", "cuEventRecord", &[a, 1]);
}

/// May end the process on a real driver.
pub fn destroyed_event(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[0]);
    let e = d.make("cuEventCreate", &[0]);
    d.must("cuEventDestroy_v2", &[e]);
    d.ask("destroyed", "cuEventQuery", &[e]);
    d.ask("destroyed", "cuEventRecord", &[e, s]);
    d.ask("destroyed", "cuEventDestroy_v2", &[e]);
}

/// May end the process on a real driver.
pub fn destroyed_stream(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[0]);
    d.must("cuStreamDestroy_v2", &[s]);
    d.ask("destroyed", "cuStreamQuery", &[s]);
    d.ask("destroyed", "cuStreamSynchronize", &[s]);
    d.ask("destroyed", "cuMemsetD8Async", &[d.make("cuMemAlloc_v2", &[16]), 0, 16, s]);
    d.ask("destroyed", "cuStreamDestroy_v2", &[s]);
}

struct Inside {
    d: Driver,
    stream: usize,
    other: usize,
    event: usize,
    memory: usize,
    host: usize,
    pinned: usize,
}

static INSIDE: OnceLock<usize> = OnceLock::new();

pub fn inside_a_host_function(d: &Driver) {
    d.primary();
    extern "C" fn nothing(_: usize) {}
    extern "C" fn body(_: usize) {
        // SAFETY: the word is the address of the leaked box that was stored before the launch.
        let i = unsafe { &*(*INSIDE.get().expect("stored before the launch") as *const Inside) };
        let (d, mut w, mut v) = (&i.d, Word::default(), Word::default());
        let what = "inside";
        d.ask(what, "cuDriverGetVersion", &[w.at()]);
        d.ask(what, "cuGetErrorName", &[1, w.at()]);
        d.ask(what, "cuDeviceGetCount", &[w.at()]);
        d.ask(what, "cuDeviceGetAttribute", &[w.at(), 1, 0]);
        d.ask(what, "cuCtxGetCurrent", &[w.at()]);
        println!("a context is current inside: {}", w.get() != 0);
        d.ask(what, "cuCtxSetCurrent", &[0]);
        d.ask(what, "cuCtxGetDevice", &[w.at()]);
        d.ask(what, "cuCtxSynchronize", &[]);
        d.ask(what, "cuStreamQuery", &[i.other]);
        d.ask(what, "cuStreamQuery", &[0]);
        d.ask(what, "cuStreamSynchronize", &[i.other]);
        d.ask(what, "cuStreamCreate", &[w.at(), 0]);
        d.settle(what, "cuEventQuery", &[i.event]);
        d.ask(what, "cuEventRecord", &[i.event, i.other]);
        d.ask(what, "cuEventSynchronize", &[i.event]);
        d.ask(what, "cuEventCreate", &[w.at(), 0]);
        d.ask(what, "cuStreamWaitEvent", &[i.stream, i.event, 0]);
        d.ask(what, "cuMemAlloc_v2", &[w.at(), 16]);
        d.ask(what, "cuMemFree_v2", &[i.memory]);
        d.ask(what, "cuMemAllocHost_v2", &[w.at(), 16]);
        d.ask(what, "cuMemFreeHost", &[i.pinned]);
        d.ask(what, "cuMemcpyHtoD_v2", &[i.memory, i.host, 16]);
        d.ask(what, "cuMemcpyAsync", &[i.memory, i.host, 16, i.other]);
        d.ask(what, "cuMemsetD8Async", &[i.memory, 0, 16, i.other]);
        d.ask(what, "cuLaunchHostFunc", &[i.other, nothing as *const () as usize, 0]);
        d.ask(what, "cuMemGetInfo_v2", &[w.at(), v.at()]);
        d.ask(what, "cuPointerGetAttribute", &[w.at(), 2, i.memory]);
        d.ask(what, "cuMemAllocAsync", &[w.at(), 16, i.other]);
        d.ask(what, "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
        d.ask(what, "cuInit", &[0]);
        d.ask("inside, pinned", "cuMemcpyHtoDAsync_v2", &[i.memory, i.pinned, 16, i.other]);
        d.ask("inside, pageable", "cuMemcpyHtoDAsync_v2", &[i.memory, i.host, 16, i.other]);
        d.ask(what, "cuMemcpyDtoDAsync_v2", &[i.memory, i.memory + 64, 16, i.other]);
        d.ask(what, "cuMemFreeAsync", &[i.memory, i.other]);
        d.ask(what, "cuStreamGetCtx", &[i.other, w.at()]);
        d.ask(what, "cuStreamGetFlags", &[i.other, w.at()]);
        d.ask(what, "cuEventElapsedTime", &[w.at(), i.event, i.event]);
        d.ask(what, "cuCtxPushCurrent_v2", &[w.get()]);
        d.ask(what, "cuDevicePrimaryCtxRelease_v2", &[0]);
        d.ask(what, "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
        d.ask(what, "cuMemHostUnregister", &[i.pinned]);
        d.ask(what, "cuEventDestroy_v2", &[i.event]);
        d.ask(what, "cuStreamDestroy_v2", &[i.other]);
    }
    let inside = Inside {
        d: d.again(),
        stream: d.make("cuStreamCreate", &[0]),
        other: d.make("cuStreamCreate", &[1]),
        event: d.make("cuEventCreate", &[0]),
        memory: d.make("cuMemAlloc_v2", &[4096]),
        host: pageable(16),
        pinned: d.make("cuMemAllocHost_v2", &[16]),
    };
    let stream = inside.stream;
    INSIDE.set(Box::into_raw(Box::new(inside)) as usize).ok();
    d.must("cuLaunchHostFunc", &[stream, body as *const () as usize, 0]);
    d.ask("after it", "cuStreamSynchronize", &[stream]);
    d.ask("after it", "cuCtxSynchronize", &[]);
}
