//! Files below a directory that the user named, in a tree that strangers may have written.
//!
//! git stores symbolic links, so a path in a cloned repository can lead anywhere. Below the named
//! directory no link is followed, neither for reading nor for writing. What is written goes to a new
//! file with a random name in the same directory and is renamed over the old name.

#[cfg(not(unix))]
#[path = "other.rs"]
mod platform;
#[cfg(unix)]
#[path = "unix.rs"]
mod platform;

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Larger settings, baselines and sources are not read.
const LARGEST: u64 = 64 * 1024 * 1024;

/// A regular file below a directory.
#[derive(Debug, Clone)]
pub(crate) struct Inside {
    /// As the user named it: links in it are the user's own.
    root: PathBuf,
    /// Plain names below the root, the last one is the file.
    below: PathBuf,
}

impl Inside {
    /// The file at this path below a directory. Refuses `..`, an absolute path and the directory itself.
    pub(crate) fn new(root: &Path, below: &Path) -> io::Result<Inside> {
        let mut plain = PathBuf::new();
        for part in below.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => plain.push(name),
                _ => return Err(outside()),
            }
        }
        if plain.as_os_str().is_empty() {
            return Err(outside());
        }
        let root = if root.as_os_str().is_empty() {
            Path::new(".")
        } else {
            root
        };
        Ok(Inside {
            root: root.to_owned(),
            below: plain,
        })
    }

    /// A file in a directory, both named by the user.
    pub(crate) fn named(path: &Path) -> io::Result<Inside> {
        let name = path.file_name().ok_or_else(outside)?;
        Inside::new(path.parent().unwrap_or(Path::new("")), Path::new(name))
    }

    /// Reads the whole file.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let folder = platform::Folder::open(&self.root, &self.below)?;
        whole(&folder.file()?)
    }

    /// Writes the file, new or over the old one, whole or not at all. With `before`, only if this
    /// is what it holds.
    ///
    /// A link put in the file's place meanwhile is replaced and not followed: the rename acts on
    /// the name in the directory that is held open.
    pub(crate) fn replace(&self, before: Option<&[u8]>, content: &[u8]) -> io::Result<()> {
        let folder = platform::Folder::open(&self.root, &self.below)?;
        let old = match folder.file() {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound && before.is_none() => None,
            Err(error) => return Err(error),
        };
        if let (Some(before), Some(old)) = (before, &old)
            && whole(old)? != before
        {
            return Err(io::Error::other("it changed while it was checked"));
        }
        folder.put(old.as_ref(), content)
    }
}

fn whole(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A device or a growing log has no honest size: never take more than the limit.
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} MB", LARGEST / (1024 * 1024)),
        ));
    }
    Ok(bytes)
}

fn outside() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is not below the directory that was named",
    )
}

fn is_link() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is a symbolic link, or below one, and links are not followed",
    )
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// A name for a new file that cannot be guessed: the hasher's keys come from the kernel.
fn random_name() -> String {
    let part = || RandomState::new().hash_one(std::process::id());
    format!(".adieu-{:016x}{:016x}.part", part(), part())
}

/// Opens a file that the walk found. A link or a pipe put in its place meanwhile is refused, and
/// does not make the open wait.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = platform::open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(not_regular())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Inside, random_name};

    #[test]
    fn a_path_that_leaves_the_folder_is_refused() {
        for path in ["../x", "a/../../x", "/etc/hosts", "", "."] {
            let refused = Inside::new(Path::new("here"), Path::new(path));
            assert!(refused.is_err(), "{path}");
        }
        assert!(Inside::new(Path::new(""), Path::new("./a/b")).is_ok());
    }

    #[test]
    fn names_differ() {
        assert_ne!(random_name(), random_name());
    }

    #[test]
    fn a_file_is_written_whole_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().expect("a directory");
        fs::create_dir(folder.path().join("a")).expect("a directory");
        let file = Inside::new(folder.path(), Path::new("a/b.json")).expect("inside");
        file.replace(None, b"first").expect("written");
        file.replace(Some(b"first"), b"second").expect("replaced");
        assert_eq!(file.read().expect("readable"), b"second");
        let error = file.replace(Some(b"first"), b"third").expect_err("changed");
        assert_eq!(error.to_string(), "it changed while it was checked");
        assert_eq!(file.read().expect("readable"), b"second");
        let left = fs::read_dir(folder.path().join("a")).expect("a directory");
        assert_eq!(left.count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn no_link_is_followed_at_any_step() {
        use std::os::unix::fs::symlink;
        let outer = tempfile::tempdir().expect("a directory");
        let root = outer.path().join("root");
        let victim = outer.path().join("victim");
        fs::create_dir_all(root.join("real")).expect("a directory");
        fs::create_dir(&victim).expect("a directory");
        fs::write(victim.join("file"), "kept").expect("a file");
        symlink(&victim, root.join("folder")).expect("a link");
        symlink(victim.join("file"), root.join("real/file")).expect("a link");
        symlink(victim.join("new"), root.join("real/dangling")).expect("a link");
        for path in ["folder/file", "folder/new", "real/file", "real/dangling"] {
            let file = Inside::new(&root, Path::new(path)).expect("inside by its words");
            let read = file.read().expect_err("a link");
            assert!(read.to_string().contains("symbolic link"), "{path}: {read}");
            let written = file.replace(None, b"attack").expect_err("a link");
            assert!(
                written.to_string().contains("symbolic link"),
                "{path}: {written}"
            );
        }
        assert_eq!(fs::read(victim.join("file")).expect("a file"), b"kept");
        assert_eq!(fs::read_dir(&victim).expect("a directory").count(), 1);
        assert_eq!(
            fs::read_dir(root.join("real"))
                .expect("a directory")
                .count(),
            2
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_mode_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("start.sh");
        fs::write(&path, "old").expect("a file");
        for mode in [0o750, 0o444, 0o600] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let file = Inside::named(&path).expect("inside");
            file.replace(None, b"new").expect("replaced");
            let kept = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(kept & 0o7777, mode);
        }
    }
}
