//! Questions about batches of copies.

use super::asker::{Driver, Gate, Word, pageable};

/// When a source may be read: in the stream's order, during the call, at any time.
pub const ORDERS: [(&str, u32); 3] = [("stream", 1), ("call", 2), ("any", 3)];

/// The arguments of a batch.
#[derive(Clone)]
pub struct Batch {
    pub to: Vec<usize>,
    pub from: Vec<usize>,
    pub sizes: Vec<usize>,
    /// Order, two locations of kind and id, flags.
    pub attributes: Vec<[u32; 6]>,
    pub firsts: Vec<usize>,
}

impl Batch {
    pub fn new(copies: &[(usize, usize, usize)], order: u32) -> Batch {
        Batch {
            to: copies.iter().map(|copy| copy.0).collect(),
            from: copies.iter().map(|copy| copy.1).collect(),
            sizes: copies.iter().map(|copy| copy.2).collect(),
            attributes: vec![[order, 0, 0, 0, 0, 0]],
            firsts: vec![0],
        }
    }

    pub fn with(mut self, how: impl FnOnce(&mut Batch)) -> Batch {
        how(&mut self);
        self
    }

    /// The arguments of CUDA 13.
    pub fn arguments(&self, stream: usize) -> [usize; 8] {
        let (to, from, sizes) = (self.to.as_ptr(), self.from.as_ptr(), self.sizes.as_ptr());
        let (attributes, firsts) = (self.attributes.as_ptr() as usize, self.firsts.as_ptr());
        let (count, kinds) = (self.to.len(), self.attributes.len());
        [
            to as usize,
            from as usize,
            sizes as usize,
            count,
            attributes,
            firsts as usize,
            kinds,
            stream,
        ]
    }

    /// The arguments of CUDA 12.8.
    pub fn older_arguments(&self, failed: usize, stream: usize) -> [usize; 9] {
        let [a, b, c, d, e, f, g, _] = self.arguments(stream);
        [a, b, c, d, e, f, g, failed, stream]
    }
}

pub fn batches(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let (m, h) = (d.make("cuMemAlloc_v2", &[4096]), pageable(16 << 10));
    let pinned = d.make("cuMemAllocHost_v2", &[4096]);
    let registered = h + 8192;
    d.must("cuMemHostRegister_v2", &[registered, 4096, 0]);
    let pool = d.make("cuMemAllocAsync", &[4096, s]);
    let managed = d.make("cuMemAllocManaged", &[4096, 1]);
    d.must("cuCtxSynchronize", &[]);
    let good =
        Batch::new(&[(m, h, 16), (m + 64, pinned, 16), (m + 128, pool, 16), (managed, m, 16)], 1);
    let all = [
        ("good", good.clone()),
        ("one with no bytes", good.clone().with(|b| b.sizes[2] = 0)),
        ("null source", good.clone().with(|b| b.from[1] = 0)),
        ("null destination", good.clone().with(|b| b.to[3] = 0)),
        ("past the end", good.clone().with(|b| b.sizes[1] = 4097)),
        (
            "into registered memory",
            good.clone().with(|b| (b.from[0], b.sizes[0]) = (registered - 8, 16)),
        ),
        ("host to host", good.clone().with(|b| b.to[0] = h + 64)),
        ("pinned to pageable", good.clone().with(|b| b.to[1] = h + 64)),
        ("order 0", good.clone().with(|b| b.attributes[0][0] = 0)),
        ("order 4", good.clone().with(|b| b.attributes[0][0] = 4)),
        ("flags 1", good.clone().with(|b| b.attributes[0][5] = 1)),
        ("flags 2", good.clone().with(|b| b.attributes[0][5] = 2)),
        ("first at 1", good.clone().with(|b| b.firsts[0] = 1)),
        (
            "two kinds",
            good.clone().with(|b| {
                b.attributes.push([2, 0, 0, 0, 0, 0]);
                b.firsts.push(2);
            }),
        ),
        (
            "two kinds, the same first",
            good.clone().with(|b| {
                b.attributes.push([2, 0, 0, 0, 0, 0]);
                b.firsts.push(0);
            }),
        ),
        (
            "two kinds, one beyond",
            good.clone().with(|b| {
                b.attributes.push([2, 0, 0, 0, 0, 0]);
                b.firsts.push(4);
            }),
        ),
        (
            "more kinds than copies",
            good.clone().with(|b| {
                b.attributes = vec![[1, 0, 0, 0, 0, 0]; 5];
                b.firsts = vec![0, 1, 2, 3, 4];
            }),
        ),
        ("hints", good.clone().with(|b| b.attributes[0] = [1, 2, 0, 1, 0, 0])),
        ("hint of kind 9", good.clone().with(|b| b.attributes[0] = [1, 9, 0, 0, 0, 0])),
        ("hint of device 99", good.clone().with(|b| b.attributes[0] = [1, 1, 99, 0, 0, 0])),
    ];
    let say = |what: &str, arguments: &[usize; 9], failed: &mut Word| {
        *failed.0 = 1234;
        let code = d.call("cuMemcpyBatchAsync", arguments);
        println!("cuMemcpyBatchAsync {what}: {code} index {}", failed.get() as i64);
    };
    let mut failed = Word::default();
    for (what, batch) in &all {
        d.ask(what, "cuMemcpyBatchAsync_v2", &batch.arguments(s));
        say(what, &batch.older_arguments(failed.at(), s), &mut failed);
    }
    for (index, what) in
        ["destinations", "sources", "sizes", "count", "attributes", "firsts", "kinds"]
            .iter()
            .enumerate()
    {
        let mut arguments = good.older_arguments(failed.at(), s);
        arguments[index] = 0;
        if index != 3 {
            say(&format!("no {what}"), &arguments, &mut failed);
        }
    }
    let empty = Batch::new(&[], 1);
    say("empty", &empty.older_arguments(failed.at(), s), &mut failed);
    say("no place for the index", &good.older_arguments(0, s), &mut failed);
    for (what, stream) in [("the null stream", 0), ("legacy", 1), ("per thread", 2)] {
        d.ask(what, "cuMemcpyBatchAsync_v2", &good.arguments(stream));
        say(what, &good.older_arguments(failed.at(), stream), &mut failed);
    }
    d.must("cuCtxSetCurrent", &[0]);
    d.ask("no context", "cuMemcpyBatchAsync_v2", &good.arguments(s));
    d.ask("no context, the null stream", "cuMemcpyBatchAsync_v2", &good.arguments(0));
    d.ask("at the end", "cuStreamSynchronize", &[s]);
    let (mut at, mut status) = (Word::default(), Word::default());
    for version in [12000usize, 12080, 13000] {
        let code = d.call(
            "cuGetProcAddress_v2",
            &[c"cuMemcpyBatchAsync".as_ptr() as usize, at.at(), version, 0, status.at()],
        );
        let which = [d.address("cuMemcpyBatchAsync"), d.address("cuMemcpyBatchAsync_v2")];
        let which = which.iter().position(|address| *address == at.get());
        println!("looked up for {version}: {code} status {} which {which:?}", status.int());
    }
}

