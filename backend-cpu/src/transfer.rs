//! What a copy of any shape can do: be done at once, be queued, or be queued with its sources staged.
//!
//! Rule: which of the three is decided in `cpu`, for every shape alike.

use crate::command::{Command, Copy, LONG};
use crate::pool::Pool;
use crate::staging::Staging;

/// A copy of some shape: one range, rows, or many ranges.
pub trait Transfer {
    /// What messages call the operation where it waits.
    const OPERATION: &'static str;

    /// Copies, in the calling thread.
    ///
    /// # Safety
    /// - The sources are readable and the destinations writable.
    unsafe fn run(&self, pool: &'static Pool);

    /// How many bytes it moves.
    fn bytes(&self) -> usize;

    /// Whether it is done in a moment.
    #[inline]
    fn is_short(&self) -> bool {
        false
    }

    /// The copy with what the sources are now, or `None` where that would go beyond the bound.
    ///
    /// # Safety
    /// - The sources are readable.
    unsafe fn staged(&mut self, staging: &'static Staging) -> Option<Command>;

    /// The copy as it is.
    fn queued(self) -> Command;
}

impl Transfer for Copy {
    const OPERATION: &'static str = "memcpy_async with pageable memory behind pending work";

    #[inline]
    unsafe fn run(&self, pool: &'static Pool) {
        // SAFETY: by the contract of the trait.
        unsafe { Copy::run(*self, pool) };
    }

    #[inline]
    fn bytes(&self) -> usize {
        self.size
    }

    #[inline]
    fn is_short(&self) -> bool {
        self.size <= LONG
    }

    unsafe fn staged(&mut self, staging: &'static Staging) -> Option<Command> {
        // SAFETY: by the contract of the trait.
        let source = unsafe { staging.gather(std::iter::once(*self)) }?;
        Some(Command::StagedCopy { dst: self.dst, source })
    }

    fn queued(self) -> Command {
        Command::Copy(self)
    }
}
