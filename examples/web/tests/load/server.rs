//! The server as a process, with what it needs to be reached.

use std::net::SocketAddr;
use std::time::Duration;

use adieu_load::{Load, Tally, Target};
use adieu_testkit::{ChildProcess, ProcessEnd};
use tempfile::TempDir;
use tokio::time::timeout;

/// Only a broken promise takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    pub(crate) subject: ChildProcess,
    pub(crate) target: Target,
    /// Of a TCP server.
    pub(crate) address: SocketAddr,
    _directory: TempDir,
}

impl Server {
    pub(crate) async fn start(tls: bool, flags: &[&str]) -> Self {
        Self::listening_on("127.0.0.1:0", tls, flags).await
    }

    /// On a Unix socket.
    pub(crate) async fn on_a_file(flags: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("web.sock");
        let listen = format!("unix:{}", path.display());
        let mut arguments = vec!["--listen", &listen];
        arguments.extend(flags);
        let mut subject =
            ChildProcess::start(env!("CARGO_BIN_EXE_example-web"), arguments).unwrap();
        let said = timeout(PATIENCE, subject.line("listening on ")).await;
        assert_eq!(said.unwrap().unwrap(), listen);
        Self {
            subject,
            target: Target::unix(path),
            address: SocketAddr::from(([0; 4], 0)),
            _directory: directory,
        }
    }

    pub(crate) async fn listening_on(listen: &str, tls: bool, flags: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
        let mut arguments = vec!["--listen", listen];
        arguments.extend(flags);
        let made = tls.then(|| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(&cert, made.cert.pem()).unwrap();
            std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
            made.cert.der().clone()
        });
        if tls {
            arguments.extend(["--tls-cert", cert.to_str().unwrap()]);
            arguments.extend(["--tls-key", key.to_str().unwrap()]);
        }
        let mut subject =
            ChildProcess::start(env!("CARGO_BIN_EXE_example-web"), arguments).unwrap();
        let address = timeout(PATIENCE, subject.line("listening on ")).await;
        let address: SocketAddr = address.unwrap().unwrap().parse().unwrap();
        let mut target = Target::tcp(address);
        if let Some(root) = made {
            target = target.tls(root, "localhost").unwrap();
        }
        target.reachable(PATIENCE).await.unwrap();
        Self {
            subject,
            target,
            address,
            _directory: directory,
        }
    }

    /// Stops it once the load has so many answers, and waits until every client was refused.
    pub(crate) async fn stop_under(mut self, load: Load, answers: u64) -> (Tally, ProcessEnd) {
        let running = load.start();
        timeout(PATIENCE, running.answered(answers)).await.unwrap();
        self.subject.terminate().unwrap();
        let tally = timeout(PATIENCE, running.finish()).await.unwrap();
        (tally, self.end().await)
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
