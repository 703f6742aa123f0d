//! The board: which copies are under way, which pieces of them are still to be claimed, and what came of
//! them.
//!
//! | a job | bytes to claim | pieces under way | who moves it on |
//! |---|---|---|---|
//! | open | some | any | `claim` |
//! | taken | none | some | `finish` of the last one |
//! | failed | none: those that were left are given up | any | `finish` with a failure |
//! | done | none | none | its poster takes it off |
//!
//! Rules: jobs are served in turn, one piece each, so that a small copy waits for no more than a piece of a
//! large one. Pieces begin small, so that the bus has something to do at once, grow to the largest, and
//! end small, so that no thread is left alone with a large one while the bus has nothing to do. All of it is under one lock, which is held for a look and a count, never for a copy. A job
//! that no thread can serve is done too, as unserved.

use super::lines::Lines;
use crate::api::{MemcpyKind, Ordinal};
use crate::error::Error;
use crate::status::Status;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// One copy, in pieces.
pub struct Job {
    /// The device that it touches.
    pub device: Ordinal,
    /// `H2D` or `D2H`.
    pub kind: MemcpyKind,
    /// The first byte written.
    pub dst: usize,
    /// The first byte read.
    pub src: usize,
    /// How many bytes; not 0.
    pub size: usize,
    /// The largest piece.
    pub largest: usize,
    /// For how many threads the pieces are.
    pub threads: usize,
    /// 1 once all pieces are done; its poster sleeps on it.
    pub is_done: AtomicU32,
}

/// A piece that a thread has claimed.
pub struct Piece {
    /// Of which copy.
    pub job: Arc<Job>,
    /// Where it begins.
    pub offset: usize,
    /// How many bytes.
    pub size: usize,
}

/// Why a copy was not done.
#[derive(Debug)]
pub enum Failure {
    /// There was nothing to do it with; another way may do.
    Unserved,
    /// The backend failed.
    Failed(Error),
}

impl From<Error> for Failure {
    /// What was refused or could not be had is tried another way; what was tried and failed is told.
    fn from(error: Error) -> Failure {
        match error.status() {
            Status::OutOfMemory | Status::InvalidValue | Status::NotSupported => Failure::Unserved,
            _ => Failure::Failed(error),
        }
    }
}

/// A piece is not smaller than this, but the last.
pub const LEAST: usize = 256 << 10;
/// Pieces begin at multiples of this, as far as the copy does.
const STEP: usize = 64 << 10;

struct Entry {
    job: Arc<Job>,
    /// Where the next piece begins.
    next: usize,
    /// How many pieces were claimed.
    claimed: usize,
    /// Bytes that are not done.
    left: usize,
    failure: Option<Failure>,
}

impl Entry {
    /// Nobody claims what is left.
    fn give_up(&mut self, failure: Failure) {
        self.left -= self.job.size - self.next;
        self.next = self.job.size;
        self.failure.get_or_insert(failure);
    }

    /// The size of the next piece.
    fn piece(&self) -> usize {
        let Job { size, largest, threads, .. } = *self.job;
        let (rest, least) = (size - self.next, LEAST.min(largest));
        let doubled = u32::try_from(self.claimed / threads).unwrap_or(u32::MAX).min(16);
        let share = (rest / (2 * threads)).next_multiple_of(STEP);
        (least << doubled).min(share).clamp(least, largest).min(rest)
    }
}

/// The copies that are under way.
pub struct Board {
    entries: Vec<Entry>,
    /// Whose turn it is.
    turn: usize,
    /// The threads that serve.
    pub threads: usize,
    /// The streams that they share.
    pub lines: Lines,
}

impl Board {
    /// Nothing is under way.
    pub const fn new() -> Board {
        Board { entries: Vec::new(), turn: 0, threads: 0, lines: Lines::new() }
    }

    /// Puts a copy up.
    pub fn post(&mut self, job: &Arc<Job>) {
        let (job, left) = (Arc::clone(job), job.size);
        self.entries.push(Entry { job, next: 0, claimed: 0, left, failure: None });
    }

