//! Many ranges in one call (C4), and the inferred kind (C1).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::extended::Copy;
use crate::extended::memory::Batch;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopyRange, MemcpyKind, Stream};

cases! { Area::Copies;
    "C4" every_range_of_a_batch_is_copied_exactly [];
    "S1" a_batch_keeps_its_place_in_the_stream [Gates];
    "C4" a_wrong_range_is_named_and_the_batch_copies_nothing [];
    "M1" an_empty_batch_is_nothing [];
    "P3" ranges_may_be_longer_than_ours_and_not_shorter [];
    "C3" a_batch_knows_pageable_memory [Gates];
    "C1" a_batch_may_leave_its_kinds_to_the_runtime [];
    "C1" the_runtime_finds_the_kind_out [];
    "C1" the_twelve_do_not_know_the_inferred_kind [];
    "C3" an_inferred_copy_from_pageable_memory_has_read_it [Gates];
    "C1" a_kind_that_contradicts_is_refused_and_an_inferred_one_is_right [OwnMemory];
}

fn range(dst: Address, src: Address, size: usize) -> LlaisysCopyRange {
    LlaisysCopyRange { dst: dst.pointer(), src: src.pointer(), size: size as u64 }
}

fn batch(ranges: &[LlaisysCopyRange], kind: MemcpyKind) -> Batch<'_> {
    Batch { ranges, kind: kind as u32, flags: CopyFlags::NONE }
}

fn every_range_of_a_batch_is_copied_exactly(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let mut rng = context.rng();
    for from in Place::ALL {
        for to in Place::ALL {
            let bytes = context.bytes(1, 60_000);
            let source = Block::filled(context, from, &bytes)?;
            let target = Guarded::new(context, to, bytes.len())?;
            let mut right = target.inside(bytes.len())?;
            let mut ranges = Vec::new();
            let mut at = 0;
            while at + 200 < bytes.len() {
                let size = 1 + rng.below(180);
                let read = rng.below(bytes.len() - size);
                let (dst, src) = (target.address().plus(at), source.address().plus(read));
                ranges.push(range(dst, src, size));
                right[at..at + size].copy_from_slice(&bytes[read..read + size]);
                // Always a gap, so that a byte too many is seen.
                at += size + 1 + rng.below(20);
            }
            let call = batch(&ranges, Place::kind(from, to));
            context.ok(context.x.memcpy_batch_async(0, call, stream), "memcpy_batch_async")?;
            context.wait(stream)?;
            let what = format!("{} ranges from {from:?} to {to:?} memory", ranges.len());
            target.expect(&right, &what)?;
        }
    }
    context.destroy(stream)
}

fn a_batch_keeps_its_place_in_the_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 8 * 4096);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::filled(context, Place::Device, &vec![0; length])?;
    let other = Block::filled(context, Place::Device, &vec![0; length])?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(middle.address(), source.address(), length, MemcpyKind::H2D, stream)?;
    let ranges: Vec<_> = (0..8)
        .map(|n| range(other.address().plus(n * 4096), middle.address().plus(n * 4096), 4096))
        .collect();
    let answer = context.x.memcpy_batch_async(0, batch(&ranges, MemcpyKind::D2D), stream);
    context.ok(answer, "memcpy_batch_async")?;
    context.enqueue(target.address(), other.address(), length, MemcpyKind::D2H, stream)?;
    target.expect_untouched("behind a closed gate")?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "a batch between two copies of a held stream")?;
    context.destroy(stream)
}

fn a_wrong_range_is_named_and_the_batch_copies_nothing(context: &'static Context) -> Checked {
    let source = Block::filled(context, Place::Device, &[7; 4096])?;
    let target = Guarded::new(context, Place::Device, 4096)?;
    let (to, from) = (target.address(), source.address());
    for (wrong, what) in [
        (range(to.plus(8), to, 16), "ranges that overlap"),
        (range(to, Address::NULL, 16), "a NULL source"),
        (range(Address::NULL, from, 16), "a NULL target"),
        (range(to, from, 1 << 40), "past the end"),
        (range(to, from, usize::MAX), "a range that wraps"),
    ] {
        for at in [0, 3, 6] {
            let mut ranges: Vec<_> =
                (0..7).map(|n| range(to.plus(n * 100), from.plus(n * 100), 100)).collect();
            ranges[at] = wrong;
            let call = batch(&ranges, MemcpyKind::D2D);
            let answer = context.x.memcpy_batch_async(0, call, Stream::DEFAULT);
            let what = format!("{what} at {at}");
            let failure =
                context.answered(answer, "memcpy_batch_async", Status::InvalidValue, &what)?;
            let named = format!("range {at}");
            ensure!(failure.message.contains(&named), "{what}: {named} is not in {failure:?}");
            context.wait(Stream::DEFAULT)?;
            target.expect_untouched(&what)?;
        }
    }
    let good = [range(to, from, 16)];
    for kind in [5, u32::MAX] {
        let call = Batch { kind, ..batch(&good, MemcpyKind::D2D) };
        let answer = context.x.memcpy_batch_async(0, call, Stream::DEFAULT);
        let what = format!("kind {kind}");
        context.answered(answer, "memcpy_batch_async", Status::InvalidValue, &what)?;
    }
    target.expect_untouched("after batches that were refused")
}

