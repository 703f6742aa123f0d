//! Points in a stream (V1, V3).

use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::code::Code;
use crate::context::Context;
use crate::forever::forever;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::{Checked, Stop};
use crate::place::{Block, Place};
use crate::quiet::settle;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{Event, EventFlags, MemcpyKind, Stream};
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

cases! { Area::Events;
    "V1" a_new_event_is_ready [Events];
    "V1" a_wait_for_a_never_recorded_event_is_nothing [Events, Gates];
    "V1" an_event_is_reached_when_its_stream_is_and_not_before [Events, Gates];
    "V1" a_wait_captures_the_record_of_its_time [Events, Gates];
    "V1" a_later_record_does_not_hold_an_earlier_wait [Events, Gates];
    "V1" a_query_means_the_newest_record [Events, Gates];
    "V1" a_wait_holds_what_comes_later_and_lets_go [Events, Gates];
    "V1" the_host_waits_for_an_event [Events, Gates];
    "V1" the_default_stream_waits_for_an_event [Events, Gates, StreamOptions];
    "S1" events_order_a_chain_through_many_streams [Events, Gates];
    "V1" a_reached_event_stays_reached_while_its_stream_goes_on [Events, Gates];
    "V3" a_pending_event_may_be_destroyed [Events, Gates];
    "V3" a_wait_outlives_its_event [Events, Gates];
    "V3" an_event_outlives_its_stream [Events, Gates];
    "V3" a_record_on_another_devices_stream_is_refused [SecondDevice, Events];
    "V3" a_wait_across_devices_orders [SecondDevice, Events, Gates];
    "V3" a_destroyed_event_is_an_error [Events];
    "V3" a_stale_handle_does_not_name_its_successor [Events];
    "V1" flags_and_outputs_without_a_meaning_are_refused [Events];
    "D3" an_event_works_from_any_thread [Events, Gates];
    "H1" waiting_for_an_event_inside_a_function_is_an_error [Events, Gates, HostMemory];
    "S6" many_records_and_waits_do_not_grow_memory [Events];
    "L4" many_threads_use_one_event [Events];
    "V3" the_native_event_is_there_and_stays_the_same [Events];
}

/// An event of device 0 without timing.
pub(super) fn event(context: &Context) -> Checked<Event> {
    event_on(context, 0, EventFlags::NONE)
}

pub(super) fn event_on(context: &Context, device: i32, flags: EventFlags) -> Checked<Event> {
    let event = context.ok(context.x.create_event(device, flags), "create_event")?;
    ensure!(!event.0.is_null(), "create_event: expected a handle, found NULL");
    Ok(event)
}

pub(super) fn record(context: &Context, event: Event, stream: Stream) -> Checked {
    context.ok(context.x.record_event(0, event, stream), "record_event")
}

fn follow(context: &Context, stream: Stream, event: Event) -> Checked {
    context.ok(context.x.stream_wait_event(0, stream, event), "stream_wait_event")
}

pub(super) fn reached(context: &Context, event: Event) -> Checked<bool> {
    context.ok(context.x.event_query(event), "event_query")
}

pub(super) fn await_event(context: &Context, event: Event) -> Checked {
    context.ok(context.x.event_synchronize(event), "event_synchronize")
}

fn drop_event(context: &Context, event: Event) -> Checked {
    context.ok(context.x.destroy_event(event), "destroy_event")
}

/// A copy that shows when a stream has come to it.
pub(super) struct Mark {
    source: Block,
    target: Guarded,
    bytes: Vec<u8>,
}

impl Mark {
    pub(super) fn new(context: &'static Context, which: u64) -> Checked<Mark> {
        let bytes = context.bytes(which, 5000);
        let source = Block::filled(context, Place::Device, &bytes)?;
        let target = Guarded::new(context, Place::Pinned, bytes.len())?;
        Ok(Mark { source, target, bytes })
    }

