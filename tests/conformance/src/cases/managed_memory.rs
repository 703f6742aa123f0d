//! Managed memory: one address for the host and every device.

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{LOCATION_HOST, MEMORY_MANAGED, MemcpyKind, Stream};

cases! { Area::Memory;
    "D3" the_host_and_every_device_see_managed_memory [ManagedMemory];
    "M2" managed_memory_is_aligned_and_zero_bytes_are_null [ManagedMemory];
    "M5" managed_memory_wants_its_own_free [ManagedMemory];
    "D3" prefetched_memory_keeps_its_content [ManagedMemory];
    "S1" a_prefetch_keeps_its_place_in_the_stream [ManagedMemory, Gates];
    "M5" what_is_not_managed_is_neither_moved_nor_advised_about [ManagedMemory];
    "D3" every_advice_is_taken_and_no_other [ManagedMemory];
    "E4" after_out_of_memory_managed_memory_is_still_to_be_had [ManagedMemory];
    "C1" copies_and_fills_take_managed_memory [ManagedMemory];
}

fn managed(context: &Context, device: i32, size: usize) -> Checked<Address> {
    let block = context.ok(context.x.malloc_managed(device, size as u64), "malloc_managed")?;
    ensure!(!block.is_null(), "malloc_managed({size}): found NULL and no failure");
    Ok(block)
}

fn free(context: &Context, block: Address) -> Checked {
    context.ok(context.x.free_managed(block), "free_managed")
}

/// The bytes of managed memory as the host sees them.
fn seen(block: Address, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    // SAFETY: the cases pass live managed memory of at least that length, with no work pending on it.
    unsafe { libc::memcpy(bytes.as_mut_ptr().cast(), block.pointer(), length) };
    bytes
}

fn store(block: Address, bytes: &[u8]) {
    // SAFETY: as for `seen`.
    unsafe { libc::memcpy(block.pointer(), bytes.as_ptr().cast(), bytes.len()) };
}

fn the_host_and_every_device_see_managed_memory(context: &'static Context) -> Checked {
    for home in 0..context.count {
        let bytes = context.bytes(home as u64, 70_000);
        let length = bytes.len();
        let block = managed(context, home, length)?;
        store(block, &bytes);
        for device in 0..context.count {
            context.set_device(device)?;
            let own = Block::device(context, length)?;
            context.copy(own.address(), block, length, MemcpyKind::D2D)?;
            ensure!(own.content()? == bytes, "device {device} did not see what the host wrote");
            let other = context.bytes(100 + device as u64, length);
            let fresh = Block::filled(context, Place::Device, &other)?;
            context.copy(block, fresh.address(), length, MemcpyKind::D2D)?;
            ensure!(
                seen(block, length) == other,
                "the host did not see what device {device} wrote"
            );
            store(block, &bytes);
        }
        free(context, block)?;
    }
    Ok(())
}

fn managed_memory_is_aligned_and_zero_bytes_are_null(context: &'static Context) -> Checked {
    let nothing = context.ok(context.x.malloc_managed(0, 0), "malloc_managed(0)")?;
    ensure!(nothing.is_null(), "malloc_managed(0): expected NULL, found {nothing:?}");
    free(context, Address::NULL)?;
    for size in [1, 255, 4097, 1 << 20] {
        let block = managed(context, 0, size)?;
        ensure!(block.0 % 256 == 0, "{size} bytes at {block:?} are not aligned to 256");
        let found =
            context.ok(context.x.get_pointer_attributes(block.plus(size - 1)), "attributes")?;
        ensure_eq!(found.kind, MEMORY_MANAGED, "the kind of managed memory");
        ensure_eq!((found.base, found.size), (block.0 as u64, size as u64), "base and size");
        free(context, block)?;
    }
    Ok(())
}

fn managed_memory_wants_its_own_free(context: &'static Context) -> Checked {
    let x = &context.x;
    let block = managed(context, 0, 4096)?;
    let status = Status::InvalidValue;
    context.answered(x.free_device(0, block), "free_device", status, "managed memory")?;
    context.answered(x.free_host(0, block), "free_host", status, "managed memory")?;
    let answer = x.free_async(0, block, Stream::DEFAULT);
    context.answered(answer, "free_async", status, "managed memory")?;
    let interior = x.free_managed(block.plus(64));
    context.answered(interior, "free_managed", status, "an interior pointer")?;
    let device = Block::device(context, 64)?;
    context.answered(x.free_managed(device.address()), "free_managed", status, "device memory")?;
    free(context, block)?;
    context.answered(x.free_managed(block), "free_managed", status, "freed twice").map(drop)
}

