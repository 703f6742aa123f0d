//! More than one device of a backend (D2, D3, M6, C5, S4).

use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::extended::Copy;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Devices;
    "D3" each_thread_has_its_own_current_device [SecondDevice];
    "D3" a_pointer_knows_its_device_whatever_is_current [SecondDevice];
    "D2" a_failed_choice_keeps_the_second_device [SecondDevice, Gates];
    "M6" pinned_memory_serves_every_device [SecondDevice];
    "C5" copies_between_every_pair_of_devices_with_each_one_current [SecondDevice];
    "C5" a_queued_copy_between_devices_keeps_its_place_in_the_stream [SecondDevice, Gates];
    "C5" a_synchronous_copy_between_devices_follows_earlier_work_on_both [SecondDevice, Gates];
    "S4" work_runs_on_the_device_of_its_stream [SecondDevice, Gates];
    "S4" the_ordinal_beside_a_stream_does_not_move_it [SecondDevice, Gates];
    "S1" a_held_stream_does_not_hold_up_another_ones_copy_to_the_second_device
        [SecondDevice, Gates];
    "S2" null_names_the_default_stream_of_the_current_device [SecondDevice, Gates, StreamQuery];
}

/// Every ordered pair of different devices, at most those of the first four.
fn pairs(context: &Context) -> Vec<(i32, i32)> {
    let count = context.count.min(4);
    (0..count).flat_map(|a| (0..count).map(move |b| (a, b))).filter(|(a, b)| a != b).collect()
}

fn on(context: &'static Context, device: i32, bytes: &[u8]) -> Checked<Block> {
    context.set_device(device)?;
    Block::filled(context, Place::Device, bytes)
}

fn each_thread_has_its_own_current_device(context: &'static Context) -> Checked {
    context.library.set_context(context.device_type, 1);
    let other = Caller::start(move || {
        context.library.set_context(context.device_type, 0);
        Ok(context.library.context())
    })?;
    ensure_eq!(other.join()?, (context.device_type, 0), "the other thread's context");
    ensure_eq!(context.library.context(), (context.device_type, 1), "this thread's context");
    Ok(())
}

fn a_pointer_knows_its_device_whatever_is_current(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 5000);
    let first = on(context, 1, &bytes)?;
    let second = on(context, 1, &bytes)?;
    context.library.set_context(context.device_type, 0);
    ensure!(first.content()? == bytes, "reading device 1's memory while device 0 is current");
    first.free()?;
    ensure_eq!(context.library.context(), (context.device_type, 0), "the current device");
    Caller::start(move || {
        ensure!(second.content()? == bytes, "reading device 1's memory from a fresh thread");
        second.free()
    })?
    .join()
}

fn a_failed_choice_keeps_the_second_device(context: &'static Context) -> Checked {
    context.set_device(1)?;
    context.t.set_device(context.count);
    context.failure()?;
    // NULL still means device 1's stream: with it held, device 0's passes and device 1's does not.
    let gate = Gate::hold(context, 1, Stream::DEFAULT)?;
    let target = Block::pinned(context, 64)?;
    let source = Block::pinned(context, 64)?;
    context.ok(context.x.stream_synchronize(0, Stream::DEFAULT), "device 0's default stream")?;
    let bytes = context.bytes(1, 64);
    let (dst, src) = (target.address(), source.address());
    context.enqueue(dst, src, 64, MemcpyKind::H2H, Stream::DEFAULT)?;
    let mut source = source;
    source.write(0, &bytes)?;
    gate.open();
    context.wait(Stream::DEFAULT)?;
    ensure!(
        target.content()? == bytes,
        "expected the copy to stand behind the gate on device 1, it ran elsewhere"
    );
    Ok(())
}

fn pinned_memory_serves_every_device(context: &'static Context) -> Checked {
    for home in 0..context.count {
        context.set_device(home)?;
        let bytes = context.bytes(home as u64, 70_000);
        let source = Block::filled(context, Place::Pinned, &bytes)?;
        for device in 0..context.count {
            context.set_device(device)?;
            let middle = Block::device(context, bytes.len())?;
            let target = Guarded::new(context, Place::Pinned, bytes.len())?;
            let stream = context.stream()?;
            let (there, back) = (MemcpyKind::H2D, MemcpyKind::D2H);
            context.enqueue(middle.address(), source.address(), bytes.len(), there, stream)?;
            context.enqueue(target.address(), middle.address(), bytes.len(), back, stream)?;
            context.wait(stream)?;
            target.expect(&bytes, &format!("pinned for {home}, used with {device}"))?;
            context.destroy(stream)?;
        }
    }
    Ok(())
}

fn copies_between_every_pair_of_devices_with_each_one_current(
    context: &'static Context,
) -> Checked {
    let sizes = [1, 3, 255, 4096, 65_537, (1 << 20) + 7, context.times(16) << 20];
    for (from, to) in pairs(context) {
        for (which, size) in sizes.into_iter().enumerate() {
            let bytes = context.bytes(which as u64, size);
            let source = on(context, from, &bytes)?;
            context.set_device(to)?;
            let mut target = Guarded::new(context, Place::Device, size)?;
            for current in [from, to, (to + 1) % context.count] {
                let what = format!("{size} bytes from {from} to {to} with {current} current");
                target.reset()?;
                context.set_device(current)?;
                context.copy(target.address(), source.address(), size, MemcpyKind::D2D)?;
                target.expect(&bytes, &format!("memcpy_sync, {what}"))?;
                target.reset()?;
                let stream = context.stream()?;
                let (dst, src) = (target.address(), source.address());
                context.enqueue(dst, src, size, MemcpyKind::D2D, stream)?;
                context.wait(stream)?;
                target.expect(&bytes, &format!("memcpy_async, {what}"))?;
                context.destroy(stream)?;
            }
        }
    }
    Ok(())
}

