//! Handed over to the next version again and again, under work: that one begins when the one before has let go of the
//! directory, and goes on with the very next batch.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::child::{Worker, kept, number};

/// The process that has the directory is not our child but the child of one that was: it is ended by its own number.
struct Last(PathBuf);

impl Last {
    fn holder(folder: &Path) -> Pid {
        let text = fs::read_to_string(folder.join("lock")).expect("a process has the directory");
        let holder = text.trim().parse().ok().and_then(Pid::from_raw);
        holder.expect("the number of a process")
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        // After a test that went well no process is left, and this is an error.
        if std::thread::panicking() {
            let _ = kill_process(Self::holder(&self.0), Signal::KILL);
        }
    }
}

#[test]
fn no_batch_is_lost_or_done_twice_over_hand_offs() {
    let hand_offs = match std::env::var_os("ADIEU_PROVE") {
        Some(_) => 200,
        None => 5,
    };
    let folder = TempDir::new().expect("a directory");
    let worker = Worker::start(folder.path(), &["--batch-ms", "5", "--wait", "60s"]);
    let last = Last(folder.path().to_owned());
    assert_eq!(worker.number("resumed"), 0);
    let mut done = 0;
    for _ in 0..hand_offs {
        // Under work: it has done something since it began, and is about to do the next.
        assert_eq!(worker.number("processed"), done + 1);
        done += 1;
        let before = Last::holder(folder.path());
        kill_process(before, Signal::USR2).expect("it runs");
        // What the old one still does comes first: all of them write to one pipe.
        let resumed = loop {
            let line = worker.line();
            match number(&line, "processed") {
                Some(id) => assert_eq!(id, done + 1, "no gap and no repetition"),
                None => break number(&line, "resumed").unwrap_or_else(|| panic!("{line}")),
            }
            done += 1;
        };
        assert_eq!(resumed, done, "it begins where the one before has ended");
        assert_ne!(Last::holder(folder.path()), before);
    }
    kill_process(Last::holder(folder.path()), Signal::TERM).expect("it runs");
    let gone = worker.gone();
    assert_eq!(gone.status.code(), Some(0), "{}", gone.log);
    for line in &gone.lines {
        assert_eq!(number(line, "processed"), Some(done + 1), "{line}");
        done += 1;
    }
    assert_eq!(kept(folder.path()), (done, done));
    drop(last);
}