fn an_empty_batch_is_nothing(context: &'static Context) -> Checked {
    let block = Block::filled(context, Place::Device, &[7; 64])?;
    let answer = context.x.memcpy_batch_async(0, batch(&[], MemcpyKind::D2D), Stream::DEFAULT);
    context.ok(answer, "a batch of no ranges")?;
    let nothing = [
        range(Address::GARBAGE, Address::NULL, 0),
        range(block.address(), block.address(), 64),
        range(Address::NULL, Address::GARBAGE, 0),
    ];
    let answer = context.x.memcpy_batch_async(0, batch(&nothing, MemcpyKind::D2D), Stream::DEFAULT);
    context.ok(answer, "a batch of ranges that are nothing")?;
    let target = Guarded::new(context, Place::Device, 64)?;
    let mixed = [nothing[0], range(target.address(), block.address(), 64), nothing[1]];
    let answer = context.x.memcpy_batch_async(0, batch(&mixed, MemcpyKind::D2D), Stream::DEFAULT);
    context.ok(answer, "a batch with ranges that are nothing")?;
    context.wait(Stream::DEFAULT)?;
    target.expect(&[7; 64], "the one range that is something")
}

fn ranges_may_be_longer_than_ours_and_not_shorter(context: &'static Context) -> Checked {
    let source = Block::filled(context, Place::Device, &[7; 64])?;
    let target = Guarded::new(context, Place::Device, 64)?;
    let (to, from) = (target.address(), source.address());
    // As a newer header might have it: with two more words.
    let longer: [(LlaisysCopyRange, [u64; 2]); 2] =
        [(range(to, from, 32), [1, 2]), (range(to.plus(32), from, 32), [3, 4])];
    let call = |ranges: *const LlaisysCopyRange, count: u64, stride: usize| {
        let (x, this, none) = (context.x.raw, context.x.this(), CopyFlags::NONE);
        let (kind, stride) = (MemcpyKind::D2D as u32, stride as u64);
        // SAFETY: `count` ranges lie there, `stride` bytes apart, or the call is refused.
        Code(unsafe {
            (x.memcpy_batch_async)(this, 0, ranges, count, stride, kind, Stream::DEFAULT, none)
        })
        .result()
    };
    let (first, size) = (longer.as_ptr().cast(), size_of_val(&longer[0]));
    let ours = size_of::<LlaisysCopyRange>();
    for (ranges, count, stride, what) in [
        (std::ptr::null(), 2, ours, "no ranges"),
        (first, 2, ours - 8, "a stride that is too small"),
        (first, 2, 0, "no stride"),
        (first, u64::MAX, size, "more ranges than memory"),
    ] {
        let answer = call(ranges, count, stride);
        context.answered(answer, "memcpy_batch_async", Status::InvalidValue, what)?;
    }
    context.wait(Stream::DEFAULT)?;
    target.expect_untouched("after batches that were refused")?;
    context.ok(call(first, 2, size), "ranges of 40 bytes")?;
    context.wait(Stream::DEFAULT)?;
    target.expect(&[7; 64], "ranges of 40 bytes")
}