    pub(super) fn put(&self, context: &Context, stream: Stream) -> Checked {
        let (to, from) = (self.target.address(), self.source.address());
        context.enqueue(to, from, self.bytes.len(), MemcpyKind::D2H, stream)
    }

    pub(super) fn expect_passed(&self, what: &str) -> Checked {
        self.target.expect(&self.bytes, what)
    }

    pub(super) fn expect_not_passed(&self, what: &str) -> Checked {
        self.target.expect_untouched(what)
    }
}

fn a_new_event_is_ready(context: &'static Context) -> Checked {
    for device in 0..context.count {
        for flags in 0..=3 {
            let event = event_on(context, device, EventFlags(flags))?;
            ensure!(reached(context, event)?, "flags {flags}: a new event is not ready");
            await_event(context, event)?;
            drop_event(context, event)?;
        }
    }
    Ok(())
}

fn a_wait_for_a_never_recorded_event_is_nothing(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let event = event(context)?;
    let mark = Mark::new(context, 1)?;
    follow(context, two, event)?;
    // A record that comes later does not count.
    let gate = Gate::hold(context, 0, one)?;
    record(context, event, one)?;
    mark.put(context, two)?;
    context.wait(two)?;
    mark.expect_passed("behind a wait for an event that was not recorded yet")?;
    gate.open();
    context.wait(one)?;
    drop_event(context, event)
}

fn an_event_is_reached_when_its_stream_is_and_not_before(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for flags in 0..=3 {
        for on in [stream, Stream::DEFAULT] {
            let event = event_on(context, 0, EventFlags(flags))?;
            let gate = Gate::hold(context, 0, on)?;
            record(context, event, on)?;
            settle();
            for _ in 0..100 {
                ensure!(!reached(context, event)?, "reached behind a closed gate");
            }
            gate.open();
            await_event(context, event)?;
            ensure!(reached(context, event)?, "event_synchronize returned, query says no");
            drop_event(context, event)?;
        }
    }
    context.destroy(stream)
}

fn a_wait_captures_the_record_of_its_time(context: &'static Context) -> Checked {
    let (one, two, three) = (context.stream()?, context.stream()?, context.stream()?);
    let event = event(context)?;
    let mark = Mark::new(context, 1)?;
    let first = Gate::hold(context, 0, one)?;
    // A driver may have one thread for all host functions, so this one is not waited for.
    let second = Gate::put(context, 0, three)?;
    record(context, event, one)?;
    follow(context, two, event)?;
    record(context, event, three)?;
    mark.put(context, two)?;
    let caller = Caller::start(move || context.wait(two))?;
    caller.expect_waiting("a stream that waits for the first record")?;
    mark.expect_not_passed("behind the wait for the first record")?;
    first.open();
    caller.join()?;
    mark.expect_passed("once the first record is reached, though the second is not")?;
    ensure!(!reached(context, event)?, "the second record is behind a closed gate");
    second.open();
    await_event(context, event)?;
    for stream in [one, two, three] {
        context.destroy(stream)?;
    }
    drop_event(context, event)
}

fn a_later_record_does_not_hold_an_earlier_wait(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let event = event(context)?;
    let mark = Mark::new(context, 1)?;
    record(context, event, one)?;
    await_event(context, event)?;
    follow(context, two, event)?;
    let gate = Gate::hold(context, 0, one)?;
    record(context, event, one)?;
    mark.put(context, two)?;
    context.wait(two)?;
    mark.expect_passed("behind a wait for a record that was reached")?;
    gate.open();
    context.wait(one)?;
    drop_event(context, event)
}

fn a_query_means_the_newest_record(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let event = event(context)?;
    record(context, event, one)?;
    await_event(context, event)?;
    let gate = Gate::hold(context, 0, one)?;
    record(context, event, one)?;
    ensure!(!reached(context, event)?, "recorded again behind a gate: the old answer came back");
    // Recorded again on a stream that is free: the record behind the gate does not count any more.
    record(context, event, two)?;
    await_event(context, event)?;
    ensure!(reached(context, event)?, "the newest record is on a stream that is done");
    gate.open();
    context.wait(one)?;
    drop_event(context, event)
}

