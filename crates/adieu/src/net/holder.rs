//! Who holds a port that is taken: for an error message that helps.

use std::fs;
use std::path::Path;

/// A process that listens on this address, as `name (pid 123)`, where it can be known.
pub(super) fn of(address: &str) -> Option<String> {
    let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| listening_inode(table, port))
        .collect();
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        holds(&process.path(), &inodes).then(|| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("{} (pid {pid})", name.trim())
        })
    })
}

/// The inode of the listening socket on this port: column 1 is `address:port` in hexadecimal, column 3 the
/// state (0A listens), column 9 the inode.
fn listening_inode(table: &str, port: u16) -> Option<String> {
    let port = format!(":{port:04X}");
    fs::read_to_string(table)
        .ok()?
        .lines()
        .skip(1)
        .find_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let listens = columns.get(1)?.ends_with(&port) && *columns.get(3)? == "0A";
            listens.then(|| format!("socket:[{}]", columns.get(9).copied().unwrap_or_default()))
        })
}

fn holds(process: &Path, inodes: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors
        .flatten()
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| {
            inodes
                .iter()
                .any(|inode| target.as_os_str() == inode.as_str())
        })
}
