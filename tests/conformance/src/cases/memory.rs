//! Allocation (M1–M3, M6).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Memory;
    "M1" zero_bytes_are_null_without_an_error [];
    "M1" freeing_null_is_nothing [];
    "M1" copies_of_zero_bytes_are_nothing_whatever_the_pointers [];
    "M2" every_size_is_aligned [];
    "M2" blocks_never_overlap [];
    "M2" a_block_holds_all_the_bytes_that_were_asked_for [];
    "M3" sizes_near_two_to_the_64_do_not_wrap [];
    "M6" pinned_memory_is_ordinary_memory_of_the_host [];
    "M6" pinned_memory_of_one_backend_serves_another [];
    "M2" a_million_small_allocations [];
}

fn zero_bytes_are_null_without_an_error(context: &'static Context) -> Checked {
    for round in 0..3 {
        for (what, pointer) in [
            ("malloc_device(0)", context.t.malloc_device(0)),
            ("malloc_host(0)", context.t.malloc_host(0)),
        ] {
            ensure_eq!(pointer, Address::NULL, "{what}, time {round}");
            context.clean(what)?;
        }
        for device in 0..context.count {
            ensure_eq!(context.x.malloc_device(device, 0), Ok(Address::NULL), "versioned table");
            ensure_eq!(context.x.malloc_host(device, 0), Ok(Address::NULL), "versioned table");
        }
    }
    Ok(())
}

fn freeing_null_is_nothing(context: &'static Context) -> Checked {
    for _ in 0..3 {
        context.t.free_device(Address::NULL);
        context.t.free_host(Address::NULL);
        context.clean("freeing NULL")?;
        ensure_eq!(context.x.free_device(0, Address::NULL), Ok(()), "versioned table");
        ensure_eq!(context.x.free_host(0, Address::NULL), Ok(()), "versioned table");
    }
    Ok(())
}

fn copies_of_zero_bytes_are_nothing_whatever_the_pointers(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let device = Block::device(context, 16)?;
    let words = [Address::NULL, Address::GARBAGE, Address(usize::MAX), device.address()];
    for dst in words {
        for src in words {
            for kind in MemcpyKind::ALL {
                context.copy(dst, src, 0, kind)?;
                context.enqueue(dst, src, 0, kind, stream)?;
                context.enqueue(dst, src, 0, kind, Stream::DEFAULT)?;
            }
        }
    }
    context.wait(stream)?;
    context.destroy(stream)
}

fn every_size_is_aligned(context: &'static Context) -> Checked {
    for (place, alignment) in [(Place::Device, 256), (Place::Pinned, 64)] {
        // Twice: the second time what was freed comes back.
        for round in 0..2 {
            let mut blocks = Vec::new();
            let most = if context.setup.quick { 65 } else { 1025 };
            for size in (1..=most).chain([4095, 4097, 65_537, (1 << 20) + 1, (3 << 20) + 5]) {
                let block = Block::new(context, place, size)?;
                let over = block.address().0 % alignment;
                ensure!(
                    over == 0,
                    "{place:?} memory of {size} bytes, round {round}: expected a multiple of \
                     {alignment}, found {:?}",
                    block.address()
                );
                blocks.push(block);
            }
        }
    }
    Ok(())
}

fn blocks_never_overlap(context: &'static Context) -> Checked {
    let mut rng = context.rng();
    let mut live: Vec<(Block, Vec<u8>)> = Vec::new();
    for step in 0..context.times(2000) {
        if live.len() > 60 || (live.len() > 20 && rng.below(2) == 0) {
            let (block, bytes) = live.swap_remove(rng.below(live.len()));
            ensure!(block.content()? == bytes, "step {step}: a block's content changed");
            block.free()?;
            continue;
        }
        let place = if rng.below(3) == 0 { Place::Pinned } else { Place::Device };
        let size = match rng.below(10) {
            0 => 1 + rng.below(300_000),
            1..=4 => 1 + rng.below(8192),
            _ => 1 + rng.below(600),
        };
        let bytes = rng.bytes(size);
        let block = Block::filled(context, place, &bytes)?;
        let (start, end) = (block.address().0, block.address().0 + size);
        for (other, _) in &live {
            let (from, to) = (other.address().0, other.address().0 + other.size());
            ensure!(
                end <= from || to <= start,
                "step {step}: {start:#x}..{end:#x} overlaps {from:#x}..{to:#x}, which is in use"
            );
        }
        live.push((block, bytes));
    }
    for (block, bytes) in live {
        ensure!(block.content()? == bytes, "at the end: a block's content changed");
    }
    Ok(())
}

fn a_block_holds_all_the_bytes_that_were_asked_for(context: &'static Context) -> Checked {
    for place in [Place::Device, Place::Pinned] {
        for size in [1, 2, 255, 256, 257, 4095, 4096, 4097, 1 << 20, (8 << 20) + 3] {
            let bytes = context.bytes(size as u64, size);
            let block = Block::filled(context, place, &bytes)?;
            ensure!(block.content()? == bytes, "{place:?} memory of {size} bytes");
        }
    }
    Ok(())
}

