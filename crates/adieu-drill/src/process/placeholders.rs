//! What stands in the place of `{port}` and `{dir}`.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// What the placeholders in a command, an address or a path are filled with.
#[derive(Clone, Debug)]
pub(crate) struct Placeholders {
    ports: [u16; 3],
    dir: String,
}

/// Below the ports that the system gives to clients: the drill itself opens thousands of those, and one of them must
/// not be the port that the program is about to listen on.
const LOWEST: u16 = 12_000;
const HIGHEST: u16 = 31_000;

/// Where the next search begins.
static NEXT: AtomicU16 = AtomicU16::new(0);

impl Placeholders {
    pub(crate) const PORT: &'static str = "{port}";

    /// Ports that are free now, and a place for files.
    pub(crate) fn fill_with(dir: &Path) -> io::Result<Self> {
        // Two drills at a time begin in different places.
        let _ = NEXT.compare_exchange(0, fastrand::u16(LOWEST..HIGHEST), Relaxed, Relaxed);
        Ok(Self {
            ports: [free_port()?, free_port()?, free_port()?],
            dir: dir.display().to_string(),
        })
    }

    /// The text without placeholders.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("{port}", &self.ports[0].to_string())
            .replace("{port2}", &self.ports[1].to_string())
            .replace("{port3}", &self.ports[2].to_string())
            .replace("{dir}", &self.dir)
    }
}

fn free_port() -> io::Result<u16> {
    let mut refusal = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in LOWEST..HIGHEST {
        let port = NEXT.fetch_add(1, Relaxed);
        if !(LOWEST..HIGHEST).contains(&port) {
            NEXT.store(LOWEST, Relaxed);
            continue;
        }
        match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)) {
            Ok(_) => return Ok(port),
            Err(error) => refusal = error,
        }
    }
    Err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_blank_is_filled_with_something_of_its_own() {
        let placeholders = Placeholders::fill_with(Path::new("/tmp/x")).expect("ports");
        let filled = placeholders.fill("{port} {port} {port2} {port3} {dir}");
        let words: Vec<&str> = filled.split(' ').collect();
        assert_eq!((words[0], words[4]), (words[1], "/tmp/x"));
        assert!(words[0] != words[2] && words[2] != words[3], "{filled}");
    }
}
