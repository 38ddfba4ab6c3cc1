//! A changed file reloads: real files, changed in each way that files are.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use adieu::report::Notice;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};

use crate::clues::{calm, secs};

/// What the service says, as it happens.
struct Ear(mpsc::UnboundedReceiver<String>);

impl Ear {
    /// The next word; it takes a moment, and forever only if a change was not heard.
    async fn next(&mut self) -> String {
        let word = tokio::time::timeout(secs(60), self.0.recv()).await;
        word.expect("the change is heard").expect("it goes on")
    }
}

/// A service that reads the first of these files and watches all of them. It says `running`, then what it has read after
/// every change, or why not; `act` makes the changes. Gives the number of reloads.
async fn watching(paths: &[&Path], act: impl AsyncFnOnce(&mut Ear)) -> usize {
    let (say, heard) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel::<()>();
    let told = say.clone();
    let scope = calm()
        .stop_when(async {
            let _ = ended.await;
        })
        .on_notice(move |notice| {
            let _ = match notice {
                Notice::Running => told.send("running".to_owned()),
                Notice::ReloadRefused { failure, .. } => told.send(format!("refused: {failure}")),
                _ => Ok(()),
            };
        });
    let (read, paths) = (paths[0].to_owned(), paths.to_owned());
    let life = scope.run(async move |app| {
        let load = move || {
            let read = fs::read_to_string(&read);
            async move { read }
        };
        let part = paths
            .iter()
            .fold(app.reload("config", load), |part, path| part.watch(*path));
        let mut config = part.await?;
        app.task("reader", move |stop| async move {
            while let Some(now) = stop.until(config.changed()).await {
                let _ = say.send(now.to_string());
            }
        });
        Ok(())
    });
    let mut ear = Ear(heard);
    let script = async {
        assert_eq!(ear.next().await, "running");
        act(&mut ear).await;
        drop(end);
    };
    let (report, ()) = tokio::join!(life, script);
    assert_eq!(report.exit_code(), 0, "{report}");
    let is_one = |notice: &Notice| matches!(notice, Notice::Reloaded { .. });
    let all = report.timeline().iter();
    all.filter(|(_, notice)| is_one(notice)).count()
}

/// A directory with one file.
fn place(text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a directory");
    let file = folder.path().join("config");
    fs::write(&file, text).expect("it can be written");
    (folder, file)
}

/// Writes beside, and renames.
fn replace(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text).expect("it can be written");
    fs::rename(beside, file).expect("it can be renamed");
}

#[tokio::test]
async fn written_to_or_replaced() {
    let (_folder, file) = place("one");
    watching(&[&file], async |ear| {
        fs::write(&file, "two").expect("it can be written");
        assert_eq!(ear.next().await, "two");
        // Often: the watch must not stay with the file that was replaced.
        for text in ["three", "four", "five"] {
            replace(&file, text);
            assert_eq!(ear.next().await, text);
        }
        fs::write(&file, "six").expect("it can be written");
        assert_eq!(ear.next().await, "six");
    })
    .await;
}

