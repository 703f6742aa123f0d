//! Stories about copies of rows and slices.

mod support;

#[path = "../examples/ask/pitched.rs"]
#[expect(dead_code, reason = "the plan is used, the questions are for `ask`")]
mod pitched;

use pitched::Plan;
use support::asker::pageable;
use support::{Driver, Gate, asker, bytes};

/// Fills with bytes that differ from their neighbours in every direction.
fn pattern(at: usize, length: usize) {
    for (index, byte) in bytes(at, length).iter_mut().enumerate() {
        *byte = (index * 7 + index / 251) as u8 % 251;
    }
}

/// Whether the rows that a plan names are the same and the gaps are `gap`.
fn check(plan: &Plan, to: usize, from: usize, length: usize, gap: u8) {
    let [width, height, depth] = plan.extent;
    let offset = |side: &[usize; 11], x, y, z| {
        ((side[2] + z) * side[10] + side[1] + y) * side[9] + side[0] + x
    };
    let mut expected = vec![gap; length];
    for (x, y, z) in
        (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| (x, y, z))))
    {
        expected[offset(&plan.to, x, y, z)] = bytes(from, length)[offset(&plan.from, x, y, z)];
    }
    assert_eq!(bytes(to, length), expected);
}

stories! {
    slices_land_where_pitch_and_slice_height_say_and_gaps_stay [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (m, h, back) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096), pageable(4096));
        pattern(h, 4096);
        let plan = Plan::new(m, h);
        let moved = plan.with(|p| {
            (p.from[0], p.from[1], p.from[2]) = (5, 1, 2);
            (p.to[0], p.to[1], p.to[2], p.to[10]) = (9, 3, 4, 7);
        });
        for plan in [plan, moved] {
            for asynchronous in [false, true] {
                d.must("cuMemsetD8_v2", &[m, 0xaa, 4096]);
                d.must("cuCtxSynchronize", &[]);
                if asynchronous {
                    d.must("cuMemcpy3DAsync_v2", &[plan.at(), stream]);
                } else {
                    d.must("cuMemcpy3D_v2", &[plan.at()]);
                }
                d.must("cuCtxSynchronize", &[]);
                d.must("cuMemcpyDtoH_v2", &[back, m, 4096]);
                check(&plan, back, h, 4096, 0xaa);
            }
        }
    };

    large_pageable_slices_are_all_there_when_the_call_returns [] |d: &Driver| {
        d.primary();
        let (m, h, back) = (d.make("cuMemAlloc_v2", &[1 << 20]), pageable(1 << 20), pageable(1 << 20));
        pattern(h, 1 << 20);
        let plan = Plan::new(m, h).with(|p| {
            p.extent = [1000, 50, 10];
            (p.from[9], p.from[10], p.to[9], p.to[10]) = (1024, 60, 1100, 50);
        });
        d.must("cuMemsetD8_v2", &[m, 1, 1 << 20]);
        d.must("cuMemcpy3D_v2", &[plan.at()]);
        bytes(back, 1 << 20).fill(0);
        d.must("cuMemcpyDtoH_v2", &[back, m, 1 << 20]);
        check(&plan, back, h, 1 << 20, 1);
    };

    small_pageable_rows_are_read_before_the_call_returns_and_arrive_later [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (m, h, back) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096), pageable(4096));
        let plan = Plan::new(m, h);
        bytes(h, 4096).fill(3);
        let gate = Gate::on(d, stream);
        d.must("cuMemcpy3DAsync_v2", &[plan.at(), stream]);
        bytes(h, 4096).fill(9);
        assert_eq!(d.call("cuStreamQuery", &[stream]), 600);
        gate.open();
        d.must("cuMemcpyDtoHAsync_v2", &[back, m, 32, stream]);
        assert_eq!(bytes(back, 32), [3; 32]);
    };

    pinned_rows_overwritten_too_early_are_seen_to_be [] |d: &Driver| {
        d.primary();
        let stream = d.make("cuStreamCreate", &[1]);
        let (m, back) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096));
        let pinned = d.make("cuMemAllocHost_v2", &[4096]);
        let plan = Plan::new(m, pinned);
        bytes(pinned, 4096).fill(3);
        let gate = Gate::on(d, stream);
        d.must("cuMemcpy3DAsync_v2", &[plan.at(), stream]);
        bytes(pinned, 4096).fill(9);
        gate.open();
        d.must("cuMemcpyDtoHAsync_v2", &[back, m, 32, stream]);
        assert_eq!(bytes(back, 32), [9; 32]);
    };

    plans_that_do_not_hold_are_refused_and_change_nothing [] |d: &Driver| {
        d.primary();
        let (m, h, back) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096), pageable(4096));
        let stream = d.make("cuStreamCreate", &[1]);
        d.must("cuMemsetD8_v2", &[m, 0xaa, 4096]);
        let good = Plan::new(m, h);
        for (what, plan) in [
            ("null source", good.with(|p| p.from[5] = 0)),
            ("null source with an offset", good.with(|p| (p.from[5], p.from[1]) = (0, 1))),
            ("null destination", good.with(|p| p.to[6] = 0)),
            ("pitch below width", good.with(|p| p.from[9] = 31)),
            ("pitch below offset and width", good.with(|p| p.from[0] = 33)),
            ("pitch beyond the largest", good.with(|p| (p.to[9], p.extent) = (1 << 31, [32, 1, 1]))),
            ("slice below height", good.with(|p| p.to[10] = 3)),
            ("slice below offset and height", good.with(|p| p.from[1] = 2)),
            ("no slice height for several slices", good.with(|p| p.from[10] = 0)),
            ("slice below height of one slice", good.with(|p| (p.from[10], p.extent[2]) = (3, 1))),
            ("level", good.with(|p| p.to[3] = 1)),
            ("reserved", good.with(|p| p.from[8] = 1)),
            ("kind 0", good.with(|p| p.from[4] = 0)),
            ("kind 9", good.with(|p| p.to[4] = 9)),
            ("pageable as device", good.with(|p| (p.from[4], p.from[6]) = (2, h))),
            ("past the end", good.with(|p| p.to[2] = 20)),
            ("extent that wraps", good.with(|p| p.extent[2] = 1 << 62)),
        ] {
            assert_eq!(d.call("cuMemcpy3D_v2", &[plan.at()]), 1, "{what}");
            assert_eq!(d.call("cuMemcpy3DAsync_v2", &[plan.at(), stream]), 1, "{what}");
        }
        assert_eq!(d.call("cuMemcpy3D_v2", &[0]), 1);
        d.must("cuMemcpyDtoH_v2", &[back, m, 4096]);
        assert!(bytes(back, 4096).iter().all(|byte| *byte == 0xaa));
    };

    empty_extents_and_unified_addresses_are_fine [] |d: &Driver| {
        d.primary();
        let (m, h) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096));
        let managed = d.make("cuMemAllocManaged", &[4096, 1]);
        for side in 0..3 {
            d.must("cuMemcpy3D_v2", &[Plan::new(m, h).with(|p| p.extent[side] = 0).at()]);
        }
        for from in [h, managed, m + 2048] {
            for to in [m, managed + 2048] {
                let plan = Plan::new(to, 0).with(|p| (p.from[4], p.from[6], p.to[4]) = (4, from, 4));
                d.must("cuMemcpy3D_v2", &[plan.at()]);
            }
        }
        let one = Plan::new(m, h).with(|p| (p.from[10], p.to[10], p.extent[2]) = (0, 0, 1));
        d.must("cuMemcpy3D_v2", &[one.at()]);
    };

    flat_copies_demand_that_the_pitch_holds_the_offset [] |d: &Driver| {
        d.primary();
        let (m, h) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096));
        for (x, y, pitch, code) in [(32, 1, 64, 0), (33, 0, 64, 1), (0, 0, 0, 0), (0, 63, 64, 1), (0, 0, 1 << 31, 1)] {
            let plan = [0, 0, 1, h, 0, 0, 64, x, y, 2, 0, m, 0, pitch, 32, 4];
            assert_eq!(d.call("cuMemcpy2D_v2", &[plan.as_ptr() as usize]), code, "{x} {y} {pitch}");
        }
        let null = [0, 1, 1, 0, 0, 0, 64, 0, 0, 2, 0, m, 0, 64, 32, 4];
        assert_eq!(d.call("cuMemcpy2D_v2", &[null.as_ptr() as usize]), 1);
    };

    slices_go_from_device_to_device [] |d: &Driver| {
        let a = d.primary();
        let b = d.make("cuDevicePrimaryCtxRetain", &[1]);
        let stream = d.make("cuStreamCreate", &[1]);
        let (m, h, back) = (d.make("cuMemAlloc_v2", &[4096]), pageable(4096), pageable(4096));
        pattern(h, 4096);
        d.must("cuMemcpyHtoD_v2", &[m, h, 4096]);
        d.must("cuCtxSetCurrent", &[b]);
        let n = d.make("cuMemAlloc_v2", &[4096]);
        d.must("cuMemsetD8_v2", &[n, 0xaa, 4096]);
        d.must("cuCtxSynchronize", &[]);
        d.must("cuCtxSetCurrent", &[a]);
        let plan = Plan::new(n, 0).with(|p| (p.from[4], p.from[6], p.from[8], p.to[8]) = (2, m, a, b));
        d.must("cuMemcpy3DPeerAsync", &[plan.at(), stream]);
        d.must("cuStreamSynchronize", &[stream]);
        d.must("cuMemcpyDtoH_v2", &[back, n, 4096]);
        check(&plan, back, h, 4096, 0xaa);
        d.must("cuMemcpy3DPeer", &[plan.at()]);
        let nowhere = plan.with(|p| p.to[8] = 0x1000);
        assert_eq!(d.call("cuMemcpy3DPeerAsync", &[nowhere.at(), stream]), 201);
        assert_eq!(d.call("cuMemcpy3DAsync_v2", &[plan.at(), stream]), 1, "contexts are reserved there");
        d.must("cuCtxSynchronize", &[]);
    };
}
