//! Questions about copies of rows and slices.

use super::asker::{Driver, Gate, pageable};

/// A `CUDA_MEMCPY3D`. Each side: x, y, z, level, kind, host, device, array, context, pitch, height.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Plan {
    pub from: [usize; 11],
    pub to: [usize; 11],
    pub extent: [usize; 3],
}

impl Plan {
    pub fn at(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Three slices of four rows of 32 bytes, from memory of the host to a device.
    pub fn new(to: usize, from: usize) -> Plan {
        Plan {
            from: [0, 0, 0, 0, 1, from, 0, 0, 0, 64, 5],
            to: [0, 0, 0, 0, 2, 0, to, 0, 0, 48, 4],
            extent: [32, 4, 3],
        }
    }

    pub fn with(mut self, how: impl FnOnce(&mut Plan)) -> Plan {
        how(&mut self);
        self
    }
}

pub fn pitched(d: &Driver) {
    d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let (m, h) = (d.make("cuMemAlloc_v2", &[4096]), pageable(8192));
    let good = Plan::new(m, h);
    let plans = [
        ("good", good),
        ("no width", good.with(|p| p.extent[0] = 0)),
        ("no height", good.with(|p| p.extent[1] = 0)),
        ("no depth", good.with(|p| p.extent[2] = 0)),
        (
            "no extent and no pointers",
            good.with(|p| {
                p.extent = [0; 3];
                (p.from[5], p.to[6]) = (0, 0);
            }),
        ),
        ("null source", good.with(|p| p.from[5] = 0)),
        ("null source with an offset", good.with(|p| (p.from[5], p.from[1]) = (0, 1))),
        ("null destination", good.with(|p| p.to[6] = 0)),
        ("pitch below width", good.with(|p| p.from[9] = 31)),
        ("pitch below offset and width", good.with(|p| p.from[0] = 33)),
        ("pitch of offset and width", good.with(|p| p.from[0] = 32)),
        ("no pitch", good.with(|p| p.from[9] = 0)),
        ("pitch 2^31", good.with(|p| (p.to[9], p.extent) = (1 << 31, [32, 1, 1]))),
        ("slice below height", good.with(|p| p.from[10] = 3)),
        ("slice below offset and height", good.with(|p| p.from[1] = 2)),
        ("no slice height", good.with(|p| p.from[10] = 0)),
        ("no slice height, one slice", good.with(|p| (p.from[10], p.extent[2]) = (0, 1))),
        ("slice below height, one slice", good.with(|p| (p.from[10], p.extent[2]) = (3, 1))),
        (
            "no slice height, offset in depth",
            good.with(|p| {
                (p.from[10], p.from[2], p.extent[2]) = (0, 1, 1);
            }),
        ),
        ("level", good.with(|p| p.from[3] = 1)),
        ("reserved", good.with(|p| p.from[8] = 1)),
        ("kind 0", good.with(|p| p.from[4] = 0)),
        ("kind 9", good.with(|p| p.from[4] = 9)),
        ("null array", good.with(|p| p.from[4] = 3)),
        ("unified", good.with(|p| (p.from[4], p.from[6], p.to[4]) = (4, h, 4))),
        ("unified, null", good.with(|p| p.from[4] = 4)),
        ("host memory as device", good.with(|p| (p.from[4], p.from[6]) = (2, h))),
        ("device memory as host", good.with(|p| p.from[5] = m + 2048)),
        ("past the end", good.with(|p| p.to[2] = 20)),
        ("the end exactly", good.with(|p| (p.to[9], p.to[10], p.extent) = (32, 4, [32, 4, 32]))),
        (
            "the end, slice higher",
            good.with(|p| (p.to[9], p.to[10], p.extent) = (32, 5, [32, 4, 32])),
        ),
        ("depth that wraps", good.with(|p| p.extent[2] = 1 << 62)),
    ];
    for (what, plan) in plans {
        d.ask(what, "cuMemcpy3D_v2", &[plan.at()]);
        d.ask(what, "cuMemcpy3DAsync_v2", &[plan.at(), s]);
    }
    d.ask("null plan", "cuMemcpy3D_v2", &[0]);
    // The sides of two dimensions: x, y, kind, host, device, array, pitch.
    for (what, x, y, pitch) in [
        ("offset within the pitch", 32usize, 1usize, 64usize),
        ("offset beyond the pitch", 33, 1, 64),
        ("no pitch", 0, 0, 0),
        ("no pitch, offset", 8, 1, 0),
    ] {
        let plan = [x, y, 1, h, 0, 0, pitch, 0, 0, 2, 0, m, 0, 64, 32, 4];
        d.ask(what, "cuMemcpy2D_v2", &[plan.as_ptr() as usize]);
        d.ask(what, "cuMemcpy2DAsync_v2", &[plan.as_ptr() as usize, s]);
        d.ask(what, "cuMemcpy2DUnaligned_v2", &[plan.as_ptr() as usize]);
    }
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

pub fn peers(d: &Driver) {
    let a = d.primary();
    let b = d.make("cuDevicePrimaryCtxRetain", &[1]);
    let s = d.make("cuStreamCreate", &[1]);
    let (m, h) = (d.make("cuMemAlloc_v2", &[4096]), pageable(8192));
    d.must("cuCtxSetCurrent", &[b]);
    let n = d.make("cuMemAlloc_v2", &[4096]);
    d.must("cuCtxSetCurrent", &[a]);
    let good = Plan::new(n, h).with(|p| {
        (p.from[4], p.from[6], p.from[8], p.to[8]) = (2, m, a, b);
    });
    let plans = [
        ("good", good),
        ("contexts swapped", good.with(|p| (p.from[8], p.to[8]) = (b, a))),
        ("no contexts", good.with(|p| (p.from[8], p.to[8]) = (0, 0))),
        ("unified", good.with(|p| (p.from[4], p.to[4]) = (4, 4))),
        ("from the host", good.with(|p| p.from[4] = 1)),
        ("past the end", good.with(|p| p.to[2] = 20)),
        ("pitch below width", good.with(|p| p.from[9] = 31)),
    ];
    for (what, plan) in plans {
        d.ask(what, "cuMemcpy3DPeer", &[plan.at()]);
        d.ask(what, "cuMemcpy3DPeerAsync", &[plan.at(), s]);
    }
    d.ask("at the end", "cuCtxSynchronize", &[]);
}

/// What returns while the stream is held.
pub fn gated(d: &Driver) {
    let context = d.primary();
    let s = d.make("cuStreamCreate", &[1]);
    let (m, n) = (d.make("cuMemAlloc_v2", &[1 << 20]), d.make("cuMemAlloc_v2", &[1 << 20]));
    let (h, pinned) = (pageable(1 << 20), d.make("cuMemAllocHost_v2", &[1 << 20]));
    let large = [1024, 8, 32];
    let sized = |to: usize, from: usize, extent: [usize; 3]| {
        Plan::new(to, from).with(|p| {
            (p.extent, p.from[4], p.to[4], p.from[6]) = (extent, 4, 4, from);
            for side in [&mut p.from, &mut p.to] {
                (side[9], side[10]) = (extent[0] * 2, extent[1]);
            }
        })
    };
    for (what, plan) in [
        ("pageable to device, small", sized(m, h, [32, 4, 3])),
        ("pageable to device, large", sized(m, h, large)),
        ("device to pageable", sized(h, m, [32, 4, 3])),
        ("pinned to device", sized(m, pinned, large)),
        ("device to pinned", sized(pinned, m, large)),
        ("device to device", sized(m, n, large)),
        ("pinned to pageable", sized(h, pinned, [32, 4, 3])),
    ] {
        let gate = Gate::on(d, s);
        gate.reached();
        let late = d.blocks(context, what, "cuMemcpy3DAsync_v2", &[plan.at(), s]);
        gate.open();
        late.end();
        d.must("cuCtxSynchronize", &[]);
    }
}
