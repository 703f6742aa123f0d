//! Every interleaving of a writer and a reader of one record: the words that are read are of one write.

use llaisys_models::record::{Record, WORDS};
use loom::sync::Arc;
use loom::thread;

#[test]
fn the_words_that_are_read_are_of_one_write() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let record = Arc::new(Record::new());
        let writer = {
            let record = record.clone();
            thread::spawn(move || {
                record.write([1; WORDS]);
                record.write([2; WORDS]);
            })
        };
        if let Some(words) = record.read() {
            assert!(words.iter().all(|word| *word == words[0]), "torn: {words:?}");
        }
        writer.join().expect("no panic");
        assert_eq!(record.read(), Some([2; WORDS]), "at rest it is read at the first try");
    });
}

/// A block of the allocator: handed out, freed by whoever is first, handed out again in another size.
#[test]
fn a_live_block_is_freed_by_one_of_two_and_a_reader_sees_it_live_or_free() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let record = Arc::new(Record::new());
        record.write([64, 0, 3, 4, 5]);
        record.set_live(7);
        let free = |record: Arc<Record>| {
            thread::spawn(move || {
                let won = record.take_live(7);
                if won {
                    // Only the owner of a free block may do this.
                    record.set_word(4, 6);
                    record.set_live(9);
                }
                won
            })
        };
        let threads = [free(record.clone()), free(record.clone())];
        let [base, size, about] = record.read_first().expect("the sequence stays even");
        assert_eq!((base, about), (64, 3));
        assert!([0, 7, 9].contains(&size), "found {size}");
        let won: usize = threads.map(|it| usize::from(it.join().expect("no panic"))).iter().sum();
        assert_eq!(won, 1, "one of two frees takes the block");
        assert_eq!(record.read(), Some([64, 9, 3, 4, 6]));
    });
}

/// What the user wrote into a block before its free is seen by who has the block next.
#[test]
fn what_was_done_before_a_free_is_done_for_the_next_owner() {
    loom::model(|| {
        let record = Arc::new(Record::new());
        record.write([64, 0, 3, 4, 5]);
        let giver = {
            let record = record.clone();
            thread::spawn(move || {
                record.set_word(3, 8);
                record.set_live(1);
            })
        };
        if record.take_live(1) {
            assert_eq!(record.word(3), 8);
        }
        giver.join().expect("no panic");
    });
}
