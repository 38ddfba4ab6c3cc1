//! `adieu demo --deploys N`: a counter on three open connections, while its service is replaced again and again.

mod client;
mod page;
mod processes;
mod service;

use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use self::client::{ConnectionKind, Message};
use self::processes::Processes;
pub(super) use self::service::serve;
use crate::output::{self, ExitKind};
use adieu_drill::file;

/// So many messages of a new process are waited for on each connection, for the timeline to show it.
const MESSAGES: usize = 5;
/// Only what is broken takes this long.
const DEPLOY_TIMEOUT: Duration = Duration::from_secs(40);

/// What the three clients have received, and when the service was replaced.
struct Story {
    begun: Instant,
    messages: Vec<Message>,
    deploys: Vec<Deploy>,
}

struct Deploy {
    at: Instant,
    old: u32,
    new: u32,
}

/// Runs the command.
pub(super) fn run(deploys: u32, page: &Path) -> Result<ExitKind, String> {
    output::note(format!(
        "counting on a keep-alive connection, a WebSocket and a stream of events, through {deploys} deploys"
    ));
    let (mut processes, address) = Processes::start()?;
    let (tell, messages) = mpsc::channel();
    for kind in ConnectionKind::ALL {
        let tell = tell.clone();
        thread::spawn(move || client::run(kind, address, &tell));
    }
    drop(tell);
    let mut story = Story {
        begun: Instant::now(),
        messages: Vec::new(),
        deploys: Vec::new(),
    };
    let told = (|| {
        story.follow(&messages, processes.pid())?;
        for number in 1..=deploys {
            let (at, old) = (Instant::now(), processes.pid());
            let new = processes.deploy()?;
            story.deploys.push(Deploy { at, old, new });
            story.follow(&messages, new)?;
            output::print(&format!(
                "deploy {number:>2}: process {old} → {new}; longest gap {}\n",
                story.gaps(at)
            ))?;
        }
        output::print(&story.summary())
    })();
    processes.stop();
    told?;
    file::write(page, page::html(&story).as_bytes()).map_err(|error| error.to_string())?;
    output::note(format!("the timeline, for a browser: {}", page.display()));
    Ok(ExitKind::Clean)
}

impl Story {
    /// Takes what the clients receive, until each of them has enough from this process.
    fn follow(
        &mut self,
        messages: &Receiver<Result<Message, String>>,
        pid: u32,
    ) -> Result<(), String> {
        let until = Instant::now() + DEPLOY_TIMEOUT;
        let mut waiting = ConnectionKind::ALL.map(|kind| (kind, MESSAGES)).to_vec();
        while !waiting.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let message = messages.recv_timeout(left).map_err(|_| {
                format!(
                    "no message of process {pid} has come within {} s",
                    DEPLOY_TIMEOUT.as_secs()
                )
            })??;
            self.check(&message)?;
            if message.pid == pid {
                for (kind, left) in &mut waiting {
                    *left -= usize::from(*kind == message.kind);
                }
                waiting.retain(|(_, left)| *left > 0);
            }
            self.messages.push(message);
        }
        Ok(())
    }

    /// Each number follows the one before it on its connection.
    fn check(&self, message: &Message) -> Result<(), String> {
        let last = self.of(message.kind).last().map_or(0, |last| last.number);
        if message.number == last + 1 {
            return Ok(());
        }
        Err(format!(
            "{}: {} came after {last}",
            message.kind.name(),
            message.number
        ))
    }

    fn of(&self, kind: ConnectionKind) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages
            .iter()
            .filter(move |message| message.kind == kind)
    }

    /// The longest time between two messages of a kind, of which the second one came in this time.
    fn longest_gap(&self, kind: ConnectionKind, from: Instant, until: Option<Instant>) -> Duration {
        let mut last: Option<Instant> = None;
        let mut longest = Duration::ZERO;
        for message in self.of(kind) {
            let is_in = message.at >= from && until.is_none_or(|until| message.at < until);
            if let Some(last) = last.filter(|_| is_in) {
                longest = longest.max(message.at - last);
            }
            last = Some(message.at);
        }
        longest
    }

    fn gaps(&self, from: Instant) -> String {
        let gap = |kind: ConnectionKind| {
            let ms = self.longest_gap(kind, from, None).as_secs_f64() * 1_000.0;
            format!("{} {ms:.0} ms", kind.name())
        };
        ConnectionKind::ALL.map(gap).join(", ")
    }

    fn summary(&self) -> String {
        let end = self.messages.last().map_or(self.begun, |last| last.at);
        let seconds = (end - self.begun).as_secs_f64();
        let longest = ConnectionKind::ALL.map(|kind| self.longest_gap(kind, self.begun, None));
        let longest = longest.into_iter().max().unwrap_or_default().as_secs_f64() * 1_000.0;
        format!(
            "{} deploys in {seconds:.1} s: {} connections opened, 0 closed; {} messages, 0 lost, 0 twice; longest gap {longest:.0} ms\n",
            self.deploys.len(),
            ConnectionKind::ALL.len(),
            self.messages.len(),
        )
    }
}
