//! Streams: the order of their operations, and the order among them.
//!
//! An operation may depend on points of other streams: `(stream, number of an operation)`. Events,
//! the legacy stream and peer copies are all made of such points. The rules: a stream does its
//! operations in order; an operation of the legacy stream depends on all that blocking streams of its
//! context were given before it, and an operation of a blocking stream on all that the legacy stream was given.

use crate::capture::Capture;
use crate::contexts;
use crate::driver::{Driver, Guard, World};
use crate::entry::outside_host_function;
use crate::errors::{Answer, CONTEXT_IS_DESTROYED, INVALID_HANDLE, INVALID_VALUE, NOT_READY};
use crate::faults;
use crate::handles::{Gone, Handle};
use crate::work::Work;
use std::cell::Cell;
use std::collections::VecDeque;

/// A stream, whatever becomes of its handle.
pub type StreamKey = u64;

/// A point of a stream: the stream has come to it when so many of its operations are done.
pub type Point = (StreamKey, u64);

/// The handles that are no addresses.
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;

/// The priorities of an H200: the least and the greatest.
pub const PRIORITIES: (i32, i32) = (0, -5);

/// An operation that was given to a stream.
pub struct Operation {
    pub number: u64,
    pub after: Vec<Point>,
    pub work: Work,
}

/// A stream.
pub struct Stream {
    /// 0 for the legacy stream and the per-thread streams.
    pub handle: Handle,
    pub context: Handle,
    pub blocking: bool,
    pub priority: i32,
    pub queue: VecDeque<Operation>,
    pub given: u64,
    pub done: u64,
    /// How many of the operations that are not done fill the queue of the real driver.
    pub filling: usize,
    /// Whether it is in the list of ready streams or with a worker.
    pub scheduled: bool,
    /// Streams whose next operation waits for this one.
    pub waiting: Vec<StreamKey>,
    pub destroyed: bool,
    /// It is captured: what it is given is not done.
    pub capture: Option<Capture>,
    /// How many streams were made before it: which hardware queues it uses.
    pub place: u64,
}

impl Stream {
    pub fn new(handle: Handle, context: Handle, blocking: bool, priority: i32) -> Stream {
        Stream {
            handle,
            context,
            blocking,
            priority,
            queue: VecDeque::new(),
            given: 0,
            done: 0,
            filling: 0,
            scheduled: false,
            waiting: Vec::new(),
            destroyed: false,
            capture: None,
            place: 0,
        }
    }
}

impl World {
    pub fn add_stream(&mut self, mut stream: Stream) -> StreamKey {
        let key = self.number();
        stream.place = self.streams_made;
        self.streams_made += 1;
        if stream.handle != 0 {
            self.stream_handles.insert(stream.handle, key);
        }
        self.streams.insert(key, stream);
        key
    }

    /// Whether a stream has come to a point. One that is gone has.
    pub fn reached(&self, (key, number): Point) -> bool {
        self.streams.get(&key).is_none_or(|stream| stream.done >= number)
    }

    pub fn reached_all(&self, points: &[Point]) -> bool {
        points.iter().all(|point| self.reached(*point))
    }

    /// All that the streams of a context were given.
    pub fn work_of(&self, context: Handle) -> Vec<Point> {
        self.pending(|stream| stream.context == context)
    }

    /// The hardware queue that a copy goes through, if streams share them.
    fn copy_queue(
        &self,
        driver: &Driver,
        key: StreamKey,
        work: &Work,
    ) -> Option<(Handle, u64, bool)> {
        let queues = driver.settings.copy_queues;
        let to_device = work.is_copy_to_device().filter(|_| queues > 0)?;
        let stream = self.streams.get(&key)?;
        Some((stream.context, stream.place % queues, to_device))
    }

    fn pending(&self, wanted: impl Fn(&Stream) -> bool) -> Vec<Point> {
        let busy =
            self.streams.iter().filter(|(_, stream)| stream.done < stream.given && wanted(stream));
        busy.map(|(key, stream)| (*key, stream.given)).collect()
    }

