//! Very large copies and very many operations (M3, S6).

use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use llaisys_runtime_core::api::{MemcpyKind, UNKNOWN_BYTES};

cases! { Area::Memory;
    "M3" a_copy_of_more_than_four_gibibytes_is_right [DeviceInformation, Time];
    "M3" a_pageable_copy_of_more_than_four_gibibytes_is_right [DeviceInformation, Time];
    "S6" a_million_copies_without_a_synchronize [];
    "S6" a_hundred_thousand_pageable_copies_without_a_synchronize [];
    "S6" ten_thousand_streams_one_after_another [];
}

/// A little more than 2^32, and no multiple of anything.
const LARGE: usize = (1 << 32) + 4097;

/// Fails with a skip unless the device, and the host, have this much memory to spare.
fn room(context: &Context, on_device: u64, on_host: u64) -> Checked {
    let info = context.ok(context.x.get_memory_info(0), "get_memory_info")?;
    let left = if info.free == UNKNOWN_BYTES { info.total } else { info.free };
    if left < on_device {
        return Err(Stop::skip(format!(
            "the device has {left} bytes left, {on_device} are needed"
        )));
    }
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let word = line.and_then(|line| line.split_whitespace().next());
    let host = word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1024;
    // A device that has no memory of its own uses the host's, also behind a driver on host memory.
    let needed = on_host + on_device;
    if host < needed {
        return Err(Stop::skip(format!("the host has {host} bytes left, {needed} may be needed")));
    }
    Ok(())
}

/// Offsets at which a copy that loses its upper 32 bits would be seen.
const MARKS: [usize; 5] = [0, 4096, (1 << 31) - 3, (1 << 32) - 5, LARGE - 64];

fn a_copy_of_more_than_four_gibibytes_is_right(context: &'static Context) -> Checked {
    room(context, 2 * LARGE as u64 + (64 << 20), 64 << 20)?;
    let mut source = Block::device(context, LARGE)?;
    let mut target = Block::device(context, LARGE + 64)?;
    let end = [0xc5; 64];
    target.write(LARGE, &end)?;
    for (which, offset) in MARKS.into_iter().enumerate() {
        source.write(offset, &context.bytes(which as u64, 64))?;
        target.write(offset, &[0; 64])?;
    }
    context.copy(target.address(), source.address(), LARGE, MemcpyKind::D2D)?;
    for (which, offset) in MARKS.into_iter().enumerate() {
        let found = target.read(offset, 64)?;
        ensure!(found == context.bytes(which as u64, 64), "the bytes at {offset} are wrong");
    }
    ensure!(target.read(LARGE, 64)? == end, "more than {LARGE} bytes were written");
    Ok(())
}

fn a_pageable_copy_of_more_than_four_gibibytes_is_right(context: &'static Context) -> Checked {
    room(context, LARGE as u64, LARGE as u64 + (256 << 20))?;
    let stream = context.stream()?;
    let device = Block::device(context, LARGE)?;
    let mut host = Block::new(context, Place::Pageable, LARGE)?;
    for (which, offset) in MARKS.into_iter().enumerate() {
        host.write(offset, &context.bytes(which as u64, 64))?;
    }
    context.enqueue(device.address(), host.address(), LARGE, MemcpyKind::H2D, stream)?;
    // C3: the source was read; what happens to it now does not matter.
    for offset in MARKS {
        host.write(offset, &[0; 64])?;
    }
    context.wait(stream)?;
    for (which, offset) in MARKS.into_iter().enumerate() {
        let found = device.read(offset, 64)?;
        ensure!(found == context.bytes(which as u64, 64), "the bytes at {offset} are wrong");
    }
    context.enqueue(host.address(), device.address(), LARGE, MemcpyKind::D2H, stream)?;
    for (which, offset) in MARKS.into_iter().enumerate() {
        let found = host.read(offset, 64)?;
        ensure!(found == context.bytes(which as u64, 64), "the bytes at {offset} came back wrong");
    }
    context.destroy(stream)
}

fn grown_since(before: usize) -> usize {
    crate::data::resident_bytes().saturating_sub(before)
}

fn a_million_copies_without_a_synchronize(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let size = 64;
    let bytes = context.bytes(1, size);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let device = Block::device(context, size)?;
    let target = Block::pinned(context, size)?;
    let before = crate::data::resident_bytes();
    let (there, back) = (MemcpyKind::H2D, MemcpyKind::D2H);
    for _ in 0..context.times(500_000) {
        context.t.enqueue(device.address(), source.address(), size, there, stream);
        context.t.enqueue(target.address(), device.address(), size, back, stream);
    }
    context.clean("a million copies")?;
    let grown = grown_since(before);
    context.wait(stream)?;
    ensure!(target.content()? == bytes, "the data after a million copies");
    ensure!(grown < 512 << 20, "a million copies that nobody waits for keep {grown} bytes");
    context.destroy(stream)
}

fn a_hundred_thousand_pageable_copies_without_a_synchronize(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let size = 10_000;
    let device = Block::device(context, size)?;
    let before = crate::data::resident_bytes();
    let mut bytes = context.bytes(1, size);
    for round in 0..context.times(100_000) {
        bytes[round % size] ^= 0x5a;
        let from = Address::of(&bytes);
        context.t.enqueue(device.address(), from, size, MemcpyKind::H2D, stream);
    }
    context.clean("a hundred thousand copies from pageable memory")?;
    let grown = grown_since(before);
    context.wait(stream)?;
    ensure!(device.content()? == bytes, "the device has the data of an earlier copy");
    ensure!(grown < 512 << 20, "copies of {size} bytes that nobody waits for keep {grown} bytes");
    context.destroy(stream)
}

fn ten_thousand_streams_one_after_another(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 256);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let device = Block::device(context, 256)?;
    let before = crate::data::resident_bytes();
    for _ in 0..context.times(10_000) {
        let stream = context.stream()?;
        context.t.enqueue(device.address(), source.address(), 256, MemcpyKind::H2D, stream);
        // Destroyed with its work perhaps still in it.
        context.destroy(stream)?;
    }
    context.t.device_synchronize();
    context.clean("ten thousand streams")?;
    ensure!(device.content()? == bytes, "the data after ten thousand streams");
    let grown = grown_since(before);
    ensure!(grown < 256 << 20, "ten thousand streams, all destroyed, keep {grown} bytes");
    Ok(())
}
