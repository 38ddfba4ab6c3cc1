//! The directory of the sockets between us and the command: ours alone, of a name that cannot be foreseen, gone at the end.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use adieu_os::socket::UnixRow;
use tempfile::TempDir;

/// The longest path of a Unix socket, without the byte that ends it.
const LONGEST: usize = 107;
/// No file in it has a longer name: a worker, a generation, and `.sock`.
const NAME: usize = "255-4294967295.sock".len();

pub(super) struct Directory(TempDir);

impl Directory {
    /// Makes it where temporary files belong. Whatever the umask is, no other user may enter it.
    pub(super) fn make() -> Result<Self, String> {
        let parent = std::env::temp_dir();
        let failed = |why: &dyn std::fmt::Display| {
            format!(
                "--front: no directory for the sockets to the command can be made in {}: {why}. Set TMPDIR to a directory \
                 that this user may write to, or have the command listen on {{port}}",
                parent.display()
            )
        };
        let private = std::fs::Permissions::from_mode(0o700);
        let made = tempfile::Builder::new()
            .prefix("adieu-")
            .rand_bytes(12)
            .permissions(private)
            .tempdir_in(&parent)
            .map_err(|error| failed(&error))?;
        if made.path().as_os_str().len() + 1 + NAME > LONGEST {
            return Err(failed(&"its path is too long for a Unix socket"));
        }
        Ok(Self(made))
    }

    /// Where a generation is to listen.
    pub(super) fn socket(&self, worker: usize, generation: u32) -> SocketFile {
        SocketFile(self.0.path().join(format!("{worker}-{generation}.sock")))
    }
}

/// A socket that the command makes. Most do not remove it.
pub(super) struct SocketFile(PathBuf);

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The inode of the Unix socket that listens at this path, as the process sees it.
pub(super) fn listening_inode(pid: u32, path: &Path) -> io::Result<Option<u64>> {
    let table = std::fs::read(format!("/proc/{pid}/net/unix"))?;
    let mut rows = table
        .split(|byte| *byte == b'\n')
        .filter_map(UnixRow::parse);
    let listens = |row: &UnixRow<'_>| row.is_listening && row.path == path.as_os_str().as_bytes();
    Ok(rows.find(listens).map(|row| row.inode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn it_is_private_and_goes_with_what_is_in_it() {
        let (one, other) = (Directory::make().unwrap(), Directory::make().unwrap());
        let path = one.0.path().to_owned();
        assert_ne!(path, other.0.path());
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        let socket = one.socket(1, 7);
        let file = socket.path().to_owned();
        let listener = UnixListener::bind(&file).unwrap();
        let inode = listening_inode(std::process::id(), &file).unwrap();
        assert!(inode.is_some());
        let beside = path.join("-7.sock");
        assert_eq!(listening_inode(std::process::id(), &beside).unwrap(), None);
        drop(socket);
        assert!(!file.exists());
        drop(one);
        assert!(!path.exists());
        drop(listener);
    }
}
