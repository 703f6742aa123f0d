//! Memory that was freed while work was pending that may still use it (contract M4, M6).
//!
//! Rules: a block goes back to the system only when every stream has passed the point where it was
//! at the time of the free, and the free does not wait for that. Whoever finishes the work gives the
//! block back. The list is in the order of the frees; a later free waits for at least what an
//! earlier one waits for, so only the front needs looking at.

use crate::blocks::Block;
use crate::stream::Position;
use llaisys_runtime_core::lock::{ForkLock, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

struct Group {
    blocks: Vec<Block>,
    until: Vec<Position>,
}

impl Group {
    fn is_over(&self) -> bool {
        self.until.iter().all(Position::is_reached)
    }
}

/// The blocks that wait, in groups that wait for the same.
pub struct Deferred {
    groups: Mutex<VecDeque<Group>>,
    /// How many groups there are. Written under the lock, read without it by whoever finishes work:
    /// that one has stored its `completed` before, and who defers looks at `completed` after storing
    /// this, so one of the two sees the other.
    count: AtomicUsize,
}

impl Deferred {
    /// Nothing waits.
    pub fn new() -> Deferred {
        Deferred { groups: Mutex::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }

    /// Whether anything waits.
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Keeps a block until these points are passed. The caller looks at `take_over` afterwards.
    pub fn push(&self, block: Block, until: Vec<Position>) {
        let mut groups = self.groups.lock();
        match groups.back_mut() {
            Some(last) if last.until == until => last.blocks.push(block),
            _ => groups.push_back(Group { blocks: vec![block], until }),
        }
        self.count.store(groups.len(), SeqCst);
    }

    /// The blocks that need not wait any longer, from the front; `None` when there are none.
    pub fn take_over(&self) -> Option<Vec<Block>> {
        if self.is_empty() {
            return None;
        }
        let mut groups = self.groups.lock();
        if !groups.front()?.is_over() {
            return None;
        }
        let blocks = groups.pop_front().map(|group| group.blocks);
        self.count.store(groups.len(), SeqCst);
        blocks
    }

    /// What the longest-waiting block waits for, and how many bytes wait in all.
    pub fn front(&self) -> Option<(Vec<Position>, u64)> {
        let groups = self.groups.lock();
        let until = groups.front()?.until.clone();
        let bytes = groups.iter().flat_map(|group| &group.blocks).map(|block| block.size as u64);
        Some((until, bytes.sum()))
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.groups.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.groups.release() };
    }
}
