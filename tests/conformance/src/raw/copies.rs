//! Copies and fills of the plugin alone (C2, C3, C4, S1).

use super::Plugin;
use super::block::{Block, enqueue};
use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::extended::Copy;
use crate::extended::memory::Batch;
use crate::gate::Gate;
use crate::outcome::Checked;
use crate::place::Place;
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopy3D, LlaisysCopyRange, MemcpyKind, Stream};

raw_cases! { Area::RawWork;
    "C4" a_copy_copies_exactly_its_range_between_every_two_places [];
    "C4" an_enqueued_copy_copies_exactly_its_range [];
    "C2" a_synchronous_copy_waits_for_what_was_enqueued [HOST_FUNCTIONS];
    "C3" a_pageable_source_has_been_read_when_the_call_returns [HOST_FUNCTIONS];
    "C3" a_pinned_target_is_written_in_its_turn_and_not_before [HOST_FUNCTIONS];
    "C4" a_fill_writes_exactly_its_range_with_every_pattern [FILL];
    "C4" a_pitched_copy_leaves_what_is_between_its_rows [PITCHED_COPIES];
    "C4" a_batch_copies_every_range_and_reads_the_stride [BATCHED_COPIES];
}

fn ready(plugin: &Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices().map(drop)
}

const SIZES: [usize; 7] = [1, 2, 3, 63, 257, 4096, 70_001];

fn exactly(
    plugin: &'static Plugin,
    copy: impl Fn((Address, Place), (Address, Place), usize) -> Checked,
) -> Checked {
    ready(plugin)?;
    for from in [Place::Device, Place::Pinned] {
        for to in [Place::Device, Place::Pinned] {
            for size in SIZES {
                for shift in [0, 1, 7] {
                    let bytes = plugin.bytes(size as u64, size + shift);
                    let source = Block::filled(plugin, from, &bytes)?;
                    let target = Block::guarded(plugin, to, size + shift)?;
                    let (dst, src) = (target.inside().plus(shift), source.address().plus(shift));
                    copy((dst, to), (src, from), size)?;
                    let what = format!("{size} bytes from {from:?} to {to:?}, {shift} bytes in");
                    target.expect_at(shift, &bytes[shift..], &what)?;
                }
            }
        }
    }
    Ok(())
}

fn a_copy_copies_exactly_its_range_between_every_two_places(plugin: &'static Plugin) -> Checked {
    exactly(plugin, |(dst, to), (src, from), size| {
        let copy = Copy::new(dst, src, size, Place::kind(from, to));
        plugin.ok(plugin.x.memcpy_sync(0, copy), "memcpy_sync")
    })
}

fn an_enqueued_copy_copies_exactly_its_range(plugin: &'static Plugin) -> Checked {
    let stream = plugin.stream()?;
    exactly(plugin, |to, from, size| {
        enqueue(plugin, to, from, size, stream)?;
        plugin.wait(stream)
    })?;
    plugin.destroy(stream)
}

fn a_synchronous_copy_waits_for_what_was_enqueued(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for on in [stream, Stream::DEFAULT] {
        let bytes = plugin.bytes(1, 60_000);
        let size = bytes.len();
        let source = Block::filled(plugin, Place::Pinned, &bytes)?;
        let middle = Block::filled(plugin, Place::Device, &vec![0; size])?;
        let gate = Gate::hold_in(&plugin.x, 0, on)?;
        let (to, from) = ((middle.address(), Place::Device), (source.address(), Place::Pinned));
        enqueue(plugin, to, from, size, on)?;
        let from = middle.address();
        let caller = Caller::start(move || {
            let mut found = vec![0u8; size];
            let copy = Copy::new(Address::of_mut(&mut found), from, size, MemcpyKind::D2H);
            let copy = copy.with(CopyFlags::DESTINATION_PAGEABLE);
            plugin.ok(plugin.x.memcpy_sync(0, copy), "memcpy_sync")?;
            Ok(found)
        })?;
        caller.expect_waiting("memcpy_sync behind queued work")?;
        gate.open();
        ensure!(caller.join()? == bytes, "memcpy_sync read before the queued copy wrote");
        plugin.wait(on)?;
    }
    plugin.destroy(stream)
}

fn a_pageable_source_has_been_read_when_the_call_returns(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for size in [1, 4096, 65_537, 3 << 20] {
        let bytes = plugin.bytes(size as u64, size);
        let target = Block::guarded(plugin, Place::Device, size)?;
        let gate = Gate::hold_in(&plugin.x, 0, stream)?;
        let mut local = bytes.clone();
        let from = (Address::of(&local), Place::Pageable);
        enqueue(plugin, (target.inside(), Place::Device), from, size, stream)?;
        local.fill(0xee);
        drop(local);
        gate.open();
        plugin.wait(stream)?;
        target.expect(&bytes, &format!("{size} bytes from a vector that is gone"))?;
    }
    plugin.destroy(stream)
}