    fn is_legacy(&self, key: StreamKey) -> bool {
        let context = self.streams.get(&key).and_then(|stream| self.contexts.get(&stream.context));
        context.is_some_and(|context| context.legacy == key)
    }

    /// What the next operation of a stream comes after, and what a wait for the stream waits for.
    pub fn everything_before(&self, key: StreamKey) -> Vec<Point> {
        let Some(stream) = self.streams.get(&key) else { return Vec::new() };
        let mut points = self.ordered_before(key);
        points.push((key, stream.given));
        points
    }

    fn ordered_before(&self, key: StreamKey) -> Vec<Point> {
        let Some(stream) = self.streams.get(&key) else { return Vec::new() };
        if self.is_legacy(key) {
            return self.pending(|other| other.context == stream.context && other.blocking);
        }
        let legacy = self.contexts.get(&stream.context).map_or(0, |context| context.legacy);
        match self.streams.get(&legacy) {
            Some(other) if stream.blocking && other.done < other.given => {
                vec![(legacy, other.given)]
            }
            _ => Vec::new(),
        }
    }
}

/// The stream of a handle, usable, for an operation on it.
pub fn find(driver: &'static Driver, handle: Handle) -> Answer<(Guard, StreamKey)> {
    let (mut world, key) = find_quietly(driver, handle)?;
    if matches!(handle, 0 | LEGACY) {
        world.check_legacy(key)?;
    }
    Ok((world, key))
}

/// The stream of a handle, usable, for a question that concerns no capture.
pub fn find_quietly(driver: &'static Driver, handle: Handle) -> Answer<(Guard, StreamKey)> {
    if matches!(handle, 0 | LEGACY | PER_THREAD) {
        outside_host_function()?;
        let context = contexts::usable_current(driver)?;
        let mut world = driver.lock();
        let key = match handle {
            PER_THREAD => world.per_thread_stream(context),
            _ => world.contexts.get(&context).ok_or(CONTEXT_IS_DESTROYED)?.legacy,
        };
        return Ok((world, key));
    }
    let world = driver.lock();
    let Some(key) = world.stream_handles.get(&handle).copied() else {
        return Err(stale(driver, &world, "the stream", handle));
    };
    let context = world.streams.get(&key).ok_or(INVALID_HANDLE)?.context;
    contexts::usable(&world, context)?;
    Ok((world, key))
}

/// What a handle that names nothing is answered.
pub fn stale(driver: &Driver, world: &World, what: &str, handle: Handle) -> i32 {
    match world.handles.how_it_went(handle) {
        Some(Gone::WithItsContext) => CONTEXT_IS_DESTROYED,
        Some(Gone::Destroyed) => {
            faults::misuse(what, handle, driver.settings.abort_on_misuse);
            INVALID_HANDLE
        }
        None => INVALID_HANDLE,
    }
}

impl World {
    fn per_thread_stream(&mut self, context: Handle) -> StreamKey {
        thread_local! {
            static THREAD: Cell<u64> = const { Cell::new(0) };
        }
        if THREAD.get() == 0 {
            THREAD.set(self.number());
        }
        let thread = (THREAD.get(), context);
        if let Some(key) = self.per_thread.get(&thread) {
            return *key;
        }
        let key = self.add_stream(Stream::new(0, context, true, 0));
        self.per_thread.insert(thread, key);
        key
    }
}

/// Gives a stream an operation, which comes after these points too. Waits while the stream's queue is full.
pub fn give(
    driver: &'static Driver,
    world: &mut Guard,
    key: StreamKey,
    work: Work,
    mut after: Vec<Point>,
) -> Answer<Point> {
    if world.is_captured(key) {
        let done = world.streams.get(&key).map_or(0, |stream| stream.given);
        return Ok((key, done));
    }
    let fills = work.fills_the_queue();
    if fills {
        wait_for_room(driver, world, key);
    }
    after.extend(world.ordered_before(key));
    let queue = world.copy_queue(driver, key, &work);
    after.extend(queue.and_then(|queue| world.copy_queues.get(&queue)));
    let stream = world.streams.get_mut(&key).ok_or(CONTEXT_IS_DESTROYED)?;
    stream.given += 1;
    stream.filling += usize::from(fills);
    let number = stream.given;
    stream.queue.push_back(Operation { number, after, work });
    if let Some(queue) = queue {
        world.copy_queues.insert(queue, (key, number));
    }
    world.schedule(driver, key);
    Ok((key, number))
}