fn a_queued_copy_between_devices_keeps_its_place_in_the_stream(
    context: &'static Context,
) -> Checked {
    for (from, to) in pairs(context) {
        for home in [from, to] {
            let what = format!("from {from} to {to} on a stream of {home}");
            let bytes = context.bytes(home as u64, 300_000);
            let source = on(context, from, &vec![0; bytes.len()])?;
            context.set_device(to)?;
            let target = Guarded::new(context, Place::Device, bytes.len())?;
            let pinned = Block::filled(context, Place::Pinned, &bytes)?;
            context.set_device(home)?;
            let stream = context.stream()?;
            let gate = Gate::hold(context, home, stream)?;
            // Behind the gate: fill the source, then carry it over.
            let length = bytes.len();
            let (dst, middle, src) = (target.address(), source.address(), pinned.address());
            context.enqueue(middle, src, length, MemcpyKind::H2D, stream)?;
            context.enqueue(dst, middle, length, MemcpyKind::D2D, stream)?;
            gate.open();
            context.wait(stream)?;
            target.expect(&bytes, &what)?;
            context.destroy(stream)?;
        }
    }
    Ok(())
}

fn a_synchronous_copy_between_devices_follows_earlier_work_on_both(
    context: &'static Context,
) -> Checked {
    for held in [0, 1] {
        let bytes = context.bytes(held as u64, 40_000);
        let length = bytes.len();
        let source = on(context, 0, &bytes)?;
        let target = on(context, 1, &vec![0; length])?;
        context.set_device(held)?;
        let stream = context.stream()?;
        let gate = Gate::hold(context, held, stream)?;
        let (dst, src) = (target.address(), source.address());
        let caller = Caller::start(move || context.copy(dst, src, length, MemcpyKind::D2D))?;
        caller.expect_waiting(&format!("memcpy_sync 0 → 1 behind work on device {held}"))?;
        gate.open();
        caller.join()?;
        ensure!(target.content()? == bytes, "the copy 0 → 1 did not arrive");
        context.destroy(stream)?;
    }
    Ok(())
}

fn work_runs_on_the_device_of_its_stream(context: &'static Context) -> Checked {
    context.set_device(1)?;
    let bytes = context.bytes(1, 4096);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Device, bytes.len())?;
    let stream = context.stream()?;
    context.set_device(0)?;
    let gate = Gate::hold(context, 1, stream)?;
    let (dst, src) = (target.address(), source.address());
    context.enqueue(dst, src, bytes.len(), MemcpyKind::H2D, stream)?;
    // Device 0 has nothing to wait for; device 1 has.
    context.t.device_synchronize();
    context.clean("device_synchronize of device 0")?;
    let caller = Caller::start(move || {
        context.set_device(1)?;
        context.t.device_synchronize();
        context.clean("device_synchronize of device 1")
    })?;
    caller.expect_waiting("device_synchronize of the stream's device")?;
    gate.open();
    caller.join()?;
    target.expect(&bytes, "the copy on device 1's stream")?;
    context.destroy(stream)
}

fn the_ordinal_beside_a_stream_does_not_move_it(context: &'static Context) -> Checked {
    let stream = context.ok(context.x.create_stream(1), "create_stream")?;
    context.set_device(1)?;
    let bytes = context.bytes(1, 4096);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let target = Guarded::new(context, Place::Device, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    let copy = Copy::new(target.address(), source.address(), bytes.len(), MemcpyKind::H2D);
    context.enqueue_extended(0, copy, stream)?;
    let caller = Caller::start(move || {
        context.ok(context.x.stream_synchronize(0, stream), "stream_synchronize")
    })?;
    caller.expect_waiting("stream_synchronize with another device's ordinal")?;
    gate.open();
    caller.join()?;
    target.expect(&bytes, "the copy on device 1's stream")?;
    context.ok(context.x.destroy_stream(0, stream), "destroy_stream")
}

fn null_names_the_default_stream_of_the_current_device(context: &'static Context) -> Checked {
    context.set_device(1)?;
    let gate = Gate::hold(context, 1, Stream::DEFAULT)?;
    ensure!(!context.ready(1, Stream::DEFAULT)?, "device 1's default stream is held, not ready");
    ensure!(context.ready(0, Stream::DEFAULT)?, "device 0's default stream has nothing pending");
    context.set_device(0)?;
    context.wait(Stream::DEFAULT)?;
    let caller = Caller::start(move || {
        context.set_device(1)?;
        context.wait(Stream::DEFAULT)
    })?;
    caller.expect_waiting("stream_synchronize(NULL) with device 1 current")?;
    gate.open();
    caller.join()
}

fn a_held_stream_does_not_hold_up_another_ones_copy_to_the_second_device(
    context: &'static Context,
) -> Checked {
    let bytes = context.bytes(1, 4096);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let (first, second) = (on(context, 1, &[0; 4096])?, on(context, 1, &[0; 4096])?);
    context.set_device(0)?;
    let (held, free) = (context.stream()?, context.stream()?);
    let gate = Gate::hold(context, 0, held)?;
    let (from, size) = (source.address(), bytes.len());
    context.enqueue(first.address(), from, size, MemcpyKind::H2D, held)?;
    let target = second.address();
    let caller = Caller::start(move || {
        context.enqueue(target, from, size, MemcpyKind::H2D, free)?;
        context.wait(free)
    })?;
    caller.join()?;
    ensure!(second.content()? == bytes, "the copy of the stream that nobody holds");
    gate.open();
    context.wait(held)?;
    ensure!(first.content()? == bytes, "the copy of the stream that was held");
    context.destroy(held)?;
    context.destroy(free)
}
