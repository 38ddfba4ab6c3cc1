//! When a program that was started is ready.

use std::io;
use std::time::Duration;

use super::subject::Subject;
use crate::place::Place;
use crate::wire::Wire;

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
}

/// How often something that says nothing by itself is asked.
const PACE: Duration = Duration::from_millis(10);
/// How long one such question may take.
const QUESTION: Duration = Duration::from_secs(5);

impl Ready {
    /// Completes when the program is ready. Cancel-safe; never completes if it never is.
    pub(crate) async fn wait(&self, subject: &Subject, place: &Place) -> io::Result<()> {
        match self {
            Self::Line(_) => subject.output.wanted().await,
            Self::Notify => match &subject.notices {
                Some(notices) => notices.ready().await?,
                None => return Err(io::ErrorKind::NotFound.into()),
            },
            Self::Answers if place.is_http() => answers(place, 500).await,
            Self::Answers => accepts(place).await,
            Self::Url(url) => {
                let url = Place::parse_url(&subject.blanks.fill(url)).map_err(io::Error::other)?;
                answers(&url, 400).await;
            }
            Self::Tcp(address) => {
                let address = Place::parse_tcp(&subject.blanks.fill(address), false);
                accepts(&address.map_err(io::Error::other)?).await;
            }
        }
        Ok(())
    }
}

async fn answers(place: &Place, below: u16) {
    loop {
        let asked = tokio::time::timeout(QUESTION, Wire::ask(place, &place.request())).await;
        if matches!(asked, Ok(Ok(answer)) if answer.head.status < below) {
            return;
        }
        tokio::time::sleep(PACE).await;
    }
}

async fn accepts(place: &Place) {
    while !matches!(
        tokio::time::timeout(QUESTION, place.target().connect()).await,
        Ok(Ok(_))
    ) {
        tokio::time::sleep(PACE).await;
    }
}
