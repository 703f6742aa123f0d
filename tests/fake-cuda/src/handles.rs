//! Addresses that stand for contexts, streams, events and pools.
//!
//! The rule: a handle looks like a pointer, lies in memory that nobody can read, and unless the
//! environment asks otherwise it is never given out twice, so a stale one is always known as stale.

use std::collections::HashMap;

/// A handle as it crosses the border. 0 is none.
pub type Handle = usize;

const STEP: usize = 64;
const RANGE: usize = 1 << 32;

/// What a handle was before it went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It was destroyed by a call.
    Destroyed,
    /// Its context was.
    WithItsContext,
}

/// The giver of handles.
pub struct Handles {
    base: usize,
    next: usize,
    reuse: bool,
    spare: Vec<Handle>,
    gone: HashMap<Handle, Gone>,
}

impl Handles {
    /// Reserves the range.
    pub fn new(reuse: bool) -> Handles {
        Handles {
            base: crate::arena::reserve(RANGE),
            next: 0,
            reuse,
            spare: Vec::new(),
            gone: HashMap::new(),
        }
    }

    /// A handle that is in use nowhere.
    pub fn give(&mut self) -> Handle {
        if let Some(handle) = self.spare.pop() {
            self.gone.remove(&handle);
            return handle;
        }
        self.next = (self.next + STEP) % RANGE;
        self.base + self.next
    }

    /// The object behind a handle is no more.
    pub fn retire(&mut self, handle: Handle, how: Gone) {
        self.gone.insert(handle, how);
        if self.reuse && how == Gone::Destroyed {
            self.spare.push(handle);
        }
    }

    /// How an object went, if there was one.
    pub fn how_it_went(&self, handle: Handle) -> Option<Gone> {
        self.gone.get(&handle).copied()
    }
}