    /// Claims a piece of the copy whose turn it is.
    pub fn claim(&mut self) -> Option<Piece> {
        let count = self.entries.len();
        let found = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|index| self.entries[*index].next < self.entries[*index].job.size)?;
        self.turn = (found + 1) % count;
        let entry = &mut self.entries[found];
        let (offset, size) = (entry.next, entry.piece());
        entry.next += size;
        entry.claimed += 1;
        Some(Piece { job: Arc::clone(&entry.job), offset, size })
    }

    /// A claimed piece is done, or failed. Whether its copy is done with it: then its poster is to be woken.
    pub fn finish(&mut self, piece: &Piece, outcome: Result<(), Failure>) -> bool {
        let is_its = |entry: &&mut Entry| Arc::ptr_eq(&entry.job, &piece.job);
        let Some(entry) = self.entries.iter_mut().find(is_its) else { return false };
        entry.left -= piece.size;
        if let Err(failure) = outcome {
            entry.give_up(failure);
        }
        entry.left == 0
    }

    /// Takes a copy that is done off the board.
    pub fn take(&mut self, job: &Arc<Job>) -> Result<(), Failure> {
        let found = self.entries.iter().position(|entry| Arc::ptr_eq(&entry.job, job));
        // Only a fork takes entries away, and a poster is in no call across one.
        let Some(found) = found else { return Err(Failure::Unserved) };
        self.turn = 0;
        self.entries.swap_remove(found).failure.map_or(Ok(()), Err)
    }

    /// A thread ends. With the last one the copies that wait are unserved: those of them that are done with
    /// it, for the caller to wake their posters, and the streams, to be destroyed.
    pub fn leave(&mut self) -> (Vec<Arc<Job>>, Lines) {
        self.threads -= 1;
        if self.threads > 0 {
            return (Vec::new(), Lines::new());
        }
        let unserved = self.entries.iter_mut().filter(|entry| entry.left > 0);
        let unserved = unserved.filter_map(|entry| {
            entry.give_up(Failure::Unserved);
            (entry.left == 0).then(|| Arc::clone(&entry.job))
        });
        (unserved.collect(), self.lines.take())
    }

    /// Whether there is nothing to claim.
    pub fn is_clear(&self) -> bool {
        self.entries.iter().all(|entry| entry.next == entry.job.size)
    }

    /// In the child of a fork: the threads are not there, nor whoever waits for the copies.
    pub fn forget(&mut self) {
        self.entries.clear();
        let _of_the_parents = self.lines.take();
        (self.turn, self.threads) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(pieces: usize) -> Arc<Job> {
        Arc::new(Job {
            device: 0,
            kind: MemcpyKind::H2D,
            dst: 0x1000,
            src: 0x2000,
            size: 10 * pieces - 3,
            largest: 10,
            threads: 2,
            is_done: AtomicU32::new(0),
        })
    }

    fn broken() -> Failure {
        Failure::from(Error::new(Status::DriverError, "broken"))
    }

    #[test]
    fn every_byte_is_claimed_once_and_the_last_piece_ends_the_copy() {
        let mut board = Board::new();
        let copy = job(3);
        board.post(&copy);
        let pieces: Vec<_> = std::iter::from_fn(|| board.claim()).collect();
        let ranges: Vec<_> = pieces.iter().map(|piece| (piece.offset, piece.size)).collect();
        assert_eq!(ranges, [(0, 10), (10, 10), (20, 7)]);
        let ends: Vec<_> = pieces.iter().map(|piece| board.finish(piece, Ok(()))).collect();
        assert_eq!(ends, [false, false, true]);
        assert!(board.take(&copy).is_ok());
    }

    #[test]
    fn pieces_grow_from_small_ones_and_end_with_small_ones() {
        for size in [1, LEAST, LEAST + 1, (4 << 20) + 5, 1 << 30, (1 << 30) + 77] {
            let mut board = Board::new();
            let made = Job {
                size,
                largest: 2 << 20,
                threads: 12,
                ..Arc::into_inner(job(1)).expect("mine")
            };
            board.post(&Arc::new(made));
            let pieces: Vec<_> =
                std::iter::from_fn(|| board.claim()).map(|piece| piece.size).collect();
            assert_eq!(pieces.iter().sum::<usize>(), size);
            let largest = pieces.iter().copied().max().expect("some");
            assert!(largest <= 2 << 20 && pieces.iter().rev().skip(1).all(|piece| *piece >= LEAST));
            assert!(pieces[0] <= LEAST && pieces[pieces.len() - 1] <= LEAST, "{size}: {pieces:?}");
            assert_eq!(size < 1 << 30, largest < 2 << 20);
        }
    }

    #[test]
    fn a_small_copy_waits_for_one_piece_of_a_large_one() {
        let mut board = Board::new();
        let (large, small) = (job(100), job(1));
        board.post(&large);
        assert!(Arc::ptr_eq(&board.claim().expect("a piece").job, &large));
        board.post(&small);
        let next = [board.claim(), board.claim()].map(|piece| piece.expect("a piece").job);
        assert!(next.iter().any(|job| Arc::ptr_eq(job, &small)), "the large one went on alone");
    }

    #[test]
    fn a_failure_gives_up_what_is_left_and_waits_for_what_is_under_way() {
        let mut board = Board::new();
        let copy = job(10);
        board.post(&copy);
        let (first, second) = (board.claim().expect("a piece"), board.claim().expect("a piece"));
        assert!(!board.finish(&first, Err(broken())), "the second piece is under way");
        assert!(board.claim().is_none() && board.is_clear());
        assert!(board.finish(&second, Err(Failure::Unserved)));
        let Err(Failure::Failed(first)) = board.take(&copy) else { panic!("the first counts") };
        assert_eq!(first.message(), "broken");
    }

    #[test]
    fn copies_are_unserved_when_the_last_thread_leaves() {
        let mut board = Board::new();
        let (waits, under_way) = (job(2), job(1));
        board.threads = 2;
        board.post(&under_way);
        let piece = board.claim().expect("a piece");
        board.post(&waits);
        assert!(board.leave().0.is_empty());
        let (unserved, _) = board.leave();
        assert!(unserved.len() == 1 && Arc::ptr_eq(&unserved[0], &waits));
        assert!(matches!(board.take(&waits), Err(Failure::Unserved)));
        assert!(board.finish(&piece, Ok(())));
    }

    #[test]
    fn what_was_refused_goes_another_way_and_what_broke_is_told() {
        for (status, unserved) in [
            (Status::OutOfMemory, true),
            (Status::NotSupported, true),
            (Status::InvalidValue, true),
            (Status::DeviceLost, false),
            (Status::DriverError, false),
        ] {
            let failure = Failure::from(Error::new(status, "x"));
            assert_eq!(matches!(failure, Failure::Unserved), unserved, "{status:?}");
        }
    }
}
