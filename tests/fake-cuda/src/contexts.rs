//! Contexts: the primary one of each device, made ones, and which is current in a thread.
//!
//! The rule: a primary context keeps its handle over its lives. Whatever belonged to a life ends with it.

use crate::driver::{Driver, Guard, World};
use crate::entry::Here;
use crate::errors::{
    Answer, CONTEXT_IS_DESTROYED, Code, INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY,
};
use crate::faults;
use crate::handles::{Gone, Handle};
use crate::memory::Block;
use crate::streams::{Stream, StreamKey};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

/// A living context.
pub struct Context {
    pub device: usize,
    pub primary: bool,
    pub flags: u32,
    /// The fatal code that it answers from now on.
    pub broken: Option<Code>,
    pub legacy: StreamKey,
    pub peers: HashSet<Handle>,
    /// Whether a host function of it runs: they run one at a time.
    pub in_host_function: bool,
    /// Streams whose next operation is a host function and has to wait for that.
    pub host_queue: Vec<StreamKey>,
}

/// What is kept of a device's primary context while it does not live.
pub struct Primary {
    pub handle: Handle,
    pub retained: usize,
    pub flags: u32,
    pub default_pool: Handle,
    pub pool: Handle,
}

const DEPTH: usize = 64;

thread_local! {
    // Without a destructor, so that it can be asked until the thread's very end.
    static STACK: [Cell<Handle>; DEPTH] = const { [const { Cell::new(0) }; DEPTH] };
    static HEIGHT: Cell<usize> = const { Cell::new(0) };
}

/// The thread's current context, 0 for none.
pub fn current() -> Handle {
    match HEIGHT.get() {
        0 => 0,
        height => STACK.with(|stack| stack[height - 1].get()),
    }
}

fn push(context: Handle) -> Answer {
    let height = HEIGHT.get();
    if height == DEPTH {
        return Err(OUT_OF_MEMORY);
    }
    STACK.with(|stack| stack[height].set(context));
    HEIGHT.set(height + 1);
    Ok(())
}

/// `cuCtxPopCurrent`.
pub fn pop() -> Answer<Handle> {
    let popped = current();
    if popped == 0 {
        return Err(INVALID_CONTEXT);
    }
    HEIGHT.set(HEIGHT.get() - 1);
    Ok(popped)
}

/// The current context, if it is one that can be worked in.
pub fn usable_current(driver: &'static Driver) -> Answer<Handle> {
    let context = current();
    usable(&driver.lock(), context)?;
    Ok(context)
}

/// Whether a context can be worked in.
pub fn usable(world: &World, context: Handle) -> Answer {
    match world.contexts.get(&context) {
        Some(Context { broken: Some(code), .. }) => Err(*code),
        Some(_) => Ok(()),
        None if context == 0 => Err(INVALID_CONTEXT),
        None => Err(CONTEXT_IS_DESTROYED),
    }
}

/// A fatal code came up in the current context.
pub fn break_current(driver: &'static Driver, code: Code) {
    driver.lock().break_context(current(), code);
}

/// The device of the current context, which a destroyed one still has.
pub fn current_device(driver: &'static Driver) -> Answer<i32> {
    let (world, context) = (driver.lock(), current());
    if context == 0 {
        return Err(INVALID_CONTEXT);
    }
    let primary = world.primaries.iter().position(|primary| primary.handle == context);
    let device = world.contexts.get(&context).map(|context| context.device).or(primary);
    Ok(device.unwrap_or(0) as i32)
}

/// `cuCtxSetCurrent`.
pub fn set_current(driver: &'static Driver, context: Handle) -> Answer {
    if context == 0 {
        if HEIGHT.get() > 0 {
            HEIGHT.set(HEIGHT.get() - 1);
        }
        return Ok(());
    }
    driver.lock().known(context)?;
    if HEIGHT.get() > 0 {
        HEIGHT.set(HEIGHT.get() - 1);
    }
    push(context)
}

/// `cuCtxPushCurrent`.
pub fn push_current(driver: &'static Driver, context: Handle) -> Answer {
    if context == 0 {
        return Err(INVALID_VALUE);
    }
    driver.lock().known(context)?;
    push(context)
}

/// `cuDevicePrimaryCtxRetain`.
pub fn retain(driver: &'static Driver, device: usize) -> Answer<Handle> {
    let mut world = driver.lock();
    let (handle, flags) = (world.primaries[device].handle, world.primaries[device].flags);
    if !world.contexts.contains_key(&handle) {
        world.may_make()?;
        world.make_context(handle, device, true, flags);
        faults::CONTEXTS_CREATED.fetch_add(1, Relaxed);
    }
    world.primaries[device].retained += 1;
    Ok(handle)
}

/// `cuDevicePrimaryCtxRelease`.
pub fn release(driver: &'static Driver, device: usize) -> Answer {
    let mut world = driver.lock();
    match world.primaries[device].retained {
        0 => return Err(INVALID_CONTEXT),
        1 => destroy_primary(driver, &mut world, device),
        _ => {}
    }
    world.primaries[device].retained -= 1;
    Ok(())
}

/// `cuDevicePrimaryCtxReset`.
pub fn reset(driver: &'static Driver, device: usize) -> Answer {
    faults::RESETS.fetch_add(1, Relaxed);
    destroy_primary(driver, &mut driver.lock(), device);
    Ok(())
}

fn destroy_primary(driver: &'static Driver, world: &mut Guard, device: usize) {
    let handle = world.primaries[device].handle;
    if world.contexts.contains_key(&handle) {
        end(driver, world, handle);
        world.primaries[device].flags = 0;
    }
}

