//! Stopped in order: the batch in progress is finished, saved, and the last one.

use rustix::process::Signal;
use tempfile::TempDir;

use crate::child::{Worker, kept, number};

#[test]
fn a_batch_that_was_begun_is_finished() {
    let folder = TempDir::new().expect("a directory");
    let mut last = 0;
    for _ in 0..3 {
        let worker = Worker::start(folder.path(), &["--batch-ms", "50"]);
        assert_eq!(worker.number("resumed"), last);
        let first = worker.number("processed");
        assert_eq!(first, last + 1, "no gap and no repetition");
        worker.signal(Signal::TERM); // in the middle of the next one
        let gone = worker.gone();
        assert_eq!(gone.status.code(), Some(0), "{}", gone.log);
        last = first;
        for line in &gone.lines {
            assert_eq!(number(line, "processed"), Some(last + 1), "{line}");
            last += 1;
        }
        assert_eq!(kept(folder.path()), (last, last));
    }
}

#[test]
fn a_batch_longer_than_the_grace_is_cancelled_and_done_again() {
    let folder = TempDir::new().expect("a directory");
    let words = ["--batch-ms", "600000", "--grace", "300ms"];
    let mut worker = Worker::logging("debug", folder.path(), &words);
    assert_eq!(worker.number("resumed"), 0);
    worker.begun();
    worker.signal(Signal::TERM);
    let gone = worker.gone();
    assert_eq!(gone.status.code(), Some(3), "{}", gone.log);
    assert!(gone.lines.is_empty(), "nothing was done");
    assert!(gone.log.contains("importer"), "{}", gone.log);
    let again = Worker::start(folder.path(), &["--batch-ms", "1"]);
    assert_eq!(again.number("resumed"), 0);
    assert_eq!(again.number("processed"), 1);
}
