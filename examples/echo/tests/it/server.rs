//! The server as a process.

use std::net::SocketAddr;
use std::time::Duration;

use adieu_load::Target;
use adieu_testkit::{ChildProcess, ProcessEnd};
use tempfile::TempDir;
use tokio::time::timeout;

pub(crate) const GOODBYE: &str = "Server is shutting down. Goodbye!\r\n";

/// Only a broken promise takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) subject: ChildProcess,
    pub(crate) address: SocketAddr,
    pub(crate) target: Target,
    _directory: TempDir,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::with(false, &[]).await
    }

    pub(crate) async fn with(tls: bool, more: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        // A build for debugging on a busy machine is slow; what counts here is that every client is answered.
        let mut flags = vec!["--listen", "127.0.0.1:0", "--grace", "60s"];
        flags.extend(more);
        let root = tls.then(|| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(&cert, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        });
        if tls {
            flags.extend(["--tls-cert", cert.to_str().unwrap()]);
            flags.extend(["--tls-key", key.to_str().unwrap()]);
        }
        let mut subject = ChildProcess::start(env!("CARGO_BIN_EXE_example-echo"), flags).unwrap();
        let address = timeout(PATIENCE, subject.line("listening on ")).await;
        let address = address.unwrap().unwrap().parse().unwrap();
        let mut target = Target::tcp(address);
        if let Some(root) = root {
            target = target.tls(root, "localhost").unwrap();
        }
        Self {
            subject,
            address,
            target,
            _directory: directory,
        }
    }

    /// Holds the process, and returns when it stands still.
    pub(crate) async fn hold(&self) {
        self.subject.hold().unwrap();
        while self.state() != Some('T') {
            tokio::task::yield_now().await;
        }
    }

    /// The state letter of the process, after its name in parentheses.
    fn state(&self) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.subject.pid())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// What the scheduler has counted of each thread, where all of them sleep. The same answer twice: none ran in between.
    pub(crate) fn asleep(&self) -> Option<Vec<String>> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.subject.pid())).ok()?;
        let mut counted = Vec::new();
        for thread in threads {
            let thread = thread.ok()?.path();
            let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
            if !stat.rsplit_once(") ")?.1.starts_with('S') {
                return None;
            }
            counted.push(std::fs::read_to_string(thread.join("schedstat")).ok()?);
        }
        Some(counted)
    }

    /// How many bytes of this client the kernel keeps until the server reads them.
    pub(crate) fn unread_from(&self, client: SocketAddr) -> u64 {
        let ends = [self.address, client].map(|end| format!(":{:04X}", end.port()));
        let table =
            std::fs::read_to_string("/proc/net/tcp").expect("the kernel lists the connections");
        let queues = table.lines().find_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let is_it = ends
                .iter()
                .all(|end| fields.next().is_some_and(|it| it.ends_with(end)));
            is_it.then(|| fields.nth(1))?
        });
        let (_to_send, unread) = queues.expect("it is connected").split_once(':').unwrap();
        u64::from_str_radix(unread, 16).unwrap()
    }

    pub(crate) async fn end(self) -> ProcessEnd {
        let end = timeout(PATIENCE, self.subject.end()).await.unwrap();
        let end = end.unwrap();
        // Its report stands at the end; what comes before can be long.
        let report: Vec<_> = end.errors.lines().rev().take(12).collect();
        assert!(end.status.success(), "{} {report:#?}", end.status);
        assert!(!end.errors.contains('\x1b'), "colours are for terminals");
        end
    }
}
