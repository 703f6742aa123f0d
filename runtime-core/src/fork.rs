//! What happens to our locks at `fork` (contract L2, case 27).
//!
//! A child has one thread, the one that forked; whoever held a lock in the parent is not there to
//! release it. So every lock of ours is taken before the fork, which also means that what it guards
//! is consistent, and released after it, in both processes (`lock`).
//!
//! Rules: a lock that other threads may hold at any time belongs to a [`ForkAware`] that is
//! registered before it is first used. No lock of this runtime is held while another one is taken;
//! only `prepare` takes several, so it cannot meet another thread half-way.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Something with locks, or with threads, that a fork concerns.
pub trait ForkAware: Sync {
    /// In the parent, before: take every lock.
    fn prepare(&self);
    /// In the parent, after: release every lock.
    fn parent(&self);
    /// In the child, after: release every lock and forget the threads, which are not there.
    fn child(&self) {
        self.parent();
    }
}

/// One who is told. A list that only grows at its head, so it needs no lock of its own.
struct Node {
    aware: &'static dyn ForkAware,
    next: *const Node,
}

/// The newest entry of the list.
static HEAD: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());
/// The newest entry when `prepare` ran: whoever registers meanwhile is not part of this fork.
static PREPARED: AtomicPtr<Node> = AtomicPtr::new(ptr::null_mut());

/// Has `aware` told about every later fork. It cannot be taken back: this library is never unloaded.
pub fn register(aware: &'static dyn ForkAware) {
    let node = Box::into_raw(Box::new(Node { aware, next: ptr::null() }));
    let mut head = HEAD.load(Ordering::Acquire);
    loop {
        // SAFETY: nobody else sees the node before it is the head.
        unsafe { (*node).next = head };
        match HEAD.compare_exchange_weak(head, node, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(newer) => head = newer,
        }
    }
    if head.is_null() {
        // SAFETY: the three handlers are functions of this library, which is never unloaded.
        // The only failure is ENOMEM for a few words; then a child of `fork` is on its own.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

fn tell_each(mut node: *const Node, tell: impl Fn(&dyn ForkAware)) {
    // SAFETY: nodes are leaked and do not change once they are in the list.
    while let Some(this) = unsafe { node.as_ref() } {
        tell(this.aware);
        node = this.next;
    }
}

extern "C" fn prepare() {
    let head = HEAD.load(Ordering::Acquire);
    tell_each(head, |aware| aware.prepare());
    // Locks are held from here on, so no second fork is between its `prepare` and its end.
    PREPARED.store(head, Ordering::Release);
}

extern "C" fn parent() {
    tell_each(PREPARED.load(Ordering::Acquire), |aware| aware.parent());
}

extern "C" fn child() {
    tell_each(PREPARED.load(Ordering::Acquire), |aware| aware.child());
}