/// `cuDevicePrimaryCtxSetFlags`.
pub fn set_flags(driver: &'static Driver, device: usize, flags: u32) -> Answer {
    if flags & !0x1f != 0 || !matches!(flags & 7, 0 | 1 | 2 | 4) {
        return Err(INVALID_VALUE);
    }
    let mut world = driver.lock();
    world.primaries[device].flags = flags;
    let handle = world.primaries[device].handle;
    if let Some(context) = world.contexts.get_mut(&handle) {
        context.flags = flags;
    }
    Ok(())
}

/// `cuCtxCreate`.
pub fn create(driver: &'static Driver, device: usize, flags: u32) -> Answer<Handle> {
    let mut world = driver.lock();
    world.may_make()?;
    let handle = world.handles.give();
    world.make_context(handle, device, false, flags);
    push(handle)?;
    Ok(handle)
}

/// `cuCtxDestroy`.
pub fn destroy(driver: &'static Driver, context: Handle) -> Answer {
    if context == 0 {
        return Err(INVALID_VALUE);
    }
    let mut world = driver.lock();
    match world.contexts.get(&context) {
        Some(Context { primary: false, .. }) => {}
        _ => return Err(INVALID_CONTEXT),
    }
    end(driver, &mut world, context);
    world.handles.retire(context, Gone::WithItsContext);
    if current() == context {
        pop()?;
    }
    Ok(())
}

/// Ends a life of a context: its work is waited for, then all that belongs to it goes.
fn end(driver: &'static Driver, world: &mut Guard, handle: Handle) {
    let targets = world.work_of(handle);
    driver.wait(world, |world| world.reached_all(&targets));
    world.contexts.remove(&handle);
    world.per_thread.retain(|(_, context), _| *context != handle);
    let streams: Vec<(StreamKey, Handle)> = world
        .streams
        .iter()
        .filter(|(_, s)| s.context == handle)
        .map(|(k, s)| (*k, s.handle))
        .collect();
    for (key, stream) in streams {
        world.streams.remove(&key);
        if world.stream_handles.remove(&stream).is_some() {
            world.handles.retire(stream, Gone::WithItsContext);
        }
    }
    let events: Vec<Handle> =
        world.events.iter().filter(|(_, e)| e.context == handle).map(|(h, _)| *h).collect();
    for event in events {
        world.events.remove(&event);
        world.handles.retire(event, Gone::WithItsContext);
    }
    world.memory.retain(|_, block| match block {
        Block::Device(allocation) => allocation.context != Some(handle),
        Block::Host(host) => host.context != handle,
    });
    for context in world.contexts.values_mut() {
        context.peers.remove(&handle);
    }
}

impl World {
    fn known(&self, context: Handle) -> Answer {
        let known = self.contexts.contains_key(&context)
            || self.primaries.iter().any(|primary| primary.handle == context)
            || self.handles.how_it_went(context).is_some();
        if known { Ok(()) } else { Err(INVALID_CONTEXT) }
    }

    /// After a fatal fault no context can be made in the process.
    fn may_make(&self) -> Answer {
        self.lost.map_or(Ok(()), Err)
    }

    fn make_context(&mut self, handle: Handle, device: usize, primary: bool, flags: u32) {
        let legacy = self.add_stream(Stream::new(0, handle, true, 0));
        let context = Context {
            device,
            primary,
            flags,
            broken: None,
            legacy,
            peers: HashSet::new(),
            in_host_function: false,
            host_queue: Vec::new(),
        };
        self.contexts.insert(handle, context);
    }

    /// A fatal fault. As on the real driver every context of the process answers this code from now on,
    /// those of other devices too, and none can be made; unless the environment keeps faults contained.
    pub fn break_context(&mut self, handle: Handle, code: Code) {
        let contained = self.contained_faults;
        if !contained && self.contexts.contains_key(&handle) {
            self.lost.get_or_insert(code);
        }
        let code = self.lost.unwrap_or(code);
        for (at, context) in &mut self.contexts {
            if *at == handle || self.lost.is_some() {
                context.broken.get_or_insert(code);
            }
        }
    }

    /// The device that a context is on.
    pub fn device_of(&self, context: Handle) -> usize {
        self.contexts.get(&context).map_or(0, |context| context.device)
    }
}

/// `cuCtxEnablePeerAccess`.
pub fn enable_peer(here: Here, peer: Handle, flags: u32) -> Answer {
    use crate::errors::{PEER_ACCESS_ALREADY_ENABLED, PEER_ACCESS_UNSUPPORTED};
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let mut world = here.driver.lock();
    let peer_device = world.contexts.get(&peer).ok_or(INVALID_CONTEXT)?.device;
    if here.driver.settings.no_peer || peer_device == world.device_of(here.context) {
        return Err(PEER_ACCESS_UNSUPPORTED);
    }
    let context = world.contexts.get_mut(&here.context).ok_or(CONTEXT_IS_DESTROYED)?;
    if context.peers.insert(peer) { Ok(()) } else { Err(PEER_ACCESS_ALREADY_ENABLED) }
}

/// `cuCtxDisablePeerAccess`.
pub fn disable_peer(here: Here, peer: Handle) -> Answer {
    let mut world = here.driver.lock();
    if !world.contexts.contains_key(&peer) {
        return Err(INVALID_CONTEXT);
    }
    let context = world.contexts.get_mut(&here.context).ok_or(CONTEXT_IS_DESTROYED)?;
    if context.peers.remove(&peer) { Ok(()) } else { Err(crate::errors::PEER_ACCESS_NOT_ENABLED) }
}
