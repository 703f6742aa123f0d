//! Streams and host functions of the plugin alone (S1, S2, S3, S5, H1).

use super::Plugin;
use super::block::{Block, enqueue};
use crate::caller::Caller;
use crate::case::Area;
use crate::forever::forever;
use crate::gate::Gate;
use crate::outcome::Checked;
use crate::place::Place;
use crate::quiet::settle;
use llaisys_runtime_core::api::Stream;
use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

raw_cases! { Area::RawWork;
    "S2" every_stream_is_another_one_and_none_is_null [];
    "S1" copies_of_a_stream_run_in_their_order [HOST_FUNCTIONS];
    "S1" a_stream_does_not_wait_for_another_that_is_held [HOST_FUNCTIONS];
    "S1" waiting_for_a_stream_waits [HOST_FUNCTIONS];
    "S1" waiting_for_the_device_waits_for_every_stream [HOST_FUNCTIONS];
    "S2" the_default_stream_and_the_blocking_ones_are_ordered [HOST_FUNCTIONS];
    "S3" a_busy_stream_is_destroyed_at_once_and_its_work_is_done [HOST_FUNCTIONS];
    "S5" a_query_knows_a_held_stream_from_an_idle_one [HOST_FUNCTIONS, STREAM_QUERY];
    "H1" host_functions_run_once_in_order_and_elsewhere [HOST_FUNCTIONS];
    "S2" a_stream_of_a_kind_is_made_with_any_priority [STREAM_OPTIONS];
}

fn ready(plugin: &Plugin) -> Checked {
    plugin.initialize()?;
    plugin.devices().map(drop)
}

/// A copy that shows when a stream has come to it.
struct Mark {
    source: Block,
    target: Block,
    bytes: Vec<u8>,
}

impl Mark {
    fn new(plugin: &'static Plugin, which: u64) -> Checked<Mark> {
        let bytes = plugin.bytes(which, 5000);
        let source = Block::filled(plugin, Place::Device, &bytes)?;
        let target = Block::guarded(plugin, Place::Pinned, bytes.len())?;
        Ok(Mark { source, target, bytes })
    }

    fn put(&self, plugin: &Plugin, stream: Stream) -> Checked {
        let (to, from) = (self.target.inside(), self.source.address());
        enqueue(plugin, (to, Place::Pinned), (from, Place::Device), self.bytes.len(), stream)
    }

    fn expect_passed(&self, what: &str) -> Checked {
        self.target.expect(&self.bytes, what)
    }

    fn expect_not_passed(&self, what: &str) -> Checked {
        self.target.expect(&[], what)
    }
}

fn every_stream_is_another_one_and_none_is_null(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let streams: Vec<Stream> = (0..32).map(|_| plugin.stream()).collect::<Checked<_>>()?;
    let distinct: HashSet<&Stream> = streams.iter().collect();
    ensure_eq!(distinct.len(), streams.len(), "distinct handles of 32 live streams");
    for stream in streams {
        plugin.wait(stream)?;
        plugin.destroy(stream)?;
    }
    Ok(())
}

fn copies_of_a_stream_run_in_their_order(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let size = 20_000;
    let layers: Vec<Vec<u8>> = (0..40).map(|which| plugin.bytes(which, size)).collect();
    let sources: Vec<Block> = layers
        .iter()
        .map(|bytes| Block::filled(plugin, Place::Pinned, bytes))
        .collect::<Checked<_>>()?;
    let middle = Block::new(plugin, Place::Device, size)?;
    let target = Block::guarded(plugin, Place::Pinned, size)?;
    let gate = Gate::hold_in(&plugin.x, 0, stream)?;
    let via = (middle.address(), Place::Device);
    for source in &sources {
        enqueue(plugin, via, (source.address(), Place::Pinned), size, stream)?;
    }
    enqueue(plugin, (target.inside(), Place::Pinned), via, size, stream)?;
    gate.open();
    plugin.wait(stream)?;
    target.expect(&layers[39], "the last of forty writes to one block")?;
    plugin.destroy(stream)
}

fn a_stream_does_not_wait_for_another_that_is_held(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let (held, free) = (plugin.stream()?, plugin.stream()?);
    let mark = Mark::new(plugin, 1)?;
    let gate = Gate::hold_in(&plugin.x, 0, held)?;
    mark.put(plugin, free)?;
    // Would wait for ever if the streams were one: the watchdog tells.
    plugin.wait(free)?;
    mark.expect_passed("in a stream beside one that is held")?;
    gate.open();
    plugin.wait(held)?;
    plugin.destroy(held)?;
    plugin.destroy(free)
}

