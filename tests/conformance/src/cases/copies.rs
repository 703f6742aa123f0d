//! Copies that are complete when they return (C1, C2, C4).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Copies;
    "C1" every_kind_copies_between_every_pair_of_places [];
    "C1" a_kind_that_is_none_is_an_error_and_copies_nothing [];
    "C1" a_kind_that_contradicts_the_pointers_is_an_error [OwnMemory];
    "C1" every_direction_is_right_where_memory_is_the_hosts [HostMemory];
    "C1" host_to_host_works_on_every_table [];
    "C4" any_offset_and_any_size_copies_exactly_the_range [];
    "C4" random_ranges_agree_with_a_model [];
    "C4" source_and_destination_the_same_is_nothing [];
    "C4" overlapping_ranges_are_an_error_and_copy_nothing [];
    "C4" ranges_that_touch_do_not_overlap [];
    "C4" a_null_end_is_an_error [];
    "C4" a_copy_past_the_end_of_a_block_is_an_error [];
    "C2" a_synchronous_copy_follows_earlier_work_on_a_stream [Gates];
    "C2" a_synchronous_copy_follows_earlier_work_on_the_default_stream [Gates];
    "C2" a_synchronous_copy_is_there_for_every_stream_and_its_source_is_free [];
    "C2" a_synchronous_copy_does_not_return_before_it_is_done [];
}

fn every_kind_copies_between_every_pair_of_places(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for from in Place::ALL {
        for to in Place::ALL {
            for size in [1, 64, 1000, 65_536, (1 << 20) + 1] {
                let what = format!("{size} bytes from {from:?} to {to:?}");
                let bytes = context.bytes(size as u64, size);
                let source = Block::filled(context, from, &bytes)?;
                let mut target = Guarded::new(context, to, size)?;
                let kind = Place::kind(from, to);
                context.copy(target.address(), source.address(), size, kind)?;
                target.expect(&bytes, &format!("memcpy_sync, {what}"))?;
                target.reset()?;
                for on in [stream, Stream::DEFAULT] {
                    context.enqueue(target.address(), source.address(), size, kind, on)?;
                    context.wait(on)?;
                    target.expect(&bytes, &format!("memcpy_async, {what}"))?;
                    target.reset()?;
                }
                ensure!(source.content()? == bytes, "{what}: the source changed");
            }
        }
    }
    context.destroy(stream)
}

fn a_kind_that_is_none_is_an_error_and_copies_nothing(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let source = Block::filled(context, Place::Pinned, &[9; 64])?;
    for place in Place::ALL {
        let target = Guarded::new(context, place, 64)?;
        for kind in [4, 5, 42, 0x7fff_ffff, 0x8000_0000, u32::MAX, 256, 0x0100_0001] {
            let what = format!("kind {kind:#x} into {place:?} memory");
            context.t.memcpy_sync(target.address(), source.address(), 64, kind);
            context.refused("memcpy_sync", Status::InvalidValue, &what)?;
            for on in [stream, Stream::DEFAULT] {
                context.t.memcpy_async(target.address(), source.address(), 64, kind, on);
                context.refused("memcpy_async", Status::InvalidValue, &what)?;
            }
        }
        context.wait(stream)?;
        target.expect_untouched(&format!("{place:?} memory after kinds that are none"))?;
    }
    context.destroy(stream)
}

fn a_kind_that_contradicts_the_pointers_is_an_error(context: &'static Context) -> Checked {
    for from in Place::ALL {
        for to in Place::ALL {
            let source = Block::filled(context, from, &[9; 64])?;
            let target = Guarded::new(context, to, 64)?;
            for kind in MemcpyKind::ALL {
                // Host memory that nobody pinned may be anything to a driver that manages memory;
                // what this runtime knows of it is that it is not device memory.
                if kind == Place::kind(from, to) {
                    continue;
                }
                let what = format!("{kind:?} from {from:?} to {to:?}");
                context.t.copy(target.address(), source.address(), 64, kind);
                context.refused("memcpy_sync", Status::InvalidValue, &what)?;
                context.t.enqueue(target.address(), source.address(), 64, kind, Stream::DEFAULT);
                context.refused("memcpy_async", Status::InvalidValue, &what)?;
            }
            context.wait(Stream::DEFAULT)?;
            target.expect_untouched(&format!("{from:?} to {to:?} with the wrong kinds"))?;
        }
    }
    Ok(())
}

