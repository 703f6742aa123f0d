//! Events.
//!
//! The rule: an event is the point of a stream that its last record named; a wait takes the point that
//! is there when the wait is asked for.

use crate::contexts;
use crate::driver::{Driver, Guard};
use crate::errors::{Answer, CAPTURED_EVENT, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::handles::{Gone, Handle};
use crate::streams::{self, Point};
use crate::work::Work;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// An event.
pub struct Event {
    pub context: Handle,
    flags: u32,
    record: Option<(Point, Arc<Stamp>)>,
    /// Its last record was captured.
    is_captured: bool,
}

/// When a record was reached.
#[derive(Default)]
pub struct Stamp(OnceLock<Instant>);

impl Stamp {
    pub fn press(&self) {
        self.0.get_or_init(Instant::now);
    }
}

/// `cuEventCreate`.
pub fn create(driver: &'static Driver, context: Handle, flags: u32) -> Answer<Handle> {
    let timed_interprocess = flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0;
    if flags & !7 != 0 || timed_interprocess {
        return Err(INVALID_VALUE);
    }
    let mut world = driver.lock();
    let handle = world.handles.give();
    world.events.insert(handle, Event { context, flags, record: None, is_captured: false });
    Ok(handle)
}

/// The lock, with an event known to be usable.
fn find(driver: &'static Driver, handle: Handle) -> Answer<Guard> {
    let world = driver.lock();
    check(driver, &world, handle)?;
    Ok(world)
}

fn check(driver: &'static Driver, world: &Guard, handle: Handle) -> Answer {
    match world.events.get(&handle) {
        Some(event) => contexts::usable(world, event.context),
        None => Err(streams::stale(driver, world, "the event", handle)),
    }
}

/// `cuEventRecord`.
pub fn record(driver: &'static Driver, handle: Handle, stream: Handle) -> Answer {
    let (mut world, key) = streams::find(driver, stream)?;
    check(driver, &world, handle)?;
    let context = world.streams.get(&key).map_or(0, |stream| stream.context);
    if world.events.get(&handle).is_none_or(|event| event.context != context) {
        return Err(INVALID_HANDLE);
    }
    let is_captured = world.is_captured(key);
    let stamp = Arc::new(Stamp::default());
    let point =
        streams::give(driver, &mut world, key, Work::Record(Arc::clone(&stamp)), Vec::new())?;
    if let Some(event) = world.events.get_mut(&handle) {
        event.record = Some((point, stamp));
        event.is_captured = is_captured;
    }
    Ok(())
}

/// `cuStreamWaitEvent`.
pub fn hold(driver: &'static Driver, stream: Handle, handle: Handle) -> Answer {
    let (mut world, key) = streams::find(driver, stream)?;
    check(driver, &world, handle)?;
    let point =
        world.events.get(&handle).and_then(|event| event.record.as_ref()).map(|(point, _)| *point);
    match point {
        Some(point) if !world.reached(point) => {
            streams::give(driver, &mut world, key, Work::Nothing, vec![point]).map(drop)
        }
        _ => Ok(()),
    }
}

/// `cuEventQuery`.
pub fn query(driver: &'static Driver, handle: Handle) -> Answer {
    let world = find(driver, handle)?;
    if world.events.get(&handle).is_some_and(|event| event.is_captured) {
        return Err(CAPTURED_EVENT);
    }
    match world.events.get(&handle).and_then(|event| event.record.as_ref()) {
        Some((point, _)) if !world.reached(*point) => Err(NOT_READY),
        _ => Ok(()),
    }
}

/// `cuEventSynchronize`.
pub fn synchronize(driver: &'static Driver, handle: Handle) -> Answer {
    let mut world = find(driver, handle)?;
    let Some(event) = world.events.get(&handle) else { return Err(INVALID_HANDLE) };
    if event.is_captured {
        return Err(CAPTURED_EVENT);
    }
    let (context, record) = (event.context, event.record.as_ref().map(|(point, _)| *point));
    match record {
        Some(point) => streams::wait_for(driver, &mut world, context, &[point])?,
        None => return Ok(()),
    }
    world.trim_pools();
    Ok(())
}

/// `cuEventElapsedTime`, in milliseconds.
pub fn elapsed(driver: &'static Driver, start: Handle, end: Handle) -> Answer<f32> {
    let world = find(driver, start)?;
    check(driver, &world, end)?;
    let (Some(a), Some(b)) = (world.events.get(&start), world.events.get(&end)) else {
        return Err(INVALID_HANDLE);
    };
    if (a.flags | b.flags) & DISABLE_TIMING != 0 || a.context != b.context {
        return Err(INVALID_HANDLE);
    }
    let (Some((from, first)), Some((to, last))) = (&a.record, &b.record) else {
        return Err(INVALID_HANDLE);
    };
    if !world.reached(*from) || !world.reached(*to) {
        return Err(NOT_READY);
    }
    let (Some(first), Some(last)) = (first.0.get(), last.0.get()) else {
        return Err(INVALID_HANDLE);
    };
    let forward = last.checked_duration_since(*first);
    let milliseconds = match forward {
        Some(time) => time.as_secs_f64() * 1e3,
        None => -(first.duration_since(*last).as_secs_f64() * 1e3),
    };
    Ok(milliseconds as f32)
}

/// `cuEventDestroy`: what was recorded still happens.
pub fn destroy(driver: &'static Driver, handle: Handle) -> Answer {
    let mut world = find(driver, handle)?;
    world.events.remove(&handle);
    world.handles.retire(handle, Gone::Destroyed);
    Ok(())
}
