//! The staging engine: large copies between pageable host memory and device memory, by several threads.
//!
//! | question | file |
//! |---|---|
//! | which copies, and with how many threads? | `settings` |
//! | who copies which piece? | `board` |
//! | what does a thread do with a piece? | `worker`, with `ring` and `lines` |
//! | when is it a copy's turn in its stream? | `managed/staged` |
//!
//! Why: a driver copies pageable memory in the calling thread, at what one core moves, and a bus is several
//! times as fast. Here each thread moves pieces between the user's memory and a small pinned ring of its
//! own, while the device moves the others.
//!
//! Rules (contract C2, C3): a copy is done when [`Engine::copy`] returns, so it needs no event to order what
//! comes after it; what comes before it in its stream has been waited for by then. Nothing is started before
//! it is needed: threads come with the first copy, and with their rings and streams go when they had
//! nothing to do for a while. At exit they end with the process (L1); the child of a fork begins anew (L2).
//! A copy that the engine cannot do for want of memory or threads is left to the backend.

pub mod board;
mod lines;
mod ring;
mod settings;
mod worker;

use crate::api::{MemcpyKind, Ordinal, RuntimeApi};
use crate::fork::ForkAware;
use crate::futex;
use crate::lock::{ForkLock, Mutex};
use crate::thread;
use board::{Board, Failure, Job, Piece};
use lines::Lines;
use settings::Settings;
use std::ffi::c_void;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The engine of a backend.
pub struct Engine {
    /// `None`: there is none.
    settings: Option<Settings>,
    backend: OnceLock<&'static dyn RuntimeApi>,
    board: Mutex<Board>,
    /// Counts the copies that were posted; threads without work sleep on it.
    posted: AtomicU32,
}

impl Engine {
    /// The engine of this backend, if it is one that has use for it.
    pub fn new(backend: &impl RuntimeApi) -> Engine {
        Engine {
            settings: Settings::of(backend.capabilities()),
            backend: OnceLock::new(),
            board: Mutex::new(Board::new()),
            posted: AtomicU32::new(0),
        }
    }

    /// The backend, once it is where it stays.
    pub fn attach(&self, backend: &'static dyn RuntimeApi) {
        self.backend.get_or_init(|| backend);
    }

    /// Whether a copy is one that may be worth it.
    #[inline]
    pub fn takes(&self, kind: MemcpyKind, size: usize) -> bool {
        self.settings.is_some_and(|settings| match kind {
            MemcpyKind::H2D => size >= settings.from_in,
            MemcpyKind::D2H => size >= settings.from_out,
            _ => false,
        })
    }

    /// Copies, and returns when it is done.
    ///
    /// # Errors
    /// What failed, or that there was nothing to do it with. Then any part of it may have been copied.
    ///
    /// # Safety
    /// - `src` is readable and `dst` writable for `size` bytes, on the sides that `kind` names, one of which
    ///   is the device; they do not overlap, and nothing that is pending on the device uses them.
    pub unsafe fn copy(
        &'static self,
        device: Ordinal,
        dst: *mut c_void,
        src: *const c_void,
        size: usize,
        kind: MemcpyKind,
    ) -> Result<(), Failure> {
        let Some(settings) = &self.settings else { return Err(Failure::Unserved) };
        let job = Arc::new(Job {
            device,
            kind,
            dst: dst as usize,
            src: src as usize,
            size,
            largest: settings.chunk,
            threads: settings.threads,
            is_done: AtomicU32::new(0),
        });
        // A small copy has not more pieces.
        let wanted = settings.threads.min(size.div_ceil(settings.chunk.min(board::LEAST)));
        let missing = {
            let mut board = self.board.lock();
            board.post(&job);
            let missing = wanted.saturating_sub(board.threads);
            board.threads += missing;
            missing
        };
        self.posted.fetch_add(1, Release);
        futex::wake(&self.posted, i32::try_from(wanted).unwrap_or(i32::MAX));
        for _ in 0..missing {
            if thread::start("llaisys.staging".to_owned(), move || worker::run(self, device))
                .is_err()
            {
                self.leave();
            }
        }
        while job.is_done.load(Acquire) == 0 {
            futex::wait(&job.is_done, 0, None);
        }
        self.board.lock().take(&job)
    }

    /// A claimed piece is done, or failed.
    fn finish(&self, piece: &Piece, outcome: Result<(), Failure>) {
        let is_done = self.board.lock().finish(piece, outcome);
        if is_done {
            wake(&piece.job);
        }
    }

    /// A thread ends.
    fn leave(&self) {
        let (unserved, lines) = self.board.lock().leave();
        unserved.iter().for_each(|job| wake(job));
        self.destroy(lines);
    }

    fn destroy(&self, lines: Lines) {
        if let Some(backend) = self.backend.get() {
            lines.destroy(*backend);
        }
    }

    /// Sleeps until something was posted since `seen`. False when nothing was for long: the thread has left.
    fn await_work(&self, seen: u32, settings: &Settings) -> bool {
        let since = Instant::now();
        loop {
            let rest = settings.idle.saturating_sub(since.elapsed());
            if !rest.is_zero() {
                futex::wait(&self.posted, seen, Some(rest));
            }
            if self.posted.load(Relaxed) != seen {
                return true;
            }
            if since.elapsed() >= settings.idle {
                let left = {
                    let mut board = self.board.lock();
                    board.is_clear().then(|| board.leave())
                };
                // Nothing waited, so nobody is to be woken.
                let Some((_, lines)) = left else { return true };
                self.destroy(lines);
                return false;
            }
        }
    }
}

fn wake(job: &Job) {
    job.is_done.store(1, Release);
    futex::wake(&job.is_done, 1);
}

impl Engine {
    /// In the child of a fork: the threads are not there, and what they had stays unused.
    pub fn forget(&self) {
        self.board.lock().forget();
    }
}

impl ForkAware for Engine {
    fn prepare(&self) {
        self.board.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.board.release() };
    }
}
