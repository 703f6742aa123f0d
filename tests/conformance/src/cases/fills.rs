//! Fills with a pattern.

use super::events::Mark;
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
    "C4" every_pattern_fills_exactly_its_range [];
    "C4" an_enqueued_fill_fills_exactly_its_range [];
    "M1" a_fill_of_zero_bytes_is_nothing [];
    "C4" patterns_and_addresses_that_do_not_fit_are_refused [];
    "S1" a_fill_keeps_its_place_in_the_stream [Gates];
    "S1" a_fill_does_not_wait_and_reads_its_pattern_at_once [Gates];
    "C2" a_synchronous_fill_follows_earlier_work [Gates];
    "C2" a_synchronous_fill_is_there_for_a_non_blocking_stream [StreamOptions];
    "C4" a_fill_past_the_end_is_refused [];
    "C1" a_fill_of_host_memory_is_refused [OwnMemory];
    "S4" a_fill_finds_the_device_of_its_memory [SecondDevice];
}

/// A pattern that shows a byte that is lost or out of its place.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|at| 0x11u8.wrapping_mul(at as u8).wrapping_add(0x2b)).collect()
}

fn repeated(pattern: &[u8], size: usize) -> Vec<u8> {
    pattern.iter().copied().cycle().take(size).collect()
}

/// Fills of every pattern, of many sizes, at shifted addresses.
fn fill_all(context: &'static Context, fill: impl Fn(Address, &[u8], u64) -> Checked) -> Checked {
    for unit in [1, 2, 4, 8, 16] {
        let pattern = pattern(unit);
        for count in [1, 2, 3, 15, 16, 17, 255, 1000, 4097, 70_001] {
            for shift in [0, unit, 3 * unit] {
                let size = count * unit;
                let target = Guarded::at(context, Place::Device, size, shift)?;
                fill(target.address(), &pattern, size as u64)?;
                let what = format!("{count} times {unit} bytes, {shift} past an aligned address");
                target.expect(&repeated(&pattern, size), &what)?;
            }
        }
        // A pattern that is a shorter one again and again.
        let target = Guarded::new(context, Place::Device, 64 * unit)?;
        fill(target.address(), &vec![0x5a; unit], 64 * unit as u64)?;
        target.expect(&vec![0x5a; 64 * unit], &format!("{unit} equal bytes"))?;
    }
    Ok(())
}

fn every_pattern_fills_exactly_its_range(context: &'static Context) -> Checked {
    fill_all(context, |dst, pattern, size| {
        context.ok(context.x.memset_sync(0, dst, pattern, size), "memset_sync")
    })
}

fn an_enqueued_fill_fills_exactly_its_range(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    fill_all(context, |dst, pattern, size| {
        context.ok(context.x.memset_async(0, dst, pattern, size, stream), "memset_async")?;
        context.wait(stream)
    })?;
    context.destroy(stream)
}

fn a_fill_of_zero_bytes_is_nothing(context: &'static Context) -> Checked {
    for dst in [Address::NULL, Address::GARBAGE, Address(usize::MAX)] {
        context.ok(context.x.memset_sync(0, dst, &[1; 4], 0), "memset_sync of 0 bytes")?;
        let answer = context.x.memset_async(0, dst, &[1; 4], 0, Stream::DEFAULT);
        context.ok(answer, "memset_async of 0 bytes")?;
    }
    Ok(())
}

fn patterns_and_addresses_that_do_not_fit_are_refused(context: &'static Context) -> Checked {
    let target = Guarded::new(context, Place::Device, 256)?;
    let at = target.address();
    let refuse = |dst: Address, pattern: &[u8], size: u64, what: &str| -> Checked {
        let status = Status::InvalidValue;
        let answer = context.x.memset_sync(0, dst, pattern, size);
        context.answered(answer, "memset_sync", status, what)?;
        let answer = context.x.memset_async(0, dst, pattern, size, Stream::DEFAULT);
        context.answered(answer, "memset_async", status, what)?;
        Ok(())
    };
    for length in [0, 3, 5, 6, 7, 9, 12, 15, 17, 32] {
        refuse(at, &vec![1; length], 240, &format!("a pattern of {length} bytes"))?;
    }
    for unit in [2, 4, 8, 16] {
        let pattern = pattern(unit);
        refuse(at.plus(1), &pattern, 32, &format!("{unit} bytes at an odd address"))?;
        refuse(at.plus(unit / 2), &pattern, 32, &format!("{unit} bytes at half of them"))?;
        refuse(at, &pattern, 33, &format!("{unit} bytes into 33"))?;
        refuse(at, &pattern, 32 + unit as u64 / 2, &format!("{unit} bytes and a half"))?;
    }
    refuse(Address::NULL, &[1], 16, "NULL")?;
    let (x, this) = (context.x.raw, context.x.this());
    // SAFETY: a NULL pattern is refused.
    let code = unsafe { (x.memset_sync)(this, 0, at.pointer(), std::ptr::null(), 1, 16) };
    let answer = crate::code::Code(code).result();
    context.answered(answer, "memset_sync", Status::InvalidValue, "no pattern")?;
    context.wait(Stream::DEFAULT)?;
    target.expect_untouched("after fills that were refused")
}