/// The descriptors of this process that watch a directory.
fn watches(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let number = fs::metadata(folder).expect("it is there").ino();
    let watch = format!(" ino:{number:x} ");
    let all = fs::read_dir("/proc/self/fdinfo").expect("this process");
    all.flatten()
        .filter(|file| fs::read_to_string(file.path()).is_ok_and(|info| info.contains(&watch)))
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn removed_is_no_change_until_it_is_there_again() {
    let (_folder, file) = place("one");
    let folder = file.parent().expect("it is in a directory");
    let reloads = watching(&[&file], async |ear| {
        let before = watches(folder);
        assert_eq!(before.len(), 1, "{before:?}");
        fs::remove_file(&file).expect("it was there");
        // A look at the file is made with a new watch, and ends with the end of the old one.
        let looked = async {
            while watches(folder).len() != 1 || watches(folder) == before {
                tokio::task::yield_now().await;
            }
        };
        let looked = tokio::time::timeout(secs(60), looked).await;
        looked.expect("the removal is noticed");
        // A reload would be asked for by now. It would be refused, and that would be the next word.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        fs::write(&file, "two").expect("it can be written");
        assert_eq!(ear.next().await, "two");
    })
    .await;
    assert_eq!(reloads, 1);
}

/// A volume as the kubelet makes it: the files are links into `..data`, a link to a directory that is never changed.
#[tokio::test]
async fn a_config_map_is_swapped() {
    let volume = TempDir::new().expect("a directory");
    let at = |name: &str| volume.path().join(name);
    let fill = |generation: &str, text: &str| {
        fs::create_dir(at(generation)).expect("a new directory");
        fs::write(at(generation).join("config"), text).expect("it can be written");
        symlink(generation, at("..data_tmp")).expect("a link");
        fs::rename(at("..data_tmp"), at("..data")).expect("it can be renamed");
    };
    fill("..2026_01", "one");
    symlink("..data/config", at("config")).expect("a link");
    let reloads = watching(&[&at("config")], async |ear| {
        for (before, generation, text) in [
            ("..2026_01", "..2026_02", "two"),
            ("..2026_02", "..2026_03", "three"),
        ] {
            fill(generation, text);
            assert_eq!(ear.next().await, text);
            fs::remove_dir_all(at(before)).expect("it was there");
        }
        // And in a place that was not watched at first.
        fs::write(at("..2026_03").join("config"), "four").expect("it can be written");
        assert_eq!(ear.next().await, "four");
    })
    .await;
    assert_eq!(reloads, 3);
}

#[tokio::test]
async fn the_folder_above_is_exchanged() {
    let top = TempDir::new().expect("a directory");
    let at = |name: &str| top.path().join(name);
    for (folder, text) in [("now", "one"), ("next", "two")] {
        fs::create_dir_all(at(folder).join("deep")).expect("a new directory");
        fs::write(at(folder).join("deep/config"), text).expect("it can be written");
    }
    watching(&[&at("now").join("deep/config")], async |ear| {
        fs::rename(at("now"), at("before")).expect("it can be renamed");
        fs::rename(at("next"), at("now")).expect("it can be renamed");
        assert_eq!(ear.next().await, "two");
        fs::write(at("now/deep/config"), "three").expect("it can be written");
        assert_eq!(ear.next().await, "three");
    })
    .await;
}

#[tokio::test]
async fn anything_in_a_folder() {
    let (folder, file) = place("one");
    let parts = folder.path().join("conf.d");
    fs::create_dir(&parts).expect("a new directory");
    watching(&[&file, &parts], async |ear| {
        fs::write(parts.join("10-more"), "x").expect("it can be written");
        assert_eq!(ear.next().await, "one");
        fs::remove_file(parts.join("10-more")).expect("it was there");
        assert_eq!(ear.next().await, "one");
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_refused_leaves_all_as_before_and_the_next_one_counts() {
    let (_folder, file) = place("one");
    let reloads = watching(&[&file], async |ear| {
        fs::write(&file, [0xff, 0xfe]).expect("it can be written");
        let refused = ear.next().await;
        assert!(refused.contains("valid UTF-8"), "{refused}");
        replace(&file, "two");
        assert_eq!(ear.next().await, "two");
    })
    .await;
    assert_eq!(reloads, 1);
}

#[tokio::test]
async fn what_is_not_there_cannot_be_watched() {
    let (folder, _) = place("one");
    let missing = folder.path().join("misspelt");
    let report = calm()
        .run(async |app| {
            let load = || async { Ok::<_, std::io::Error>(()) };
            app.reload("config", load).watch(missing).await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1);
    let problem = report.problem().expect("it is notified").to_string();
    assert!(
        problem.starts_with("`config` could not be loaded: "),
        "{problem}"
    );
    assert!(
        problem.contains("misspelt cannot be watched: No such file"),
        "{problem}"
    );
}
