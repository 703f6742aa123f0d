//! Questions about stream-ordered memory.

use super::asker::{Driver, Gate, Word, pageable};

fn attribute(d: &Driver, pool: usize, which: usize) -> usize {
    let mut w = Word::default();
    d.must("cuMemPoolGetAttribute", &[pool, which, w.at()]);
    w.get()
}

pub fn pools(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[0]);
    let mut w = Word::default();
    let pool = d.make("cuDeviceGetDefaultMemPool", &[0]);
    println!("current pool is the default: {}", d.make("cuDeviceGetMemPool", &[0]) == pool);
    d.ask("0 bytes", "cuMemAllocAsync", &[w.at(), 0, s]);
    println!("null: {}", w.get() == 0);
    d.ask("2^60", "cuMemAllocAsync", &[w.at(), 1 << 60, s]);
    d.ask("2^64 - 1", "cuMemAllocAsync", &[w.at(), usize::MAX, s]);
    d.ask("into null", "cuMemAllocAsync", &[0, 16, s]);
    d.ask("null", "cuMemFreeAsync", &[0, s]);
    d.ask("pageable", "cuMemFreeAsync", &[pageable(16), s]);
    for which in 1..=8usize {
        println!("attribute {which} of the default pool: {}", attribute(d, pool, which));
    }
    let p = d.make("cuMemAllocAsync", &[1000, s]);
    println!("multiple of 512: {}", p.is_multiple_of(512));
    println!("used {} reserved {}", attribute(d, pool, 7), attribute(d, pool, 5));
    d.must("cuMemFreeAsync", &[p, s]);
    println!("the same again on its stream: {}", d.make("cuMemAllocAsync", &[1000, s]) == p);
    d.must("cuMemFreeAsync", &[p, s]);
    d.must("cuStreamSynchronize", &[s]);
    println!(
        "after a synchronize: used {} reserved {}",
        attribute(d, pool, 7),
        attribute(d, pool, 5)
    );
    d.ask("", "cuMemPoolTrimTo", &[pool, 0]);
    println!("after a trim: reserved {}", attribute(d, pool, 5));
    *w.0 = 5;
    d.ask("a read-only attribute", "cuMemPoolSetAttribute", &[pool, 5, w.at()]);
    d.ask("high mark to 5", "cuMemPoolSetAttribute", &[pool, 6, w.at()]);
    *w.0 = 0;
    d.ask("high mark to 0", "cuMemPoolSetAttribute", &[pool, 6, w.at()]);
    d.ask("unknown attribute", "cuMemPoolGetAttribute", &[pool, 77, w.at()]);
    d.ask("the default pool", "cuMemPoolDestroy", &[pool]);
    d.ask("null", "cuMemPoolDestroy", &[0]);
    *w.0 = u64::MAX;
    d.ask("release threshold", "cuMemPoolSetAttribute", &[pool, 4, w.at()]);
    let p = d.make("cuMemAllocAsync", &[1000, s]);
    d.must("cuMemFreeAsync", &[p, s]);
    d.must("cuStreamSynchronize", &[s]);
    println!(
        "kept after a synchronize: used {} reserved {}",
        attribute(d, pool, 7),
        attribute(d, pool, 5)
    );
    let t = d.make("cuStreamCreate", &[1]);
    println!(
        "the same on another stream when idle: {}",
        d.make("cuMemAllocAsync", &[1000, t]) == p
    );
    let gate = Gate::on(d, t);
    d.must("cuMemFreeAsync", &[p, t]);
    println!(
        "the same on another stream when busy: {}",
        d.make("cuMemAllocAsync", &[1000, s]) == p
    );
    gate.open();
    d.must("cuCtxSynchronize", &[]);
}

pub fn frees(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[0]);
    let t = d.make("cuStreamCreate", &[1]);
    let mut w = Word::default();
    let p = d.make("cuMemAllocAsync", &[1 << 20, s]);
    d.ask("interior", "cuMemFreeAsync", &[p + 512, s]);
    d.ask("on the stream", "cuMemFreeAsync", &[p, s]);
    d.ask("twice", "cuMemFreeAsync", &[p, s]);
    d.ask("twice, the other way", "cuMemFree_v2", &[p]);
    d.ask("freed", "cuMemsetD8Async", &[p, 0, 16, s]);
    d.ask("memory type of freed", "cuPointerGetAttribute", &[w.at(), 2, p]);
    d.must("cuStreamSynchronize", &[s]);
    d.ask("freed and done", "cuMemsetD8Async", &[p, 0, 16, s]);
    let p = d.make("cuMemAllocAsync", &[4096, s]);
    d.ask("of a pool", "cuMemFree_v2", &[p]);
    d.ask("of a pool, twice", "cuMemFree_v2", &[p]);
    let m = d.make("cuMemAlloc_v2", &[4096]);
    d.ask("of cuMemAlloc", "cuMemFreeAsync", &[m, s]);
    let p = d.make("cuMemAllocAsync", &[4096, s]);
    d.ask("on another stream", "cuMemFreeAsync", &[p, t]);
    let p = d.make("cuMemAllocAsync", &[4096, 0]);
    d.ask("on the null stream", "cuMemFreeAsync", &[p, 0]);
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    d.ask("pinned", "cuMemFreeAsync", &[pinned, s]);
    let c = d.make("cuCtxGetCurrent", &[]);
    let p = d.make("cuMemAllocAsync", &[4096, s]);
    let gate = Gate::on(d, s);
    gate.reached();
    let late = d.blocks(c, "of a pool while its stream is held", "cuMemFree_v2", &[p]);
    gate.open();
    late.end();
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

