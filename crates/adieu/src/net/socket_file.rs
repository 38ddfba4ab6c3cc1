//! The file of a Unix socket: which one is ours, and who may put one at a path.
//!
//! A socket that is bound and does not listen yet looks like one that was left behind by a process that was killed: a
//! connection is refused on both. So a start holds a lock file beside the socket from the bind until the socket
//! listens. A file is removed only if it is the one that was made here: another service may have put its own at the
//! path meanwhile.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// A socket's file, known by what it is and not only by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// The socket file that is at this path; links are not followed. An error of [`io::ErrorKind::AlreadyExists`] says
    /// that something else is there.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let there = fs::symlink_metadata(path)?;
        if !there.file_type().is_socket() {
            let why = "a file exists that is not a socket, and is left alone; choose another path";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        Ok(Self {
            path: path.to_owned(),
            identity: (there.dev(), there.ino()),
        })
    }

    /// One that another process has made, and has said which it is.
    pub(crate) const fn known(path: PathBuf, identity: (u64, u64)) -> Self {
        Self { path, identity }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Removes it, unless another is at its path.
    pub(crate) fn remove(self) -> io::Result<()> {
        if Self::at(&self.path)? == self {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}

/// A lock on a path, held while the socket there is bound and does not listen yet. The kernel gives it up with the
/// process, however that ends.
pub(crate) struct StartLock {
    file: File,
    path: PathBuf,
}

impl StartLock {
    /// An error of [`io::ErrorKind::AddrInUse`] says that another process holds it.
    fn take(socket: &Path) -> io::Result<Self> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(&path)
                .map_err(|error| explain(&path, &error))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::AddrInUse.into()),
                Err(TryLockError::Error(error)) => return Err(explain(&path, &error)),
            }
            // The process that held it may have removed it between our `open` and our lock: then no path leads to it.
            let (held, there) = (file.metadata()?, fs::symlink_metadata(&path));
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (held.dev(), held.ino())) {
                return Ok(Self { file, path });
            }
        }
    }
}

impl Drop for StartLock {
    fn drop(&mut self) {
        // While it is held: no process can have locked the file that is removed.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

fn explain(path: &Path, error: &io::Error) -> io::Error {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::NotFound => io::ErrorKind::NotFound.into(),
        kind => io::Error::new(kind, format!("its lock file {path}: {error}")),
    }
}

/// A socket bound to a file that is made for it. The file of a service that was killed is replaced, and no other.
pub(super) fn bind(path: &Path) -> io::Result<(Socket, SocketFile, StartLock)> {
    let address = SockAddr::unix(path)?;
    let lock = StartLock::take(path)?;
    match SocketFile::at(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) if is_in_use(&address)? => return Err(io::ErrorKind::AddrInUse.into()),
        Ok(left_behind) => left_behind.remove()?,
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address)?;
    Ok((socket, SocketFile::at(path)?, lock))
}

/// Whether a process listens there. One whose queue is full does, so the answer is not waited for.
fn is_in_use(address: &SockAddr) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    let refused = probe.connect(address).err().map(|error| error.kind());
    Ok(refused != Some(io::ErrorKind::ConnectionRefused))
}
