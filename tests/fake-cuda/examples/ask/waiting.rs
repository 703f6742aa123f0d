//! Questions about what waits while a stream is held by a host function.

use super::asker::{Driver, Gate, Late, Word, pageable};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub fn gated_blocking_stream(d: &Driver) {
    gated(d, 0);
}

pub fn gated_non_blocking_stream(d: &Driver) {
    gated(d, 1);
}

fn gated(d: &Driver, flags: usize) {
    let c = d.primary();
    let s = d.make("cuStreamCreate", &[flags]);
    let other = d.make("cuStreamCreate", &[1]);
    let e = d.make("cuEventCreate", &[0]);
    let m = d.make("cuMemAlloc_v2", &[32 << 20]);
    let n = d.make("cuMemAlloc_v2", &[32 << 20]);
    let h = pageable(32 << 20);
    let page = pageable(1 << 20);
    let pinned = d.make("cuMemAllocHost_v2", &[32 << 20]);
    let pinned_too = d.make("cuMemAllocHost_v2", &[4096]);
    let word = pageable(64);
    let ran = d.make("cuMemAllocAsync", &[4096, other]);
    // Each question has a gate of its own, so that one that waits holds nobody else.
    let asked: &[(&'static str, &'static str, Vec<usize>)] = &[
        ("that stream", "cuStreamQuery", vec![s]),
        ("that stream", "cuStreamSynchronize", vec![s]),
        ("another stream", "cuStreamSynchronize", vec![other]),
        ("", "cuCtxSynchronize", vec![]),
        ("on it", "cuEventRecord", vec![e, s]),
        ("", "cuEventSynchronize", vec![e]),
        ("HtoD pageable 16 bytes on it", "cuMemcpyHtoDAsync_v2", vec![m, h, 16, s]),
        ("HtoD pageable 64 KiB on it", "cuMemcpyHtoDAsync_v2", vec![m, h, 64 << 10, s]),
        ("HtoD pageable 32 MiB on it", "cuMemcpyHtoDAsync_v2", vec![m, h, 32 << 20, s]),
        ("HtoD pinned on it", "cuMemcpyHtoDAsync_v2", vec![m, pinned, 32 << 20, s]),
        ("DtoH pageable on it", "cuMemcpyDtoHAsync_v2", vec![h, m, 16, s]),
        ("DtoH pinned on it", "cuMemcpyDtoHAsync_v2", vec![pinned, m, 16, s]),
        ("DtoD on it", "cuMemcpyDtoDAsync_v2", vec![m, n, 16, s]),
        ("host to host on it", "cuMemcpyAsync", vec![h, page, 16, s]),
        ("pinned to pinned on it", "cuMemcpyAsync", vec![pinned, pinned_too, 16, s]),
        ("fill on it", "cuMemsetD8Async", vec![m, 1, 16, s]),
        ("fill", "cuMemsetD8_v2", vec![m, 1, 16]),
        ("fill of pinned", "cuMemsetD8_v2", vec![pinned, 1, 16]),
        ("HtoD pageable 16 bytes", "cuMemcpyHtoD_v2", vec![m, h, 16]),
        ("HtoD pageable 32 MiB", "cuMemcpyHtoD_v2", vec![m, h, 32 << 20]),
        ("HtoD pinned", "cuMemcpyHtoD_v2", vec![m, pinned, 16]),
        ("DtoH pageable", "cuMemcpyDtoH_v2", vec![h, m, 16]),
        ("DtoD", "cuMemcpyDtoD_v2", vec![m, n, 16]),
        ("host to host", "cuMemcpy", vec![h, page, 16]),
        ("peer", "cuMemcpyPeer", vec![m, c, n, c, 16]),
        ("", "cuMemAlloc_v2", vec![word, 4096]),
        ("64 MiB", "cuMemAlloc_v2", vec![word, 64 << 20]),
        ("on another stream", "cuMemAllocAsync", vec![word, 4096, other]),
        ("on it", "cuMemAllocAsync", vec![word, 4096, s]),
        ("on it", "cuMemFreeAsync", vec![ran, s]),
        ("", "cuMemAllocHost_v2", vec![word, 4096]),
        ("", "cuMemHostRegister_v2", vec![page, 1 << 20, 0]),
        ("", "cuMemHostUnregister", vec![page]),
        ("", "cuMemFreeHost", vec![pinned_too]),
        ("", "cuMemFree_v2", vec![n]),
        ("", "cuStreamCreate", vec![word, 0]),
        ("", "cuMemGetInfo_v2", vec![word, word + 8]),
        (
            "default pool to 0",
            "cuMemPoolTrimTo",
            vec![d.make("cuDeviceGetDefaultMemPool", &[0]), 0],
        ),
        ("pending", "cuEventDestroy_v2", vec![e]),
        ("busy", "cuStreamDestroy_v2", vec![s]),
    ];
    for (what, name, arguments) in asked {
        let gate = Gate::on(d, s);
        if !gate.reached() {
            println!("the gate is not reached");
        }
        if *name == "cuEventSynchronize" {
            d.call("cuEventRecord", &[e, s]);
        }
        let late = d.blocks(c, what, name, arguments);
        gate.open();
        late.end();
        d.call("cuCtxSynchronize", &[]);
    }
}

