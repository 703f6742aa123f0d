//! One piece of work on a stream, as a record of fixed size.
//!
//! Rule: a record is a cache line with its number at most, so that enqueueing allocates nothing: only
//! what was staged, a pitched copy and a batch are kept outside of it.

use crate::batch::Batch;
use crate::bulk;
use crate::events::EventSlot;
use crate::fill::Fill;
use crate::host_call;
use crate::pitched::Pitched;
use crate::pool::Pool;
use crate::position::Position;
use crate::staging::StagingBuffer;
use crate::transfer::Transfer;
use llaisys_runtime_core::api::HostFunction;
use std::ffi::c_void;

/// A piece of work.
pub enum Command {
    /// Copies.
    Copy(Copy),
    /// Copies from a buffer that holds what the source was when the copy was asked for (C3).
    StagedCopy {
        /// Where to.
        dst: *mut c_void,
        /// What.
        source: StagingBuffer,
    },
    /// Copies rows.
    Pitched(Box<Pitched>),
    /// Copies many ranges.
    Batch(Box<Batch>),
    /// Fills memory with a pattern.
    Fill(Fill),
    /// Calls a function of the user's (H1).
    HostFunction {
        /// The function.
        function: HostFunction,
        /// Its argument.
        data: *mut c_void,
    },
    /// Waits until another stream has passed a point.
    Wait(Position),
    /// Takes the time for the record of an event.
    Mark {
        /// The event.
        event: &'static EventSlot,
        /// Which of its records.
        record: u64,
    },
}

/// A piece of work as it lies in a ring: one cache line.
#[repr(align(64))]
pub struct Record(pub Command);

const _: () = assert!(size_of::<Record>() == 64, "a record is one cache line");

/// Above so many bytes a copy or fill takes longer than it takes to tell others what is done, and longer
/// than one may hold a stream's lock.
pub const LONG: usize = 64 << 10;

// SAFETY: a command is run once, by one thread; whoever enqueues it promises (see the trait) that
// its memory and its function may be used from any thread until then.
unsafe impl Send for Command {}

impl Command {
    /// Whether others should know what is done before this begins.
    #[inline]
    pub fn is_long(&self) -> bool {
        match self {
            Command::Copy(copy) => copy.size > LONG,
            Command::StagedCopy { source, .. } => source.len() > LONG,
            Command::Fill(fill) => fill.size > LONG,
            Command::Pitched(_) | Command::Batch(_) | Command::HostFunction { .. } => true,
            Command::Wait(_) | Command::Mark { .. } => false,
        }
    }

    /// Does it, in the calling thread.
    ///
    /// # Safety
    /// - What the caller of the operation promised of its pointers still holds.
    pub unsafe fn run(self, pool: &'static Pool) {
        match self {
            // SAFETY: passed on from our caller.
            Command::Copy(copy) => unsafe { copy.run(pool) },
            Command::StagedCopy { dst, source } => {
                let copy = Copy { dst, src: source.as_ptr(), size: source.len() };
                // SAFETY: `source` is read whole; the destination is promised by our caller.
                unsafe { copy.run(pool) };
            }
            // SAFETY: passed on from our caller.
            Command::Pitched(pitched) => unsafe { pitched.run(pool) },
            // SAFETY: passed on from our caller.
            Command::Batch(batch) => unsafe { batch.run(pool) },
            // SAFETY: passed on from our caller.
            Command::Fill(fill) => unsafe { fill.run(pool) },
            Command::HostFunction { function, data } => {
                // SAFETY: passed on from our caller.
                host_call::run(|| unsafe { function(data) });
            }
            // Whoever runs a queue has seen that the point is passed.
            Command::Wait(_) => {}
            Command::Mark { event, record } => event.mark_reached(record),
        }
    }
}

/// A copy between two places of memory, which here are all alike.
#[derive(Clone, Copy)]
pub struct Copy {
    /// Where to.
    pub dst: *mut c_void,
    /// Where from.
    pub src: *const c_void,
    /// How many bytes.
    pub size: usize,
}

impl Copy {
    /// Copies, in the calling thread. Right for overlapping ranges too.
    ///
    /// # Safety
    /// - `src` is readable and `dst` writable for `size` bytes.
    #[inline]
    pub unsafe fn run(self, pool: &'static Pool) {
        // SAFETY: by the contract above.
        unsafe { bulk::copy(pool, self.dst.cast(), self.src.cast(), self.size) };
    }
}