fn a_pinned_target_is_written_in_its_turn_and_not_before(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let bytes = plugin.bytes(1, 50_000);
    let source = Block::filled(plugin, Place::Device, &bytes)?;
    let target = Block::guarded(plugin, Place::Pinned, bytes.len())?;
    let gate = Gate::hold_in(&plugin.x, 0, stream)?;
    let (to, from) = ((target.inside(), Place::Pinned), (source.address(), Place::Device));
    enqueue(plugin, to, from, bytes.len(), stream)?;
    target.expect(&[], "behind a closed gate")?;
    gate.open();
    plugin.wait(stream)?;
    target.expect(&bytes, "once the gate is open")?;
    plugin.destroy(stream)
}

fn a_fill_writes_exactly_its_range_with_every_pattern(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for unit in [1usize, 2, 4, 8, 16] {
        for count in [1usize, 3, 257] {
            let size = unit * count;
            let mut pattern = plugin.bytes(unit as u64, unit);
            let target = Block::guarded(plugin, Place::Device, size)?;
            let expected = pattern.repeat(count);
            let fill = plugin.x.memset_async(0, target.inside(), &pattern, size as u64, stream);
            plugin.ok(fill, "memset_async")?;
            // It was read when the call returned.
            pattern.fill(0);
            plugin.wait(stream)?;
            target.expect(&expected, &format!("{count} times a pattern of {unit} bytes"))?;
        }
    }
    plugin.destroy(stream)
}

fn a_pitched_copy_leaves_what_is_between_its_rows(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let (width, height, depth) = (13usize, 5usize, 3usize);
    let (src_pitch, src_slice, dst_pitch, dst_slice) = (17usize, 6usize, 29usize, 7usize);
    let bytes = plugin.bytes(1, src_pitch * src_slice * depth);
    let extent = dst_pitch * dst_slice * depth;
    let source = Block::filled(plugin, Place::Device, &bytes)?;
    let target = Block::guarded(plugin, Place::Device, extent)?;
    let untouched = target.content()?;
    let begin = target.inside().0 - target.address().0;
    let copy = LlaisysCopy3D {
        struct_size: size_of::<LlaisysCopy3D>() as u32,
        kind: MemcpyKind::D2D as u32,
        dst: target.inside().pointer(),
        dst_pitch: dst_pitch as u64,
        dst_slice_height: dst_slice as u64,
        src: source.address().pointer(),
        src_pitch: src_pitch as u64,
        src_slice_height: src_slice as u64,
        width: width as u64,
        height: height as u64,
        depth: depth as u64,
    };
    plugin.ok(plugin.x.memcpy_3d_async(0, &copy, stream), "memcpy_3d_async")?;
    plugin.wait(stream)?;
    let mut right = untouched[begin..begin + extent].to_vec();
    for slice in 0..depth {
        for row in 0..height {
            let from = (slice * src_slice + row) * src_pitch;
            let to = (slice * dst_slice + row) * dst_pitch;
            right[to..to + width].copy_from_slice(&bytes[from..from + width]);
        }
    }
    target.expect(&right, "three slices of five rows")?;
    plugin.destroy(stream)
}

fn a_batch_copies_every_range_and_reads_the_stride(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let bytes = plugin.bytes(1, 6000);
    let source = Block::filled(plugin, Place::Device, &bytes)?;
    let kind = MemcpyKind::D2D as u32;
    let range = |target: &Block, at: usize, size: usize| LlaisysCopyRange {
        dst: target.inside().plus(at).pointer(),
        src: source.address().plus(at).pointer(),
        size: size as u64,
    };
    let target = Block::guarded(plugin, Place::Device, bytes.len())?;
    let parts = [(0, 1), (1, 999), (1000, 4000), (5000, 1000)];
    let ranges: Vec<LlaisysCopyRange> =
        parts.iter().map(|(at, size)| range(&target, *at, *size)).collect();
    let batch = Batch { ranges: &ranges, kind, flags: CopyFlags::NONE };
    plugin.ok(plugin.x.memcpy_batch_async(0, batch, stream), "memcpy_batch_async")?;
    plugin.wait(stream)?;
    target.expect(&bytes, "four ranges that make the whole")?;
    // A newer host's ranges are longer: the stride says where the next one is.
    let target = Block::guarded(plugin, Place::Device, bytes.len())?;
    let wide: Vec<[LlaisysCopyRange; 2]> =
        parts.iter().map(|(at, size)| [range(&target, *at, *size), range(&target, 0, 1)]).collect();
    let x = plugin.x.raw;
    let stride = size_of::<[LlaisysCopyRange; 2]>() as u64;
    // SAFETY: the table's own `self`; as many ranges as are said, so far apart, all inside live blocks.
    let code = unsafe {
        let (from, count) = (wide.as_ptr().cast(), wide.len() as u64);
        (x.memcpy_batch_async)(x.self_, 0, from, count, stride, kind, stream, CopyFlags::NONE)
    };
    plugin.ok(crate::code::Code(code).result(), "memcpy_batch_async with a stride")?;
    plugin.wait(stream)?;
    target.expect(&bytes, "four ranges, each followed by what only a newer host knows")?;
    plugin.destroy(stream)
}