fn every_direction_is_right_where_memory_is_the_hosts(context: &'static Context) -> Checked {
    for from in Place::ALL {
        for to in Place::ALL {
            for kind in MemcpyKind::ALL {
                let bytes = context.bytes(kind as u64, 333);
                let source = Block::filled(context, from, &bytes)?;
                let mut target = Guarded::new(context, to, bytes.len())?;
                let what = format!("{kind:?} from {from:?} to {to:?}");
                context.copy(target.address(), source.address(), bytes.len(), kind)?;
                target.expect(&bytes, &format!("memcpy_sync, {what}"))?;
                target.reset()?;
                let (dst, src) = (target.address(), source.address());
                context.enqueue(dst, src, bytes.len(), kind, Stream::DEFAULT)?;
                context.wait(Stream::DEFAULT)?;
                target.expect(&bytes, &format!("memcpy_async, {what}"))?;
            }
        }
    }
    // And the host reads and writes it directly.
    let block = Block::filled(context, Place::Device, &context.bytes(1, 4096))?;
    ensure!(crate::data::is_readable(block.address()), "device memory is not readable");
    Ok(())
}

fn host_to_host_works_on_every_table(context: &'static Context) -> Checked {
    for size in [1, 4096, 5 << 20] {
        let bytes = context.bytes(size as u64, size);
        let source = Block::filled(context, Place::Pageable, &bytes)?;
        let mut target = Guarded::new(context, Place::Pageable, size)?;
        context.copy(target.address(), source.address(), size, MemcpyKind::H2H)?;
        target.expect(&bytes, "memcpy_sync H2H")?;
        target.reset()?;
        let stream = context.stream()?;
        context.enqueue(target.address(), source.address(), size, MemcpyKind::H2H, stream)?;
        // Into pageable memory: there when the call returns (C3).
        target.expect(&bytes, "memcpy_async H2H into pageable memory, when it returned")?;
        context.destroy(stream)?;
    }
    Ok(())
}

fn any_offset_and_any_size_copies_exactly_the_range(context: &'static Context) -> Checked {
    let sizes: Vec<usize> = if context.setup.quick {
        vec![1, 2, 7, 8, 63, 65, 4097]
    } else {
        (1..=65).chain([127, 128, 129, 255, 256, 257, 4095, 4096, 4097, 65_535, 65_537]).collect()
    };
    let stream = context.stream()?;
    let pairs = [
        (Place::Pageable, Place::Device),
        (Place::Device, Place::Pageable),
        (Place::Device, Place::Device),
        (Place::Pinned, Place::Device),
        (Place::Device, Place::Pinned),
        (Place::Pageable, Place::Pageable),
    ];
    let most = 70_000;
    let bytes = context.bytes(1, most);
    for (from, to) in pairs {
        let source = Block::filled(context, from, &bytes)?;
        for shift in [0, 1, 3, 7] {
            let mut target = Guarded::at(context, to, most, shift)?;
            for (index, size) in sizes.iter().copied().enumerate() {
                let offset = [0, 1, 3, 7][index % 4];
                let what = format!("{size} bytes {from:?}+{offset} to {to:?}+{shift}");
                let (dst, src) = (target.address(), source.address().plus(offset));
                let kind = Place::kind(from, to);
                if index % 2 == 0 {
                    context.copy(dst, src, size, kind)?;
                } else {
                    context.enqueue(dst, src, size, kind, stream)?;
                    context.wait(stream)?;
                }
                target.expect(&bytes[offset..offset + size], &what)?;
                target.reset()?;
            }
        }
    }
    context.destroy(stream)
}

