//! A block of the allocator: a piece of a heap that is in the table of all pointers, live or free.
//!
//! Rule: a block has one owner at a time. While it is live that is the user; a free takes it from the
//! user in one step, for one caller only (contract M5). While it is free its owner is the cache, the
//! list or the thread that holds the handle.

use super::heap::PieceId;
use super::size_class::GRANULE;
use super::thread_cache;
use crate::api::{Ordinal, Stream};
use crate::pointers::{self, About};
use crate::record::Record;
use std::ffi::c_void;

/// The class of a block that is larger than all classes.
pub const LARGE: usize = 254;

/// The words of its record that change in the life of a block.
const STREAM: usize = 3;
const SERIAL: usize = 4;

/// A block. Whoever has it owns it, unless it was handed out.
#[derive(Clone, Copy)]
pub struct Block(&'static Record);

/// What [`Block::claim`] took from its user.
pub struct Claimed {
    /// The block, which is free now.
    pub block: Block,
    /// The size that was asked for.
    pub size: usize,
    /// The device that it is on.
    pub device: Ordinal,
    /// Its class.
    pub class: usize,
}

impl Block {
    /// A free block with this record, which is in the table.
    pub fn new(record: &'static Record, piece: PieceId, bytes: usize) -> Block {
        record.set_companion((bytes / GRANULE) as u64 | u64::from(piece) << 32);
        Block(record)
    }

    /// Its record.
    pub fn record(self) -> &'static Record {
        self.0
    }

    /// Its first byte.
    #[inline(always)]
    pub fn base(self) -> usize {
        self.0.word(0) as usize
    }

    /// Its class.
    pub fn class(self) -> usize {
        pointers::class_of(self.0.word(2))
    }

    /// The bytes that it has.
    pub fn bytes(self) -> usize {
        (self.0.companion() as u32) as usize * GRANULE
    }

    /// The piece of the heap that it is.
    pub fn piece(self) -> PieceId {
        (self.0.companion() >> 32) as PieceId
    }

    /// Hands it to a user.
    #[inline(always)]
    pub fn hand_out(self, size: usize) -> *mut c_void {
        self.0.set_live(size as u64);
        self.base() as *mut c_void
    }

    /// Hands it to a user in the order of a stream, in whose account it is.
    pub fn hand_out_on(self, size: usize, stream: Stream, serial: u64) -> *mut c_void {
        self.0.set_word(STREAM, stream.0 as u64);
        self.0.set_word(SERIAL, serial);
        self.hand_out(size)
    }

    /// Takes the live block that begins at an address from its user; `None` where there is none. `whose` names
    /// the owner, and the side of a copy that it may be.
    #[inline(always)]
    pub fn claim(address: usize, whose: About) -> Option<Claimed> {
        let found = match thread_cache::hint(address) {
            Some(record) => pointers::begins_at(record, address, whose),
            None => None,
        };
        let (record, size, about) = found.or_else(|| pointers::find_pooled(address, whose))?;
        if !record.take_live(size) {
            return None;
        }
        if record.word(0) as usize != address {
            // Freed by another thread meanwhile, and its record is a new block's: that one stays live.
            record.set_live(size);
            return None;
        }
        Some(Claimed {
            block: Block(record),
            size: size as usize,
            device: (about >> 32) as Ordinal,
            class: pointers::class_of(about),
        })
    }

    /// The stream in whose account it was, which it leaves; for a block that was claimed.
    #[inline(always)]
    pub fn leave_stream(self) -> Option<(Stream, u64)> {
        let serial = self.0.word(SERIAL);
        if serial == pointers::NO_STREAM {
            return None;
        }
        let stream = Stream(self.0.word(STREAM) as *mut c_void);
        self.0.set_word(SERIAL, pointers::NO_STREAM);
        Some((stream, serial))
    }
}
