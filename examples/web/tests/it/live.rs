//! A service that runs, however it was started, and what is left of it afterwards.

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use adieu_testkit::SchedulingDelay;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use crate::client::{Client, Over};

/// Far more than any test needs: only a broken promise gets here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a kind of service must be able to do.
pub(crate) trait Runs: Send {
    /// Asks it to stop.
    fn stop(&mut self);
    /// Waits for its end.
    fn end(&mut self) -> End;
    /// The number of its process, if it has one of its own.
    fn id(&self) -> Option<u32> {
        None
    }
}

/// How it ended.
pub(crate) struct End {
    pub(crate) code: Option<i32>,
    pub(crate) report: Option<Value>,
    pub(crate) at: Instant,
}

/// A running service.
#[must_use = "a running service is to be finished"]
pub(crate) struct Live {
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Option<CertificateDer<'static>>,
    runs: Box<dyn Runs>,
    asked: Option<(Instant, SchedulingDelay)>,
}

impl Live {
    /// One that has said that it listens.
    pub(crate) fn new(
        address: SocketAddr,
        certificate: Option<CertificateDer<'static>>,
        runs: Box<dyn Runs>,
    ) -> Self {
        Self {
            address,
            certificate,
            runs,
            asked: None,
        }
    }

    /// A new connection.
    pub(crate) fn connect(&self, over: Over) -> Client {
        Client::connect(self.address, self.certificate.as_ref(), over)
    }

    /// How many files its process may have open.
    pub(crate) fn open_files(&self) -> usize {
        let id = self.runs.id().expect("a process of its own");
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).expect("it runs");
        let soft = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        let soft = soft.and_then(|values| values.split_whitespace().next());
        soft.and_then(|soft| soft.parse().ok()).expect("a number")
    }

    /// How many files its process has open.
    pub(crate) fn files_open(&self) -> usize {
        let id = self.runs.id().expect("a process of its own");
        let files = std::fs::read_dir(format!("/proc/{id}/fd")).expect("it runs");
        files.count()
    }

    /// The processor time that its process has used.
    pub(crate) fn cpu(&self) -> Duration {
        let id = self.runs.id().expect("a process of its own");
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        // After the name, which may hold anything but ends with the last bracket, fields 12 and 13 are the ticks
        // in user and system mode; Linux tells them in hundredths of a second.
        let (_, fields) = stat.rsplit_once(')').expect("a name in brackets");
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks
            .map(|field| field.parse::<u64>().expect("a number"))
            .sum();
        Duration::from_millis(ticks * 10)
    }

    /// Holds the process; it stands still when this returns.
    pub(crate) fn hold(&self) {
        let id = self.runs.id().expect("a process of its own");
        signal(id, Signal::STOP);
        let stat = || std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        // The state comes after the name in brackets.
        while !stat()
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
        {
            std::thread::yield_now();
        }
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        signal(self.runs.id().expect("a process of its own"), Signal::CONT);
    }

    /// Asks the service to stop; time counts from here.
    pub(crate) fn stop(&mut self) {
        self.asked
            .get_or_insert_with(|| (Instant::now(), SchedulingDelay::start()));
        self.runs.stop();
    }

    /// Asks it to stop, and waits until new connections are refused: the stop has been seen.
    pub(crate) fn stop_and_be_refused(&mut self) {
        self.stop();
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_ok() {
            assert!(begun.elapsed() < PATIENCE, "connections are never refused");
            std::thread::yield_now();
        }
    }

    /// Waits for the end, and gives all there is to look at.
    pub(crate) fn finish(mut self) -> Ended {
        let end = self.runs.end();
        let (took, delay) = match self.asked {
            Some((asked, delay)) => (end.at - asked, delay.latest()),
            None => Default::default(),
        };
        Ended {
            code: end.code,
            report: end.report.unwrap_or_default(),
            took,
            delay,
        }
    }
}

fn signal(id: u32, signal: Signal) {
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    kill_process(id.expect("a process"), signal).expect("it is not reaped yet");
}

/// A service that is gone.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    pub(crate) took: Duration,
    /// For how long threads of this machine had to wait for a processor meanwhile.
    delay: Duration,
}

impl fmt::Debug for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exit {:?} after {:?}, delay {:?}: {:#}\nlost: {:#}",
            self.code, self.took, self.delay, self.report["parts"], self.report["lost"]
        )
    }
}

/// What starting to stop, and to end, may add to a documented limit.
const MARGIN: Duration = Duration::from_millis(300);
/// What a machine that keeps threads waiting may add to that: then nothing is said of the limit.
const SLACK: Duration = Duration::from_secs(2);

impl Ended {
    #[track_caller]
    pub(crate) fn exits(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It was gone by this limit, as documented, after it was asked to stop.
    #[track_caller]
    pub(crate) fn within_ms(&self, limit: u64) -> &Self {
        let limit = Duration::from_millis(limit) + MARGIN;
        let is_kept = self.took <= limit || self.is_too_late_to_judge(self.took, limit);
        assert!(is_kept, "over {limit:?}: {self:?}");
        self
    }

    /// Whether this took longer than it may by no more than threads had to wait for a processor. The skip is counted.
    #[track_caller]
    pub(crate) fn is_too_late_to_judge(&self, took: Duration, limit: Duration) -> bool {
        let excess = took.saturating_sub(limit);
        let is_explained = excess <= SLACK.min(self.delay);
        if is_explained {
            let (delay, place) = (self.delay, std::panic::Location::caller());
            fixture_skip::too_busy(format!("{took:?} of {limit:?} at {place}, delay {delay:?}"));
        }
        is_explained
    }

    /// It took at least this long: something was waited for.
    #[track_caller]
    pub(crate) fn not_before_ms(&self, limit: u64) -> &Self {
        // The service's clock ticks every few milliseconds.
        let limit = Duration::from_millis(limit.saturating_sub(20));
        assert!(self.took >= limit, "under {limit:?}: {self:?}");
        self
    }

    fn notes(&self) -> impl Iterator<Item = &str> {
        let parts = self.report["parts"].as_array().into_iter().flatten();
        let notes = parts.filter_map(|part| part["notes"].as_array()).flatten();
        notes.filter_map(Value::as_str)
    }

    /// A note of the report has all of these words.
    #[track_caller]
    pub(crate) fn notes_that(&self, words: &[&str]) -> &Self {
        let noted = self
            .notes()
            .any(|note| words.iter().all(|word| note.contains(word)));
        assert!(noted, "no note with {words:?}: {self:?}");
        self
    }

    /// No connection had to be closed in a state other than idle.
    #[track_caller]
    pub(crate) fn closes_no_other_connection(&self) -> &Self {
        let closed: Vec<_> = self
            .notes()
            .filter(|note| note.starts_with("closed ") && !note.contains("connection(s)"))
            .collect();
        assert!(closed.is_empty(), "{closed:?}: {self:?}");
        self
    }

    /// The report names a request that was cut, with all of these words.
    #[track_caller]
    pub(crate) fn loses(&self, words: &[&str]) -> &Self {
        let lost = self.report["lost"].as_array().into_iter().flatten();
        let named = lost
            .filter_map(|loss| loss["name"].as_str())
            .any(|name| words.iter().all(|word| name.contains(word)));
        assert!(named, "no loss with {words:?}: {self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn loses_nothing(&self) -> &Self {
        let lost = self.report["lost"].as_array().map_or(0, Vec::len);
        assert_eq!(lost, 0, "{self:?}");
        self
    }
}