pub fn two_gates(d: &Driver) {
    let c = d.primary();
    let (a, b) = (d.make("cuStreamCreate", &[1]), d.make("cuStreamCreate", &[1]));
    let first = Gate::on(d, a);
    println!("first gate reached: {}", first.reached());
    let second = Gate::on(d, b);
    println!("second gate of the context reached while the first is held: {}", second.reached());
    let other = d.make("cuCtxCreate_v2", &[0, 0]);
    let o = d.make("cuStreamCreate", &[1]);
    let third = Gate::on(d, o);
    println!("gate of another context reached while the first is held: {}", third.reached());
    d.must("cuCtxSetCurrent", &[c]);
    first.open();
    println!("second gate reached once the first is open: {}", second.reached());
    second.open();
    third.open();
    d.ask("after all", "cuCtxSynchronize", &[]);
    let _ = other;
}

pub fn depth(d: &Driver) {
    extern "C" fn nothing(_: usize) {}
    let c = d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let other = d.make("cuStreamCreate", &[1]);
    let m = d.make("cuMemAlloc_v2", &[4096]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    let e = d.make("cuEventCreate", &[2]);
    for (what, name, arguments) in [
        ("fills", "cuMemsetD8Async", vec![m, 1, 16, s]),
        ("pinned copies", "cuMemcpyHtoDAsync_v2", vec![m, pinned, 16, s]),
        ("pageable copies", "cuMemcpyHtoDAsync_v2", vec![m, pageable(64), 16, s]),
        ("records", "cuEventRecord", vec![e, s]),
        ("host functions", "cuLaunchHostFunc", vec![s, nothing as *const () as usize, 0]),
    ] {
        let gate = Gate::on(d, s);
        gate.reached();
        let count = Arc::new(AtomicUsize::new(0));
        let (counted, driver) = (Arc::clone(&count), d.again());
        let worker = std::thread::spawn(move || {
            driver.must("cuCtxSetCurrent", &[c]);
            for _ in 0..100_000 {
                driver.must(name, &arguments);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        std::thread::sleep(Duration::from_millis(1500));
        let queued = count.load(Ordering::Relaxed);
        println!("{what} queued behind a gate: {}", if queued == 100_000 { "all" } else { "some" });
        eprintln!("{what}: {queued}");
        let mut late: Vec<Late> = Vec::new();
        if queued < 100_000 {
            late.push(d.blocks(
                c,
                "queue full, another stream",
                "cuMemsetD8Async",
                &[m, 1, 16, other],
            ));
            // Time for the fill, so that the answer does not hang on it.
            std::thread::sleep(Duration::from_millis(200));
            late.push(d.blocks(c, "queue full, another stream", "cuStreamQuery", &[other]));
            let mut w = Word::default();
            late.push(d.blocks(c, "queue full", "cuCtxGetDevice", &[w.at()]));
            late.push(d.blocks(c, "queue full", "cuEventQuery", &[e]));
        }
        gate.open();
        late.into_iter().for_each(Late::end);
        worker.join().ok();
        d.must("cuCtxSynchronize", &[]);
    }
}

/// How much pageable memory is staged behind a gate: for reading, not for comparing.
pub fn staging(d: &Driver) {
    let c = d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let m = d.make("cuMemAlloc_v2", &[32 << 20]);
    let h = pageable(32 << 20);
    for (what, bytes) in [
        ("65 KiB", 65 << 10),
        ("128 KiB", 128 << 10),
        ("256 KiB", 256 << 10),
        ("512 KiB", 512 << 10),
        ("1 MiB", 1 << 20),
        ("2 MiB", 2 << 20),
        ("4 MiB", 4 << 20),
        ("8 MiB", 8 << 20),
    ] {
        let gate = Gate::on(d, s);
        gate.reached();
        let late = d.blocks(c, what, "cuMemcpyHtoDAsync_v2", &[m, h, bytes, s]);
        gate.open();
        late.end();
        d.call("cuCtxSynchronize", &[]);
    }
    let p = d.make("cuMemAlloc_v2", &[4096]);
    let gate = Gate::on(d, s);
    gate.reached();
    d.ask("of cuMemAlloc, stream held", "cuMemFreeAsync", &[p, s]);
    let late = d.blocks(c, "of cuMemAlloc, freed on a held stream", "cuMemFree_v2", &[p]);
    gate.open();
    late.end();
    d.call("cuCtxSynchronize", &[]);
    d.ask("of cuMemAlloc, freed and passed", "cuMemFree_v2", &[p]);
}
