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
