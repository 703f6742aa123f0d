//! Copies: what they do, and when the caller gets control back.
//!
//! The rule is the one that CUDA documents under "API synchronization behavior", as the driver keeps it:
//!
//! | copy | on a stream | without one (on the legacy stream) |
//! |---|---|---|
//! | pageable → device, up to 64 KiB | read at once, returns at once | waits its turn, is read, returns before it is there |
//! | pageable → device, more | waits its turn, all but the last 64 KiB are there | the same |
//! | device → pageable | returns when it is there | returns when it is there |
//! | pinned → device, device → pinned | returns at once | returns when it is there |
//! | device → device | returns at once | returns at once |
//! | host → host | returns when it is there | returns when it is there |

use crate::driver::{Driver, Guard};
use crate::errors::{Answer, CONTEXT_IS_DESTROYED, INVALID_VALUE};
use crate::handles::Handle;
use crate::memory::{Home, Place};
use crate::streams::{self, Point, StreamKey};
use crate::work::Work;

/// Up to so many bytes of pageable memory are staged; the real driver stages up to 2 MiB, but promises 64 KiB.
const STAGED: usize = 64 << 10;

/// A copy of rows.
pub struct Copy {
    to: Place,
    from: Place,
    shape: Shape,
}

/// Rows of bytes, and how far apart they are.
#[derive(Clone, Copy)]
pub struct Shape {
    pub width: usize,
    pub height: usize,
    pub to_pitch: usize,
    pub from_pitch: usize,
}

impl Shape {
    pub fn line(bytes: usize) -> Shape {
        Shape { width: bytes, height: 1, to_pitch: bytes, from_pitch: bytes }
    }

    fn extent(&self, pitch: usize) -> Answer<usize> {
        let rows = (self.height - 1).checked_mul(pitch).ok_or(INVALID_VALUE)?;
        rows.checked_add(self.width).ok_or(INVALID_VALUE)
    }
}

impl Copy {
    pub fn run(&self) -> Answer {
        self.to.check()?;
        self.from.check()?;
        for row in 0..self.shape.height {
            let to = (self.to.at + row * self.shape.to_pitch) as *mut u8;
            let from = (self.from.at + row * self.shape.from_pitch) as *const u8;
            let distance = (to as usize).abs_diff(from as usize);
            if distance >= self.shape.width {
                // SAFETY: both rows lie in ranges that were checked when the call was made and that the
                // places hold; pageable memory is the caller's, who promises it until the call returns.
                unsafe { std::ptr::copy_nonoverlapping(from, to, self.shape.width) };
            } else if distance != 0 {
                // The driver leaves open what an overlapping copy gives. Here it is never what one hopes for.
                // SAFETY: as above.
                unsafe { std::ptr::write_bytes(to, 0xee, self.shape.width) };
            }
        }
        Ok(())
    }
}

/// Which addresses a call takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Anything to anything.
    Any,
    /// The destination must be known to the driver.
    ToKnown,
    /// The source must be.
    FromKnown,
    /// Both must be.
    Known,
    /// Both must be, and no device is shut out.
    Peers,
}

/// What a call asks for.
#[derive(Clone, Copy)]
pub struct Request {
    pub to: usize,
    pub from: usize,
    pub shape: Shape,
    pub ends: Ends,
}

/// A copy on a stream.
pub fn on_stream(driver: &'static Driver, request: Request, stream: Handle) -> Answer {
    let (mut world, key) = streams::find(driver, stream)?;
    let Some(copy) = prepare(&world, key, request)? else { return Ok(()) };
    let (from_pageable, to_device) = (copy.from.is_pageable(), copy.to.is_device());
    if !copy.to.is_device() && !copy.from.is_device() || copy.to.is_pageable() {
        return streams::give_and_wait(driver, &mut world, key, Work::Copy(copy));
    }
    if from_pageable && to_device {
        return staged(driver, &mut world, key, copy);
    }
    streams::give(driver, &mut world, key, Work::Copy(copy), Vec::new()).map(drop)
}

/// A copy without a stream.
pub fn at_once(driver: &'static Driver, request: Request, after: &[Handle]) -> Answer {
    let (mut world, key) = streams::find(driver, 0)?;
    let Some(copy) = prepare(&world, key, request)? else { return Ok(()) };
    if copy.to.is_device() && copy.from.is_device() {
        let points = after.iter().flat_map(|context| world.work_of(*context)).collect();
        let point = streams::give(driver, &mut world, key, Work::Copy(copy), points)?;
        return hold_up(driver, &mut world, after, key, point);
    }
    if copy.from.is_pageable() && copy.to.is_device() {
        streams::give_and_wait(driver, &mut world, key, Work::Nothing)?;
        return staged(driver, &mut world, key, copy);
    }
    streams::give_and_wait(driver, &mut world, key, Work::Copy(copy))
}

/// What the legacy streams of these contexts do next comes after a point.
fn hold_up(
    driver: &'static Driver,
    world: &mut Guard,
    contexts: &[Handle],
    key: StreamKey,
    point: Point,
) -> Answer {
    for context in contexts {
        let legacy = world.contexts.get(context).map(|context| context.legacy);
        if let Some(legacy) = legacy.filter(|legacy| *legacy != key) {
            streams::give(driver, world, legacy, Work::Nothing, vec![point])?;
        }
    }
    Ok(())
}

/// Checks a request and finds its places; nothing for one of no bytes.
fn prepare(world: &Guard, key: StreamKey, request: Request) -> Answer<Option<Copy>> {
    let Request { to, from, shape, ends } = request;
    if shape.width == 0 || shape.height == 0 {
        return Ok(None);
    }
    let context = world.streams.get(&key).ok_or(CONTEXT_IS_DESTROYED)?.context;
    let (to_known, from_known) = match ends {
        Ends::Any => (false, false),
        Ends::ToKnown => (true, false),
        Ends::FromKnown => (false, true),
        Ends::Known | Ends::Peers => (true, true),
    };
    let to = world.place(to, shape.extent(shape.to_pitch)?, to_known)?;
    let from = world.place(from, shape.extent(shape.from_pitch)?, from_known)?;
    if ends != Ends::Peers {
        world.may_reach(context, &to, false)?;
        world.may_reach(context, &from, false)?;
    }
    Ok(Some(Copy { to, from, shape }))
}

/// From pageable memory to a device: read before the call returns.
fn staged(driver: &'static Driver, world: &mut Guard, key: StreamKey, copy: Copy) -> Answer {
    if copy.shape.height != 1 {
        return streams::give_and_wait(driver, world, key, Work::Copy(copy));
    }
    let Copy { to, from, shape } = copy;
    let first = shape.width.saturating_sub(STAGED);
    let Home::Device(allocation) = &to.home else { return Err(INVALID_VALUE) };
    let rest = Place { at: to.at + first, home: Home::Device(std::sync::Arc::clone(allocation)) };
    let source = from.at + first;
    if first > 0 {
        let copy = Copy { to, from, shape: Shape::line(first) };
        streams::give_and_wait(driver, world, key, Work::Copy(copy))?;
    }
    // SAFETY: the caller promises its memory until the call returns, and it has not.
    let bytes: Box<[u8]> =
        unsafe { std::slice::from_raw_parts(source as *const u8, shape.width - first) }.into();
    let from = Place { at: bytes.as_ptr() as usize, home: Home::Staged(bytes) };
    let copy = Copy { to: rest, from, shape: Shape::line(shape.width - first) };
    streams::give(driver, world, key, Work::Copy(copy), Vec::new()).map(drop)
}