fn a_wait_holds_what_comes_later_and_lets_go(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let event = event(context)?;
    let before = Mark::new(context, 1)?;
    let after = Mark::new(context, 2)?;
    let gate = Gate::hold(context, 0, one)?;
    record(context, event, one)?;
    before.put(context, two)?;
    follow(context, two, event)?;
    after.put(context, two)?;
    let caller = Caller::start(move || context.wait(two))?;
    caller.expect_waiting("a stream that waits for an event behind a gate")?;
    before.expect_passed("what stands before the wait")?;
    after.expect_not_passed("what stands behind the wait")?;
    gate.open();
    caller.join()?;
    after.expect_passed("what stands behind the wait, once the event is reached")?;
    context.destroy(one)?;
    context.destroy(two)?;
    drop_event(context, event)
}

fn the_host_waits_for_an_event(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for flags in 0..=3 {
        let event = event_on(context, 0, EventFlags(flags))?;
        let gate = Gate::hold(context, 0, stream)?;
        record(context, event, stream)?;
        // What comes behind the record is not waited for.
        let behind = Gate::put(context, 0, stream)?;
        let caller = Caller::start(move || await_event(context, event))?;
        caller.expect_waiting(&format!("event_synchronize, flags {flags}"))?;
        gate.open();
        caller.join()?;
        behind.open();
        context.wait(stream)?;
        drop_event(context, event)?;
    }
    context.destroy(stream)
}

fn the_default_stream_waits_for_an_event(context: &'static Context) -> Checked {
    let apart = context.ok(context.x.create_stream_with(0, 1, 0), "create_stream_with")?;
    let event = event(context)?;
    let mark = Mark::new(context, 1)?;
    let gate = Gate::hold(context, 0, apart)?;
    record(context, event, apart)?;
    follow(context, Stream::DEFAULT, event)?;
    mark.put(context, Stream::DEFAULT)?;
    let caller = Caller::start(move || context.wait(Stream::DEFAULT))?;
    caller.expect_waiting("the default stream, which waits for a non-blocking one's event")?;
    mark.expect_not_passed("behind the default stream's wait")?;
    gate.open();
    caller.join()?;
    mark.expect_passed("once the event is reached")?;
    context.destroy(apart)?;
    drop_event(context, event)
}

fn events_order_a_chain_through_many_streams(context: &'static Context) -> Checked {
    let bytes = context.bytes(1, 70_000);
    let length = bytes.len();
    let source = Block::filled(context, Place::Pinned, &bytes)?;
    let blocks: Vec<Block> = (0..8)
        .map(|_| Block::filled(context, Place::Device, &vec![0; length]))
        .collect::<Checked<_>>()?;
    let target = Guarded::new(context, Place::Pinned, length)?;
    let streams: Vec<Stream> = (0..8).map(|_| context.stream()).collect::<Checked<_>>()?;
    let event = event(context)?;
    for _ in 0..context.times(20) {
        target_reset(context, &blocks)?;
        let gate = Gate::hold(context, 0, streams[0])?;
        let (first, src) = (blocks[0].address(), source.address());
        context.enqueue(first, src, length, MemcpyKind::H2D, streams[0])?;
        for at in 1..8 {
            // One event for all: each wait captured its own record.
            record(context, event, streams[at - 1])?;
            follow(context, streams[at], event)?;
            let (dst, src) = (blocks[at].address(), blocks[at - 1].address());
            context.enqueue(dst, src, length, MemcpyKind::D2D, streams[at])?;
        }
        let last = blocks[7].address();
        context.enqueue(target.address(), last, length, MemcpyKind::D2H, streams[7])?;
        // A stream that does not wait copies what is not there yet.
        settle();
        gate.open();
        context.wait(streams[7])?;
        target.expect(&bytes, "what came through eight streams")?;
    }
    for stream in streams {
        context.destroy(stream)?;
    }
    drop_event(context, event)
}

