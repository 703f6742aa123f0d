//! Many copies in one piece of work.
//!
//! Rule: the list of a batch that is queued counts against the bound of the staging buffers, so that
//! a queue full of batches does not grow beyond it either (contract S6).

use crate::command::{Command, Copy};
use crate::pool::Pool;
use crate::staging::{Reserved, Staging, StagingBuffer};
use crate::transfer::Transfer;
use std::ffi::c_void;

/// The copies of a batch.
pub struct Batch {
    copies: Vec<Copy>,
    /// What the sources point into, when they were staged.
    _source: Option<StagingBuffer>,
    /// What the list takes of the bound; nothing for one that is waited for.
    list: Option<Reserved>,
}

impl Batch {
    /// A batch of these copies.
    pub fn new(copies: Vec<Copy>, staging: &'static Staging) -> Batch {
        let list = staging.reserve(copies.len().saturating_mul(size_of::<Copy>()));
        Batch { copies, _source: None, list }
    }

    /// Whether the list is too long to be queued without waiting for it.
    pub fn is_beyond_the_bound(&self) -> bool {
        self.list.is_none()
    }
}

impl Transfer for Batch {
    const OPERATION: &'static str =
        "memcpy_batch_async with pageable memory or a very long list behind pending work";

    unsafe fn run(&self, pool: &'static Pool) {
        // SAFETY: by the contract of the trait, for each range.
        self.copies.iter().for_each(|copy| unsafe { copy.run(pool) });
    }

    fn bytes(&self) -> usize {
        self.copies.iter().fold(0, |all: usize, copy| all.saturating_add(copy.size))
    }

    unsafe fn staged(&mut self, staging: &'static Staging) -> Option<Command> {
        // SAFETY: by the contract of the trait.
        let source = unsafe { staging.gather(self.copies.iter().copied()) }?;
        let mut next: *const c_void = source.as_ptr();
        let copies = self.copies.iter().map(|copy| {
            let src = next;
            next = next.wrapping_byte_add(copy.size);
            Copy { src, ..*copy }
        });
        let copies = copies.collect();
        Some(Batch { copies, _source: Some(source), list: self.list.take() }.queued())
    }

    fn queued(self) -> Command {
        Command::Batch(Box::new(self))
    }
}