/// What returns while the stream is held, and what is copied when the source changes meanwhile.
pub fn gated(d: &Driver) {
    let context = d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let m = d.make("cuMemAlloc_v2", &[4 << 20]);
    let (h, pinned) = (pageable(4 << 20), d.make("cuMemAllocHost_v2", &[4 << 20]));
    let seen = pageable(4096);
    for (order, number) in ORDERS {
        for (kind, bytes) in [("small", 4096), ("large", 4 << 20)] {
            for (what, to, from) in [
                ("pageable to device", m, h),
                ("pinned to device", m, pinned),
                ("device to pageable", h, m),
                ("device to pinned", pinned, m),
            ] {
                d.must("cuMemsetD8_v2", &[m, 0, bytes]);
                for host in [h, pinned] {
                    // SAFETY: the two buffers are this function's, of so many bytes, and nothing is under way.
                    unsafe { std::ptr::write_bytes(host as *mut u8, 5, bytes) };
                }
                d.must("cuCtxSynchronize", &[]);
                let gate = Gate::on(d, s);
                gate.reached();
                let batch = Batch::new(&[(to, from, bytes)], number);
                println!("- {order} {kind} {what}");
                let late = d.blocks(context, "", "cuMemcpyBatchAsync_v2", &batch.arguments(s));
                if from != m && !late.is_late() {
                    // SAFETY: as above, but that the copy may be under way, which is what is asked about.
                    unsafe { std::ptr::write_bytes(from as *mut u8, 9, bytes) };
                }
                gate.open();
                late.end();
                d.must("cuCtxSynchronize", &[]);
                if from != m {
                    d.must("cuMemcpyDtoH_v2", &[seen, m, 4096]);
                    // SAFETY: the buffer is this function's and the copy into it is over.
                    let byte = unsafe { std::ptr::read_volatile(seen as *const u8) };
                    println!(
                        "the device has {}",
                        ["the new", "the old", "other"][match byte {
                            9 => 0,
                            5 => 1,
                            _ => 2,
                        }]
                    );
                }
            }
        }
    }
}