fn target_reset(context: &'static Context, blocks: &[Block]) -> Checked {
    let zeros = vec![0; blocks[0].size()];
    for block in blocks {
        let from = Address::of(&zeros);
        context.copy(block.address(), from, zeros.len(), MemcpyKind::H2D)?;
    }
    Ok(())
}

fn a_reached_event_stays_reached_while_its_stream_goes_on(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let event = event(context)?;
    record(context, event, stream)?;
    let gate = Gate::hold(context, 0, stream)?;
    for _ in 0..100 {
        ensure!(reached(context, event)?, "an event before the gate is reached");
    }
    await_event(context, event)?;
    gate.open();
    context.wait(stream)?;
    drop_event(context, event)
}

fn a_pending_event_may_be_destroyed(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let mark = Mark::new(context, 1)?;
    let gate = Gate::hold(context, 0, stream)?;
    for _ in 0..50 {
        let event = event(context)?;
        record(context, event, stream)?;
        drop_event(context, event)?;
    }
    mark.put(context, stream)?;
    gate.open();
    context.wait(stream)?;
    mark.expect_passed("behind events that were destroyed while they were pending")?;
    context.destroy(stream)
}

fn a_wait_outlives_its_event(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let mark = Mark::new(context, 1)?;
    let event = event(context)?;
    let gate = Gate::hold(context, 0, one)?;
    record(context, event, one)?;
    follow(context, two, event)?;
    drop_event(context, event)?;
    mark.put(context, two)?;
    let caller = Caller::start(move || context.wait(two))?;
    caller.expect_waiting("a stream that waits for an event that was destroyed since")?;
    mark.expect_not_passed("behind the wait")?;
    gate.open();
    caller.join()?;
    mark.expect_passed("once the stream came to where the event was")
}

fn an_event_outlives_its_stream(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let event = event(context)?;
    let gate = Gate::hold(context, 0, stream)?;
    record(context, event, stream)?;
    context.destroy(stream)?;
    ensure!(!reached(context, event)?, "its stream was destroyed, its work is not done");
    let caller = Caller::start(move || await_event(context, event))?;
    caller.expect_waiting("event_synchronize after the stream was destroyed")?;
    gate.open();
    caller.join()?;
    ensure!(reached(context, event)?, "the work of the destroyed stream is done");
    let next = context.stream()?;
    record(context, event, next)?;
    await_event(context, event)?;
    context.destroy(next)?;
    drop_event(context, event)
}

fn a_record_on_another_devices_stream_is_refused(context: &'static Context) -> Checked {
    let event = event_on(context, 0, EventFlags::TIMING)?;
    let other = context.ok(context.x.create_stream(1), "create_stream(1)")?;
    let what = "an event of device 0, a stream of device 1";
    let answer = context.x.record_event(0, event, other);
    context.answered(answer, "record_event", Status::InvalidValue, what)?;
    let answer = context.x.record_event(1, event, Stream::DEFAULT);
    context.answered(answer, "record_event", Status::InvalidValue, "the default stream of 1")?;
    ensure!(reached(context, event)?, "a refused record made the event pending");
    let answer = context.x.event_elapsed(event, event);
    context.answered(answer, "event_elapsed", Status::NotRecorded, "only refused records")?;
    context.ok(context.x.destroy_stream(1, other), "destroy_stream")?;
    drop_event(context, event)
}

fn a_wait_across_devices_orders(context: &'static Context) -> Checked {
    for (from, to) in [(0, 1), (1, 0)] {
        let one = context.ok(context.x.create_stream(from), "create_stream")?;
        let two = context.ok(context.x.create_stream(to), "create_stream")?;
        let event = event_on(context, from, EventFlags::NONE)?;
        context.set_device(to)?;
        let mark = Mark::new(context, 1)?;
        let gate = Gate::hold(context, from, one)?;
        context.ok(context.x.record_event(from, event, one), "record_event")?;
        context.ok(context.x.stream_wait_event(to, two, event), "stream_wait_event")?;
        mark.put(context, two)?;
        let caller = Caller::start(move || context.wait(two))?;
        caller.expect_waiting(&format!("device {to}, which waits for device {from}"))?;
        mark.expect_not_passed("behind the wait for the other device")?;
        gate.open();
        caller.join()?;
        mark.expect_passed("once the other device came there")?;
        context.destroy(one)?;
        context.destroy(two)?;
        drop_event(context, event)?;
    }
    Ok(())
}