fn a_fill_keeps_its_place_in_the_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(1, 64 << 10);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::device(context, length)?;
    let first = Guarded::new(context, Place::Pinned, length)?;
    let second = Guarded::new(context, Place::Pinned, length)?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(middle.address(), source.address(), length, MemcpyKind::H2D, stream)?;
    context.enqueue(first.address(), middle.address(), length, MemcpyKind::D2H, stream)?;
    let half = middle.address().plus(length / 2);
    let answer = context.x.memset_async(0, half, &[7, 8], length as u64 / 2, stream);
    context.ok(answer, "memset_async")?;
    context.enqueue(second.address(), middle.address(), length, MemcpyKind::D2H, stream)?;
    gate.open();
    context.wait(stream)?;
    first.expect(&bytes, "before the fill")?;
    let mut right = bytes[..length / 2].to_vec();
    right.extend(repeated(&[7, 8], length / 2));
    second.expect(&right, "behind the fill")?;
    context.destroy(stream)
}

fn a_fill_does_not_wait_and_reads_its_pattern_at_once(context: &'static Context) -> Checked {
    let (stream, other) = (context.stream()?, context.stream()?);
    let size = 1600;
    let before = context.bytes(1, size);
    let target = Block::device(context, size)?;
    // What is in the target now, read by a stream that is not held.
    let now = || {
        let seen = Block::pinned(context, size)?;
        context.enqueue(seen.address(), target.address(), size, MemcpyKind::D2H, other)?;
        context.wait(other)?;
        seen.content()
    };
    for unit in [1, 2, 4, 8, 16] {
        context.copy(target.address(), Address::of(&before), size, MemcpyKind::H2D)?;
        let seen = Guarded::new(context, Place::Pinned, size)?;
        let mut local = pattern(unit);
        let gate = Gate::hold(context, 0, stream)?;
        let answer = context.x.memset_async(0, target.address(), &local, size as u64, stream);
        context.ok(answer, "memset_async")?;
        local.fill(0xff);
        // Held where the fill is done and nothing else: a fill that comes too late is seen as well.
        let behind = Gate::put(context, 0, stream)?;
        context.enqueue(seen.address(), target.address(), size, MemcpyKind::D2H, stream)?;
        seen.expect_untouched("behind a closed gate")?;
        ensure!(now()? == before, "a fill behind a closed gate was done");
        gate.open();
        behind.await_reached();
        let filled = repeated(&pattern(unit), size);
        ensure!(now()? == filled, "the stream has passed the fill, and the fill is not there");
        behind.open();
        context.wait(stream)?;
        seen.expect(&filled, "a pattern that changed after the call")?;
    }
    context.destroy(stream)?;
    context.destroy(other)
}

fn a_synchronous_fill_follows_earlier_work(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let target = Guarded::new(context, Place::Device, 4096)?;
    let mark = Mark::new(context, 1)?;
    let gate = Gate::hold(context, 0, stream)?;
    mark.put(context, stream)?;
    let at = target.address();
    let caller =
        Caller::start(move || context.ok(context.x.memset_sync(0, at, &[9], 4096), "memset_sync"))?;
    caller.expect_waiting("memset_sync behind a held blocking stream")?;
    gate.open();
    caller.join()?;
    mark.expect_passed("what memset_sync waited for")?;
    target.expect(&[9; 4096], "memset_sync")?;
    context.destroy(stream)
}

fn a_synchronous_fill_is_there_for_a_non_blocking_stream(context: &'static Context) -> Checked {
    let stream = context.ok(context.x.create_stream_with(0, 1, 0), "create_stream_with")?;
    let block = Block::device(context, 60_000)?;
    let target = Guarded::new(context, Place::Pinned, 60_000)?;
    for round in 0..context.times(60) as u8 {
        context.ok(context.x.memset_sync(0, block.address(), &[round], 60_000), "memset_sync")?;
        context.enqueue(target.address(), block.address(), 60_000, MemcpyKind::D2H, stream)?;
        context.wait(stream)?;
        target.expect(&[round; 60_000], "a synchronous fill, seen by a non-blocking stream")?;
    }
    context.destroy(stream)
}

fn a_fill_past_the_end_is_refused(context: &'static Context) -> Checked {
    let block = Block::filled(context, Place::Device, &[3; 4096])?;
    let at = block.address();
    for (dst, size, what) in [
        (at, 4097, "a byte too many"),
        (at.plus(4000), 97, "past the end"),
        (at, u64::MAX, "all memory"),
        (at, u64::MAX - 255, "a range that wraps"),
    ] {
        let answer = context.x.memset_sync(0, dst, &[1], size);
        context.answered(answer, "memset_sync", Status::InvalidValue, what)?;
        let answer = context.x.memset_async(0, dst, &[1], size, Stream::DEFAULT);
        context.answered(answer, "memset_async", Status::InvalidValue, what)?;
    }
    context.wait(Stream::DEFAULT)?;
    ensure!(block.content()? == [3; 4096], "a refused fill wrote");
    Ok(())
}

fn a_fill_of_host_memory_is_refused(context: &'static Context) -> Checked {
    for place in [Place::Pinned, Place::Pageable] {
        let block = Block::filled(context, place, &[3; 4096])?;
        let answer = context.x.memset_sync(0, block.address(), &[1], 4096);
        let what = format!("{place:?} memory");
        context.answered(answer, "memset_sync", Status::InvalidValue, &what)?;
        ensure!(block.content()? == [3; 4096], "a refused fill wrote");
    }
    Ok(())
}

fn a_fill_finds_the_device_of_its_memory(context: &'static Context) -> Checked {
    for device in 0..context.count {
        context.set_device(device)?;
        let target = Guarded::new(context, Place::Device, 4096)?;
        context.set_device(0)?;
        context
            .ok(context.x.memset_sync(0, target.address(), &[device as u8 + 1], 4096), "memset")?;
        target.expect(&[device as u8 + 1; 4096], &format!("memory of device {device}"))?;
    }
    Ok(())
}
