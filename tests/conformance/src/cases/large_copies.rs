//! Copies of pageable memory that are large enough for a runtime to take them apart and let several threads
//! at them: what holds for small ones holds for them (C2, C3, C4, S1, S2).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::data;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use llaisys_runtime_core::api::{MemcpyKind, Stream, StreamFlags};
use std::thread;

cases! { Area::Copies;
    "C4" large_copies_are_exact_whatever_their_size_and_alignment [];
    "C2" the_source_of_a_large_copy_may_be_reused_at_once [];
    "C2" a_large_copy_that_waits_follows_earlier_work_on_blocking_streams [Gates];
    "C2" a_large_copy_that_waits_leaves_a_held_non_blocking_stream_alone [Gates, StreamOptions];
    "S1" what_follows_a_large_copy_in_its_stream_finds_the_data [];
    "S1" a_large_copy_into_pageable_memory_follows_its_stream [Gates];
    "S2" a_large_copy_on_a_blocking_stream_follows_the_default_stream [Gates];
    "L4" large_copies_from_several_threads_keep_apart [];
}

/// Larger than what a copy may reasonably be taken apart from on, and a multiple of nothing.
const LARGE: usize = (9 << 20) + 4099;

/// How a copy is asked for.
#[derive(Clone, Copy, Debug)]
enum Form {
    Sync,
    On(Stream),
}

impl Form {
    fn copy(
        self,
        context: &Context,
        dst: Address,
        src: Address,
        size: usize,
        kind: MemcpyKind,
    ) -> Checked {
        match self {
            Form::Sync => context.copy(dst, src, size, kind),
            Form::On(stream) => context.enqueue(dst, src, size, kind, stream),
        }
    }
}

/// There and back, each end between sentinels.
fn there_and_back(context: &'static Context, form: Form, size: usize, shift: usize) -> Checked {
    let what = format!("{size} bytes from {shift} past an aligned address, {form:?}");
    let mut bytes = vec![0; shift];
    bytes.extend(context.bytes(size as u64, size));
    let there = Guarded::at(context, Place::Device, size, shift)?;
    let back = Guarded::at(context, Place::Pageable, size, 63 - shift)?;
    let source = Address::of(&bytes).plus(shift);
    form.copy(context, there.address(), source, size, MemcpyKind::H2D)?;
    form.copy(context, back.address(), there.address(), size, MemcpyKind::D2H)?;
    back.expect(&bytes[shift..], &what)?;
    there.expect(&bytes[shift..], &what)
}

fn large_copies_are_exact_whatever_their_size_and_alignment(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for form in [Form::Sync, Form::On(stream), Form::On(Stream::DEFAULT)] {
        for (size, shift) in [((4 << 20) - 1, 0), (4 << 20, 1), (LARGE, 63), ((20 << 20) + 1, 7)] {
            there_and_back(context, form, size, shift)?;
        }
    }
    context.destroy(stream)
}

fn the_source_of_a_large_copy_may_be_reused_at_once(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for form in [Form::Sync, Form::On(stream)] {
        let target = Block::device(context, 3 * LARGE)?;
        let (mut local, mut model) = (vec![0; LARGE], Vec::new());
        for round in 0..3 {
            local.copy_from_slice(&context.bytes(round, LARGE));
            model.extend_from_slice(&local);
            let to = target.address().plus(round as usize * LARGE);
            form.copy(context, to, Address::of(&local), LARGE, MemcpyKind::H2D)?;
            local.fill(0xee);
        }
        context.wait(stream)?;
        if let Some(difference) = data::difference(&target.content()?, &model) {
            fail!("copies from one reused buffer, {form:?}: {difference}");
        }
    }
    context.destroy(stream)
}

fn a_large_copy_that_waits_follows_earlier_work_on_blocking_streams(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    let (old, new) = (context.bytes(1, LARGE), context.bytes(2, LARGE));
    let source = Block::filled(context, Place::Pinned, &old)?;
    let middle = Block::filled(context, Place::Device, &vec![0; LARGE])?;
    let (at, from) = (middle.address(), source.address());
    // Out of the device: what the held stream writes is there.
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(at, from, LARGE, MemcpyKind::H2D, stream)?;
    let caller = Caller::start(move || {
        let mut found = vec![0; LARGE];
        context.copy(Address::of_mut(&mut found), at, LARGE, MemcpyKind::D2H)?;
        Ok(found)
    })?;
    caller.expect_waiting("a large memcpy_sync from the device behind a blocking stream")?;
    gate.open();
    ensure!(caller.join()? == old, "memcpy_sync did not wait for the blocking stream");
    // Into the device: what the held stream writes is written over.
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(at, from, LARGE, MemcpyKind::H2D, stream)?;
    let bytes = new.clone();
    let caller =
        Caller::start(move || context.copy(at, Address::of(&bytes), LARGE, MemcpyKind::H2D))?;
    caller.expect_waiting("a large memcpy_sync to the device behind a blocking stream")?;
    gate.open();
    caller.join()?;
    context.wait(stream)?;
    ensure!(middle.content()? == new, "memcpy_sync came before the blocking stream's work");
    context.destroy(stream)
}