fn random_ranges_agree_with_a_model(context: &'static Context) -> Checked {
    let size = 9000;
    let mut rng = context.rng();
    let mut blocks = Vec::new();
    let mut models = Vec::new();
    for place in [Place::Device, Place::Device, Place::Pinned, Place::Pageable] {
        let bytes = rng.bytes(size);
        blocks.push(Block::filled(context, place, &bytes)?);
        models.push(bytes);
    }
    let stream = context.stream()?;
    for step in 0..context.times(3000) {
        let (a, b) = (rng.below(4), rng.below(4));
        let length = 1 + rng.below(if step % 3 == 0 { size / 3 } else { 100 });
        let (from, to) = (rng.below(size - length), rng.below(size - length));
        if a == b && from.abs_diff(to) < length {
            continue;
        }
        let kind = Place::kind(blocks[a].place(), blocks[b].place());
        let (src, dst) = (blocks[a].address().plus(from), blocks[b].address().plus(to));
        match rng.below(3) {
            0 => context.copy(dst, src, length, kind)?,
            which => {
                let on = if which == 1 { stream } else { Stream::DEFAULT };
                context.enqueue(dst, src, length, kind, on)?;
                // Pinned memory is read by the host below, and by copies of other streams.
                context.wait(on)?;
            }
        }
        let moved = models[a][from..from + length].to_vec();
        models[b][to..to + length].copy_from_slice(&moved);
    }
    for (index, (block, model)) in blocks.iter().zip(&models).enumerate() {
        let found = block.content()?;
        if let Some(difference) = crate::data::difference(&found, model) {
            fail!("block {index} ({:?}) after random copies: {difference}", block.place());
        }
    }
    context.destroy(stream)
}

fn source_and_destination_the_same_is_nothing(context: &'static Context) -> Checked {
    for place in Place::ALL {
        let bytes = context.bytes(1, 100);
        let block = Block::filled(context, place, &bytes)?;
        for kind in MemcpyKind::ALL {
            context.copy(block.address(), block.address(), 100, kind)?;
            context.enqueue(block.address(), block.address(), 100, kind, Stream::DEFAULT)?;
        }
        context.wait(Stream::DEFAULT)?;
        ensure!(block.content()? == bytes, "{place:?} memory changed");
    }
    Ok(())
}

fn overlapping_ranges_are_an_error_and_copy_nothing(context: &'static Context) -> Checked {
    for place in Place::ALL {
        let bytes = context.bytes(1, 4096);
        let block = Block::filled(context, place, &bytes)?;
        let at = block.address();
        let kind = Place::kind(place, place);
        for (dst, src, size) in
            [(1, 0, 2), (0, 1, 2), (1, 0, 4095), (0, 1, 4095), (100, 0, 101), (0, 1000, 1001)]
        {
            let what = format!("{size} bytes from +{src} to +{dst} in {place:?} memory");
            context.t.copy(at.plus(dst), at.plus(src), size, kind);
            context.refused("memcpy_sync", Status::InvalidValue, &what)?;
            context.t.enqueue(at.plus(dst), at.plus(src), size, kind, Stream::DEFAULT);
            context.refused("memcpy_async", Status::InvalidValue, &what)?;
        }
        context.wait(Stream::DEFAULT)?;
        ensure!(block.content()? == bytes, "{place:?} memory changed");
    }
    Ok(())
}

fn ranges_that_touch_do_not_overlap(context: &'static Context) -> Checked {
    for place in Place::ALL {
        let mut model = context.bytes(1, 2000);
        let block = Block::filled(context, place, &model)?;
        let kind = Place::kind(place, place);
        let at = block.address();
        context.copy(at.plus(1000), at, 1000, kind)?;
        model.copy_within(0..1000, 1000);
        context.copy(at, at.plus(1), 1, kind)?;
        model[0] = model[1];
        context.enqueue(at.plus(7), at, 7, kind, Stream::DEFAULT)?;
        context.wait(Stream::DEFAULT)?;
        model.copy_within(0..7, 7);
        ensure!(block.content()? == model, "{place:?} memory after copies of touching ranges");
    }
    Ok(())
}

