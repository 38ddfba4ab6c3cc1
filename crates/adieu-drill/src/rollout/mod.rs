//! A roll-out under traffic: any command changes a deployment, and its clients tell what it cost them.
//!
//! Nothing is started or stopped here but the command itself. Clients from outside send numbered requests before it, while it
//! runs, and until they are answered well again; what was lost, refused or late is held against what the command said
//! at that time.

mod checks;
mod failures;
mod interval;
mod phases;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adieu_load::{NumberedRequest, Pace, SteadyLoad, SteadyRunning};
use tokio::time::timeout;

use crate::check::CheckInfo;
use crate::endpoint::Endpoint;
use crate::error::DrillError;
use crate::process::{ObservedCommand, describe};
use crate::progress::{Event, Progress, Silent};
use crate::report::{self, Level, Report, RolloutRun, StopTimeline, Target};
use crate::starvation::StarvationMonitor;
use crate::threshold::show;

pub use adieu_load::Connections;
pub use checks::rollout_checks;

/// A deployment that serves answers its first request within this time.
const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests that are tried at most each second; more would test this machine and not the deployment.
const FASTEST: f64 = 20_000.0;
/// So many clients of a closed loop at most.
const MOST_CLIENTS: usize = 1_024;

/// A roll-out about to be drilled.
///
/// ```no_run
/// # async fn example() -> Result<(), adieu_drill::DrillError> {
/// use adieu_drill::{Rollout, report::Verdict};
///
/// let report = Rollout::command("docker compose up -d web", "http://127.0.0.1:8080/")
///     .rate(200.0)
///     .run()
///     .await?;
/// assert_eq!(report.verdict, Verdict::Passed, "{report:#?}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a roll-out does nothing until `run`"]
pub struct Rollout {
    name: Option<String>,
    command: String,
    cwd: Option<PathBuf>,
    url: String,
    method: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    pace: Pace,
    connections: Connections,
    timeout: Duration,
    baseline: Duration,
    steady: Duration,
    within: Duration,
    repeat: u32,
    thresholds: Vec<(String, String)>,
    seed: Option<u64>,
    progress: Arc<dyn Progress>,
}

