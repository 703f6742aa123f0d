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
//!
//! Managed memory counts as device memory. Pitched copies from pageable memory are staged up to 64 KiB in
//! all; a larger one waits its turn and is there when the call returns.

use crate::driver::{Driver, Guard, World};
use crate::errors::{Answer, CONTEXT_IS_DESTROYED, INVALID_VALUE};
use crate::handles::Handle;
use crate::memory::{Home, Place};
use crate::shapes::Shape;
use crate::streams::{self, Point, StreamKey};
use crate::work::Work;

/// Up to so many bytes of pageable memory are staged; the real driver stages up to 2 MiB, but promises 64 KiB.
const STAGED: usize = 64 << 10;

/// The byte that a destination is full of where the driver leaves open what a copy gives.
const SPOILT: u8 = 0xee;

/// A copy of rows.
pub struct Copy {
    to: Place,
    from: Place,
    shape: Shape,
}

impl Copy {
    /// Refuses memory that is not there when the stream comes to it.
    pub fn check(&self) -> Answer {
        self.to.check()?;
        self.from.check()
    }

    /// Whether it is from the host to a device, or from one to the host; `None` within either.
    pub fn is_to_device(&self) -> Option<bool> {
        let (to, from) = (self.to.is_device(), self.from.is_device());
        (to != from).then_some(to)
    }

    pub fn run(&self) -> Answer {
        self.check()?;
        for (to, from) in self.shape.rows() {
            let to = (self.to.at + to) as *mut u8;
            let from = (self.from.at + from) as *const u8;
            let distance = (to as usize).abs_diff(from as usize);
            if distance >= self.shape.width {
                // SAFETY: both rows lie in ranges that were checked when the call was made and that the
                // places hold; pageable memory is the caller's, who promises it until the call returns, or
                // for a batch until the stream has passed.
                unsafe { std::ptr::copy_nonoverlapping(from, to, self.shape.width) };
            } else if distance != 0 {
                // The driver leaves open what an overlapping copy gives. Here it is never what one hopes for.
                // SAFETY: as above.
                unsafe { std::ptr::write_bytes(to, SPOILT, self.shape.width) };
            }
        }
        Ok(())
    }

    /// What the source holds now, without its gaps.
    pub fn source(&self) -> Box<[u8]> {
        let mut bytes = Vec::with_capacity(self.shape.width * self.shape.height * self.shape.depth);
        for (_, from) in self.shape.rows() {
            let row = (self.from.at + from) as *const u8;
            // SAFETY: the row lies in a range that was checked and that the place holds; pageable memory is
            // the caller's, who promises it as for `run`.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(row, self.shape.width) });
        }
        bytes.into_boxed_slice()
    }

    /// The same copy, from these bytes of the driver's own.
    pub fn with_source(self, bytes: Box<[u8]>) -> Copy {
        let from = Place { at: bytes.as_ptr() as usize, home: Home::Staged(bytes) };
        Copy { to: self.to, from, shape: self.shape.packed() }
    }

    /// Makes the destination what nobody hopes for.
    pub fn spoil(&self) {
        for (to, _) in self.shape.rows() {
            crate::arena::fill(self.to.at + to, self.shape.width, SPOILT);
        }
    }
}

/// Which addresses a call takes.
#[derive(Clone, Copy)]
pub struct Ends {
    /// The destination must be known to the driver.
    pub to_known: bool,
    /// The source must be.
    pub from_known: bool,
    /// No device is shut out.
    pub peers: bool,
}

impl Ends {
    /// Anything to anything.
    pub const ANY: Ends = Ends { to_known: false, from_known: false, peers: false };
    pub const TO_KNOWN: Ends = Ends { to_known: true, ..Ends::ANY };
    pub const FROM_KNOWN: Ends = Ends { from_known: true, ..Ends::ANY };
    pub const KNOWN: Ends = Ends { to_known: true, from_known: true, peers: false };
    pub const PEERS: Ends = Ends { peers: true, ..Ends::KNOWN };
}

/// What a call asks for.
#[derive(Clone, Copy)]
pub struct Request {
    pub to: usize,
    pub from: usize,
    pub shape: Shape,
    pub ends: Ends,
}

impl Request {
    /// A copy of one row.
    pub const fn line(to: usize, from: usize, bytes: usize, ends: Ends) -> Request {
        Request { to, from, shape: Shape::line(bytes), ends }
    }
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
pub fn prepare(world: &World, key: StreamKey, request: Request) -> Answer<Option<Copy>> {
    let Request { to, from, shape, ends } = request;
    if shape.is_empty() {
        return Ok(None);
    }
    let context = world.streams.get(&key).ok_or(CONTEXT_IS_DESTROYED)?.context;
    let to = world.place(to, shape.span(shape.to)?, ends.to_known)?;
    let from = world.place(from, shape.span(shape.from)?, ends.from_known)?;
    if !ends.peers {
        world.may_reach(context, &to, false)?;
        world.may_reach(context, &from, false)?;
    }
    Ok(Some(Copy { to, from, shape }))
}

/// From pageable memory to a device: read before the call returns.
fn staged(driver: &'static Driver, world: &mut Guard, key: StreamKey, copy: Copy) -> Answer {
    if copy.shape.bytes()? <= STAGED {
        let bytes = copy.source();
        let work = Work::Copy(copy.with_source(bytes));
        return streams::give(driver, world, key, work, Vec::new()).map(drop);
    }
    if !copy.shape.is_line() {
        return streams::give_and_wait(driver, world, key, Work::Copy(copy));
    }
    let Copy { to, from, shape } = copy;
    let first = shape.width - STAGED;
    let Home::Device(allocation) = &to.home else { return Err(INVALID_VALUE) };
    let home = Home::Device(std::sync::Arc::clone(allocation));
    let rest = Copy {
        to: Place { at: to.at + first, home },
        from: Place { at: from.at + first, home: Home::Pageable },
        shape: Shape::line(STAGED),
    };
    let work = Work::Copy(Copy { to, from, shape: Shape::line(first) });
    streams::give_and_wait(driver, world, key, work)?;
    let bytes = rest.source();
    let work = Work::Copy(rest.with_source(bytes));
    streams::give(driver, world, key, work, Vec::new()).map(drop)
}
