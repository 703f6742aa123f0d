//! Freed blocks that work may still use (contract M4).
//!
//! Rule: a block leaves only when every stream that could use it has passed the point where it was when
//! the block was freed. Blocks wait in batches, each behind the marks (events) that were recorded after
//! the last of its frees; who finds that a batch's marks were reached takes all of it.

use super::block::Block;
use crate::api::{Event, Ordinal};
use crate::visitors::Ticket;
use std::collections::VecDeque;
use std::sync::Arc;

/// An event of the backend's at the end of what a stream had to do.
pub struct Mark {
    /// The device that it belongs to.
    pub device: Ordinal,
    /// The backend's event.
    pub event: Event,
}

/// What stands between what was freed until now and its use by anybody.
pub enum Fence {
    /// Nothing: all work that was enqueued is done.
    Over,
    /// These.
    Until(Until),
    /// It could not be found out; a stream is just being destroyed, say.
    Unknown,
}

/// What has to be reached before memory is anybody's.
#[derive(Default)]
pub struct Until {
    /// The marks that are not known to be reached.
    pub marks: Vec<Arc<Mark>>,
    /// The copies that are in no stream and are not known to be over.
    pub copies: Option<Ticket>,
}

impl Until {
    /// Whether all of it was reached.
    pub fn is_over(&self) -> bool {
        self.marks.is_empty() && self.copies.is_none()
    }
}

/// Blocks that wait for the same.
pub struct Batch {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// What they wait for.
    pub until: Until,
}

/// The blocks of a device that wait.
pub struct Quarantine {
    /// Freed, but behind no marks yet.
    unfenced: Vec<Block>,
    /// In the order in which the marks were recorded.
    batches: VecDeque<Batch>,
}

impl Quarantine {
    /// Nothing waits.
    pub const fn new() -> Quarantine {
        Quarantine { unfenced: Vec::new(), batches: VecDeque::new() }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.unfenced.is_empty() && self.batches.is_empty()
    }

    /// Takes in blocks that were freed and are behind no marks.
    pub fn put_unfenced(&mut self, blocks: impl IntoIterator<Item = Block>) {
        self.unfenced.extend(blocks);
    }

    /// Takes out the blocks that are behind no marks, for who is about to record some.
    pub fn take_unfenced(&mut self) -> Vec<Block> {
        std::mem::take(&mut self.unfenced)
    }

    /// Takes in a batch.
    pub fn push(&mut self, batch: Batch) {
        self.batches.push_back(batch);
    }

    /// Takes out the batch that waits longest.
    pub fn pop(&mut self) -> Option<Batch> {
        self.batches.pop_front()
    }

    /// Puts a batch back whose marks were not reached.
    pub fn put_back(&mut self, batch: Batch) {
        self.batches.push_front(batch);
    }

    /// The bytes that wait.
    pub fn bytes(&self) -> usize {
        let batches = self.batches.iter().flat_map(|batch| &batch.blocks);
        batches.chain(&self.unfenced).map(|block| block.bytes()).sum()
    }

    /// In the child of a fork, where no work of the parent's is: nothing waits for anything.
    pub fn forget_work(&mut self) {
        for batch in &mut self.batches {
            batch.until = Until::default();
        }
    }
}
