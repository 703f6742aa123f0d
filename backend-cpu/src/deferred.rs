//! Memory that was freed while work was pending that may still use it (contract M4, M6, M7).
//!
//! Rules: a block goes back to the system only when the streams that it was freed behind (all of them,
//! or the one of a stream-ordered free) have passed the point where they were at the time of the
//! free, and the free does not wait for that. Whoever finishes the work gives the block back: the
//! streams that the front of a lane waits for have an alert at that number. A lane is in the order of
//! its frees; a later free of the same lane waits for at least what an earlier one waits for, so only
//! the fronts need looking at, and alerts.

use crate::blocks::Block;
use crate::position::Position;
use crate::queue::Queue;
use llaisys_runtime_core::api::Ordinal;
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

/// The blocks that were freed behind the same: a stream, or all of them.
struct Lane {
    /// `None` for all streams.
    stream: Option<&'static Queue>,
    /// Never empty; each waits for something else.
    groups: VecDeque<Group>,
}

impl Lane {
    fn is_of(&self, stream: Option<&'static Queue>) -> bool {
        self.stream.map(std::ptr::from_ref) == stream.map(std::ptr::from_ref)
    }
}

/// The blocks that wait.
pub struct Deferred {
    lanes: Mutex<Vec<Lane>>,
    /// How many lanes there are. Written under the lock, read without it by whoever finishes work and
    /// has taken an alert away; who defers sets the alert after storing this.
    count: AtomicUsize,
}

impl Deferred {
    /// Nothing waits.
    pub fn new() -> Deferred {
        Deferred { lanes: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    /// Whether anything waits.
    pub fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Keeps a block that was freed behind a stream, or behind all of them, until these points are
    /// passed. The caller looks at `take_over` afterwards.
    pub fn push(&self, block: Block, stream: Option<&'static Queue>, until: Vec<Position>) {
        let mut lanes = self.lanes.lock();
        let new = || Group { blocks: vec![block], until: until.clone() };
        match lanes.iter_mut().find(|lane| lane.is_of(stream)) {
            Some(lane) => match lane.groups.back_mut() {
                Some(last) if last.until == until => last.blocks.push(block),
                _ => lane.groups.push_back(new()),
            },
            None => lanes.push(Lane { stream, groups: VecDeque::from([new()]) }),
        }
        self.count.store(lanes.len(), SeqCst);
    }

    /// Some blocks that need not wait any longer; `None` when there are none.
    pub fn take_over(&self) -> Option<Vec<Block>> {
        if self.is_empty() {
            return None;
        }
        let mut lanes = self.lanes.lock();
        let is_over = |lane: &Lane| lane.groups.front().is_some_and(Group::is_over);
        let index = lanes.iter().position(is_over)?;
        let blocks = lanes[index].groups.pop_front().map(|group| group.blocks);
        if lanes[index].groups.is_empty() {
            lanes.swap_remove(index);
        }
        self.count.store(lanes.len(), SeqCst);
        blocks
    }

    /// Sets the alerts that were taken away, or not set yet; whether something need not wait any longer.
    pub fn alert(&self) -> bool {
        let lanes = self.lanes.lock();
        let mut is_over = false;
        for group in lanes.iter().filter_map(|lane| lane.groups.front()) {
            // All of them: each is waited for alone.
            let reached = |at: &Position| at.queue.progress.alert_at(at.number);
            let pending = group.until.iter().filter(|at| !at.is_reached());
            is_over |= pending.filter(|at| !reached(at)).count() == 0;
        }
        is_over
    }

    /// How many bytes wait, of one device or of all memory.
    pub fn bytes(&self, device: Option<Ordinal>) -> u64 {
        let lanes = self.lanes.lock();
        let blocks = lanes.iter().flat_map(|lane| &lane.groups).flat_map(|group| &group.blocks);
        let counted = blocks.filter(|block| device.is_none_or(|device| block.is_on(device)));
        counted.map(|block| block.size as u64).sum()
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.lanes.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.lanes.release() };
    }
}
