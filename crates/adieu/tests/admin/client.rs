//! A client that asks once and reads to the end, and a service to ask.

use std::net::SocketAddr;
use std::time::Duration;

use adieu::{App, Report, ShutdownHandle};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// Far more than any test needs: only a broken promise gets here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("{what} never came"))
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends a request as it is written, and reads until the server closes.
pub(crate) async fn send(address: SocketAddr, request: &str) -> Answer {
    within("the answer", async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("it answers");
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        Answer {
            status: status.expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    })
    .await
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    send(address, &request).await
}

/// A running service with an admin port.
pub(crate) struct Running {
    pub(crate) admin: SocketAddr,
    pub(crate) handle: ShutdownHandle,
    report: tokio::task::JoinHandle<Report>,
}

impl Running {
    /// Starts a service of this and an admin port, and waits until it runs.
    pub(crate) async fn start(
        setup: impl AsyncFnOnce(&mut App) -> adieu::Result + Send + 'static,
    ) -> Self {
        let (say, said) = oneshot::channel();
        let (runs, mut running) = mpsc::unbounded_channel();
        let life = move || async move {
            adieu::scope("orders")
                .grace(Duration::from_secs(60))
                .on_notice(move |notice| {
                    if *notice == adieu::report::Notice::Running {
                        let _ = runs.send(());
                    }
                })
                .run(async move |app: &mut App| {
                    let admin = app.admin("127.0.0.1:0").collect_metrics().await?;
                    let _ = say.send((admin.local_addr(), app.shutdown_handle()));
                    setup(app).await
                })
                .await
        };
        // A thread of its own, because a `setup` need not be `Send`.
        let (done, report) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            let _ = done.send(runtime.block_on(life()));
            runtime.shutdown_background();
        });
        let report = tokio::spawn(async move { report.await.expect("the service has a report") });
        let (admin, handle) = within("the admin port", said).await.expect("setup went on");
        within("the start", running.recv()).await;
        Self {
            admin: admin.expect("a TCP address"),
            handle,
            report,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.admin, path).await
    }

    pub(crate) async fn stop(self) -> Report {
        self.handle.stop("the test is over");
        self.ended().await
    }

    pub(crate) async fn ended(self) -> Report {
        within("the end", self.report).await.expect("no panic")
    }
}
