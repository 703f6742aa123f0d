//! The time between two events (V2).

use super::events::{await_event, event_on, record};
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::outcome::Checked;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{Event, EventFlags, Stream};
use std::time::{Duration, Instant};

cases! { Area::Events;
    "V2" no_time_before_a_record [Events];
    "V2" no_time_while_an_end_is_pending [Events, Gates];
    "V2" no_time_without_timing [Events];
    "V2" the_three_reasons_are_told_in_their_order [Events, Gates];
    "V2" a_time_is_what_passed_meanwhile [Events, Gates];
    "V2" an_end_before_its_start_is_negative [Events, Gates];
    "V2" a_time_is_never_stale [Events, Gates];
    "V2" times_are_monotonic [Events];
    "V2" no_time_between_two_devices [SecondDevice, Events];
}

fn timed(context: &Context) -> Checked<Event> {
    event_on(context, 0, EventFlags::TIMING)
}

fn elapsed(context: &Context, start: Event, end: Event) -> Checked<i64> {
    context.ok(context.x.event_elapsed(start, end), "event_elapsed")
}

fn refused(context: &Context, (start, end): (Event, Event), right: Status, what: &str) -> Checked {
    let answer = context.x.event_elapsed(start, end);
    context.answered(answer, "event_elapsed", right, what).map(drop)
}

fn done(context: &Context) -> Checked<Event> {
    let event = timed(context)?;
    record(context, event, Stream::DEFAULT)?;
    await_event(context, event)?;
    Ok(event)
}

fn no_time_before_a_record(context: &'static Context) -> Checked {
    let (new, done) = (timed(context)?, done(context)?);
    refused(context, (new, done), Status::NotRecorded, "the start was never recorded")?;
    refused(context, (done, new), Status::NotRecorded, "the end was never recorded")?;
    refused(context, (new, new), Status::NotRecorded, "neither was recorded")
}

fn no_time_while_an_end_is_pending(context: &'static Context) -> Checked {
    let (stream, done) = (context.stream()?, done(context)?);
    let pending = timed(context)?;
    let gate = Gate::hold(context, 0, stream)?;
    record(context, pending, stream)?;
    refused(context, (done, pending), Status::NotReady, "the end is behind a gate")?;
    refused(context, (pending, done), Status::NotReady, "the start is behind a gate")?;
    gate.open();
    await_event(context, pending)?;
    ensure!(elapsed(context, done, pending)? >= 0, "the time to a later event is negative");
    context.destroy(stream)
}

fn no_time_without_timing(context: &'static Context) -> Checked {
    let done = done(context)?;
    for flags in [EventFlags::NONE, EventFlags::BLOCKING_WAIT] {
        let other = event_on(context, 0, flags)?;
        record(context, other, Stream::DEFAULT)?;
        await_event(context, other)?;
        refused(context, (other, done), Status::TimingDisabled, "a start without timing")?;
        refused(context, (done, other), Status::TimingDisabled, "an end without timing")?;
    }
    Ok(())
}

fn the_three_reasons_are_told_in_their_order(context: &'static Context) -> Checked {
    let untimed = event_on(context, 0, EventFlags::NONE)?;
    let (new, pending, stream) = (timed(context)?, timed(context)?, context.stream()?);
    let gate = Gate::hold(context, 0, stream)?;
    record(context, pending, stream)?;
    refused(context, (untimed, new), Status::TimingDisabled, "the start first")?;
    refused(context, (new, untimed), Status::NotRecorded, "the start first")?;
    refused(context, (pending, new), Status::NotReady, "the start first")?;
    gate.open();
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_time_is_what_passed_meanwhile(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    for flags in [EventFlags::TIMING, EventFlags(3)] {
        let (start, end) = (event_on(context, 0, flags)?, event_on(context, 0, flags)?);
        let before = Instant::now();
        record(context, start, stream)?;
        await_event(context, start)?;
        let gate = Gate::hold(context, 0, stream)?;
        record(context, end, stream)?;
        let held = Instant::now();
        while held.elapsed() < Duration::from_millis(20) {
            std::thread::yield_now();
        }
        let least = held.elapsed();
        gate.open();
        await_event(context, end)?;
        let most = before.elapsed();
        let found = Duration::from_nanos(elapsed(context, start, end)?.unsigned_abs());
        // The vendors' clocks count in half microseconds.
        let slack = Duration::from_micros(50);
        ensure!(
            found + slack >= least && found <= most + slack,
            "expected a time between {least:?} and {most:?}, found {found:?}"
        );
        ensure_eq!(elapsed(context, start, start)?, 0, "the time from an event to itself");
    }
    context.destroy(stream)
}

fn an_end_before_its_start_is_negative(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (first, second) = (timed(context)?, timed(context)?);
    record(context, first, stream)?;
    await_event(context, first)?;
    let gate = Gate::hold(context, 0, stream)?;
    let held = Instant::now();
    while held.elapsed() < Duration::from_millis(2) {
        std::thread::yield_now();
    }
    gate.open();
    record(context, second, stream)?;
    await_event(context, second)?;
    let (there, back) = (elapsed(context, first, second)?, elapsed(context, second, first)?);
    ensure!(there > 0 && back < 0, "expected a positive and a negative time: {there}, {back}");
    // A vendor's clock may be read as a fraction of a millisecond.
    ensure!((there + back).abs() < 1000, "there {there} ns, back {back} ns");
    context.destroy(stream)
}

fn a_time_is_never_stale(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let (start, end) = (timed(context)?, timed(context)?);
    record(context, start, stream)?;
    record(context, end, stream)?;
    await_event(context, end)?;
    let first = elapsed(context, start, end)?;
    let gate = Gate::hold(context, 0, stream)?;
    record(context, end, stream)?;
    refused(context, (start, end), Status::NotReady, "the end was recorded again")?;
    let held = Instant::now();
    while held.elapsed() < Duration::from_millis(5) {
        std::thread::yield_now();
    }
    gate.open();
    await_event(context, end)?;
    let second = elapsed(context, start, end)?;
    ensure!(second >= first + 4_000_000, "the old time came back: {first} ns, then {second} ns");
    // The start again: now it is behind the end.
    record(context, start, stream)?;
    await_event(context, start)?;
    let third = elapsed(context, start, end)?;
    ensure!(third <= 0, "the start was recorded after the end, the time is {third} ns");
    context.destroy(stream)
}

fn times_are_monotonic(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    let events: Vec<Event> = (0..100).map(|_| timed(context)).collect::<Checked<_>>()?;
    for event in &events {
        record(context, *event, stream)?;
    }
    context.wait(stream)?;
    let mut last = 0;
    for event in &events {
        let time = elapsed(context, events[0], *event)?;
        ensure!(time >= last, "{time} ns comes after {last} ns in the same stream");
        last = time;
    }
    for event in events {
        context.ok(context.x.destroy_event(event), "destroy_event")?;
    }
    context.destroy(stream)
}

fn no_time_between_two_devices(context: &'static Context) -> Checked {
    let here = done(context)?;
    let there = event_on(context, 1, EventFlags::TIMING)?;
    context.ok(context.x.record_event(1, there, Stream::DEFAULT), "record_event")?;
    await_event(context, there)?;
    refused(context, (here, there), Status::InvalidValue, "events of two devices")?;
    refused(context, (there, here), Status::InvalidValue, "events of two devices")
}
