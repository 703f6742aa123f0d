//! Questions about contexts: none, one, two, destroyed.

use super::asker::{Driver, Gate, Word, pageable};

pub fn none_current(d: &Driver) {
    d.must("cuInit", &[0]);
    let mut w = Word::default();
    let mut v = Word::default();
    d.ask("none", "cuCtxGetCurrent", &[w.at()]);
    println!("current is null: {}", w.get() == 0);
    d.ask("none", "cuCtxGetDevice", &[w.at()]);
    d.ask("none", "cuCtxSynchronize", &[]);
    d.ask("none", "cuCtxPopCurrent_v2", &[w.at()]);
    d.ask("null", "cuCtxPushCurrent_v2", &[0]);
    d.ask("null", "cuCtxSetCurrent", &[0]);
    d.ask("none", "cuCtxGetFlags", &[w.at()]);
    d.ask("none", "cuCtxGetApiVersion", &[0, w.at()]);
    d.ask("null", "cuCtxDestroy_v2", &[0]);
    d.ask("none", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("none, null", "cuMemFree_v2", &[0]);
    d.ask("none, host", "cuMemFree_v2", &[pageable(16)]);
    d.ask("none", "cuMemAllocHost_v2", &[w.at(), 16]);
    d.ask("none", "cuMemHostAlloc", &[w.at(), 16, 1]);
    d.ask("none, null", "cuMemFreeHost", &[0]);
    d.ask("none", "cuMemHostRegister_v2", &[pageable(4096), 4096, 1]);
    d.ask("none", "cuMemGetInfo_v2", &[w.at(), v.at()]);
    d.ask("none", "cuMemcpy", &[pageable(16), pageable(16), 16]);
    d.ask("none", "cuMemsetD8_v2", &[pageable(16), 0, 16]);
    d.ask("none", "cuStreamCreate", &[w.at(), 0]);
    d.ask("none, null stream", "cuStreamSynchronize", &[0]);
    d.ask("none, null stream", "cuStreamQuery", &[0]);
    d.ask("none", "cuEventCreate", &[w.at(), 0]);
    d.ask("none, null", "cuEventDestroy_v2", &[0]);
    d.ask("none, null", "cuEventQuery", &[0]);
    d.ask("none, null", "cuStreamDestroy_v2", &[0]);
    d.ask("none, memory type of host", "cuPointerGetAttribute", &[w.at(), 2, pageable(16)]);
    d.ask("none", "cuCtxGetStreamPriorityRange", &[w.at(), v.at()]);
    d.ask("none", "cuCtxEnablePeerAccess", &[0, 0]);
    d.ask("never retained", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("device 99", "cuDevicePrimaryCtxRelease_v2", &[99]);
    d.ask("device 99", "cuDevicePrimaryCtxRetain", &[w.at(), 99]);
    d.ask("", "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
    println!("flags {} active {}", w.int(), v.int());
    d.ask("never retained", "cuDevicePrimaryCtxReset_v2", &[0]);
    d.ask("never retained", "cuDevicePrimaryCtxSetFlags_v2", &[0, 4]);
    d.ask("bad flags", "cuDevicePrimaryCtxSetFlags_v2", &[0, 0x8000]);
    d.ask("", "cuDeviceGetDefaultMemPool", &[w.at(), 0]);
    d.ask("device 99", "cuDeviceGetDefaultMemPool", &[w.at(), 99]);
    d.ask("", "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
    println!("flags {} active {}", w.int(), v.int());
}

pub fn objects_without_a_context(d: &Driver) {
    let context = d.primary();
    let stream = d.make("cuStreamCreate", &[0]);
    let event = d.make("cuEventCreate", &[0]);
    let memory = d.make("cuMemAlloc_v2", &[4096]);
    let pool_memory = d.make("cuMemAllocAsync", &[4096, stream]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.must("cuEventRecord", &[event, stream]);
    d.must("cuStreamSynchronize", &[stream]);
    d.must("cuCtxSetCurrent", &[0]);
    let mut w = Word::default();
    extern "C" fn nothing(_: usize) {}
    let what = "with no context current";
    d.settle(what, "cuStreamQuery", &[stream]);
    d.ask(what, "cuStreamSynchronize", &[stream]);
    d.ask(what, "cuStreamGetCtx", &[stream, w.at()]);
    d.ask(what, "cuStreamGetFlags", &[stream, w.at()]);
    d.ask(what, "cuStreamGetPriority", &[stream, w.at()]);
    d.ask(what, "cuStreamWaitEvent", &[stream, event, 0]);
    d.ask(what, "cuEventRecord", &[event, stream]);
    d.settle(what, "cuEventQuery", &[event]);
    d.ask(what, "cuEventSynchronize", &[event]);
    d.ask(what, "cuEventElapsedTime", &[w.at(), event, event]);
    d.ask(what, "cuLaunchHostFunc", &[stream, nothing as *const () as usize, 0]);
    d.ask(what, "cuMemcpyAsync", &[memory, memory + 1024, 16, stream]);
    d.ask(what, "cuMemcpyHtoDAsync_v2", &[memory, pinned, 16, stream]);
    d.ask(what, "cuMemcpyHtoD_v2", &[memory, pinned, 16]);
    d.ask(what, "cuMemcpy", &[memory, pinned, 16]);
    d.ask(what, "cuMemcpyPeerAsync", &[memory, context, memory + 1024, context, 16, stream]);
    d.ask(what, "cuMemsetD8Async", &[memory, 1, 16, stream]);
    d.ask(what, "cuMemAllocAsync", &[w.at(), 16, stream]);
    d.ask(what, "cuMemFreeAsync", &[pool_memory, stream]);
    d.ask(what, "cuPointerGetAttribute", &[w.at(), 2, memory]);
    d.ask(what, "cuMemGetAddressRange_v2", &[w.at(), 0, memory]);
    d.ask(what, "cuMemFreeHost", &[pinned]);
    d.ask(what, "cuMemFree_v2", &[memory]);
    d.ask(what, "cuEventDestroy_v2", &[event]);
    d.ask(what, "cuStreamDestroy_v2", &[stream]);
    d.ask(what, "cuDevicePrimaryCtxRelease_v2", &[0]);
}

pub fn primary(d: &Driver) {
    let context = d.primary();
    let mut w = Word::default();
    let mut v = Word::default();
    println!(
        "a second retain gives the same: {}",
        d.make("cuDevicePrimaryCtxRetain", &[0]) == context
    );
    println!("the device of it: {}", d.make("cuCtxGetDevice", &[]));
    d.ask("", "cuCtxGetApiVersion", &[context, w.at()]);
    println!("version {}", w.int());
    d.ask("of null", "cuCtxGetApiVersion", &[0, w.at()]);
    d.ask("", "cuCtxGetFlags", &[w.at()]);
    d.ask("", "cuCtxGetStreamPriorityRange", &[w.at(), v.at()]);
    println!("least {} greatest {}", w.int(), v.int());
    d.ask("while active", "cuDevicePrimaryCtxSetFlags_v2", &[0, 4]);
    d.ask("", "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
    println!("flags {} active {}", w.int(), v.int());
    d.ask("the primary", "cuCtxDestroy_v2", &[context]);
    d.ask("null", "cuCtxSetCurrent", &[0]);
    d.ask("with none", "cuCtxPopCurrent_v2", &[w.at()]);
    d.must("cuCtxSetCurrent", &[context]);
    d.ask("again", "cuCtxPushCurrent_v2", &[context]);
    d.ask("", "cuCtxPopCurrent_v2", &[w.at()]);
    d.ask("null result", "cuCtxPopCurrent_v2", &[0]);
    d.ask("", "cuCtxGetCurrent", &[w.at()]);
    println!("nothing is left: {}", w.get() == 0);
    d.must("cuCtxSetCurrent", &[context]);
    let memory = d.make("cuMemAlloc_v2", &[4096]);
    d.ask("once", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("still retained", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("to zero", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("once too often", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("", "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
    println!("flags {} active {}", w.int(), v.int());
    d.ask("released", "cuCtxGetCurrent", &[w.at()]);
    println!("is still current: {}", w.get() == context);
    d.ask("released", "cuCtxGetDevice", &[w.at()]);
    d.ask("released", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("released", "cuCtxSynchronize", &[]);
    d.ask("released", "cuStreamCreate", &[w.at(), 0]);
    d.ask("released", "cuMemFree_v2", &[memory]);
    d.ask("released, null stream", "cuStreamSynchronize", &[0]);
    d.ask("released", "cuCtxSetCurrent", &[context]);
    d.ask("released", "cuCtxPushCurrent_v2", &[context]);
    println!(
        "retained again it is the same: {}",
        d.make("cuDevicePrimaryCtxRetain", &[0]) == context
    );
    d.ask("retained again", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("retained again", "cuCtxSetCurrent", &[context]);
    d.ask("retained again", "cuMemAlloc_v2", &[w.at(), 16]);
}

pub fn primary_reset(d: &Driver) {
    let context = d.primary();
    let mut w = Word::default();
    let mut v = Word::default();
    let memory = d.make("cuMemAlloc_v2", &[4096]);
    d.ask("", "cuDevicePrimaryCtxReset_v2", &[0]);
    d.ask("", "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
    println!("active {}", v.int());
    d.ask("after a reset", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("of before a reset", "cuMemFree_v2", &[memory]);
    d.ask("after a reset", "cuCtxSetCurrent", &[context]);
    d.ask("after a reset", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("after a reset", "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
    println!("the same: {}", w.get() == context);
    d.ask("retained again", "cuMemAlloc_v2", &[w.at(), 16]);
}

pub fn two(d: &Driver) {
    let a = d.primary();
    extern "C" fn nothing(_: usize) {}
    let nothing = nothing as *const () as usize;
    let (sa, ea) = (d.make("cuStreamCreate", &[0]), d.make("cuEventCreate", &[0]));
    let ma = d.make("cuMemAlloc_v2", &[4096]);
    let b = d.make("cuCtxCreate_v2", &[0, 0]);
    println!("a made context is current: {}", d.make("cuCtxGetCurrent", &[]) == b);
    let (sb, eb) = (d.make("cuStreamCreate", &[0]), d.make("cuEventCreate", &[0]));
    let mb = d.make("cuMemAlloc_v2", &[4096]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[a]);
    let what = "of another context";
    let mut w = Word::default();
    d.ask(what, "cuMemcpyHtoDAsync_v2", &[ma, pinned, 16, sb]);
    d.ask("of another context, its memory", "cuMemcpyHtoDAsync_v2", &[mb, pinned, 16, sb]);
    d.ask(what, "cuMemcpyDtoHAsync_v2", &[pinned, mb, 16, sb]);
    d.ask(what, "cuMemcpyAsync", &[mb, pinned, 16, sb]);
    d.ask(what, "cuMemsetD8Async", &[mb, 1, 16, sb]);
    d.ask(what, "cuMemcpyPeerAsync", &[mb, b, ma, a, 16, sb]);
    d.ask(what, "cuMemAllocAsync", &[w.at(), 16, sb]);
    d.ask(what, "cuLaunchHostFunc", &[sb, nothing, 0]);
    d.ask("its memory on our stream", "cuMemcpyHtoDAsync_v2", &[mb, pinned, 16, sa]);
    d.ask("its memory on our stream", "cuMemsetD8Async", &[mb, 1, 16, sa]);
    d.ask("its memory", "cuMemcpyHtoD_v2", &[mb, pinned, 16]);
    d.ask("between the two", "cuMemcpyDtoD_v2", &[mb, ma, 16]);
    d.settle(what, "cuStreamQuery", &[sb]);
    d.ask(what, "cuStreamSynchronize", &[sb]);
    d.ask("our event, its stream", "cuEventRecord", &[ea, sb]);
    d.ask("its event, its stream", "cuEventRecord", &[eb, sb]);
    d.ask("its event, our stream", "cuEventRecord", &[eb, sa]);
    d.ask("its event, null stream", "cuEventRecord", &[eb, 0]);
    d.ask("our event, our stream", "cuEventRecord", &[ea, sa]);
    d.ask("our event, its stream", "cuStreamWaitEvent", &[sb, ea, 0]);
    d.ask("its event, our stream", "cuStreamWaitEvent", &[sa, eb, 0]);
    d.ask("its event, null stream", "cuStreamWaitEvent", &[0, eb, 0]);
    d.settle(what, "cuEventQuery", &[eb]);
    d.ask(what, "cuEventSynchronize", &[eb]);
    d.ask("of two contexts", "cuEventElapsedTime", &[w.at(), ea, eb]);
    d.ask("both of the other", "cuEventElapsedTime", &[w.at(), eb, eb]);
    d.ask(what, "cuStreamGetFlags", &[sb, w.at()]);
    d.ask(what, "cuStreamGetCtx", &[sb, w.at()]);
    println!("says the other: {}", w.get() == b);
    d.must("cuCtxSetCurrent", &[b]);
    let gate = Gate::on(d, sb);
    println!("the gate of the other is reached: {}", gate.reached());
    d.must("cuCtxSetCurrent", &[a]);
    let late = [
        d.blocks(a, "other context held", "cuCtxSynchronize", &[]),
        d.blocks(a, "other context held", "cuStreamSynchronize", &[0]),
        d.blocks(a, "other context held", "cuMemFree_v2", &[ma]),
        d.blocks(a, "other context held", "cuMemAlloc_v2", &[pageable(8), 4096]),
    ];
    gate.open();
    late.into_iter().for_each(super::asker::Late::end);
    d.ask(what, "cuMemFree_v2", &[mb]);
    d.ask(what, "cuEventDestroy_v2", &[eb]);
    d.ask(what, "cuStreamDestroy_v2", &[sb]);
    d.ask(what, "cuCtxDestroy_v2", &[b]);
}

pub fn destroyed(d: &Driver) {
    let a = d.primary();
    let b = d.make("cuCtxCreate_v2", &[0, 0]);
    let eb = d.make("cuEventCreate", &[0]);
    let mb = d.make("cuMemAlloc_v2", &[4096]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.must("cuCtxPushCurrent_v2", &[a]);
    d.ask("not current", "cuCtxDestroy_v2", &[b]);
    let mut w = Word::default();
    d.ask("its memory", "cuMemFree_v2", &[mb]);
    d.ask("its pinned memory", "cuMemFreeHost", &[pinned]);
    d.ask("", "cuCtxPopCurrent_v2", &[w.at()]);
    d.ask("destroyed is current", "cuCtxGetCurrent", &[w.at()]);
    println!("it is still: {}", w.get() == b);
    d.ask("destroyed is current", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("destroyed is current", "cuCtxGetDevice", &[w.at()]);
    d.ask("destroyed is current", "cuCtxSynchronize", &[]);
    d.must("cuCtxSetCurrent", &[a]);
    d.ask("destroyed", "cuCtxSetCurrent", &[b]);
    d.ask("twice", "cuCtxDestroy_v2", &[b]);
    d.ask("of a destroyed context", "cuEventQuery", &[eb]);
}

/// Breaks the current context of device 0: a kernel writes to address 0, or the fake does as if.
pub fn break_device_0(d: &Driver, stream: usize) {
    const KERNEL: &std::ffi::CStr = c".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry bad()\n{\n.reg .b64 %a;\n.reg .b32 %v;\nmov.u64 %a, 0;\nmov.u32 %v, 1;\nst.global.u32 [%a], %v;\nret;\n}\n";
    if d.address("fakecuda_lose_device") != 0 {
        d.must("fakecuda_lose_device", &[0, 700]);
    } else {
        let module = d.make("cuModuleLoadData", &[KERNEL.as_ptr() as usize]);
        let function = d.make("cuModuleGetFunction", &[module, c"bad".as_ptr() as usize]);
        d.launch(function, stream);
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
}

pub fn broken(d: &Driver) {
    extern "C" fn called(_: usize) {
        println!("a host function behind the fault is called");
    }
    let context = d.primary();
    let (s, t, e) = (
        d.make("cuStreamCreate", &[0]),
        d.make("cuStreamCreate", &[1]),
        d.make("cuEventCreate", &[0]),
    );
    let m = d.make("cuMemAlloc_v2", &[4096]);
    let pool = d.make("cuMemAllocAsync", &[4096, s]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    let page = pageable(4096);
    d.must("cuMemHostRegister_v2", &[page, 4096, 0]);
    d.must("cuStreamSynchronize", &[s]);
    break_device_0(d, s);
    let what = "broken";
    let (mut w, mut v) = (Word::default(), Word::default());
    d.ask(what, "cuLaunchHostFunc", &[s, called as *const () as usize, 0]);
    d.settle(what, "cuStreamQuery", &[s]);
    d.ask(what, "cuStreamSynchronize", &[s]);
    d.ask("broken, another stream", "cuStreamSynchronize", &[t]);
    d.ask(what, "cuCtxSynchronize", &[]);
    d.ask(what, "cuStreamGetFlags", &[s, w.at()]);
    d.ask(what, "cuStreamGetCtx", &[s, w.at()]);
    d.ask(what, "cuEventQuery", &[e]);
    d.ask(what, "cuEventRecord", &[e, s]);
    d.ask(what, "cuEventSynchronize", &[e]);
    d.ask(what, "cuEventCreate", &[w.at(), 0]);
    d.ask(what, "cuStreamCreate", &[w.at(), 0]);
    d.ask(what, "cuStreamWaitEvent", &[s, e, 0]);
    d.ask(what, "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask(what, "cuMemAllocHost_v2", &[w.at(), 16]);
    d.ask(what, "cuMemAllocAsync", &[w.at(), 16, s]);
    d.ask(what, "cuMemFreeAsync", &[pool, s]);
    d.ask(what, "cuMemGetInfo_v2", &[w.at(), v.at()]);
    d.ask(what, "cuMemcpyHtoD_v2", &[m, pinned, 16]);
    d.ask(what, "cuMemcpyHtoDAsync_v2", &[m, pinned, 16, s]);
    d.ask(what, "cuMemcpy", &[pinned, page, 16]);
    d.ask(what, "cuMemsetD8Async", &[m, 0, 16, s]);
    d.ask(what, "cuPointerGetAttribute", &[w.at(), 2, m]);
    d.ask(what, "cuMemGetAddressRange_v2", &[w.at(), 0, m]);
    d.ask(what, "cuMemHostUnregister", &[page]);
    d.ask(what, "cuMemFreeHost", &[pinned]);
    d.ask(what, "cuMemFree_v2", &[m]);
    d.ask(what, "cuCtxGetCurrent", &[w.at()]);
    d.ask(what, "cuCtxGetDevice", &[w.at()]);
    d.ask(what, "cuCtxSetCurrent", &[context]);
    d.ask(what, "cuDeviceGetCount", &[w.at()]);
    d.ask(what, "cuDeviceGetAttribute", &[w.at(), 1, 0]);
    d.ask(what, "cuDevicePrimaryCtxGetState", &[0, w.at(), v.at()]);
    d.ask(what, "cuEventDestroy_v2", &[e]);
    d.ask(what, "cuStreamDestroy_v2", &[s]);
    d.ask(what, "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
    d.ask("the other device", "cuDevicePrimaryCtxRetain", &[w.at(), 1]);
    d.ask("the other device", "cuCtxSetCurrent", &[w.get()]);
    d.ask("the other device", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("the other device", "cuCtxSynchronize", &[]);
    d.ask(what, "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("broken, to zero", "cuDevicePrimaryCtxRelease_v2", &[0]);
    d.ask("after the release", "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
}
