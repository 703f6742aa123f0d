//! Batches of copies.
//!
//! The rule: what the driver leaves open goes against the caller. The copies of a batch are done in the
//! reverse order; the call returns before any of them, also from and to pageable memory; and when a source is
//! read depends on what the caller allowed:
//!
//! | access order | the source is read |
//! |---|---|
//! | STREAM | when the stream comes to it, after the call has returned |
//! | DURING_API_CALL | in the call, before earlier work of the stream |
//! | ANY | both: if it is not the same bytes both times, the destination is spoilt |

use crate::copies::{self, Copy, Ends, Request};
use crate::driver::{Driver, World};
use crate::errors::{Answer, Code, INVALID_VALUE};
use crate::handles::Handle;
use crate::streams::{self, StreamKey};
use crate::work::Work;

/// When a source may be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    InOrder,
    DuringTheCall,
    Any,
}

/// A copy of a batch, as it is asked for.
#[derive(Clone, Copy)]
pub struct Member {
    pub to: usize,
    pub from: usize,
    pub bytes: usize,
    pub access: Access,
}

/// Why a batch is refused, and at which of its copies, if at one.
pub struct Refusal {
    pub code: Code,
    pub at: Option<usize>,
}

impl Refusal {
    /// The batch as a whole is wrong.
    pub const WHOLE: Refusal = Refusal { code: INVALID_VALUE, at: None };

    pub fn at(index: usize) -> impl Fn(Code) -> Refusal {
        move |code| Refusal { code, at: Some(index) }
    }
}

/// Copies of one operation, each with what its source held in the call where that has to stay.
pub struct Batch(Vec<(Copy, Option<Box<[u8]>>)>);

impl Batch {
    pub fn run(&self) -> Answer {
        self.0.iter().try_for_each(|(copy, _)| copy.check())?;
        for (copy, seen) in self.0.iter().rev() {
            match seen {
                Some(seen) if copy.source() != *seen => copy.spoil(),
                _ => copy.run()?,
            }
        }
        Ok(())
    }
}

/// Whether a batch may be on a stream: not on the legacy stream, by whatever name.
pub fn check_stream(driver: &'static Driver, stream: Handle) -> Answer {
    if stream <= 1 {
        return Err(INVALID_VALUE);
    }
    streams::find(driver, stream).map(drop)
}

/// `cuMemcpyBatchAsync`: all of the copies, or none.
pub fn enqueue(driver: &'static Driver, members: &[Member], stream: Handle) -> Result<(), Refusal> {
    let whole = |code| Refusal { code, at: None };
    let (mut world, key) = streams::find(driver, stream).map_err(whole)?;
    let mut batch = Vec::with_capacity(members.len());
    for (index, member) in members.iter().enumerate() {
        let copy = prepare(&world, key, member).map_err(Refusal::at(index))?;
        batch.push((copy, member.access));
    }
    let early = batch.iter().filter(|(_, access)| *access != Access::InOrder);
    if let Some(code) = early.filter_map(|(copy, _)| copy.check().err()).next() {
        let context = world.streams.get(&key).map_or(0, |stream| stream.context);
        world.break_context(context, code);
        driver.progress.notify_all();
        return Err(whole(code));
    }
    let batch = batch.into_iter().map(|(copy, access)| match access {
        Access::InOrder => (copy, None),
        Access::DuringTheCall => {
            let bytes = copy.source();
            (copy.with_source(bytes), None)
        }
        Access::Any => {
            let bytes = copy.source();
            (copy, Some(bytes))
        }
    });
    let work = Work::Batch(Batch(batch.collect()));
    streams::give(driver, &mut world, key, work, Vec::new()).map(drop).map_err(whole)
}

fn prepare(world: &World, key: StreamKey, member: &Member) -> Answer<Copy> {
    let Member { to, from, bytes, .. } = *member;
    for address in [to, from] {
        if world.begins_outside(address, bytes) {
            return Err(INVALID_VALUE);
        }
    }
    let request = Request::line(to, from, bytes, Ends::ANY);
    copies::prepare(world, key, request)?.ok_or(INVALID_VALUE)
}

impl World {
    /// Whether a range begins in memory that the driver does not know and ends in memory that it knows.
    fn begins_outside(&self, address: usize, bytes: usize) -> bool {
        self.block_at(address).is_none()
            && self.memory.range(address..address.saturating_add(bytes)).next().is_some()
    }
}