/// Waits while the queue is full; once it is, until a quarter of it is free, so that the two sides do not
/// wake each other for every operation.
fn wait_for_room(driver: &'static Driver, world: &mut Guard, key: StreamKey) {
    let depth = driver.settings.queue_depth;
    let filling = |world: &World| world.streams.get(&key).map_or(0, |stream| stream.filling);
    if filling(world) >= depth {
        while filling(world) > depth * 3 / 4 {
            driver.room.wait(world);
        }
    }
}

/// Waits for points, then says whether the context is still whole.
pub fn wait_for(
    driver: &'static Driver,
    world: &mut Guard,
    context: Handle,
    points: &[Point],
) -> Answer {
    let over =
        |world: &World| world.reached_all(points) || contexts::usable(world, context).is_err();
    driver.wait(world, |world| over(world));
    contexts::usable(world, context)
}

/// Gives a stream an operation and waits for it.
pub fn give_and_wait(
    driver: &'static Driver,
    world: &mut Guard,
    key: StreamKey,
    work: Work,
) -> Answer {
    let context = world.streams.get(&key).ok_or(CONTEXT_IS_DESTROYED)?.context;
    let point = give(driver, world, key, work, Vec::new())?;
    wait_for(driver, world, context, &[point])
}

/// `cuStreamCreateWithPriority`.
pub fn create(
    driver: &'static Driver,
    context: Handle,
    flags: u32,
    priority: i32,
) -> Answer<Handle> {
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    let mut world = driver.lock();
    let handle = world.handles.give();
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    world.add_stream(Stream::new(handle, context, flags == 0, priority));
    Ok(handle)
}

/// `cuStreamDestroy`: the handle goes now, the stream when its work is done.
pub fn destroy(driver: &'static Driver, handle: Handle) -> Answer {
    if matches!(handle, 0 | LEGACY | PER_THREAD) {
        return Err(INVALID_HANDLE);
    }
    let (mut world, key) = find(driver, handle)?;
    world.stream_handles.remove(&handle);
    world.handles.retire(handle, Gone::Destroyed);
    if let Some(stream) = world.streams.get_mut(&key) {
        stream.destroyed = true;
        if stream.done == stream.given {
            world.streams.remove(&key);
        }
    }
    Ok(())
}

/// `cuStreamSynchronize`.
pub fn synchronize(driver: &'static Driver, handle: Handle) -> Answer {
    let (mut world, key) = find(driver, handle)?;
    world.check_not_captured(key)?;
    let context = world.streams.get(&key).ok_or(INVALID_HANDLE)?.context;
    let points = world.waited_for(key);
    wait_for(driver, &mut world, context, &points)?;
    world.trim_pools();
    Ok(())
}

/// `cuStreamQuery`.
pub fn query(driver: &'static Driver, handle: Handle) -> Answer {
    let (mut world, key) = find(driver, handle)?;
    world.check_not_captured(key)?;
    if world.reached_all(&world.waited_for(key)) { Ok(()) } else { Err(NOT_READY) }
}

/// `cuCtxSynchronize`.
pub fn synchronize_context(driver: &'static Driver, context: Handle) -> Answer {
    let mut world = driver.lock();
    world.check_context_not_captured(context)?;
    let points = world.work_of(context);
    wait_for(driver, &mut world, context, &points)?;
    world.trim_pools();
    Ok(())
}

impl World {
    /// What a wait for a stream waits for: for the legacy stream that is also its blocking streams.
    fn waited_for(&self, key: StreamKey) -> Vec<Point> {
        let given = self.streams.get(&key).map_or(0, |stream| stream.given);
        if self.is_legacy(key) { self.everything_before(key) } else { vec![(key, given)] }
    }
}
