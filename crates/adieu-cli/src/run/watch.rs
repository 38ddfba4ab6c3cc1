//! `--watch`: changes under a path, by inotify, with the library's own file watch.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use adieu::reload::FileWatch;

/// Every file below the directories among these paths, too.
pub(super) async fn on(paths: &[PathBuf]) -> io::Result<FileWatch> {
    FileWatch::on_trees(paths, counts).await
}

/// Files that programs write for themselves are not watched: they would restart the command forever.
fn counts(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !name.starts_with('.') && !name.ends_with('~') && name != "__pycache__" && name != "target"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::time::Duration;

    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Self(tempfile::TempDir::new().expect("a directory"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str) {
            fs::write(self.path(name), "x").expect("written");
        }

        async fn watched(&self, name: &str) -> FileWatch {
            on(&[self.path(name)]).await.expect("watched")
        }

        /// As the kubelet does it: a new directory, and one rename that makes it the current one.
        fn swap(&self, mount: &str, version: &str) {
            let mount = self.path(mount);
            let data = mount.join(format!("..{version}"));
            fs::create_dir(&data).expect("made");
            fs::write(data.join("shop.toml"), version).expect("written");
            symlink(format!("..{version}"), mount.join("..data_tmp")).expect("linked");
            fs::rename(mount.join("..data_tmp"), mount.join("..data")).expect("swapped");
        }

        fn config_map(&self) {
            fs::create_dir(self.path("mount")).expect("made");
            self.swap("mount", "v1");
            symlink("..data/shop.toml", self.path("mount/shop.toml")).expect("linked");
        }
    }

    async fn changes(watch: &mut FileWatch) {
        let told = tokio::time::timeout(Duration::from_secs(60), watch.changed()).await;
        told.expect("heard in time").expect("still watched");
    }

    /// For longer than a change waits for more of it.
    async fn is_quiet(watch: &mut FileWatch) {
        let more = tokio::time::timeout(Duration::from_millis(500), watch.changed()).await;
        assert!(more.is_err(), "a file that does not count was reported");
    }

    #[tokio::test]
    async fn changes_that_count_are_heard() {
        let folder = Folder::new();
        folder.write("app.py");
        fs::create_dir(folder.path("__pycache__")).expect("made");
        let mut tree = folder.watched("").await;
        fs::create_dir(folder.path("new")).expect("made");
        changes(&mut tree).await;
        folder.write("new/module.py");
        changes(&mut tree).await;
        fs::remove_file(folder.path("new/module.py")).expect("removed");
        changes(&mut tree).await;
    }

    #[tokio::test]
    async fn what_programs_write_for_themselves_is_none() {
        let folder = Folder::new();
        folder.write("app.py");
        for name in ["__pycache__", "target", ".git"] {
            fs::create_dir(folder.path(name)).expect("made");
        }
        let mut tree = folder.watched("").await;
        for name in [
            "__pycache__/app.pyc",
            "target/app",
            ".git/HEAD",
            ".swap",
            "app.py~",
        ] {
            folder.write(name);
        }
        is_quiet(&mut tree).await;
    }

    #[tokio::test]
    async fn a_file_that_is_replaced_is_heard_of_each_time() {
        let folder = Folder::new();
        folder.write("one.conf");
        let mut one = folder.watched("one.conf").await;
        for _ in 0..2 {
            folder.write("two.conf");
            fs::rename(folder.path("two.conf"), folder.path("one.conf")).expect("replaced");
            changes(&mut one).await;
        }
    }

    #[tokio::test]
    async fn a_config_map_is_heard_of_at_every_swap() {
        let folder = Folder::new();
        folder.config_map();
        let mut file = folder.watched("mount/shop.toml").await;
        let mut mount = folder.watched("mount").await;
        for version in ["v2", "v3", "v4"] {
            folder.swap("mount", version);
            changes(&mut file).await;
            changes(&mut mount).await;
        }
        is_quiet(&mut file).await;
        is_quiet(&mut mount).await;
    }

    #[tokio::test]
    async fn links_in_a_circle_are_no_way() {
        let folder = Folder::new();
        folder.write("app.py");
        symlink(folder.0.path(), folder.path("again")).expect("linked");
        let mut tree = folder.watched("").await;
        folder.write("app.py");
        changes(&mut tree).await;
        is_quiet(&mut tree).await;
    }

    #[tokio::test]
    async fn what_is_not_there_is_named() {
        let gone = on(&[Path::new("/no/such/file").to_owned()]).await;
        let problem = gone.expect_err("it is not there").to_string();
        assert!(
            problem.contains("/no/such/file cannot be watched"),
            "{problem}"
        );
    }
}