fn a_null_end_is_an_error(context: &'static Context) -> Checked {
    for place in Place::ALL {
        let target = Guarded::new(context, place, 64)?;
        let at = target.address();
        for kind in MemcpyKind::ALL {
            for (dst, src) in [(Address::NULL, at), (at, Address::NULL)] {
                context.t.copy(dst, src, 64, kind);
                context.refused("memcpy_sync", Status::InvalidValue, "a NULL end")?;
                context.t.enqueue(dst, src, 64, kind, Stream::DEFAULT);
                context.refused("memcpy_async", Status::InvalidValue, "a NULL end")?;
            }
        }
        target.expect_untouched("memory after copies with a NULL end")?;
    }
    Ok(())
}

fn a_copy_past_the_end_of_a_block_is_an_error(context: &'static Context) -> Checked {
    for place in [Place::Device, Place::Pinned] {
        let bytes = context.bytes(1, 1000);
        let block = Block::filled(context, place, &bytes)?;
        let mut host = Guarded::new(context, Place::Pageable, 8192)?;
        for (offset, size) in [(0, 1001), (1, 1000), (999, 2), (500, 4096), (0, 8192)] {
            let what = format!("{size} bytes from +{offset} of 1000 bytes of {place:?} memory");
            let at = block.address().plus(offset);
            context.t.copy(host.address(), at, size, Place::kind(place, Place::Pageable));
            context.refused("memcpy_sync", Status::InvalidValue, &what)?;
            context.t.copy(at, host.address(), size, Place::kind(Place::Pageable, place));
            context.refused("memcpy_sync", Status::InvalidValue, &what)?;
        }
        host.expect_untouched("the host's side")?;
        ensure!(block.content()? == bytes, "{place:?} memory changed");
        host.reset()?;
    }
    Ok(())
}

/// A queued write to device memory, then a synchronous read of it.
fn follows(context: &'static Context, stream: Stream) -> Checked {
    let bytes = context.bytes(1, 70_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::filled(context, Place::Device, &vec![0; length])?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(middle.address(), source.address(), length, MemcpyKind::H2D, stream)?;
    let from = middle.address();
    let caller = Caller::start(move || {
        let mut found = vec![0u8; length];
        context.copy(Address::of_mut(&mut found), from, length, MemcpyKind::D2H)?;
        Ok(found)
    })?;
    caller.expect_waiting("memcpy_sync behind queued work")?;
    gate.open();
    ensure!(caller.join()? == bytes, "memcpy_sync read the memory before the queued copy wrote it");
    context.wait(stream)
}

fn a_synchronous_copy_follows_earlier_work_on_a_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    follows(context, stream)?;
    context.destroy(stream)
}

fn a_synchronous_copy_follows_earlier_work_on_the_default_stream(
    context: &'static Context,
) -> Checked {
    follows(context, Stream::DEFAULT)
}

fn a_synchronous_copy_is_there_for_every_stream_and_its_source_is_free(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    for place in [Place::Pageable, Place::Pinned] {
        for size in [16, 4096, 65_536, 3 << 20] {
            let bytes = context.bytes(size as u64, size);
            let mut source = Block::filled(context, place, &bytes)?;
            let middle = Block::device(context, size)?;
            let target = Guarded::new(context, Place::Pinned, size)?;
            context.copy(middle.address(), source.address(), size, MemcpyKind::H2D)?;
            source.write(0, &vec![0xee; size])?;
            context.enqueue(target.address(), middle.address(), size, MemcpyKind::D2H, stream)?;
            context.wait(stream)?;
            target.expect(&bytes, &format!("{size} bytes from {place:?} memory"))?;
        }
    }
    context.destroy(stream)
}

fn a_synchronous_copy_does_not_return_before_it_is_done(context: &'static Context) -> Checked {
    let size = context.times(64) << 20;
    for round in 0..4u64 {
        let bytes = context.bytes(round, size);
        let source = Block::filled(context, Place::Device, &bytes)?;
        for place in [Place::Pinned, Place::Pageable] {
            let target = Block::new(context, place, size)?;
            context.copy(target.address(), source.address(), size, MemcpyKind::D2H)?;
            // The last bytes first: those that a copy in the background writes last.
            let end = target.read(size - 4096, 4096)?;
            ensure!(end == bytes[size - 4096..], "{place:?}: the end had not arrived");
            ensure!(target.content()? == bytes, "{place:?}: not all had arrived");
        }
    }
    Ok(())
}
