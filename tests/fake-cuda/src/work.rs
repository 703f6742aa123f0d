//! What an operation of a stream does.
//!
//! The rule: in a broken context nothing is done any more, and no host function is called.

use crate::batches::Batch;
use crate::copies::Copy;
use crate::entry::host_function;
use crate::errors::Answer;
use crate::events::Stamp;
use crate::fills::Fill;
use crate::memory::{Allocation, Place};
use std::sync::Arc;

/// A function of the user's and its argument.
#[derive(Clone, Copy)]
pub struct HostCall {
    pub function: extern "C" fn(usize),
    pub argument: usize,
}

/// A callback of the user's, of the older kind, which is told the state.
#[derive(Clone, Copy)]
pub struct Callback {
    pub function: extern "C" fn(usize, i32, usize),
    pub stream: usize,
    pub argument: usize,
}

/// An operation.
pub enum Work {
    Nothing,
    Copy(Copy),
    Batch(Batch),
    Fill(Fill),
    Call(HostCall),
    CallBack(Callback),
    Record(Arc<Stamp>),
    /// Stream-ordered memory comes to life.
    Birth(Arc<Allocation>),
    /// Stream-ordered memory ends.
    Death(Arc<Allocation>),
    /// Managed memory moves. Its bytes are where they are, but it has to be there.
    Move(Place),
}

impl Work {
    /// Whether the real driver has room for only so many of these.
    pub fn fills_the_queue(&self) -> bool {
        matches!(self, Work::Copy(_) | Work::Batch(_) | Work::Fill(_))
    }

    /// Whether it copies from the host to a device, or from one to the host; `None` for anything else.
    pub fn is_copy_to_device(&self) -> Option<bool> {
        match self {
            Work::Copy(copy) => copy.is_to_device(),
            _ => None,
        }
    }

    pub fn is_host_function(&self) -> bool {
        matches!(self, Work::Call(_) | Work::CallBack(_))
    }

    /// Does it. An error breaks the context.
    pub fn run(&self, whole: bool) -> Answer {
        match self {
            Work::CallBack(call) => {
                let state = if whole { 0 } else { crate::errors::UNKNOWN };
                host_function(|| (call.function)(call.stream, state, call.argument));
            }
            _ if !whole => {}
            Work::Nothing => {}
            Work::Copy(copy) => return copy.run(),
            Work::Batch(batch) => return batch.run(),
            Work::Move(place) => return place.check(),
            Work::Fill(fill) => return fill.run(),
            Work::Call(call) => host_function(|| (call.function)(call.argument)),
            Work::Record(stamp) => stamp.press(),
            Work::Birth(allocation) => allocation.begin(),
            Work::Death(allocation) => allocation.end(),
        }
        Ok(())
    }
}
