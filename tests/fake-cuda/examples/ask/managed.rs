//! Questions about managed memory.

use super::asker::{Driver, Gate, Word, pageable};

/// A `CUmemLocation`, as it is passed by value.
fn location(kind: usize, id: usize) -> usize {
    kind | id << 32
}

pub fn memory(d: &Driver) {
    let context = d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let mut w = Word::default();
    d.ask("0 bytes", "cuMemAllocManaged", &[w.at(), 0, 1]);
    d.ask("2^60 bytes", "cuMemAllocManaged", &[w.at(), 1 << 60, 1]);
    d.ask("into null", "cuMemAllocManaged", &[0, 16, 1]);
    for flags in [0, 2, 3, 4, 8] {
        println!("flags {flags}: {}", d.call("cuMemAllocManaged", &[w.at(), 16, flags]));
    }
    let m = d.make("cuMemAllocManaged", &[5000, 1]);
    println!("multiple of 512: {}", m.is_multiple_of(512));
    for attribute in [1usize, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 15, 17] {
        let mut w = Word::default();
        let code = d.call("cuPointerGetAttribute", &[w.at(), attribute, m + 100]);
        let value = match attribute {
            _ if code != 0 => String::from("-"),
            1 => format!("the context {}", w.get() == context),
            3 | 4 => format!("itself {}", w.get() == m + 100),
            11 => (m + 100 - w.get()).to_string(),
            _ => w.int().to_string(),
        };
        println!("attribute {attribute}: {code} {value}");
    }
    let (h, pinned) = (pageable(8192), d.make("cuMemAllocHost_v2", &[8192]));
    let device = d.make("cuMemAlloc_v2", &[5000]);
    for (what, other) in [("pageable", h), ("pinned", pinned), ("device", device)] {
        d.ask(what, "cuMemcpy", &[m, other, 5000]);
        d.ask(what, "cuMemcpyAsync", &[other, m, 5000, s]);
    }
    d.ask("managed as device", "cuMemcpyHtoD_v2", &[m, h, 5000]);
    d.ask("managed as host", "cuMemcpyHtoD_v2", &[device, m, 5000]);
    d.ask("past the end", "cuMemcpy", &[m, h, 5001]);
    d.ask("managed", "cuMemsetD8Async", &[m, 1, 5000, s]);
    d.ask("past the end", "cuMemsetD8Async", &[m, 1, 5001, s]);
    d.must("cuCtxSynchronize", &[]);
    d.ask("managed", "cuMemHostGetDevicePointer_v2", &[w.at(), m, 0]);
    d.ask("managed", "cuMemHostGetFlags", &[w.at(), m]);
    d.ask("managed", "cuMemHostRegister_v2", &[m & !4095, 4096, 0]);
    d.ask("interior", "cuMemFree_v2", &[m + 512]);
    d.ask("managed", "cuMemFreeHost", &[m]);
    d.ask("managed", "cuMemFreeAsync", &[m, s]);
    d.ask("managed", "cuMemFree_v2", &[m]);
    d.ask("twice", "cuMemFree_v2", &[m]);
    d.ask("freed", "cuMemPrefetchAsync", &[m, 16, 0, s]);
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

pub fn hints(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let bytes = 4 << 20;
    let m = d.make("cuMemAllocManaged", &[bytes, 1]);
    let other = d.make("cuMemAlloc_v2", &[8192]);
    let say = |what: &str, at: usize, bytes: usize| {
        let mut answers = Vec::new();
        for attribute in [1usize, 2, 4, 5, 6, 7, 8] {
            let mut w = Word::default();
            let code = d.call("cuMemRangeGetAttribute", &[w.at(), 4, attribute, at, bytes]);
            answers.push(if code == 0 { w.int() } else { code + 10_000 });
        }
        let by = [77i32; 3];
        let code = d.call("cuMemRangeGetAttribute", &[by.as_ptr() as usize, 12, 3, at, bytes]);
        println!("{what}: {answers:?} accessed by {code} {by:?}");
    };
    say("fresh", m, bytes);
    d.ask("to the device", "cuMemPrefetchAsync", &[m, bytes, 0, s]);
    say("sent to the device", m, bytes);
    d.ask("to the host", "cuMemPrefetchAsync", &[m, bytes, usize::MAX, s]);
    say("sent to the host", m, bytes);
    d.ask("half to the device", "cuMemPrefetchAsync_v2", &[m, bytes / 2, location(1, 0), 0, s]);
    say("half sent to the device", m, bytes);
    say("that half", m, bytes / 2);
    d.ask("one byte", "cuMemPrefetchAsync_v2", &[m + bytes / 2 + 1, 1, location(1, 0), 0, s]);
    for (what, at, size, to, flags) in [
        ("0 bytes", m, 0, location(1, 0), 0),
        ("past the end", m, bytes + 1, location(1, 0), 0),
        ("flags 1", m, bytes, location(1, 0), 1),
        ("device 99", m, bytes, location(1, 99), 0),
        ("kind 0", m, bytes, location(0, 0), 0),
        ("kind 9", m, bytes, location(9, 0), 0),
        ("node 0", m, bytes, location(3, 0), 0),
        ("node 999", m, bytes, location(3, 999), 0),
        ("this node", m, bytes, location(4, 0), 0),
        ("host", m, bytes, location(2, 0), 0),
        ("device memory", other, 4096, location(1, 0), 0),
        ("pageable", pageable(8192), 4096, location(1, 0), 0),
        ("null", 0, 4096, location(1, 0), 0),
    ] {
        d.ask(what, "cuMemPrefetchAsync_v2", &[at, size, to, flags, s]);
    }
    for device in [99usize, -2i32 as usize] {
        d.ask("an odd device", "cuMemPrefetchAsync", &[m, bytes, device, s]);
    }
    d.ask("the null stream", "cuMemPrefetchAsync", &[m, bytes, 0, 0]);
    for (what, advice, device) in [
        ("read mostly, device 99", 1, 99),
        ("prefer device 0", 3, 0),
        ("prefer device 99", 3, 99),
        ("accessed by device 0", 5, 0),
        ("accessed by the host", 5, usize::MAX),
        ("not accessed by device 1", 6, 1),
        ("advice 0", 0, 0),
        ("advice 99", 99, 0),
    ] {
        d.ask(what, "cuMemAdvise", &[m, bytes, advice, device]);
        say(what, m, bytes);
    }
    for (what, advice, at) in [
        ("prefer the host", 3, location(2, 0)),
        ("prefer node 0", 3, location(3, 0)),
        ("accessed by node 0", 5, location(3, 0)),
        ("not accessed by the host", 6, location(2, 0)),
        ("no preference, kind 9", 4, location(9, 0)),
        ("not read mostly", 2, location(0, 0)),
    ] {
        d.ask(what, "cuMemAdvise_v2", &[m, bytes, advice, at]);
        say(what, m, bytes);
    }
    d.ask("0 bytes", "cuMemAdvise", &[m, 0, 1, 0]);
    d.ask("past the end", "cuMemAdvise", &[m, bytes + 1, 1, 0]);
    d.ask("device memory", "cuMemAdvise", &[other, 4096, 1, 0]);
    d.ask("pageable", "cuMemAdvise", &[pageable(8192), 4096, 1, 0]);
    let mut w = Word::default();
    d.ask("8 bytes", "cuMemRangeGetAttribute", &[w.at(), 8, 1, m, bytes]);
    d.ask("no room", "cuMemRangeGetAttribute", &[w.at(), 0, 3, m, bytes]);
    d.ask("6 bytes", "cuMemRangeGetAttribute", &[w.at(), 6, 3, m, bytes]);
    d.ask("attribute 99", "cuMemRangeGetAttribute", &[w.at(), 4, 99, m, bytes]);
    d.ask("into null", "cuMemRangeGetAttribute", &[0, 4, 1, m, bytes]);
    d.ask("device memory", "cuMemRangeGetAttribute", &[w.at(), 4, 1, other, 4096]);
    d.must("cuCtxSetCurrent", &[0]);
    d.ask("no context", "cuMemRangeGetAttribute", &[w.at(), 4, 1, m, bytes]);
    d.ask("no context", "cuMemAdvise", &[m, bytes, 1, 0]);
    d.ask("no context", "cuMemPrefetchAsync", &[m, bytes, 0, s]);
}

/// What returns while the stream is held.
pub fn gated(d: &Driver) {
    let context = d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let m = d.make("cuMemAllocManaged", &[1 << 20, 1]);
    let (h, pinned) = (pageable(1 << 20), d.make("cuMemAllocHost_v2", &[1 << 20]));
    let device = d.make("cuMemAlloc_v2", &[1 << 20]);
    for (what, name, arguments) in [
        ("to the device", "cuMemPrefetchAsync", [m, 1 << 20, 0, s]),
        ("to the host", "cuMemPrefetchAsync", [m, 1 << 20, usize::MAX, s]),
        ("to all", "cuStreamAttachMemAsync", [s, m, 0, 1]),
        ("pageable to managed", "cuMemcpyAsync", [m, h, 4096, s]),
        ("managed to pageable", "cuMemcpyAsync", [h, m, 4096, s]),
        ("pinned to managed", "cuMemcpyAsync", [m, pinned, 4096, s]),
        ("managed to pinned", "cuMemcpyAsync", [pinned, m, 4096, s]),
        ("managed to device", "cuMemcpyAsync", [device, m, 4096, s]),
        ("of managed", "cuMemsetD8Async", [m, 1, 4096, s]),
        ("of managed", "cuMemFree_v2", [m, 0, 0, 0]),
    ] {
        let gate = Gate::on(d, s);
        gate.reached();
        let late = d.blocks(context, what, name, &arguments);
        gate.open();
        late.end();
        d.must("cuCtxSynchronize", &[]);
    }
}
