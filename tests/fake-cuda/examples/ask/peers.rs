//! Questions that need two devices.

use super::asker::{Driver, Word, pageable};

struct Pair {
    a: usize,
    b: usize,
}

fn pair(d: &Driver) -> Pair {
    let a = d.primary();
    let b = d.make("cuDevicePrimaryCtxRetain", &[1]);
    Pair { a, b }
}

pub fn peers(d: &Driver) {
    let Pair { a, b } = pair(d);
    let mut w = Word::default();
    for (x, y) in [(0, 1), (1, 0), (0, 0), (0, 99)] {
        *w.0 = 77;
        let code = d.call("cuDeviceCanAccessPeer", &[w.at(), x, y]);
        println!("{x} to {y}: {code} {}", w.int());
    }
    for which in 1..=4 {
        *w.0 = 77;
        let code = d.call("cuDeviceGetP2PAttribute", &[w.at(), which, 0, 1]);
        println!("peer attribute {which}: {code} {}", w.int());
    }
    d.ask("itself", "cuCtxEnablePeerAccess", &[a, 0]);
    d.ask("null", "cuCtxEnablePeerAccess", &[0, 0]);
    d.ask("flags 1", "cuCtxEnablePeerAccess", &[b, 1]);
    d.ask("never enabled", "cuCtxDisablePeerAccess", &[b]);
    d.ask("", "cuCtxEnablePeerAccess", &[b, 0]);
    d.ask("twice", "cuCtxEnablePeerAccess", &[b, 0]);
    d.ask("", "cuCtxDisablePeerAccess", &[b]);
    let made = d.make("cuCtxCreate_v2", &[0, 0]);
    d.must("cuCtxSetCurrent", &[a]);
    d.ask("another context of the device", "cuCtxEnablePeerAccess", &[made, 0]);
}

