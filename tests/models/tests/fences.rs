//! Every interleaving of a free and of another thread's asking (`runtime-core/src/fences.rs`).

use llaisys_models::fences::Fences;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A stream's work, as whoever asks sees it; nothing orders it but the fences themselves.
const IDLE: u64 = 0;
const BUSY: u64 = 1;

#[test]
fn who_asks_in_another_thread_has_seen_the_work_that_was_enqueued_before_a_stamp() {
    loom::model(|| {
        let fences = Arc::new(Fences::new());
        let stream = Arc::new(AtomicU64::new(IDLE));
        let asking = {
            let (fences, stream) = (Arc::clone(&fences), Arc::clone(&stream));
            thread::spawn(move || {
                let begun = fences.begin();
                fences.end(begun, stream.load(Ordering::Relaxed) == IDLE);
            })
        };
        stream.store(BUSY, Ordering::Relaxed);
        // Freed here: the work above uses the block, and it is never done.
        let stamp = fences.stamp();
        assert!(!fences.are_past(stamp), "a fence that has not seen the work says that it is done");
        asking.join().expect("a thread");
        assert!(!fences.are_past(stamp), "a fence that has not seen the work says that it is done");
    });
}

#[test]
fn what_a_fence_found_done_happened_before_what_follows_on_it() {
    loom::model(|| {
        let fences = Arc::new(Fences::new());
        let (stream, memory) = (Arc::new(AtomicU64::new(BUSY)), Arc::new(AtomicU64::new(0)));
        let stamp = fences.stamp();
        let working = {
            let (stream, memory) = (Arc::clone(&stream), Arc::clone(&memory));
            thread::spawn(move || {
                memory.store(1, Ordering::Relaxed);
                stream.store(IDLE, Ordering::Release);
            })
        };
        let asking = {
            let (fences, stream) = (Arc::clone(&fences), Arc::clone(&stream));
            thread::spawn(move || {
                let begun = fences.begin();
                fences.end(begun, stream.load(Ordering::Acquire) == IDLE);
            })
        };
        if fences.are_past(stamp) {
            assert_eq!(memory.load(Ordering::Relaxed), 1, "the work is done and not seen");
        }
        working.join().expect("a thread");
        asking.join().expect("a thread");
    });
}
