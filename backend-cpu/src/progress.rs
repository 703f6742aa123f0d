//! How far a queue is, and who wants to know when it gets further.
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `completed` | work up to this number is done, and what it wrote is visible | the holder of the queue's claim, upwards |
//! | `alert` | somebody wants to know when this number is reached; `NEVER` when nobody does | who wants to know: down. Who serves: to `NEVER`, before it looks at all who registered |
//! | `list` | the queues that are blocked on this one, in no order | a drainer that blocks: puts its own in. Who serves: takes all out |
//!
//! Who wants to know lowers `alert` and then looks at `completed`; who completes *visibly* changes
//! `completed` and then looks at `alert` with a read-modify-write. All changes of `alert` are such
//! operations, so of the two one comes second and sees everything before the first: nobody waits for
//! what is done already.
//! `complete` is the cheap form, which may miss who registers at that very moment; a `complete_visibly`
//! of the same number or a later one follows before anything that takes long.

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::ptr::null_mut;

/// Nobody wants to know.
const NEVER: u64 = u64::MAX;

/// See the table above. `T` is what is blocked.
pub struct Progress<T> {
    completed: AtomicU64,
    alert: AtomicU64,
    list: AtomicPtr<Link<T>>,
}

/// A queue's place in the list of the queue that it is blocked on.
pub struct Link<T> {
    /// The next in the list; its owner's, while it is in none.
    next: AtomicPtr<Link<T>>,
    /// What its owner waits for.
    number: AtomicU64,
    owner: AtomicPtr<T>,
}

impl<T: 'static> Link<T> {
    /// In no list, and nobody's until [`Link::belongs_to`].
    pub fn new() -> Link<T> {
        Link {
            next: AtomicPtr::new(null_mut()),
            number: AtomicU64::new(0),
            owner: AtomicPtr::new(null_mut()),
        }
    }

    /// Says whose it is, before it is used.
    pub fn belongs_to(&self, owner: &'static T) {
        self.owner.store(std::ptr::from_ref(owner).cast_mut(), Ordering::Relaxed);
    }

    fn owner(&self) -> &'static T {
        // SAFETY: `belongs_to` stored a reference that lives as long as the process, before use.
        unsafe { &*self.owner.load(Ordering::Relaxed) }
    }
}

impl<T: 'static> Progress<T> {
    /// Nothing is done, nobody waits.
    pub fn new() -> Progress<T> {
        Progress {
            completed: AtomicU64::new(0),
            alert: AtomicU64::new(NEVER),
            list: AtomicPtr::new(null_mut()),
        }
    }

    /// The number of the newest work that is done.
    #[inline]
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    /// Work up to this number is done; whether somebody wants to know. See the module text.
    #[inline]
    pub fn complete(&self, number: u64) -> bool {
        self.completed.store(number, Ordering::Release);
        number >= self.alert.load(Ordering::Relaxed)
    }

    /// The same, and nobody who registered is missed.
    #[inline]
    pub fn complete_visibly(&self, number: u64) -> bool {
        self.completed.store(number, Ordering::Release);
        let mut alert = self.alert.load(Ordering::Relaxed);
        // Not an addition of 0, of which the compiler would make a slower fence.
        while let Err(now) =
            self.alert.compare_exchange(alert, alert, Ordering::AcqRel, Ordering::Relaxed)
        {
            alert = now;
        }
        number >= alert
    }

    /// From now on somebody wants to know about this number; whether it is reached already.
    pub fn alert_at(&self, number: u64) -> bool {
        self.alert.fetch_min(number, Ordering::AcqRel);
        self.completed() >= number
    }

    /// Puts a blocked queue into the list; whether the number is reached already, and the caller has
    /// to serve.
    pub fn register(&self, link: &'static Link<T>, number: u64) -> bool {
        link.number.store(number, Ordering::Relaxed);
        self.put(link);
        self.alert_at(number)
    }

    fn put(&self, link: &'static Link<T>) {
        let own = std::ptr::from_ref(link).cast_mut();
        let mut head = self.list.load(Ordering::Relaxed);
        loop {
            link.next.store(head, Ordering::Relaxed);
            match self.list.compare_exchange_weak(head, own, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => head = newer,
            }
        }
    }

    /// Calls `go_on` for every queue that was blocked on a number that is reached; each is told once.
    pub fn serve(&self, mut go_on: impl FnMut(&'static T)) {
        loop {
            self.alert.swap(NEVER, Ordering::AcqRel);
            let mut link = self.list.swap(null_mut(), Ordering::AcqRel);
            let completed = self.completed();
            let mut again = false;
            // SAFETY: links live as long as the process; those of a list that was taken out are
            // this thread's alone.
            while let Some(this) = unsafe { link.as_ref() } {
                // First, because the owner may use the link again at once.
                link = this.next.load(Ordering::Relaxed);
                let number = this.number.load(Ordering::Relaxed);
                if number <= completed {
                    go_on(this.owner());
                } else {
                    again |= self.register(this, number);
                }
            }
            if !again {
                return;
            }
        }
    }

    /// In the child of a fork: everything up to `number` is the parent's, nobody waits.
    pub fn forget(&self, number: u64) {
        self.completed.store(number, Ordering::Release);
        self.alert.store(NEVER, Ordering::Release);
        self.list.store(null_mut(), Ordering::Release);
    }
}