impl Rollout {
    /// A roll-out by this line of shell, with clients at this URL.
    pub fn command(command: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: None,
            command: command.into(),
            cwd: None,
            url: url.into(),
            method: None,
            headers: Vec::new(),
            body: Vec::new(),
            pace: Pace::Rate(100.0),
            connections: Connections::Both,
            timeout: Duration::from_secs(10),
            baseline: Duration::from_secs(2),
            steady: Duration::from_secs(3),
            within: Duration::from_secs(600),
            repeat: 1,
            thresholds: Vec::new(),
            seed: None,
            progress: Arc::new(Silent),
        }
    }

    /// What to call it in the report. Host and port of the URL if left out.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The directory in which the command is run. That of this process if left out.
    pub fn cwd(mut self, path: impl Into<PathBuf>) -> Self {
        self.cwd = Some(path.into());
        self
    }

    /// The method of the requests. GET, or POST if there is a body, if left out.
    pub fn method(mut self, method: impl Into<String>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// A header of every request.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The body of the requests.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// So many requests a second on a schedule that waits for no response. 100 if left out.
    pub const fn rate(mut self, rate: f64) -> Self {
        self.pace = Pace::Rate(rate);
        self
    }

    /// In the place of a rate: so many clients, each of which sends its next request when it has the response to the last.
    pub const fn clients(mut self, clients: usize) -> Self {
        self.pace = Pace::Clients(clients);
        self
    }

    /// Which connections requests are sent on. Half on kept ones and half on new ones if left out.
    pub const fn connections(mut self, connections: Connections) -> Self {
        self.connections = connections;
        self
    }

    /// How long a client waits for a connection, and for a response. 10 s if left out.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long there is traffic before the command, to compare with. 2 s if left out.
    pub const fn baseline(mut self, baseline: Duration) -> Self {
        self.baseline = baseline;
        self
    }

    /// How long every request must be answered well after the command, so that the roll-out is over. 3 s if left out.
    pub const fn steady(mut self, steady: Duration) -> Self {
        self.steady = steady;
        self
    }

    /// How long the command may take, and then as long again the traffic to be steady. 10 minutes if left out.
    pub const fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Runs the command so many times. Once if left out.
    pub const fn repeat(mut self, times: u32) -> Self {
        self.repeat = times;
        self
    }

    /// Changes what a check demands: `("rollout-gap", "200ms")`.
    pub fn threshold(mut self, id: impl Into<String>, value: impl Into<String>) -> Self {
        self.thresholds.push((id.into(), value.into()));
        self
    }

    /// What the numbers of the requests begin with, and the interval is drawn from. Drawn itself if left out.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Hears how it goes.
    pub fn progress(mut self, progress: impl Progress + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// What the report calls it.
    #[must_use]
    pub fn target_name(&self) -> String {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        self.name.clone().unwrap_or_else(|| host.to_owned())
    }

    /// Whether what was asked for makes sense, without starting anything.
    ///
    /// # Errors
    ///
    /// With what does not, and what to do.
    pub fn validate(&self) -> Result<(), DrillError> {
        let sensible = self.endpoint().map(drop);
        let sensible = sensible.and_then(|()| checks::thresholds(&self.thresholds).map(drop));
        sensible.map_err(DrillError::Usage)
    }

    fn endpoint(&self) -> Result<Endpoint, String> {
        if self.command.trim().is_empty() {
            return Err(
                "--rollout: no command: give the line of shell that changes the deployment"
                    .to_owned(),
            );
        }
        match self.pace {
            Pace::Rate(rate) if !(rate > 0.0 && rate <= FASTEST) => {
                return Err(format!(
                    "--rate: more than 0 and at most {FASTEST} requests a second; {rate} is not"
                ));
            }
            Pace::Clients(count) if count == 0 || count > MOST_CLIENTS => {
                return Err(format!(
                    "--clients: at least 1 and at most {MOST_CLIENTS}; {count} is not"
                ));
            }
            Pace::Rate(_) | Pace::Clients(_) => {}
        }
        if self.repeat == 0 {
            return Err("a roll-out that is repeated 0 times says nothing: at least 1".to_owned());
        }
        if self.steady.is_zero() || self.within.is_zero() || self.timeout.is_zero() {
            return Err("--steady and --within must be longer than nothing".to_owned());
        }
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            return Err(format!("cwd: there is no directory {}", cwd.display()));
        }
        crate::endpoint::check_request(&self.headers, self.method.as_deref())?;
        let endpoint = Endpoint::parse_url(&self.url).map_err(|why| format!("--url: {why}"))?;
        crate::endpoint::sendable(&endpoint, "--url")?;
        Ok(endpoint.with_request(|request| {
            request.headers.extend(self.headers.iter().cloned());
            request.body.clone_from(&self.body);
            request.method = match &self.method {
                Some(method) => method.clone(),
                None if self.body.is_empty() => "GET".to_owned(),
                None => "POST".to_owned(),
            };
        }))
    }

    fn pace_words(&self) -> String {
        let on = match self.connections {
            Connections::Kept => "on keep-alive connections",
            Connections::Fresh => "each on a new connection",
            Connections::Both => "half of them on keep-alive connections",
        };
        match self.pace {
            Pace::Rate(rate) => format!("{rate} requests a second, {on}"),
            Pace::Clients(count) => format!("{count} clients in a closed loop, {on}"),
        }
    }

    /// Runs the command under traffic. Needs a tokio runtime with time and I/O. Dropped before its end, the command is
    /// killed with its process group; what it had started in groups of their own stays.
    ///
    /// # Errors
    ///
    /// If what was asked for makes no sense, the URL does not answer, or the command fails or does not end.
    pub async fn run(self) -> Result<Report, DrillError> {
        let endpoint = self.endpoint().map_err(DrillError::Usage)?;
        let thresholds = checks::thresholds(&self.thresholds).map_err(DrillError::Usage)?;
        let seed = self.seed.unwrap_or_else(|| fastrand::u64(..));
        let begun = Instant::now();
        let target = Target {
            name: self.target_name(),
            command: vec![self.command.clone()],
            address: self.url.clone(),
        };
        let mut report = Report::new(target, seed, Level::Default);
        let ids: Vec<&str> = rollout_checks().map(CheckInfo::id).collect();
        self.progress.on(Event::Planned {
            checks: &ids,
            report: &report,
        });
        let monitor = StarvationMonitor::start();
        monitor.begin();
        let mut observed = Vec::new();
        for number in 1..=self.repeat {
            let check = "rollout-lost";
            let steps = (self.repeat > 1).then_some(u64::from(self.repeat));
            if number == 1 {
                self.progress.on(Event::Started { check, steps });
            }
            let one = self.once(&endpoint, number, seed).await?;
            let done = u64::from(number);
            let doing = format!("roll-out {number} of {}", self.repeat);
            self.progress.on(Event::Step {
                check,
                done,
                doing: &doing,
            });
            report.stops.push(one.drawn);
            observed.push(one.run);
        }
        let lost: Vec<f64> = observed
            .iter()
            .map(|run| run.during.totals.lost as f64)
            .collect();
        let lost = interval::bootstrap(&lost, seed);
        let judged = checks::judge(
            &observed,
            lost,
            &thresholds,
            monitor.starved(),
            begun.elapsed(),
        );
        for check in judged {
            self.progress.on(Event::Finished { check: &check });
            report.checks.push(check);
        }
        report.rollout = Some(report::RolloutReport {
            command: self.command.clone(),
            url: crate::endpoint::without_query(&self.url).to_owned(),
            pace: self.pace_words(),
            lost,
            runs: observed,
        });
        report.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        report.starvation = monitor.starvation();
        report.judge();
        Ok(report)
    }

    async fn once(
        &self,
        endpoint: &Endpoint,
        number: u32,
        seed: u64,
    ) -> Result<Observed, DrillError> {
        let request = endpoint.request();
        let load = SteadyLoad::new(endpoint.plain(), &request, self.pace)
            .connections(self.connections)
            .timeout(self.timeout)
            .id_prefix(format!("adieu-{:08x}-{number}", seed as u32));
        let loaded = Instant::now();
        let mut running = load.start();
        let ready = timeout(
            FIRST_ANSWER_TIMEOUT + self.baseline,
            running.steady(loaded, self.baseline),
        );
        if ready.await.is_err() {
            return Err(self.not_serving(&running));
        }
        let mut command = ObservedCommand::start(&self.command, self.cwd.as_deref())
            .map_err(DrillError::Usage)?;
        let started = command.started;
        let Some((status, ended)) = command.ended_within(self.within).await else {
            return Err(DrillError::start(
                format!(
                    "the command of the roll-out did not end within {}, and was killed: `{}`; if it takes longer, say so \
                     with --within",
                    show(self.within),
                    self.command
                ),
                last(&command),
            ));
        };
        if !status.success() {
            return Err(DrillError::start(
                format!(
                    "the command of the roll-out failed after {}: `{}`: {}; so there is no roll-out to judge. Meanwhile {}",
                    show(ended - started),
                    self.command,
                    describe(status),
                    said_of_traffic(&running)
                ),
                last(&command),
            ));
        }
        let calm = timeout(self.within, running.steady(ended, self.steady)).await;
        let requests = running.finish().await;
        let mut events = phases::Events::new(started, ended, describe(status), command.lines());
        if command.left_its_output_open() {
            events.note_open_output();
        }
        Ok(Observed::of(requests, &events, calm.ok(), number, &request))
    }

    fn not_serving(&self, running: &SteadyRunning) -> DrillError {
        let url = crate::endpoint::without_query(&self.url);
        let answered = running.answered();
        let trouble = running.first_trouble();
        let reason = match trouble {
            Some(trouble) if answered == 0 => format!(
                "{url} does not answer before the roll-out: within {} not one request was answered; the first was {trouble}. \
                 The deployment must be serving already: --rollout changes it and starts nothing",
                show(FIRST_ANSWER_TIMEOUT)
            ),
            Some(trouble) => format!(
                "{url} does not answer steadily before the roll-out: of {answered} answered requests and more, one was \
                 {trouble}, and it did not get better within {}; losses of the roll-out could not be told from these",
                show(FIRST_ANSWER_TIMEOUT + self.baseline)
            ),
            None => format!(
                "{url} answered nothing within {} before the roll-out; is it the right address, and does it speak HTTP?",
                show(FIRST_ANSWER_TIMEOUT)
            ),
        };
        DrillError::start(reason, Vec::new())
    }
}

fn said_of_traffic(running: &SteadyRunning) -> String {
    let answered = running.answered();
    match running.first_trouble() {
        Some(trouble) => {
            format!("{answered} requests were answered, and at least one was {trouble}")
        }
        None => format!("all {answered} requests were answered"),
    }
}

fn last(command: &ObservedCommand) -> Vec<String> {
    let lines = command.lines();
    let skipped = lines.len().saturating_sub(20);
    lines
        .into_iter()
        .skip(skipped)
        .map(|(_, line)| line)
        .collect()
}

/// One roll-out as it was seen.
struct Observed {
    run: RolloutRun,
    drawn: StopTimeline,
}

impl Observed {
    fn of(
        requests: Vec<NumberedRequest>,
        events: &phases::Events,
        calm: Option<Instant>,
        number: u32,
        asked: &adieu_load::Request,
    ) -> Self {
        let run = phases::run(&requests, events, calm);
        let label = crate::endpoint::label(asked);
        let drawn = phases::drawn(&requests, events, calm, number, &label);
        Self { run, drawn }
    }
}