fn sizes_near_two_to_the_64_do_not_wrap(context: &'static Context) -> Checked {
    let right = [Status::OutOfMemory, Status::InvalidValue];
    let before = Block::device(context, 4096)?;
    for back in [0usize, 1, 7, 15, 63, 127, 255, 256, 511, 4095, 4096, 65_535, (2 << 20) - 1] {
        let size = usize::MAX - back;
        ensure!(context.t.malloc_device(size).is_null(), "malloc_device({size}) is not NULL");
        context.refused_as("malloc_device", &right, &format!("{size} bytes"))?;
        ensure!(context.t.malloc_host(size).is_null(), "malloc_host({size}) is not NULL");
        context.refused_as("malloc_host", &right, &format!("{size} bytes"))?;
    }
    for size in [1usize << 63, (1 << 63) - 1, (1 << 63) + 1, isize::MAX as usize - 4096] {
        ensure!(context.t.malloc_device(size).is_null(), "malloc_device({size}) is not NULL");
        context.refused_as("malloc_device", &right, &format!("{size} bytes"))?;
        let mut to = [5u8; 8];
        context.t.copy(Address::of_mut(&mut to), before.address(), size, MemcpyKind::D2H);
        context.refused("memcpy_sync", Status::InvalidValue, &format!("{size} bytes"))?;
        ensure_eq!(to, [5u8; 8], "the destination of a copy of {size} bytes");
    }
    before.free()
}

fn pinned_memory_is_ordinary_memory_of_the_host(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 100_000);
    let mut block = Block::pinned(context, bytes.len())?;
    block.write(0, &bytes)?;
    ensure!(block.content()? == bytes, "pinned memory does not hold what the host writes");
    // The system may fill it too.
    let mut pipe = [0; 2];
    // SAFETY: the array is ours.
    ensure!(unsafe { libc::pipe(pipe.as_mut_ptr()) } == 0, "no pipe is to be had");
    let text = b"through the kernel";
    // SAFETY: the text is ours; the block is alive and large enough.
    let (written, read) = unsafe {
        let written = libc::write(pipe[1], text.as_ptr().cast(), text.len());
        (written, libc::read(pipe[0], block.address().pointer(), text.len()))
    };
    // SAFETY: both are ours.
    unsafe {
        libc::close(pipe[0]);
        libc::close(pipe[1]);
    }
    ensure_eq!((written, read), (text.len() as isize, text.len() as isize), "the pipe");
    ensure!(block.read(0, text.len())? == text, "the kernel could not fill pinned memory");
    block.free()
}

fn pinned_memory_of_one_backend_serves_another(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 50_000);
    for number in [0, 1] {
        let other = context.library.twelve(number).map_err(crate::outcome::Stop::fail)?;
        if number == context.device_type || other.get_device_count() == 0 {
            continue;
        }
        let foreign = other.malloc_host(bytes.len());
        context.clean("malloc_host of another backend")?;
        let device = Block::device(context, bytes.len())?;
        let mut source = Block::new(context, Place::Pageable, bytes.len())?;
        source.write(0, &bytes)?;
        other.copy(foreign, source.address(), bytes.len(), MemcpyKind::H2H);
        let stream = context.stream()?;
        context.enqueue(device.address(), foreign, bytes.len(), MemcpyKind::H2D, stream)?;
        context.wait(stream)?;
        ensure!(device.content()? == bytes, "from pinned memory of type {number}");
        context.copy(foreign, device.address(), bytes.len(), MemcpyKind::D2H)?;
        context.t.free_host(foreign);
        context.refused("free_host", Status::InvalidValue, "another backend's memory")?;
        other.free_host(foreign);
        context.clean("free_host of the right backend")?;
        context.destroy(stream)?;
    }
    // With one backend, its own pinned memory through H2H is all there is to show.
    let own = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Block::pinned(context, bytes.len())?;
    context.copy(target.address(), own.address(), bytes.len(), MemcpyKind::H2H)?;
    ensure!(target.content()? == bytes, "from pinned to pinned memory");
    Ok(())
}

fn a_million_small_allocations(context: &'static Context) -> Checked {
    let before = crate::data::resident_bytes();
    let mut rng = context.rng();
    let rounds = context.times(1_000_000);
    for round in 1..=rounds {
        let pointer = context.t.malloc_device(1 + rng.below(2048));
        ensure!(!pointer.is_null(), "malloc_device found NULL");
        context.t.free_device(pointer);
        // Looked at on the way as well, so that a leak is known before the memory is gone.
        if round % 50_000 == 0 || round == rounds {
            let grown = crate::data::resident_bytes().saturating_sub(before);
            ensure!(grown < 256 << 20, "{round} small blocks, all freed, keep {grown} bytes");
        }
    }
    context.clean("a million allocations and frees")
}
