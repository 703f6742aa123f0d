//! Events of the plugin alone (V1, V2, V3).

use super::Plugin;
use crate::caller::Caller;
use crate::case::Area;
use crate::gate::Gate;
use crate::outcome::Checked;
use crate::quiet::settle;
use llaisys_runtime_core::api::{Event, EventFlags, Stream};

raw_cases! { Area::RawWork;
    "V1" an_event_that_was_never_recorded_is_reached [EVENTS];
    "V1" an_event_waits_for_its_stream [EVENTS, HOST_FUNCTIONS];
    "V1" a_stream_waits_for_an_event [EVENTS, HOST_FUNCTIONS];
    "V1" a_wait_is_for_the_record_of_its_time [EVENTS, HOST_FUNCTIONS];
    "V2" a_time_is_positive_and_negative_the_other_way_round [EVENTS];
    "V3" an_event_that_is_not_reached_may_be_destroyed [EVENTS, HOST_FUNCTIONS];
}

fn ready(plugin: &Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices().map(drop)
}

fn event(plugin: &Plugin, flags: EventFlags) -> Checked<Event> {
    let event = plugin.ok(plugin.x.create_event(0, flags), "create_event")?;
    ensure!(!event.0.is_null(), "create_event succeeded and wrote NULL");
    Ok(event)
}

fn record(plugin: &Plugin, event: Event, stream: Stream) -> Checked {
    plugin.ok(plugin.x.record_event(0, event, stream), "record_event")
}

fn reached(plugin: &Plugin, event: Event) -> Checked<bool> {
    plugin.ok(plugin.x.event_query(event), "event_query")
}

fn await_event(plugin: &Plugin, event: Event) -> Checked {
    plugin.ok(plugin.x.event_synchronize(event), "event_synchronize")
}

fn follow(plugin: &Plugin, stream: Stream, event: Event) -> Checked {
    plugin.ok(plugin.x.stream_wait_event(0, stream, event), "stream_wait_event")
}

fn end(plugin: &Plugin, event: Event) -> Checked {
    plugin.ok(plugin.x.destroy_event(event), "destroy_event")
}

fn an_event_that_was_never_recorded_is_reached(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    for flags in 0..=3 {
        let event = event(plugin, EventFlags(flags))?;
        ensure!(reached(plugin, event)?, "flags {flags}: a new event is not reached");
        await_event(plugin, event)?;
        end(plugin, event)?;
    }
    Ok(())
}

fn an_event_waits_for_its_stream(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for flags in 0..=3 {
        let event = event(plugin, EventFlags(flags))?;
        let gate = Gate::hold_in(&plugin.x, 0, stream)?;
        record(plugin, event, stream)?;
        settle();
        ensure!(!reached(plugin, event)?, "flags {flags}: reached behind a closed gate");
        let caller = Caller::start(move || await_event(plugin, event))?;
        caller.expect_waiting("event_synchronize behind a closed gate")?;
        gate.open();
        caller.join()?;
        ensure!(reached(plugin, event)?, "flags {flags}: waited for, and not reached");
        end(plugin, event)?;
    }
    plugin.destroy(stream)
}

fn a_stream_waits_for_an_event(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let (one, two) = (plugin.stream()?, plugin.stream()?);
    let event = event(plugin, EventFlags::NONE)?;
    let gate = Gate::hold_in(&plugin.x, 0, one)?;
    record(plugin, event, one)?;
    follow(plugin, two, event)?;
    let caller = Caller::start(move || plugin.wait(two))?;
    caller.expect_waiting("a stream that waits for an event behind a closed gate")?;
    gate.open();
    caller.join()?;
    plugin.destroy(one)?;
    plugin.destroy(two)?;
    end(plugin, event)
}

fn a_wait_is_for_the_record_of_its_time(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let (one, two) = (plugin.stream()?, plugin.stream()?);
    let event = event(plugin, EventFlags::NONE)?;
    record(plugin, event, one)?;
    await_event(plugin, event)?;
    follow(plugin, two, event)?;
    let gate = Gate::hold_in(&plugin.x, 0, one)?;
    record(plugin, event, one)?;
    // Would wait for ever if it were for the newest record: the watchdog tells.
    plugin.wait(two)?;
    ensure!(!reached(plugin, event)?, "recorded again behind a gate: the old answer came back");
    gate.open();
    await_event(plugin, event)?;
    plugin.destroy(one)?;
    plugin.destroy(two)?;
    end(plugin, event)
}

fn a_time_is_positive_and_negative_the_other_way_round(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let (first, second) = (event(plugin, EventFlags::TIMING)?, event(plugin, EventFlags::TIMING)?);
    record(plugin, first, stream)?;
    await_event(plugin, first)?;
    let since = std::time::Instant::now();
    while since.elapsed() < std::time::Duration::from_millis(5) {
        std::thread::yield_now();
    }
    let slept = since.elapsed().as_nanos() as i64;
    record(plugin, second, stream)?;
    await_event(plugin, second)?;
    let there = plugin.ok(plugin.x.event_elapsed(first, second), "event_elapsed")?;
    let back = plugin.ok(plugin.x.event_elapsed(second, first), "event_elapsed")?;
    // A vendor's clock may be read as a fraction of a millisecond.
    ensure!(there >= slept - 1_000_000, "at least {slept} ns passed, event_elapsed says {there}");
    ensure!((there + back).abs() < 1000, "there {there} ns, back {back} ns");
    plugin.destroy(stream)?;
    end(plugin, first)?;
    end(plugin, second)
}

fn an_event_that_is_not_reached_may_be_destroyed(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let (one, two) = (plugin.stream()?, plugin.stream()?);
    let gate = Gate::hold_in(&plugin.x, 0, one)?;
    for _ in 0..20 {
        let event = event(plugin, EventFlags::NONE)?;
        record(plugin, event, one)?;
        follow(plugin, two, event)?;
        // Would wait for ever if it waited: the watchdog tells.
        end(plugin, event)?;
    }
    let caller = Caller::start(move || plugin.wait(two))?;
    caller.expect_waiting("a wait for an event that was destroyed")?;
    gate.open();
    caller.join()?;
    plugin.wait(one)?;
    plugin.destroy(one)?;
    plugin.destroy(two)
}
