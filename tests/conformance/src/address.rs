//! An address as the suite carries it: a number that may be anything.
//!
//! Why a number: half of the suite hands the runtime addresses that are wrong on purpose (freed,
//! interior, foreign, garbage), from any thread. The contract says what becomes of each (M1, M5, C1,
//! C4), and that none is followed. Memory that is right is kept alive by the [`Block`](crate::place::Block)
//! or the `Vec` that the address was taken from.

use std::ffi::c_void;
use std::fmt;

/// An address. Never followed by the suite itself; see `place` for what reads and writes memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub usize);

impl Address {
    /// NULL.
    pub const NULL: Address = Address(0);
    /// An address that is nobody's: no page is ever mapped there, and it is not aligned either.
    pub const GARBAGE: Address = Address(0xdead_beef_0001);

    /// Where a slice of bytes is.
    pub fn of(bytes: &[u8]) -> Address {
        Address(bytes.as_ptr().expose_provenance())
    }

    /// Where a slice of bytes is that may be written.
    pub fn of_mut(bytes: &mut [u8]) -> Address {
        Address(bytes.as_mut_ptr().expose_provenance())
    }

    /// `count` bytes further on.
    pub fn plus(self, count: usize) -> Address {
        Address(self.0.wrapping_add(count))
    }

    /// As C takes it.
    pub fn pointer(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.0)
    }

    /// From what C gave.
    pub fn from_pointer(pointer: *mut c_void) -> Address {
        Address(pointer.expose_provenance())
    }

    /// Whether this is NULL.
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