pub fn streams(d: &Driver) {
    let Pair { a, b } = pair(d);
    extern "C" fn nothing(_: usize) {}
    let (sa, ea) = (d.make("cuStreamCreate", &[0]), d.make("cuEventCreate", &[0]));
    let ma = d.make("cuMemAlloc_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[b]);
    let (sb, eb) = (d.make("cuStreamCreate", &[0]), d.make("cuEventCreate", &[0]));
    let mb = d.make("cuMemAlloc_v2", &[4096]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[a]);
    let what = "of the other device";
    let mut w = Word::default();
    d.ask(what, "cuMemcpyHtoDAsync_v2", &[mb, pinned, 16, sb]);
    d.ask(what, "cuMemcpyHtoDAsync_v2", &[ma, pinned, 16, sb]);
    d.ask("pageable, of the other device", "cuMemcpyHtoDAsync_v2", &[mb, pageable(16), 16, sb]);
    d.ask(what, "cuMemcpyAsync", &[mb, ma, 16, sb]);
    d.ask(what, "cuMemsetD8Async", &[mb, 0, 16, sb]);
    d.ask(what, "cuLaunchHostFunc", &[sb, nothing as *const () as usize, 0]);
    d.ask(what, "cuMemAllocAsync", &[w.at(), 16, sb]);
    if w.get() != 0 {
        let mut o = Word::default();
        d.ask("of that memory: ordinal", "cuPointerGetAttribute", &[o.at(), 9, w.get()]);
        println!("ordinal {}", o.int());
        d.ask("of the other device", "cuMemFreeAsync", &[w.get(), sb]);
    }
    d.settle(what, "cuStreamQuery", &[sb]);
    d.ask(what, "cuStreamSynchronize", &[sb]);
    d.ask("our event, its stream", "cuEventRecord", &[ea, sb]);
    d.ask("its event, our stream", "cuEventRecord", &[eb, sa]);
    d.ask("its event, its stream", "cuEventRecord", &[eb, sb]);
    d.ask("its event, our stream", "cuStreamWaitEvent", &[sa, eb, 0]);
    d.ask("its event, its stream", "cuStreamWaitEvent", &[sb, eb, 0]);
    d.settle(what, "cuEventQuery", &[eb]);
    d.ask(what, "cuEventSynchronize", &[eb]);
    d.ask("its memory, our context", "cuMemFree_v2", &[mb]);
    let pool = d.make("cuMemAllocAsync", &[4096, sa]);
    d.must("cuCtxSetCurrent", &[b]);
    d.ask("of the first device on the second", "cuMemFreeAsync", &[pool, sb]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

pub fn copies(d: &Driver) {
    let Pair { a, b } = pair(d);
    let sa = d.make("cuStreamCreate", &[0]);
    let ma = d.make("cuMemAlloc_v2", &[4096]);
    let pa = d.make("cuMemAllocAsync", &[4096, sa]);
    d.must("cuStreamSynchronize", &[sa]);
    d.must("cuCtxSetCurrent", &[b]);
    let sb = d.make("cuStreamCreate", &[0]);
    let mb = d.make("cuMemAlloc_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[a]);
    let h = pageable(4096);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.ask("to the other device", "cuMemcpyDtoD_v2", &[mb, ma, 4096]);
    d.ask("to the other device", "cuMemcpyDtoDAsync_v2", &[mb, ma, 4096, sa]);
    d.ask("past the end", "cuMemcpyDtoDAsync_v2", &[mb, ma, 4097, sa]);
    d.ask("to the other device", "cuMemcpy", &[mb, ma, 4096]);
    d.ask("to the other device", "cuMemcpyHtoD_v2", &[mb, h, 4096]);
    d.ask("to the other device", "cuMemcpyHtoDAsync_v2", &[mb, pinned, 4096, sa]);
    d.ask("from the other device", "cuMemcpyDtoH_v2", &[h, mb, 4096]);
    d.ask("the other device", "cuMemsetD8_v2", &[mb, 1, 4096]);
    d.ask("the other device", "cuMemsetD8Async", &[mb, 1, 4096, sa]);
    d.ask("", "cuMemcpyPeer", &[mb, b, ma, a, 4096]);
    d.ask("past the end", "cuMemcpyPeer", &[mb, b, ma, a, 4097]);
    d.ask("contexts swapped", "cuMemcpyPeer", &[mb, a, ma, b, 4096]);
    d.ask("", "cuMemcpyPeerAsync", &[mb, b, ma, a, 4096, sa]);
    d.ask("contexts swapped", "cuMemcpyPeerAsync", &[mb, a, ma, b, 4096, sa]);
    d.ask("on the stream of the other", "cuMemcpyPeerAsync", &[mb, b, ma, a, 4096, sb]);
    d.ask("null context", "cuMemcpyPeerAsync", &[mb, 0, ma, a, 4096, sa]);
    d.ask("pool memory out", "cuMemcpyPeerAsync", &[mb, b, pa, a, 4096, sa]);
    d.ask("pool memory out", "cuMemcpyDtoDAsync_v2", &[mb, pa, 4096, sa]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
    d.must("cuCtxSetCurrent", &[b]);
    d.ask("pool memory of the other device in", "cuMemcpyDtoDAsync_v2", &[mb, pa, 4096, sb]);
    d.ask("pool memory of the other device in", "cuMemcpyPeerAsync", &[mb, b, pa, a, 4096, sb]);
    d.ask("pool memory of the other device", "cuMemsetD8Async", &[pa, 1, 4096, sb]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
    d.ask("the first, from the second", "cuCtxEnablePeerAccess", &[a, 0]);
    d.ask("the other device, enabled", "cuMemsetD8Async", &[ma, 1, 4096, sb]);
    d.ask("pool memory of the other device, enabled", "cuMemsetD8Async", &[pa, 1, 4096, sb]);
    let pool = d.make("cuDeviceGetDefaultMemPool", &[0]);
    let access = [1u32, 1, 3];
    d.ask("the second device", "cuMemPoolSetAccess", &[pool, access.as_ptr() as usize, 1]);
    d.ask("pool memory with access", "cuMemsetD8Async", &[pa, 1, 4096, sb]);
    d.ask("pool memory with access", "cuMemcpyDtoDAsync_v2", &[mb, pa, 4096, sb]);
    d.ask("pool memory out to pageable", "cuMemcpyDtoH_v2", &[h, pa, 4096]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

/// A device whose context was there before that of another broke.
pub fn broken_elsewhere(d: &Driver) {
    let Pair { a, b } = pair(d);
    let sa = d.make("cuStreamCreate", &[1]);
    let ma = d.make("cuMemAlloc_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[b]);
    let (sb, eb) = (d.make("cuStreamCreate", &[1]), d.make("cuEventCreate", &[0]));
    let mb = d.make("cuMemAlloc_v2", &[4096]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[a]);
    super::contexts::break_device_0(d, sa);
    d.ask("the broken one", "cuCtxSynchronize", &[]);
    d.must("cuCtxSetCurrent", &[b]);
    let what = "the other device, context from before";
    let mut w = Word::default();
    d.ask(what, "cuCtxSynchronize", &[]);
    d.ask(what, "cuStreamSynchronize", &[sb]);
    d.ask(what, "cuMemsetD8Async", &[mb, 1, 4096, sb]);
    d.ask(what, "cuMemcpyHtoDAsync_v2", &[mb, pinned, 4096, sb]);
    d.ask(what, "cuEventRecord", &[eb, sb]);
    d.ask(what, "cuEventSynchronize", &[eb]);
    d.ask(what, "cuStreamSynchronize", &[sb]);
    d.ask(what, "cuMemAlloc_v2", &[w.at(), 4096]);
    d.ask(what, "cuMemFree_v2", &[mb]);
    d.ask("memory of the broken one", "cuMemFree_v2", &[ma]);
    d.ask(what, "cuMemFreeHost", &[pinned]);
    d.ask(what, "cuStreamCreate", &[w.at(), 0]);
    d.ask(what, "cuStreamDestroy_v2", &[sb]);
    d.ask("the broken one", "cuStreamSynchronize", &[sa]);
    d.ask("again", "cuDevicePrimaryCtxRetain", &[w.at(), 1]);
    d.ask("the broken one", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("after it is gone", "cuCtxSynchronize", &[]);
    d.ask("after it is gone", "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
}

/// What frees wait for when the other device is busy.
pub fn frees(d: &Driver) {
    let Pair { a, b } = pair(d);
    let ma = d.make("cuMemAlloc_v2", &[4096]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    let page = pageable(4096);
    d.must("cuMemHostRegister_v2", &[page, 4096, 1]);
    d.must("cuCtxSetCurrent", &[b]);
    let sb = d.make("cuStreamCreate", &[1]);
    let mb = d.make("cuMemAlloc_v2", &[4096]);
    let what = "while the other device is held";
    for (name, pointer) in
        [("cuMemFree_v2", ma), ("cuMemFreeHost", pinned), ("cuMemHostUnregister", page)]
    {
        let gate = super::asker::Gate::on(d, sb);
        gate.reached();
        let late = d.blocks(a, what, name, &[pointer]);
        gate.open();
        late.end();
        d.must("cuCtxSynchronize", &[]);
    }
    let gate = super::asker::Gate::on(d, sb);
    gate.reached();
    let late = d.blocks(a, "memory of the held device, from the other", "cuMemFree_v2", &[mb]);
    gate.open();
    late.end();
    d.ask("at the end", "cuCtxSynchronize", &[]);
}
