//! The ring of a stream's records: many threads put in, one at a time; one thread takes out.
//!
//! Records are numbered 1, 2, 3 …; number n lies in cell n modulo the size, so there is no index
//! beside the number. Numbers go on when the queue is given to a new stream.
//!
//! | word | means | who changes it |
//! |---|---|---|
//! | `tail`, upper 63 bits | the number of the newest record; all up to it are written | the holder of the lock, when it unlocks |
//! | `tail`, lowest bit | a thread is putting records in | who takes the lock; the same when it unlocks |
//! | `buffer` | the cells; null before the first record | the holder of the lock |
//! | `own` | see [`Own`] | the holder of the lock |
//! | `busy_until` | up to this number those who put in take it that what is before them is not done; a guess | those who put in; who has waited for all of it: to 0 |
//!
//! The lock is taken by a read-modify-write of `tail`, and [`Ring::settled_tail`] is one too. Who
//! takes away a flag that those who put in look at (under the lock), and then asks for the settled
//! tail, either sees what they put in, or they see that the flag is gone.
//!
//! A full buffer is replaced by a larger one up to the limit, which copies the records that are not
//! done. The one who takes out may go on reading them in the old one, where they stay as they are
//! until [`Ring::shrink`].

use crate::atomic::{AtomicPtr, AtomicU64, Cell, Ordering, spin_loop, yield_now};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

const LOCKED: u64 = 1;
/// The cells of the first buffer. In a model every buffer is soon full.
const FIRST: u64 = if cfg!(loom) { 1 } else { 16 };
/// From this size on whoever finds the buffer full looks for a moment whether it drains, since a
/// larger one would only go through more memory.
const LARGE: u64 = 1024;
/// How long that moment is, in looks.
const LOOKS: u32 = 2_000;
/// How often a thread looks at a lock before it lets others run.
const LOCK_LOOKS: u32 = 200;

struct Buffer<T> {
    cells: Box<[Cell<MaybeUninit<T>>]>,
}

impl<T> Buffer<T> {
    fn leak(size: u64) -> *mut Buffer<T> {
        let cells = (0..size).map(|_| Cell::new(MaybeUninit::uninit())).collect();
        Box::into_raw(Box::new(Buffer { cells }))
    }

    #[inline]
    fn cell(&self, number: u64) -> &Cell<MaybeUninit<T>> {
        &self.cells[number as usize & (self.cells.len() - 1)]
    }

    fn size(&self) -> u64 {
        self.cells.len() as u64
    }
}

/// What belongs to the holder of the lock.
struct Own<T> {
    /// Work up to this number was seen to be done.
    freed: u64,
    /// Buffers that were replaced.
    old: Vec<*mut Buffer<T>>,
}

/// See the module text.
pub struct Ring<T> {
    tail: AtomicU64,
    buffer: AtomicPtr<Buffer<T>>,
    own: Cell<Own<T>>,
    limit: u64,
    busy_until: AtomicU64,
}

// SAFETY: records go from one thread to another; cells and `own` are used as the table says.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

/// The lock of a ring, and what is put in under it. Unlocking publishes all of it.
pub struct Guard<'a, T> {
    ring: &'a Ring<T>,
    number: u64,
}

impl<T> Ring<T> {
    /// An empty ring for up to `limit` records that are not done.
    pub fn new(limit: u64) -> Ring<T> {
        Ring {
            tail: AtomicU64::new(0),
            buffer: AtomicPtr::new(null_mut()),
            own: Cell::new(Own { freed: 0, old: Vec::new() }),
            limit,
            busy_until: AtomicU64::new(0),
        }
    }

    /// Whether work is pending, at a guess: who puts in one after the other looks now and then only how far
    /// the other side is, which would take that side's cache line away each time. Right whenever it says
    /// no, and after [`Ring::waited`].
    #[inline]
    pub fn is_busy(&self, completed: impl Fn() -> u64) -> bool {
        let tail = self.tail();
        if tail < self.busy_until.load(Ordering::Relaxed) {
            return true;
        }
        let completed = completed();
        if completed < tail {
            // Half of it will be there for a while.
            self.busy_until.store(tail + (tail - completed) / 2, Ordering::Relaxed);
        }
        completed < tail
    }

    /// Somebody has seen that all work is done.
    #[inline]
    pub fn waited(&self) {
        if self.busy_until.load(Ordering::Relaxed) != 0 {
            self.busy_until.store(0, Ordering::Relaxed);
        }
    }