pub fn made(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[0]);
    let mut w = Word::default();
    // The properties: type pinned, no handles, location device 0, then reserved space.
    let mut properties = [0u32; 64];
    (properties[0], properties[2], properties[3]) = (1, 1, 0);
    let at = properties.as_ptr() as usize;
    let pool = d.make("cuMemPoolCreate", &[at]);
    for which in 1..=8usize {
        println!("attribute {which}: {}", attribute(d, pool, which));
    }
    let p = d.make("cuMemAllocFromPoolAsync", &[1000, pool, s]);
    println!("used {} reserved {}", attribute(d, pool, 7), attribute(d, pool, 5));
    d.ask("0 bytes", "cuMemAllocFromPoolAsync", &[w.at(), 0, pool, s]);
    d.ask("null pool", "cuMemAllocFromPoolAsync", &[w.at(), 16, 0, s]);
    let location = [1u32, 0];
    d.ask("", "cuMemPoolGetAccess", &[w.at(), pool, location.as_ptr() as usize]);
    println!("access {}", w.int());
    let access = [1u32, 0, 0];
    d.ask("none for its own device", "cuMemPoolSetAccess", &[pool, access.as_ptr() as usize, 1]);
    let access = [1u32, 0, 3];
    d.ask("its own device", "cuMemPoolSetAccess", &[pool, access.as_ptr() as usize, 1]);
    let access = [1u32, 99, 3];
    d.ask("device 99", "cuMemPoolSetAccess", &[pool, access.as_ptr() as usize, 1]);
    d.ask("", "cuDeviceSetMemPool", &[0, pool]);
    println!("it is current: {}", d.make("cuDeviceGetMemPool", &[0]) == pool);
    d.ask("with memory in use", "cuMemPoolDestroy", &[pool]);
    println!(
        "the default is current: {}",
        d.make("cuDeviceGetMemPool", &[0]) == d.make("cuDeviceGetDefaultMemPool", &[0])
    );
    d.ask("of a destroyed pool", "cuMemsetD8Async", &[p, 0, 16, s]);
    d.ask("of a destroyed pool", "cuMemFreeAsync", &[p, s]);
    d.ask("at the end", "cuStreamSynchronize", &[s]);
    properties[3] = 99;
    d.ask("device 99", "cuMemPoolCreate", &[w.at(), properties.as_ptr() as usize]);
    properties[3] = 0;
    properties[0] = 0;
    d.ask("type 0", "cuMemPoolCreate", &[w.at(), properties.as_ptr() as usize]);
    d.ask("null properties", "cuMemPoolCreate", &[w.at(), 0]);
}

/// How the marks move, and what a trim keeps.
pub fn marks(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let pool = d.make("cuDeviceGetDefaultMemPool", &[0]);
    let mut w = Word::default();
    let say = |what: &str| {
        let [reserved, reserved_high, used, used_high] =
            [5, 6, 7, 8].map(|a| attribute(d, pool, a));
        println!("{what}: reserved {reserved} most {reserved_high} used {used} most {used_high}");
    };
    *w.0 = u64::MAX;
    d.must("cuMemPoolSetAttribute", &[pool, 4, w.at()]);
    let blocks: Vec<usize> = (0..3).map(|_| d.make("cuMemAllocAsync", &[32 << 20, s])).collect();
    say("three of 32 MiB");
    for block in &blocks[..2] {
        d.must("cuMemFreeAsync", &[*block, s]);
    }
    say("two freed, not synchronized");
    d.must("cuStreamSynchronize", &[s]);
    say("two freed");
    *w.0 = 0;
    d.ask("used high to 0", "cuMemPoolSetAttribute", &[pool, 8, w.at()]);
    say("used high reset");
    d.ask("to all", "cuMemPoolTrimTo", &[pool, 96 << 20]);
    say("trimmed to all");
    d.ask("to 64 MiB and a byte", "cuMemPoolTrimTo", &[pool, (64 << 20) + 1]);
    say("trimmed to 64 MiB and a byte");
    d.ask("to 1 byte", "cuMemPoolTrimTo", &[pool, 1]);
    say("trimmed to 1 byte");
    d.ask("reserved high to 0", "cuMemPoolSetAttribute", &[pool, 6, w.at()]);
    say("reserved high reset");
    d.ask("null pool", "cuMemPoolTrimTo", &[0, 0]);
    let gate = Gate::on(d, s);
    d.must("cuMemFreeAsync", &[blocks[2], s]);
    d.ask("to 0 with a free that is not reached", "cuMemPoolTrimTo", &[pool, 0]);
    say("trimmed to 0 too early");
    gate.open();
    d.must("cuStreamSynchronize", &[s]);
    d.ask("to 0", "cuMemPoolTrimTo", &[pool, 0]);
    say("trimmed to 0");
}
