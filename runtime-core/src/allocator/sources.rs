//! Who may have work that uses freed memory: the streams of a backend.
//!
//! Rules: a stream is in here from before its handle is given out until after its end was marked. The
//! default stream of a device is in here once it can have work: on a device whose memory is the host's,
//! from its first use through this runtime; on others always, for users may launch there themselves.

use super::quarantine::Mark;
use crate::api::{Ordinal, Stream};
use crate::lock::{ForkLock, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The default streams of so many devices can be told apart.
pub const DEVICES: usize = 256;

/// A stream of one life.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The handle.
    pub stream: Stream,
    /// What tells it from another with that handle.
    pub serial: u64,
    /// Its device.
    pub device: Ordinal,
}

// SAFETY: the handle is only passed on, and every thread may name a stream (contract D3).
unsafe impl Send for Source {}

/// The sources as they were at one time.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// The live streams.
    pub live: Vec<Source>,
    /// The ends of streams that were destroyed while they were busy.
    pub departed: Vec<Arc<Mark>>,
}

/// The sources.
pub struct Sources {
    /// Nobody can have work. Written under the lock.
    none: AtomicBool,
    defaults: [AtomicU64; DEVICES / 64],
    known: Mutex<Snapshot>,
}

impl Sources {
    /// None.
    pub const fn new() -> Sources {
        Sources {
            none: AtomicBool::new(true),
            defaults: [const { AtomicU64::new(0) }; DEVICES / 64],
            known: Mutex::new(Snapshot { live: Vec::new(), departed: Vec::new() }),
        }
    }

    /// Whether nothing can be pending that was enqueued before.
    #[inline(always)]
    pub fn are_none(&self) -> bool {
        self.none.load(Ordering::Acquire)
    }

    /// A stream may be given work from now on.
    pub fn add(&self, source: Source) {
        let mut known = self.known.lock();
        // Somebody else's stream whose address came back (contract S3).
        known.live.retain(|other| other.stream != source.stream);
        known.live.push(source);
        self.none.store(false, Ordering::Release);
    }

    /// A stream is about to be destroyed natively; its end, if it is busy, is waited for from now on.
    pub fn depart(&self, stream: Stream, serial: u64, end: Option<Mark>) {
        let mut known = self.known.lock();
        known.live.retain(|other| other.stream != stream || other.serial != serial);
        known.departed.extend(end.map(Arc::new));
        self.update(&known);
    }

    /// These ends were reached.
    pub fn forget(&self, reached: &[Arc<Mark>]) {
        let mut known = self.known.lock();
        known.departed.retain(|mark| !reached.iter().any(|other| Arc::ptr_eq(mark, other)));
        self.update(&known);
    }

    fn update(&self, known: &Snapshot) {
        let none = known.live.is_empty()
            && known.departed.is_empty()
            && self.defaults.iter().all(|word| word.load(Ordering::Acquire) == 0);
        self.none.store(none, Ordering::Release);
    }

    /// The default stream of a device can have work from now on.
    #[inline]
    pub fn note_default(&self, device: Ordinal) {
        let (word, bit) = (device as usize / 64, 1_u64 << (device as usize % 64));
        if let Some(word) = self.defaults.get(word)
            && word.load(Ordering::Relaxed) & bit == 0
        {
            let _known = self.known.lock();
            word.fetch_or(bit, Ordering::Release);
            self.none.store(false, Ordering::Release);
        }
    }

    /// The devices whose default stream can have work.
    pub fn defaults(&self) -> impl Iterator<Item = Ordinal> {
        let word = |(index, word): (usize, &AtomicU64)| (index, word.load(Ordering::Acquire));
        let words: Vec<(usize, u64)> = self.defaults.iter().enumerate().map(word).collect();
        words.into_iter().flat_map(|(index, word)| {
            let has = move |bit: &usize| word >> bit & 1 == 1;
            (0..64).filter(has).map(move |bit| (index * 64 + bit) as Ordinal)
        })
    }

    /// The streams, and the ends of those that are gone.
    pub fn snapshot(&self) -> Snapshot {
        self.known.lock().clone()
    }

    /// In the child of a fork: no work of the parent's is here.
    pub fn forget_work(&self) {
        let mut known = self.known.lock();
        known.departed.clear();
    }

    /// Before a fork: keeps the lock.
    pub fn hold(&self) {
        self.known.hold();
    }

    /// After a fork: releases it.
    ///
    /// # Safety
    /// - `hold` was called before the fork, on the thread that forked.
    pub unsafe fn release(&self) {
        // SAFETY: by the contract above.
        unsafe { self.known.release() };
    }
}