    /// The number of the newest record.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire) >> 1
    }

    /// The same, once whoever is putting records in, or does work under the lock, has done so.
    #[inline]
    pub fn tail_at_rest(&self) -> u64 {
        let word = self.tail.load(Ordering::Acquire);
        if word & LOCKED == 0 { word >> 1 } else { self.settled_tail() }
    }

    /// Whether a thread is putting records in.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.tail.load(Ordering::Acquire) & LOCKED != 0
    }

    /// The number of the newest record, when nobody is putting one in: see the module text.
    #[inline]
    pub fn settled_tail(&self) -> u64 {
        let mut looks = 0;
        let mut word = self.tail.load(Ordering::Relaxed);
        loop {
            if word & LOCKED != 0 {
                pause(&mut looks);
                word = self.tail.load(Ordering::Relaxed);
                continue;
            }
            // Not an addition of 0, of which the compiler would make a slower fence.
            match self.tail.compare_exchange(word, word, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return word >> 1,
                Err(now) => word = now,
            }
        }
    }

    /// Takes the lock. It is held for a moment only, so the wait does not sleep.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let mut looks = 0;
        let mut word = self.tail.load(Ordering::Relaxed);
        loop {
            if word & LOCKED != 0 {
                pause(&mut looks);
                word = self.tail.load(Ordering::Relaxed);
                continue;
            }
            let locked = word | LOCKED;
            match self.tail.compare_exchange(word, locked, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Guard { ring: self, number: word >> 1 },
                Err(now) => word = now,
            }
        }
    }

    /// Looks at a record in its place.
    ///
    /// # Safety
    /// - The caller holds the queue's claim, `number` is above what is completed and not above a
    ///   tail that the caller has read, and the record was not taken.
    #[inline]
    pub unsafe fn look_at<R>(&self, number: u64, look: impl FnOnce(&T) -> R) -> R {
        // SAFETY: a record was put in, so there is a buffer; buffers stay while a claim is held.
        let buffer = unsafe { &*self.buffer.load(Ordering::Acquire) };
        // SAFETY: written before the tail was, and not written again before it is completed.
        buffer.cell(number).with(|cell| look(unsafe { (*cell).assume_init_ref() }))
    }

    /// Takes a record out.
    ///
    /// # Safety
    /// - As for `look_at`; each number is taken once.
    #[inline]
    pub unsafe fn take(&self, number: u64) -> T {
        // SAFETY: as in `look_at`.
        let buffer = unsafe { &*self.buffer.load(Ordering::Acquire) };
        // SAFETY: as in `look_at`; the caller takes it once, so there is one owner.
        buffer.cell(number).with(|cell| unsafe { (*cell).assume_init_read() })
    }

    /// Gives the memory of all buffers back but a small one.
    ///
    /// # Safety
    /// - The caller holds the queue's claim and all records are done.
    pub unsafe fn shrink(&self) {
        let guard = self.lock();
        let buffer = self.buffer.load(Ordering::Relaxed);
        self.own.with_mut(|own| {
            // SAFETY: under the lock; nobody reads records, by the contract above.
            let own = unsafe { &mut *own };
            for old in own.old.drain(..) {
                // SAFETY: came from `leak`; nobody reads it any more.
                drop(unsafe { Box::from_raw(old) });
            }
            own.old = Vec::new();
        });
        // SAFETY: null or from `leak`.
        if unsafe { buffer.as_ref() }.is_some_and(|buffer| buffer.size() > FIRST) {
            self.buffer.store(null_mut(), Ordering::Release);
            // SAFETY: as above.
            drop(unsafe { Box::from_raw(buffer) });
        }
        drop(guard);
    }

    /// Before a fork: takes the lock and keeps it.
    pub fn hold(&self) {
        std::mem::forget(self.lock());
    }

    /// After a fork: unlocks.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        self.tail.fetch_and(!LOCKED, Ordering::AcqRel);
    }
}

impl<T> Guard<'_, T> {
    /// The number of the newest record, with those that were just put in.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes a number for work that its taker does itself, under the claim; there is no record.
    pub fn take_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Puts a record in and answers its number, or gives it back when the ring is full. `completed`
    /// says up to where work is done.
    #[inline]
    pub fn push(&mut self, record: T, completed: impl Fn() -> u64) -> Result<u64, T> {
        let buffer = self.ring.buffer.load(Ordering::Relaxed);
        let freed = self.ring.own.with(|own| {
            // SAFETY: this thread holds the lock.
            unsafe { (*own).freed }
        });
        // SAFETY: null or from `leak`; only the holder of the lock gives buffers back.
        let size = unsafe { buffer.as_ref() }.map_or(0, Buffer::size).min(self.ring.limit);
        if self.number - freed >= size && !self.make_room(size, completed) {
            return Err(record);
        }
        let number = self.number + 1;
        // SAFETY: `make_room` has seen to it that there is one.
        let buffer = unsafe { &*self.ring.buffer.load(Ordering::Relaxed) };
        buffer.cell(number).with_mut(|cell| {
            // SAFETY: what was in the cell is done, and no reader knows this number yet.
            unsafe { (*cell).write(record) };
        });
        self.number = number;
        Ok(number)
    }

    #[cold]
    fn make_room(&mut self, size: u64, completed: impl Fn() -> u64) -> bool {
        let ring = self.ring;
        ring.own.with_mut(|own| {
            // SAFETY: this thread holds the lock.
            let own = unsafe { &mut *own };
            own.freed = completed();
            let mut looks = if size >= LARGE && size < ring.limit { LOOKS } else { 0 };
            while self.number - own.freed >= size && looks > 0 {
                spin_loop();
                looks -= 1;
                own.freed = completed();
            }
            if self.number - own.freed < size {
                return true;
            }
            if size >= ring.limit {
                return false;
            }
            let old = ring.buffer.load(Ordering::Relaxed);
            let larger = (size * if cfg!(loom) { 2 } else { 4 })
                .max(FIRST)
                .min(ring.limit.next_power_of_two());
            let new = Buffer::leak(larger);
            // Without a buffer, all numbers so far were taken by who did the work itself.
            let numbers = if old.is_null() { 0..0 } else { own.freed + 1..self.number + 1 };
            for number in numbers {
                // SAFETY: the old buffer is there; the new one is ours.
                let (from, to) = unsafe { ((*old).cell(number), (*new).cell(number)) };
                // A record that is being taken, or a number without one, is copied too, as bytes
                // that nobody will read.
                from.with(|from| {
                    // SAFETY: bytes of two different buffers; cells of the new one are nobody's.
                    to.with_mut(|to| unsafe { to.copy_from_nonoverlapping(from, 1) });
                });
            }
            if !old.is_null() {
                own.old.push(old);
            }
            ring.buffer.store(new, Ordering::Release);
            true
        })
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.ring.tail.store(self.number << 1, Ordering::Release);
    }
}

fn pause(looks: &mut u32) {
    *looks += 1;
    if *looks < LOCK_LOOKS {
        spin_loop();
    } else {
        yield_now();
    }
}