fn waiting_for_a_stream_waits(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let gate = Gate::hold_in(&plugin.x, 0, stream)?;
    let caller = Caller::start(move || plugin.wait(stream))?;
    caller.expect_waiting("stream_synchronize of a held stream")?;
    gate.open();
    caller.join()?;
    plugin.destroy(stream)
}

fn waiting_for_the_device_waits_for_every_stream(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let streams: Vec<Stream> = (0..3).map(|_| plugin.stream()).collect::<Checked<_>>()?;
    for held in &streams {
        let gate = Gate::hold_in(&plugin.x, 0, *held)?;
        let caller =
            Caller::start(|| plugin.ok(plugin.x.device_synchronize(0), "device_synchronize"))?;
        caller.expect_waiting("device_synchronize with one of three streams held")?;
        gate.open();
        caller.join()?;
    }
    streams.into_iter().try_for_each(|stream| plugin.destroy(stream))
}

fn the_default_stream_and_the_blocking_ones_are_ordered(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    for (first, second) in [(stream, Stream::DEFAULT), (Stream::DEFAULT, stream)] {
        let mark = Mark::new(plugin, 1)?;
        let gate = Gate::hold_in(&plugin.x, 0, first)?;
        mark.put(plugin, second)?;
        mark.expect_not_passed("a copy that has to wait for the other stream")?;
        gate.open();
        plugin.wait(second)?;
        mark.expect_passed("once the other stream went on")?;
        plugin.wait(first)?;
    }
    plugin.destroy(stream)
}

fn a_busy_stream_is_destroyed_at_once_and_its_work_is_done(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let mark = Mark::new(plugin, 1)?;
    let gate = Gate::hold_in(&plugin.x, 0, stream)?;
    mark.put(plugin, stream)?;
    // Would wait for ever if it waited: the watchdog tells.
    plugin.destroy(stream)?;
    mark.expect_not_passed("behind the gate of a destroyed stream")?;
    gate.open();
    plugin.ok(plugin.x.device_synchronize(0), "device_synchronize")?;
    mark.expect_passed("the work of a stream that was destroyed")
}

fn a_query_knows_a_held_stream_from_an_idle_one(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let query = || plugin.ok(plugin.x.stream_query(0, stream), "stream_query");
    for _ in 0..20 {
        ensure!(query()?, "an idle stream is not ready");
        let gate = Gate::hold_in(&plugin.x, 0, stream)?;
        ensure!(!query()?, "a held stream is ready");
        gate.open();
        plugin.wait(stream)?;
        ensure!(query()?, "a stream that was waited for is not ready");
    }
    plugin.destroy(stream)
}

/// One call of a function.
struct Step {
    number: usize,
    list: &'static Mutex<Vec<usize>>,
}

/// # Safety
/// - `data` is a `Step` that is never freed.
unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: by the contract above.
    let step = unsafe { &*data.cast::<Step>() };
    step.list.lock().unwrap_or_else(PoisonError::into_inner).push(step.number);
}

fn host_functions_run_once_in_order_and_elsewhere(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let stream = plugin.stream()?;
    let list = forever(Mutex::new(Vec::new()));
    let gate = Gate::hold_in(&plugin.x, 0, stream)?;
    for number in 0..300 {
        let data = ptr::from_ref(forever(Step { number, list })).cast_mut().cast();
        // SAFETY: the step is never freed.
        let launched = unsafe { plugin.x.launch_host_function(0, stream, note, data) };
        plugin.ok(launched, "launch_host_function")?;
    }
    settle();
    let early = list.lock().unwrap_or_else(PoisonError::into_inner).len();
    ensure_eq!(early, 0, "functions that ran behind a closed gate");
    gate.open();
    plugin.wait(stream)?;
    let found = list.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ensure_eq!(found, (0..300).collect::<Vec<_>>(), "which ran, in which order");
    plugin.destroy(stream)
}

fn a_stream_of_a_kind_is_made_with_any_priority(plugin: &'static Plugin) -> Checked {
    ready(plugin)?;
    let (least, greatest) =
        plugin.ok(plugin.x.get_stream_priority_range(0), "get_stream_priority_range")?;
    ensure!(greatest <= least, "the range is {least} (least) to {greatest} (greatest)");
    for flags in [0, 1] {
        for priority in [least, greatest, i32::MIN, i32::MAX, 0] {
            let made = plugin.x.create_stream_with(0, flags, priority);
            let stream = plugin.ok(made, &format!("flags {flags}, priority {priority}"))?;
            ensure!(!stream.is_default(), "create_stream_with succeeded and wrote NULL");
            plugin.wait(stream)?;
            plugin.destroy(stream)?;
        }
    }
    Ok(())
}
