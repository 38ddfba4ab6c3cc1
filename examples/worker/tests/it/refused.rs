//! Wrong directories, wrong words, wrong files: said clearly, with an exit code of its own, and nothing is changed.

use std::fs;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::child::{Worker, kept};

#[test]
fn a_second_worker_is_told_who_the_first_is() {
    let folder = TempDir::new().expect("a directory");
    let first = Worker::start(folder.path(), &["--batch-ms", "10"]);
    first.number("resumed");
    let second = Worker::start(folder.path(), &[]).gone();
    assert_eq!(second.status.code(), Some(1), "{}", second.log);
    let pid = fs::read_to_string(folder.path().join("lock")).expect("the lock");
    let said = format!("is in use by process {}", pid.trim());
    assert!(second.log.contains(&said), "{}", second.log);
    assert!(second.lines.is_empty());
    // The first one is not disturbed, and the directory is free when it is gone, however it went.
    first.number("processed");
    first.signal(Signal::KILL);
    first.gone();
    Worker::start(folder.path(), &[]).number("resumed");
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file");
    let gone = Worker::start(&file, &[]).gone();
    assert_eq!(gone.status.code(), Some(1), "{}", gone.log);
    assert!(
        gone.log.contains("cannot make state directory"),
        "{}",
        gone.log
    );
    assert!(
        gone.log.contains(&file.display().to_string()),
        "{}",
        gone.log
    );
    let usage = Worker::start(folder.path(), &["--batch-ms", "soon"]).gone();
    assert_eq!(usage.status.code(), Some(2), "{}", usage.log);
}

#[test]
fn a_damaged_state_is_set_aside_and_the_one_before_is_used() {
    let folder = TempDir::new().expect("a directory");
    let worker = Worker::start(folder.path(), &["--batch-ms", "1"]);
    worker.number("resumed");
    for _ in 0..3 {
        worker.number("processed");
    }
    worker.signal(Signal::TERM);
    worker.gone();
    let (last, _) = kept(folder.path());
    fs::write(folder.path().join("importer.json"), "{\"adieu\":1,\"ke").expect("damage");
    let again = Worker::start(folder.path(), &["--batch-ms", "1"]);
    assert_eq!(again.number("resumed"), last - 1);
    assert_eq!(again.number("processed"), last);
    again.signal(Signal::TERM);
    let gone = again.gone();
    assert_eq!(gone.status.code(), Some(0), "{}", gone.log);
    assert!(gone.log.contains("state is corrupt"), "{}", gone.log);
    assert!(gone.log.contains("importer.corrupt-1.json"), "{}", gone.log);
    assert!(folder.path().join("importer.corrupt-1.json").exists());
}

#[test]
fn a_state_from_the_future_is_left_alone() {
    let folder = TempDir::new().expect("a directory");
    let newer = r#"{"adieu":1,"key":"importer","version":9,"format":2,"value":{"cursor":"x"}}"#;
    let file = folder.path().join("importer.json");
    fs::write(&file, newer).expect("a file");
    let gone = Worker::start(folder.path(), &[]).gone();
    assert_eq!(gone.status.code(), Some(1), "{}", gone.log);
    assert!(
        gone.log.contains("from a newer version of this program"),
        "{}",
        gone.log
    );
    assert_eq!(fs::read_to_string(&file).expect("the file"), newer);
}