fn a_large_copy_that_waits_leaves_a_held_non_blocking_stream_alone(
    context: &'static Context,
) -> Checked {
    let made = context.x.create_stream_with(0, StreamFlags::NON_BLOCKING.0, 0);
    let stream = context.ok(made, "create_stream_with")?;
    let gate = Gate::hold(context, 0, stream)?;
    there_and_back(context, Form::Sync, LARGE, 5)?;
    gate.open();
    context.wait(stream)?;
    context.destroy(stream)
}

fn what_follows_a_large_copy_in_its_stream_finds_the_data(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        let mut local = context.bytes(3, LARGE);
        let bytes = local.clone();
        let (first, second) = (Block::device(context, LARGE)?, Block::device(context, LARGE)?);
        let target = Guarded::new(context, Place::Pinned, LARGE)?;
        context.enqueue(first.address(), Address::of(&local), LARGE, MemcpyKind::H2D, on)?;
        local.fill(0xee);
        context.enqueue(second.address(), first.address(), LARGE, MemcpyKind::D2D, on)?;
        context.enqueue(target.address(), second.address(), LARGE, MemcpyKind::D2H, on)?;
        context.wait(on)?;
        target.expect(&bytes, "two copies on")?;
    }
    context.destroy(stream)
}

fn a_large_copy_into_pageable_memory_follows_its_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let bytes = context.bytes(4, LARGE);
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let middle = Block::filled(context, Place::Device, &vec![0; LARGE])?;
    let gate = Gate::hold(context, 0, stream)?;
    let at = middle.address();
    context.enqueue(at, source.address(), LARGE, MemcpyKind::H2D, stream)?;
    let caller = Caller::start(move || {
        let mut found = vec![0; LARGE];
        context.enqueue(Address::of_mut(&mut found), at, LARGE, MemcpyKind::D2H, stream)?;
        Ok(found)
    })?;
    caller.expect_waiting("a large memcpy_async into pageable memory behind queued work")?;
    // Meanwhile another stream's copies come and go, enqueued, for those that wait follow the held one.
    let other = context.stream()?;
    let (source, mut back) = (context.bytes(7, LARGE), vec![0; LARGE]);
    let block = Block::device(context, LARGE)?;
    let (there, to) = (block.address(), Address::of_mut(&mut back));
    context.enqueue(there, Address::of(&source), LARGE, MemcpyKind::H2D, other)?;
    context.enqueue(to, there, LARGE, MemcpyKind::D2H, other)?;
    ensure!(back == source, "the other stream's copies");
    gate.open();
    ensure!(caller.join()? == bytes, "the data was not there when memcpy_async returned");
    context.destroy(other)?;
    context.destroy(stream)
}

fn a_large_copy_on_a_blocking_stream_follows_the_default_stream(
    context: &'static Context,
) -> Checked {
    let stream = context.stream()?;
    let (old, new) = (context.bytes(5, LARGE), context.bytes(6, LARGE));
    let source = Block::filled(context, Place::Pinned, &old)?;
    let target = Block::device(context, LARGE)?;
    let gate = Gate::hold(context, 0, Stream::DEFAULT)?;
    let (at, from) = (target.address(), source.address());
    context.enqueue(at, from, LARGE, MemcpyKind::H2D, Stream::DEFAULT)?;
    // This thread opens the gate: a call that waits for it comes to no end.
    let mut local = new.clone();
    context.enqueue(at, Address::of(&local), LARGE, MemcpyKind::H2D, stream)?;
    local.fill(0xee);
    gate.open();
    context.wait(stream)?;
    ensure!(target.content()? == new, "the copy came before the default stream's");
    context.destroy(stream)
}

fn large_copies_from_several_threads_keep_apart(context: &'static Context) -> Checked {
    let threads: Vec<_> = (0..4_u64)
        .map(|which| {
            thread::spawn(move || -> Checked {
                let stream = context.stream()?;
                let form = if which % 2 == 0 { Form::Sync } else { Form::On(stream) };
                for round in 0..context.times(20) {
                    let size = (3 << 20) * (which as usize + 1) + 77 * round;
                    let bytes = context.bytes(which << 8 | round as u64, size);
                    let block = Block::device(context, size)?;
                    let mut back = vec![0; size];
                    let (there, to) = (block.address(), Address::of_mut(&mut back));
                    form.copy(context, there, Address::of(&bytes), size, MemcpyKind::H2D)?;
                    form.copy(context, to, there, size, MemcpyKind::D2H)?;
                    ensure!(back == bytes, "thread {which}: not its own bytes came back");
                }
                context.destroy(stream)
            })
        })
        .collect();
    let join = |thread: thread::JoinHandle<Checked>| {
        thread.join().unwrap_or_else(|_| Err(Stop::fail("a thread panicked")))
    };
    let results: Vec<_> = threads.into_iter().map(join).collect();
    results.into_iter().collect()
}
