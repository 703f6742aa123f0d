//! A stream that stands still, and what it may cost others: no time (S1), and no memory without bound (S6).
//! Every operation that enqueues a copy, between every two places.

use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::quiet;
use crate::way::{Ends, Way};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

cases! { Area::Streams;
    "S1" no_copy_of_a_held_stream_holds_up_a_copy_of_another [Gates];
    "S1" no_copy_of_a_held_stream_holds_up_another_ones_to_the_second_device [SecondDevice, Gates];
    "S6" no_copy_from_pageable_memory_fills_the_memory_while_its_stream_is_held [Gates];
}

/// How long every thread must have been asleep.
const REST: Duration = Duration::from_millis(50);
/// The processor time after which a call that has not come back is taken for one that spins.
const SPINNING: Duration = Duration::from_secs(2);
/// When to stop looking, on a machine that lets nobody run.
const LIMIT: Duration = Duration::from_secs(30);

/// Where a copy is from and where to: a place and the device that is current when it is allocated.
type Route = [(Place, i32); 2];

/// Has a held stream and a free one of device 0 make the same copies, each between blocks of its own.
fn free_one_goes_on(context: &'static Context, routes: &[Route]) -> Checked {
    let size = 20_000;
    let bytes = context.bytes(1, size);
    let block = |(place, device): (Place, i32), filled: bool| {
        context.set_device(device)?;
        let content = if filled { &bytes[..] } else { &[0; 20_000] };
        Block::filled(context, place, content)
    };
    for way in Way::ENQUEUED {
        for route @ [from, to] in routes.iter().copied() {
            let what = format!("{way:?} {route:?}");
            // From the stream that is held, and then from the one that is free.
            let pair = || Ok((block(from, true)?, block(to, false)?));
            let (held_pair, free_pair) = (pair()?, pair()?);
            let ends =
                |(src, dst): &(Block, Block)| Ends { dst: dst.address(), src: src.address(), size };
            let kind = Place::kind(from.0, to.0) as u32;
            context.set_device(0)?;
            let (held, free) = (context.stream()?, context.stream()?);
            let gate = Gate::hold(context, 0, held)?;
            way.must(context, ends(&held_pair), kind, held).map_err(|stop| stop.at(&what))?;
            let copy = ends(&free_pair);
            // A copy that waited for the gate would wait for ever: the watchdog says so.
            Caller::start(move || {
                context.set_device(0)?;
                way.must(context, copy, kind, free)?;
                context.wait(free)
            })?
            .join()
            .map_err(|stop: Stop| stop.at(&what))?;
            // Before data is looked at: that waits for every stream of the device.
            gate.open();
            context.wait(held)?;
            ensure!(held_pair.1.content()? == bytes, "{what}: the copy of the held stream");
            ensure!(free_pair.1.content()? == bytes, "{what}: the copy of the free stream");
            context.destroy(held)?;
            context.destroy(free)?;
        }
    }
    Ok(())
}

fn no_copy_of_a_held_stream_holds_up_a_copy_of_another(context: &'static Context) -> Checked {
    let (device, pinned, own) = ((Place::Device, 0), (Place::Pinned, 0), (Place::Pageable, 0));
    let mut routes = vec![[pinned, device], [device, pinned], [device, device], [own, device]];
    if context.host_memory() {
        // Elsewhere a copy between host buffers may be a host function, as the gate is, and a driver may run
        // those of all streams one after the other.
        routes.extend([[pinned, pinned], [own, pinned]]);
    }
    free_one_goes_on(context, &routes)
}

fn no_copy_of_a_held_stream_holds_up_another_ones_to_the_second_device(
    context: &'static Context,
) -> Checked {
    let (first, second) = ((Place::Device, 0), (Place::Device, 1));
    let (pinned, own) = ((Place::Pinned, 0), (Place::Pageable, 0));
    free_one_goes_on(
        context,
        &[
            [pinned, second],
            [second, pinned],
            [first, second],
            [second, first],
            [second, second],
            [own, second],
        ],
    )
}

/// Until the call has returned, or gets no further: every thread sleeps, or a lot of processor time has gone
/// by without a copy more. Load does not decide.
fn until_it_waits(caller: &Caller<()>, done: &AtomicUsize) {
    let started = Instant::now();
    let mut last = (0, quiet::used_by_all());
    let mut asleep_since = None;
    while !caller.has_returned() && started.elapsed() < LIMIT {
        let now = done.load(Ordering::SeqCst);
        if now != last.0 {
            (last, asleep_since) = ((now, quiet::used_by_all()), None);
        } else if !quiet::is_asleep() {
            asleep_since = None;
            if quiet::used_by_all().saturating_sub(last.1) > SPINNING {
                break;
            }
        } else if asleep_since.get_or_insert_with(Instant::now).elapsed() > REST {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn no_copy_from_pageable_memory_fills_the_memory_while_its_stream_is_held(
    context: &'static Context,
) -> Checked {
    const SIZE: usize = 4 << 20;
    const COPIES: usize = 512;
    /// A backend may keep as much, of the two gigabytes that are asked for.
    const MOST: usize = 1280 << 20;
    let (pinned, device) = ((Place::Pinned, 0), (Place::Device, 0));
    let mut all: Vec<_> = Way::ENQUEUED.iter().map(|way| (*way, device)).collect();
    all.push((Way::Async, pinned));
    if context.count > 1 {
        all.push((Way::Async, (Place::Device, 1)));
    }
    let few = if context.setup.quick { 1 } else { all.len() };
    for (way, (place, device)) in all.into_iter().rev().take(few) {
        let what = format!("{way:?} to {place:?} memory of device {device}");
        context.set_device(device)?;
        let target = Block::new(context, place, SIZE)?;
        context.set_device(0)?;
        let stream = context.stream()?;
        let bytes = context.bytes(1, SIZE);
        let source = Block::filled(context, Place::Pageable, &bytes)?;
        let before = crate::data::resident_bytes();
        let gate = Gate::hold(context, 0, stream)?;
        let ends = Ends { dst: target.address(), src: source.address(), size: SIZE };
        let kind = Place::kind(Place::Pageable, place);
        let done = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&done);
        let caller = Caller::start(move || {
            (0..COPIES).try_for_each(|_| {
                way.must(context, ends, kind as u32, stream)?;
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        })?;
        until_it_waits(&caller, &done);
        let grown = crate::data::resident_bytes().saturating_sub(before);
        gate.open();
        caller.join()?;
        context.wait(stream)?;
        ensure!(target.content()? == bytes, "{what}: the data behind the gate");
        ensure!(grown < MOST, "{what}: copies behind a gate keep {grown} bytes");
        context.destroy(stream)?;
    }
    Ok(())
}
