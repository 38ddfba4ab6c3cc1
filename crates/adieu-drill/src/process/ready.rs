//! When a program that was started is ready.

use std::io;
use std::time::Duration;

use super::target_process::TargetProcess;
use crate::endpoint::Endpoint;
use crate::raw::RawConn;

/// How a program says that it is ready. `{port}` is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ready {
    /// The address of the drill answers: an HTTP server with anything below 500, any other with a connection.
    Answers,
    /// This URL answers with anything below 400.
    Url(String),
    /// A connection is accepted here.
    Tcp(String),
    /// A line with this in it is printed.
    Line(String),
    /// `READY=1` comes over the socket in `NOTIFY_SOCKET`.
    Notify,
    /// At once: what it is started for shows whether it is.
    Started,
}

/// How often something that says nothing by itself is asked.
const PROBE_INTERVAL: Duration = Duration::from_millis(10);
/// How long one such question may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

impl Ready {
    /// Completes when the program is ready. Cancel-safe; never completes if it never is.
    pub(crate) async fn wait(
        &self,
        process: &TargetProcess,
        endpoint: &Endpoint,
    ) -> io::Result<()> {
        match self {
            Self::Started => {}
            Self::Line(_) => process.output.wanted().await,
            Self::Notify => match &process.notices {
                Some(notices) => notices.ready().await?,
                None => return Err(io::ErrorKind::NotFound.into()),
            },
            Self::Answers if endpoint.is_http() => answers(endpoint, 500).await,
            Self::Answers => accepts(endpoint).await,
            Self::Url(url) => {
                let url = Endpoint::parse_url(&process.placeholders.fill(url))
                    .map_err(io::Error::other)?;
                answers(&url, 400).await;
            }
            Self::Tcp(address) => {
                let address = Endpoint::parse_tcp(&process.placeholders.fill(address), false);
                accepts(&address.map_err(io::Error::other)?).await;
            }
        }
        Ok(())
    }
}

async fn answers(endpoint: &Endpoint, below: u16) {
    loop {
        let asked =
            tokio::time::timeout(PROBE_TIMEOUT, RawConn::ask(endpoint, &endpoint.request())).await;
        if matches!(asked, Ok(Ok(answer)) if answer.head.status < below) {
            return;
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}

async fn accepts(endpoint: &Endpoint) {
    while !matches!(
        tokio::time::timeout(PROBE_TIMEOUT, endpoint.target().connect()).await,
        Ok(Ok(_))
    ) {
        tokio::time::sleep(PROBE_INTERVAL).await;
    }
}