fn prefetched_memory_keeps_its_content(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 200_000);
    let block = managed(context, 0, bytes.len())?;
    store(block, &bytes);
    for location in (0..context.count).chain([LOCATION_HOST, 0]) {
        let answer =
            context.x.prefetch_managed(block, bytes.len() as u64, location, Stream::DEFAULT);
        context.ok(answer, &format!("prefetch_managed to {location}"))?;
        context.wait(Stream::DEFAULT)?;
        ensure!(seen(block, bytes.len()) == bytes, "another content after the move to {location}");
    }
    // A part is fine, and nothing is nothing.
    context.ok(context.x.prefetch_managed(block.plus(4096), 8192, 0, Stream::DEFAULT), "a part")?;
    context.ok(context.x.prefetch_managed(Address::GARBAGE, 0, 0, Stream::DEFAULT), "0 bytes")?;
    context.wait(Stream::DEFAULT)?;
    free(context, block)
}

fn a_prefetch_keeps_its_place_in_the_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 50_000);
    let length = bytes.len();
    let block = managed(context, 0, length)?;
    store(block, &vec![0; length]);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(block, source.address(), length, MemcpyKind::H2D, stream)?;
    let answer = context.x.prefetch_managed(block, length as u64, 0, stream);
    context.ok(answer, "prefetch_managed")?;
    context.enqueue(target.address(), block, length, MemcpyKind::D2H, stream)?;
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "through managed memory that was moved between two copies")?;
    free(context, block)?;
    context.destroy(stream)
}

fn what_is_not_managed_is_neither_moved_nor_advised_about(context: &'static Context) -> Checked {
    let x = &context.x;
    let device = Block::device(context, 4096)?;
    let block = managed(context, 0, 4096)?;
    let status = Status::InvalidValue;
    for (at, size, what) in [
        (device.address(), 64, "device memory"),
        (Address::GARBAGE, 64, "garbage"),
        (block, 4097, "a byte too many"),
        (block.plus(4000), 97, "past the end"),
        (block, u64::MAX, "a range that wraps"),
    ] {
        let answer = x.prefetch_managed(at, size, 0, Stream::DEFAULT);
        context.answered(answer, "prefetch_managed", status, what)?;
        context.answered(x.advise_managed(at, size, 1, 0), "advise_managed", status, what)?;
    }
    for location in [context.count, -2, i32::MAX] {
        let answer = x.prefetch_managed(block, 64, location, Stream::DEFAULT);
        let what = format!("location {location}");
        context.answered(answer, "prefetch_managed", Status::InvalidDevice, &what)?;
        let answer = x.advise_managed(block, 64, 3, location);
        context.answered(answer, "advise_managed", Status::InvalidDevice, &what)?;
    }
    free(context, block)
}

fn every_advice_is_taken_and_no_other(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 8192);
    let block = managed(context, 0, bytes.len())?;
    store(block, &bytes);
    for advice in 1..=6 {
        for location in [0, LOCATION_HOST] {
            let answer = context.x.advise_managed(block, 8192, advice, location);
            context.ok(answer, &format!("advice {advice} for {location}"))?;
        }
    }
    for advice in [0, 7, u32::MAX] {
        let answer = context.x.advise_managed(block, 8192, advice, 0);
        let what = format!("advice {advice}");
        context.answered(answer, "advise_managed", Status::InvalidValue, &what)?;
    }
    ensure!(seen(block, bytes.len()) == bytes, "advice changed the content");
    free(context, block)
}

fn after_out_of_memory_managed_memory_is_still_to_be_had(context: &'static Context) -> Checked {
    for size in [1u64 << 62, u64::MAX] {
        let answer = context.x.malloc_managed(0, size);
        context.answered(
            answer,
            "malloc_managed",
            Status::OutOfMemory,
            &format!("{size} bytes"),
        )?;
        free(context, managed(context, 0, 1 << 20)?)?;
    }
    Ok(())
}

fn copies_and_fills_take_managed_memory(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 4096);
    let block = managed(context, 0, 4096)?;
    let source = Block::filled(context, Place::Pageable, &bytes)?;
    context.copy(block, source.address(), 4096, MemcpyKind::H2D)?;
    ensure!(seen(block, 4096) == bytes, "a copy into managed memory");
    let target = Guarded::new(context, Place::Pageable, 4096)?;
    context.copy(target.address(), block, 4096, MemcpyKind::D2H)?;
    target.expect(&bytes, "a copy from managed memory")?;
    context.ok(context.x.memset_sync(0, block, &[1, 2, 3, 4], 4096), "memset_sync")?;
    ensure!(seen(block, 4096) == [1, 2, 3, 4].repeat(1024), "a fill of managed memory");
    free(context, block)
}