/// Fails unless every operation refuses the handle.
fn expect_no_event(context: &'static Context, event: Event, what: &str) -> Checked {
    let x = &context.x;
    let status = Status::InvalidHandle;
    let none = Stream::DEFAULT;
    let good = event_on(context, 0, EventFlags::TIMING)?;
    context.answered(x.record_event(0, event, none), "record_event", status, what)?;
    context.answered(x.event_query(event), "event_query", status, what)?;
    context.answered(x.event_synchronize(event), "event_synchronize", status, what)?;
    let answer = x.stream_wait_event(0, none, event);
    context.answered(answer, "stream_wait_event", status, what)?;
    context.answered(x.event_elapsed(event, good), "event_elapsed", status, what)?;
    context.answered(x.event_elapsed(good, event), "event_elapsed", status, what)?;
    context.answered(x.get_native_event(event), "get_native_event", status, what)?;
    context.answered(x.destroy_event(event), "destroy_event", status, what)?;
    drop_event(context, good)
}

fn a_destroyed_event_is_an_error(context: &'static Context) -> Checked {
    let event = event(context)?;
    record(context, event, Stream::DEFAULT)?;
    drop_event(context, event)?;
    expect_no_event(context, event, "a destroyed event")?;
    expect_no_event(context, Event(std::ptr::null_mut()), "NULL")?;
    expect_no_event(context, Event(Address::GARBAGE.pointer()), "garbage")?;
    expect_no_event(context, Event(Address(usize::MAX).pointer()), "garbage")
}

fn a_stale_handle_does_not_name_its_successor(context: &'static Context) -> Checked {
    let stale = event(context)?;
    drop_event(context, stale)?;
    let next: Vec<Event> = (0..64).map(|_| event(context)).collect::<Checked<_>>()?;
    ensure!(!next.contains(&stale), "the handle of a destroyed event came back at once");
    expect_no_event(context, stale, "a destroyed event with 64 successors")?;
    for event in next {
        drop_event(context, event)?;
    }
    Ok(())
}

fn flags_and_outputs_without_a_meaning_are_refused(context: &'static Context) -> Checked {
    let x = &context.x;
    for flags in [4, 8, 1 << 31, u32::MAX] {
        let answer = x.create_event(0, EventFlags(flags));
        context.answered(
            answer,
            "create_event",
            Status::InvalidValue,
            &format!("flags {flags}"),
        )?;
    }
    for device in [-1, context.count, i32::MAX] {
        let answer = x.create_event(device, EventFlags::NONE);
        let what = format!("device {device}");
        context.answered(answer, "create_event", Status::InvalidDevice, &what)?;
    }
    // SAFETY: a NULL output is refused.
    let code = unsafe { (x.raw.create_event)(x.this(), 0, EventFlags::NONE, std::ptr::null_mut()) };
    let answer = Code(code).result();
    context.answered(answer, "create_event", Status::InvalidValue, "a NULL output").map(drop)
}

fn an_event_works_from_any_thread(context: &'static Context) -> Checked {
    let join = |thread: std::thread::JoinHandle<Checked<Event>>| {
        thread.join().unwrap_or_else(|_| Err(Stop::fail("the thread panicked")))
    };
    let event = join(std::thread::spawn(move || event(context)))?;
    let stream = context.stream()?;
    let gate = Gate::hold(context, 0, stream)?;
    join(std::thread::spawn(move || {
        context.set_device(context.count - 1)?;
        record(context, event, stream)?;
        Ok(event)
    }))?;
    let caller = Caller::start(move || {
        context.set_device(context.count - 1)?;
        await_event(context, event)
    })?;
    caller.expect_waiting("event_synchronize in a third thread")?;
    gate.open();
    caller.join()?;
    context.destroy(stream)?;
    join(std::thread::spawn(move || drop_event(context, event).map(|()| event)))?;
    Ok(())
}

