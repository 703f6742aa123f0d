//! Questions about memory: allocation, copies, fills, what a pointer is, pinned and registered memory.

use super::asker::{Driver, Word, pageable};

pub fn device(d: &Driver) {
    d.primary();
    let mut w = Word::default();
    let mut v = Word::default();
    d.ask("0 bytes", "cuMemAlloc_v2", &[w.at(), 0]);
    d.ask("2^60 bytes", "cuMemAlloc_v2", &[w.at(), 1 << 60]);
    d.ask("2^64 - 1 bytes", "cuMemAlloc_v2", &[w.at(), usize::MAX]);
    d.ask("into null", "cuMemAlloc_v2", &[0, 16]);
    let blocks: Vec<usize> = (1..40).map(|n| d.make("cuMemAlloc_v2", &[n])).collect();
    println!("each is a multiple of 512: {}", blocks.iter().all(|b| b % 512 == 0));
    println!("each is a multiple of 1024: {}", blocks.iter().all(|b| b % 1024 == 0));
    d.ask("", "cuMemGetInfo_v2", &[w.at(), v.at()]);
    let free = w.get();
    let small = d.make("cuMemAlloc_v2", &[4096]);
    d.must("cuMemGetInfo_v2", &[w.at(), v.at()]);
    println!("4 KiB cost {}", free - w.get());
    let big = d.make("cuMemAlloc_v2", &[3 << 20]);
    let free = w.get();
    d.must("cuMemGetInfo_v2", &[w.at(), v.at()]);
    println!("3 MiB cost {}", free - w.get());
    d.ask("into null", "cuMemGetInfo_v2", &[0, 0]);
    d.ask("null", "cuMemFree_v2", &[0]);
    d.ask("interior", "cuMemFree_v2", &[small + 8]);
    d.ask("interior at 512", "cuMemFree_v2", &[big + 512]);
    d.ask("pageable", "cuMemFree_v2", &[pageable(16)]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.ask("pinned", "cuMemFree_v2", &[pinned]);
    d.ask("", "cuMemFree_v2", &[small]);
    d.ask("twice", "cuMemFree_v2", &[small]);
    d.ask("device memory", "cuMemFreeHost", &[big]);
    d.ask("", "cuMemFree_v2", &[big]);
    *w.0 = 5;
    d.ask("0 bytes", "cuMemAllocHost_v2", &[w.at(), 0]);
    println!("null: {} untouched: {}", w.get() == 0, w.get() == 5);
    d.ask("0 bytes", "cuMemHostAlloc", &[w.at(), 0, 1]);
    d.ask("flags 0x100", "cuMemHostAlloc", &[w.at(), 16, 0x100]);
}

pub fn copies(d: &Driver) {
    d.primary();
    let (m, n) = (d.make("cuMemAlloc_v2", &[4096]), d.make("cuMemAlloc_v2", &[4096]));
    let (h, g) = (pageable(8192), pageable(8192));
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    let s = d.make("cuStreamCreate", &[0]);
    for (what, source, bytes) in [
        ("pageable", h, 4096),
        ("pinned", pinned, 4096),
        ("past the end", h, 4097),
        ("0 bytes", h, 0),
    ] {
        d.ask(what, "cuMemcpyHtoD_v2", &[m, source, bytes]);
        d.ask(what, "cuMemcpyDtoH_v2", &[source, m, bytes]);
        d.ask(what, "cuMemcpyHtoDAsync_v2", &[m, source, bytes, s]);
        d.ask(what, "cuMemcpyDtoHAsync_v2", &[source, m, bytes, s]);
        d.ask(what, "cuMemcpy", &[m, source, bytes]);
        d.ask(what, "cuMemcpyAsync", &[source, m, bytes, s]);
    }
    d.ask("from past the end", "cuMemcpyHtoD_v2", &[m + 4095, h, 2]);
    d.ask("last byte", "cuMemcpyHtoD_v2", &[m + 4095, h, 1]);
    d.ask("past the end of pinned", "cuMemcpyHtoD_v2", &[m, pinned + 4000, 200]);
    d.ask("nulls, 0 bytes", "cuMemcpyHtoD_v2", &[0, 0, 0]);
    d.ask("nulls, 0 bytes", "cuMemcpyAsync", &[0, 0, 0, s]);
    d.ask("null destination", "cuMemcpyHtoD_v2", &[0, h, 16]);
    d.ask("null source", "cuMemcpyHtoD_v2", &[m, 0, 16]);
    d.ask("null source", "cuMemcpyHtoDAsync_v2", &[m, 0, 16, s]);
    d.ask("null source", "cuMemcpyDtoH_v2", &[h, 0, 16]);
    d.ask("null destination", "cuMemcpyDtoH_v2", &[0, m, 16]);
    d.ask("destination pageable", "cuMemcpyHtoD_v2", &[h, g, 16]);
    d.ask("destination pinned", "cuMemcpyHtoD_v2", &[pinned, g, 16]);
    d.ask("source device", "cuMemcpyHtoD_v2", &[m, n, 16]);
    d.ask("source device", "cuMemcpyHtoDAsync_v2", &[m, n, 16, s]);
    d.ask("source pageable", "cuMemcpyDtoH_v2", &[h, g, 16]);
    d.ask("source pinned", "cuMemcpyDtoH_v2", &[h, pinned, 16]);
    d.ask("destination device", "cuMemcpyDtoH_v2", &[m, n, 16]);
    d.ask("destination pageable", "cuMemcpyDtoD_v2", &[h, m, 16]);
    d.ask("source pageable", "cuMemcpyDtoD_v2", &[m, h, 16]);
    d.ask("source pinned", "cuMemcpyDtoD_v2", &[m, pinned, 16]);
    d.ask("source pageable", "cuMemcpyDtoDAsync_v2", &[m, h, 16, s]);
    d.ask("two", "cuMemcpyDtoD_v2", &[m, n, 4096]);
    d.ask("two, past the end", "cuMemcpyDtoD_v2", &[m, n, 4097]);
    d.ask("same", "cuMemcpyDtoD_v2", &[m, m, 4096]);
    d.ask("overlapping", "cuMemcpyDtoD_v2", &[m, m + 1, 100]);
    d.ask("host to host", "cuMemcpy", &[h, g, 4096]);
    d.ask("host to host", "cuMemcpyAsync", &[h, g, 4096, s]);
    d.ask("pinned to host", "cuMemcpyAsync", &[h, pinned, 4096, s]);
    d.ask("2^63 bytes", "cuMemcpyHtoD_v2", &[m, h, 1 << 63]);
    d.ask("2^64 - 1 bytes", "cuMemcpyDtoD_v2", &[m, n, usize::MAX]);
    d.must("cuMemFree_v2", &[n]);
    d.ask("freed", "cuMemcpyHtoD_v2", &[n, h, 16]);
    d.ask("freed", "cuMemcpyDtoH_v2", &[h, n, 16]);
    d.ask("freed", "cuMemcpyDtoD_v2", &[m, n, 16]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

/// Copies whose addresses the driver may read itself: asked last, for they may end the process.
pub fn odd_copies(d: &Driver) {
    d.primary();
    let n = d.make("cuMemAlloc_v2", &[64 << 20]);
    d.must("cuMemFree_v2", &[n]);
    let h = pageable(8192);
    d.ask("freed, large", "cuMemcpyDtoH_v2", &[h, n, 16]);
    d.ask("freed, large", "cuMemsetD8_v2", &[n, 0, 16]);
    d.ask("nulls", "cuMemcpyDtoD_v2", &[0, 0, 16]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
    d.ask("freed, large", "cuMemcpy", &[h, n, 16]);
}

pub fn fills(d: &Driver) {
    d.primary();
    let m = d.make("cuMemAlloc_v2", &[4096]);
    let s = d.make("cuStreamCreate", &[0]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.ask("", "cuMemsetD8_v2", &[m, 3, 4096]);
    d.ask("past the end", "cuMemsetD8_v2", &[m, 3, 4097]);
    d.ask("0 bytes, null", "cuMemsetD8_v2", &[0, 3, 0]);
    d.ask("0 bytes, null", "cuMemsetD8Async", &[0, 3, 0, s]);
    d.ask("null", "cuMemsetD8_v2", &[0, 3, 16]);
    d.ask("pageable", "cuMemsetD8_v2", &[pageable(16), 3, 16]);
    d.ask("pageable", "cuMemsetD8Async", &[pageable(16), 3, 16, s]);
    d.ask("pinned", "cuMemsetD8_v2", &[pinned, 3, 16]);
    d.ask("pinned", "cuMemsetD8Async", &[pinned, 3, 16, s]);
    d.ask("", "cuMemsetD16_v2", &[m, 3, 2048]);
    d.ask("past the end", "cuMemsetD16_v2", &[m, 3, 2049]);
    d.ask("unaligned", "cuMemsetD16_v2", &[m + 1, 3, 16]);
    d.ask("", "cuMemsetD32_v2", &[m, 3, 1024]);
    d.ask("unaligned", "cuMemsetD32_v2", &[m + 2, 3, 16]);
    d.ask("unaligned", "cuMemsetD32Async", &[m + 2, 3, 16, s]);
    d.ask("count that wraps", "cuMemsetD32_v2", &[m, 3, 1 << 62]);
    d.ask("", "cuMemsetD2D8_v2", &[m, 64, 1, 32, 64]);
    d.ask("pitch below width", "cuMemsetD2D8_v2", &[m, 16, 1, 32, 64]);
    d.ask("past the end", "cuMemsetD2D8_v2", &[m, 64, 1, 32, 66]);
    d.ask("last row short", "cuMemsetD2D8_v2", &[m + 32, 64, 1, 32, 64]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
    #[repr(C)]
    #[derive(Default)]
    struct Copy2D {
        source: [usize; 7],
        destination: [usize; 7],
        width: usize,
        height: usize,
    }
    // Fields of each half: x, y, memory type, host, device, array, pitch.
    let h = pageable(8192);
    let mut plan = Copy2D {
        source: [0, 0, 1, h, 0, 0, 64],
        destination: [0, 0, 2, 0, m, 0, 64],
        width: 32,
        height: 64,
    };
    d.ask("host to device", "cuMemcpy2D_v2", &[&raw const plan as usize]);
    d.ask("host to device", "cuMemcpy2DAsync_v2", &[&raw const plan as usize, s]);
    d.ask("null", "cuMemcpy2D_v2", &[0]);
    plan.height = 66;
    d.ask("past the end", "cuMemcpy2D_v2", &[&raw const plan as usize]);
    (plan.height, plan.width) = (4, 65);
    d.ask("wider than the pitch", "cuMemcpy2D_v2", &[&raw const plan as usize]);
    (plan.height, plan.width) = (0, 32);
    d.ask("no height", "cuMemcpy2D_v2", &[&raw const plan as usize]);
    plan.height = 4;
    plan.source[2] = 9;
    d.ask("unknown memory type", "cuMemcpy2D_v2", &[&raw const plan as usize]);
    plan.source = [0, 0, 4, 0, m, 0, 64];
    plan.destination = [0, 0, 4, 0, h, 0, 64];
    d.ask("unified both", "cuMemcpy2D_v2", &[&raw const plan as usize]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

pub fn pointers(d: &Driver) {
    let context = d.primary();
    let s = d.make("cuStreamCreate", &[0]);
    let device = d.make("cuMemAlloc_v2", &[5000]);
    let pool = d.make("cuMemAllocAsync", &[5000, s]);
    let pinned = d.make("cuMemAllocHost_v2", &[5000]);
    let registered = pageable(8192);
    d.must("cuMemHostRegister_v2", &[registered, 8192, 0]);
    let page = pageable(8192);
    let freed = d.make("cuMemAlloc_v2", &[5000]);
    d.must("cuMemFree_v2", &[freed]);
    for (what, p) in [
        ("device", device),
        ("device interior", device + 100),
        ("device past the end", device + 5000),
        ("pool", pool),
        ("pinned", pinned),
        ("pinned interior", pinned + 8),
        ("registered interior", registered + 8),
        ("pageable", page),
        ("null", 0),
        ("freed", freed),
    ] {
        for attribute in [1usize, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 17] {
            let mut w = Word::default();
            let code = d.call("cuPointerGetAttribute", &[w.at(), attribute, p]);
            let value = match attribute {
                _ if code != 0 => String::from("-"),
                1 => String::from(if w.get() == context {
                    "the context"
                } else if w.get() == 0 {
                    "null"
                } else {
                    "other"
                }),
                3 | 4 => String::from(if w.get() == p {
                    "itself"
                } else if w.get() == 0 {
                    "null"
                } else {
                    "other"
                }),
                7 | 17 => format!("given {}", w.get() != 0),
                11 => (p - w.get()).to_string(),
                _ => w.int().to_string(),
            };
            println!("attribute {attribute} of {what}: {code} {value}");
        }
        let (mut base, mut size) = (Word::default(), Word::default());
        let code = d.call("cuMemGetAddressRange_v2", &[base.at(), size.at(), p]);
        if code == 0 {
            println!("range of {what}: offset {} size {}", p - base.get(), size.get());
        } else {
            println!("range of {what}: {code}");
        }
        let (mut kind, mut ordinal, mut owner) =
            (Word::default(), Word::default(), Word::default());
        (*kind.0, *ordinal.0, *owner.0) = (99, 99, 99);
        let attributes = [2u32, 9, 1];
        let data = [kind.at(), ordinal.at(), owner.at()];
        let code = d.call(
            "cuPointerGetAttributes",
            &[3, attributes.as_ptr() as usize, data.as_ptr() as usize, p],
        );
        println!(
            "several of {what}: {code} type {} ordinal {} context null {}",
            kind.int(),
            ordinal.int(),
            owner.get() == 0
        );
    }
    let mut w = Word::default();
    d.ask("attribute 999", "cuPointerGetAttribute", &[w.at(), 999, device]);
    d.ask("into null", "cuPointerGetAttribute", &[0, 2, device]);
    d.ask("both null", "cuMemGetAddressRange_v2", &[0, 0, device]);
    d.ask("pinned", "cuMemHostGetDevicePointer_v2", &[w.at(), pinned, 0]);
    println!("the same: {}", w.get() == pinned);
    d.ask("pageable", "cuMemHostGetDevicePointer_v2", &[w.at(), page, 0]);
    d.ask("pinned", "cuMemHostGetFlags", &[w.at(), pinned]);
    println!("flags {}", w.int());
    d.ask("registered", "cuMemHostGetFlags", &[w.at(), registered]);
    println!("flags {}", w.int());
    d.ask("pageable", "cuMemHostGetFlags", &[w.at(), page]);
}

pub fn pinned(d: &Driver) {
    d.primary();
    let p = d.make("cuMemAllocHost_v2", &[5000]);
    let q = d.make("cuMemHostAlloc", &[5000, 3]);
    println!("aligned to 512: {} {}", p.is_multiple_of(512), q.is_multiple_of(512));
    d.ask("null", "cuMemFreeHost", &[0]);
    d.ask("interior", "cuMemFreeHost", &[p + 8]);
    d.ask("interior page", "cuMemFreeHost", &[p + 4096]);
    d.ask("pageable", "cuMemFreeHost", &[pageable(16)]);
    d.ask("allocated", "cuMemHostUnregister", &[p]);
    d.ask("allocated", "cuMemHostRegister_v2", &[p, 4096, 0]);
    d.ask("", "cuMemFreeHost", &[p]);
    d.ask("twice", "cuMemFreeHost", &[p]);
    d.ask("", "cuMemFreeHost", &[q]);
    let mut w = Word::default();
    d.ask("2^60", "cuMemAllocHost_v2", &[w.at(), 1 << 60]);
    d.ask("into null", "cuMemAllocHost_v2", &[0, 16]);
}

pub fn registered(d: &Driver) {
    d.primary();
    let p = pageable(64 << 10);
    d.ask("null", "cuMemHostRegister_v2", &[0, 4096, 0]);
    d.ask("0 bytes", "cuMemHostRegister_v2", &[p, 0, 0]);
    d.ask("flags 0x100", "cuMemHostRegister_v2", &[p, 4096, 0x100]);
    d.ask("", "cuMemHostRegister_v2", &[p, 16 << 10, 0]);
    d.ask("twice", "cuMemHostRegister_v2", &[p, 16 << 10, 0]);
    d.ask("overlapping", "cuMemHostRegister_v2", &[p + 8192, 16 << 10, 0]);
    d.ask("interior", "cuMemHostUnregister", &[p + 8192]);
    d.ask("interior byte", "cuMemHostUnregister", &[p + 8]);
    d.ask("registered", "cuMemFreeHost", &[p]);
    d.ask("", "cuMemHostUnregister", &[p]);
    d.ask("twice", "cuMemHostUnregister", &[p]);
    d.ask("null", "cuMemHostUnregister", &[0]);
    d.ask("unaligned", "cuMemHostRegister_v2", &[p + 100, 1000, 0]);
    d.ask("unaligned neighbour in the same page", "cuMemHostRegister_v2", &[p + 2000, 1000, 0]);
    d.ask("unaligned base", "cuMemHostUnregister", &[p + 100]);
    d.ask("device memory", "cuMemHostRegister_v2", &[d.make("cuMemAlloc_v2", &[8192]), 8192, 0]);
    d.ask("unaligned neighbour", "cuMemHostUnregister", &[p + 2000]);
    d.ask("not mapped", "cuMemHostRegister_v2", &[1 << 46, 8192, 0]);
}