fn a_batch_knows_pageable_memory(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 4096);
    let mut local = Block::filled(context, Place::Pageable, &bytes)?;
    let target = Guarded::new(context, Place::Device, 4096)?;
    let parts = |to: Address, from: Address| -> Vec<_> {
        (0..4).map(|n| range(to.plus(n * 1024), from.plus(n * 1024), 1024)).collect()
    };
    let gate = Gate::hold(context, 0, stream)?;
    let ranges = parts(target.address(), local.address());
    let answer = context.x.memcpy_batch_async(0, batch(&ranges, MemcpyKind::H2D), stream);
    context.ok(answer, "memcpy_batch_async")?;
    local.write(0, &[0xff; 4096])?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "from pageable memory that changed after the call")?;
    let seen = Guarded::new(context, Place::Pageable, 4096)?;
    let gate = Gate::hold(context, 0, stream)?;
    let (to, from) = (seen.address(), target.address());
    let caller = Caller::start(move || {
        let ranges = parts(to, from);
        let answer = context.x.memcpy_batch_async(0, batch(&ranges, MemcpyKind::D2H), stream);
        context.ok(answer, "memcpy_batch_async")
    })?;
    caller.expect_waiting("memcpy_batch_async into pageable memory")?;
    gate.open();
    caller.join()?;
    seen.expect(&bytes, "into pageable memory, at the return")?;
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_batch_may_leave_its_kinds_to_the_runtime(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 1000);
    let mut kept = Vec::new();
    let mut ranges = Vec::new();
    for from in Place::ALL {
        for to in Place::ALL {
            let source = Block::filled(context, from, &bytes)?;
            let target = Guarded::new(context, to, bytes.len())?;
            ranges.push(range(target.address(), source.address(), bytes.len()));
            kept.push((source, target, from, to));
        }
    }
    let call = batch(&ranges, MemcpyKind::Inferred);
    context.ok(context.x.memcpy_batch_async(0, call, stream), "memcpy_batch_async")?;
    context.wait(stream)?;
    for (_, target, from, to) in kept {
        target.expect(&bytes, &format!("from {from:?} to {to:?} memory"))?;
    }
    context.destroy(stream)
}

fn the_runtime_finds_the_kind_out(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 5001);
    for from in Place::ALL {
        for to in Place::ALL {
            let source = Block::filled(context, from, &bytes)?;
            let mut target = Guarded::at(context, to, bytes.len(), 1)?;
            let (dst, src) = (target.address(), source.address());
            let copy = Copy::new(dst, src, bytes.len(), MemcpyKind::Inferred);
            let what = format!("inferred from {from:?} to {to:?} memory");
            context.ok(context.x.memcpy_sync(0, copy), &what)?;
            target.expect(&bytes, &what)?;
            target.reset()?;
            context.enqueue_extended(0, copy, stream)?;
            context.wait(stream)?;
            target.expect(&bytes, &what)?;
        }
    }
    context.destroy(stream)
}

fn the_twelve_do_not_know_the_inferred_kind(context: &'static Context) -> Checked {
    let source = Block::filled(context, Place::Pinned, &[7; 64])?;
    let target = Guarded::new(context, Place::Device, 64)?;
    let (dst, src) = (target.address(), source.address());
    context.t.copy(dst, src, 64, MemcpyKind::Inferred);
    context.refused("memcpy_sync", Status::InvalidValue, "kind 4 in the twelve")?;
    context.t.enqueue(dst, src, 64, MemcpyKind::Inferred, Stream::DEFAULT);
    context.refused("memcpy_async", Status::InvalidValue, "kind 4 in the twelve")?;
    context.wait(Stream::DEFAULT)?;
    target.expect_untouched("after copies of kind 4 through the twelve")
}

fn an_inferred_copy_from_pageable_memory_has_read_it(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 70_000);
    let mut local = Block::filled(context, Place::Pageable, &bytes)?;
    let target = Guarded::new(context, Place::Device, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let (dst, src) = (target.address(), local.address());
    let copy = Copy::new(dst, src, bytes.len(), MemcpyKind::Inferred);
    context.enqueue_extended(0, copy, stream)?;
    local.write(0, &vec![0xff; bytes.len()])?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "an inferred copy from memory that changed after the call")?;
    context.destroy(stream)
}

fn a_kind_that_contradicts_is_refused_and_an_inferred_one_is_right(
    context: &'static Context,
) -> Checked {
    let bytes = context.bytes(1, 256);
    let source = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, 256)?;
    let (dst, src) = (target.address(), source.address());
    let copy = Copy::new(dst, src, 256, MemcpyKind::H2D);
    let answer = context.x.memcpy_sync(0, copy);
    context.answered(answer, "memcpy_sync", Status::InvalidValue, "a D2H copy as H2D")?;
    target.expect_untouched("after a copy that was refused")?;
    let copy = Copy::new(dst, src, 256, MemcpyKind::Inferred);
    context.ok(context.x.memcpy_sync(0, copy), "memcpy_sync, inferred")?;
    target.expect(&bytes, "the same pointers, inferred")
}