struct Inside {
    context: &'static Context,
    event: Event,
    stream: Stream,
    answers: Mutex<Vec<Result<(), Code>>>,
}

/// # Safety
/// - `data` is an `Inside` that outlives the call.
unsafe extern "C" fn from_inside(data: *mut c_void) {
    // SAFETY: by the contract above.
    let inside = unsafe { &*data.cast::<Inside>() };
    let x = &inside.context.x;
    let waiting = x.event_synchronize(inside.event);
    let _ = inside.context.failure();
    let answers = vec![
        waiting,
        x.event_query(inside.event).map(drop),
        x.record_event(0, inside.event, inside.stream),
    ];
    *inside.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers;
}

fn waiting_for_an_event_inside_a_function_is_an_error(context: &'static Context) -> Checked {
    let (stream, event) = (context.stream()?, event(context)?);
    // Elsewhere a driver forbids every call of its own inside a host function, so the need is there.
    let inside = forever(Inside { context, event, stream, answers: Mutex::new(Vec::new()) });
    let data = std::ptr::from_ref(inside).cast_mut().cast();
    // SAFETY: `inside` is never freed.
    let launched = unsafe { context.x.launch_host_function(0, stream, from_inside, data) };
    context.ok(launched, "launch_host_function")?;
    context.wait(stream)?;
    let found = inside.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let right = [Err(Code::from(Status::NotPermitted)), Ok(()), Ok(())];
    ensure_eq!(found, right, "event_synchronize, event_query, record_event inside");
    context.wait(stream)?;
    context.destroy(stream)?;
    drop_event(context, event)
}

fn many_records_and_waits_do_not_grow_memory(context: &'static Context) -> Checked {
    let (one, two) = (context.stream()?, context.stream()?);
    let event = event(context)?;
    let round = |times: usize| -> Checked {
        for number in 0..times {
            record(context, event, one)?;
            follow(context, two, event)?;
            if number % 1000 == 999 {
                let other = self::event(context)?;
                record(context, other, two)?;
                drop_event(context, other)?;
            }
        }
        context.wait(two)
    };
    round(20_000)?;
    let before = crate::data::resident_bytes();
    round(context.times(60_000))?;
    let grown = crate::data::resident_bytes().saturating_sub(before);
    ensure!(grown < 64 << 20, "{grown} bytes more after 60,000 records and waits");
    context.destroy(one)?;
    context.destroy(two)?;
    drop_event(context, event)
}

fn many_threads_use_one_event(context: &'static Context) -> Checked {
    let event = event(context)?;
    let times = context.times(2000);
    let threads: Vec<_> = (0..6)
        .map(|_| {
            std::thread::spawn(move || -> Checked {
                let stream = context.stream()?;
                for _ in 0..times {
                    record(context, event, stream)?;
                    reached(context, event)?;
                    follow(context, stream, event)?;
                }
                context.wait(stream)?;
                context.destroy(stream)
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap_or_else(|_| Err(Stop::fail("a thread panicked")))?;
    }
    await_event(context, event)?;
    ensure!(reached(context, event)?, "all streams are done");
    drop_event(context, event)
}

fn the_native_event_is_there_and_stays_the_same(context: &'static Context) -> Checked {
    let event = event(context)?;
    let native = context.ok(context.x.get_native_event(event), "get_native_event")?;
    ensure!(!native.is_null(), "the native event is NULL");
    record(context, event, Stream::DEFAULT)?;
    await_event(context, event)?;
    let again = context.ok(context.x.get_native_event(event), "get_native_event")?;
    ensure_eq!(again, native, "the native event after a record");
    drop_event(context, event)
}
