//! What was freed in the order of a stream: that stream may have it again at once.
//!
//! Rules: a lane belongs to one stream of one life (handle and serial), so a stream whose address
//! came back finds nothing of the old one (contract S3). What a lane holds is bounded; what is above
//! waits, behind that stream alone, to become anybody's.

use super::block::Block;
use super::size_class;
use crate::api::Stream;
use crate::lock::{ForkLock, Mutex};

/// Locks, so that threads with a stream each do not meet.
const PARTS: usize = 16;
/// What a lane may hold.
const KEPT_BYTES: usize = 32 << 20;
const KEPT_BLOCKS: usize = 256;

/// A stream of one life.
pub type Key = (Stream, u64);

struct Lane {
    key: (usize, u64),
    blocks: Vec<Block>,
    bytes: usize,
}

/// The lanes of a device.
pub struct Lanes {
    parts: [Mutex<Vec<Lane>>; PARTS],
}

impl Lanes {
    /// No lanes.
    pub const fn new() -> Lanes {
        Lanes { parts: [const { Mutex::new(Vec::new()) }; PARTS] }
    }

    fn part(&self, (stream, _): Key) -> &Mutex<Vec<Lane>> {
        let mixed = (stream.0 as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.parts[(mixed >> (u64::BITS - PARTS.ilog2())) as usize]
    }

    /// A block for the stream that it itself freed: of the same class, or, if larger than all classes, of at
    /// most an eighth more than asked.
    pub fn take(&self, key: Key, size: usize) -> Option<Block> {
        let mut lanes = self.part(key).lock();
        let lane = find(&mut lanes, key)?;
        let fits = |block: &Block| {
            if size <= size_class::LARGEST {
                block.class() == size_class::of(size)
            } else {
                block.bytes() >= size && block.bytes() - size <= size / 8
            }
        };
        let index = lane.blocks.iter().rposition(fits)?;
        let block = lane.blocks.remove(index);
        lane.bytes -= block.bytes();
        Some(block)
    }

    /// Keeps blocks that the stream freed. Answers the older ones when there are too many: they are
    /// freed behind what the stream has now.
    pub fn put(&self, key: Key, blocks: Vec<Block>) -> Vec<Block> {
        let mut lanes = self.part(key).lock();
        if find(&mut lanes, key).is_none() {
            lanes.push(Lane { key: (key.0.0 as usize, key.1), blocks: Vec::new(), bytes: 0 });
        }
        let Some(lane) = find(&mut lanes, key) else { return blocks };
        lane.bytes += blocks.iter().map(|block| block.bytes()).sum::<usize>();
        lane.blocks.extend(blocks);
        let mut older = Vec::new();
        if lane.bytes > KEPT_BYTES || lane.blocks.len() > KEPT_BLOCKS {
            let count = lane.blocks.len().div_ceil(2);
            older.extend(lane.blocks.drain(..count));
            lane.bytes -= older.iter().map(|block| block.bytes()).sum::<usize>();
        }
        older
    }

    /// Takes out everything that a stream freed, for it ends.
    pub fn end(&self, key: Key) -> Vec<Block> {
        let mut lanes = self.part(key).lock();
        let key = (key.0.0 as usize, key.1);
        match lanes.iter().position(|lane| lane.key == key) {
            Some(index) => lanes.swap_remove(index).blocks,
            None => Vec::new(),
        }
    }

    /// Takes out everything.
    pub fn drain(&self) -> Vec<Block> {
        let of_part = |part: &Mutex<Vec<Lane>>| std::mem::take(&mut *part.lock());
        self.parts.iter().flat_map(of_part).flat_map(|lane| lane.blocks).collect()
    }

    /// The bytes in all lanes.
    pub fn bytes(&self) -> usize {
        let of_part =
            |part: &Mutex<Vec<Lane>>| part.lock().iter().map(|lane| lane.bytes).sum::<usize>();
        self.parts.iter().map(of_part).sum()
    }

    /// Before a fork: keeps the locks.
    pub fn hold(&self) {
        self.parts.iter().for_each(ForkLock::hold);
    }

    /// After a fork: releases them.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        for part in &self.parts {
            // SAFETY: by the contract above.
            unsafe { part.release() };
        }
    }
}

fn find(lanes: &mut [Lane], key: Key) -> Option<&mut Lane> {
    let key = (key.0.0 as usize, key.1);
    lanes.iter_mut().find(|lane| lane.key == key)
}
