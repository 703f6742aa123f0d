//! The central lists of a device: free blocks of each class that any thread may take.
//!
//! Rule: blocks come and go in batches under one short lock. Everything in here may be used by any
//! stream at once.

use super::block::Block;
use super::size_class::{self, COUNT};

/// The bytes that the lists may keep; what is above goes back to the heap, where it becomes one piece
/// with its neighbours.
const KEPT: usize = 8 << 20;

/// The lists.
pub struct Central {
    lists: [Vec<Block>; COUNT],
    /// The bytes in each list.
    held: [usize; COUNT],
    bytes: usize,
}

impl Central {
    /// Empty lists.
    pub const fn new() -> Central {
        Central { lists: [const { Vec::new() }; COUNT], held: [0; COUNT], bytes: 0 }
    }

    /// Takes some blocks of a class; none when there are none.
    pub fn take(&mut self, class: usize) -> Vec<Block> {
        let list = &mut self.lists[class];
        let from = list.len().saturating_sub(size_class::batch(class));
        let blocks = list.split_off(from);
        self.note_taken(class, blocks.len());
        blocks
    }

    fn note_taken(&mut self, class: usize, count: usize) {
        let bytes = count * size_class::bytes(class);
        self.held[class] -= bytes;
        self.bytes -= bytes;
    }

    /// Takes blocks in, each of a class.
    pub fn put(&mut self, blocks: impl IntoIterator<Item = Block>) {
        for block in blocks {
            let class = block.class();
            self.held[class] += size_class::bytes(class);
            self.bytes += size_class::bytes(class);
            self.lists[class].push(block);
        }
    }

    /// Takes out what is above the bound, of the longest lists first; empty when nothing is.
    pub fn overflow(&mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        while self.bytes > KEPT {
            let Some(class) = (0..COUNT).max_by_key(|class| self.held[*class]) else { break };
            let list = &mut self.lists[class];
            // The oldest half, so that this is rare.
            let count = list.len().div_ceil(2);
            blocks.extend(list.drain(..count));
            self.note_taken(class, count);
        }
        blocks
    }

    /// Takes everything out.
    pub fn drain(&mut self) -> Vec<Block> {
        (self.held, self.bytes) = ([0; COUNT], 0);
        self.lists.iter_mut().flat_map(std::mem::take).collect()
    }

    /// The bytes in the lists.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
