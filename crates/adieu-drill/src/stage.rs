//! What a check has to work with.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use adieu_load::Request;
use tokio::time::sleep;

use crate::check::Spec;
use crate::discover::{Found, upload};
use crate::drill::{Address, Drill};
use crate::error::CannotDrill;
use crate::finding::Finding;
use crate::flight::Flight;
use crate::place::{Place, label};
use crate::process::{Blanks, Ended, Form, Signal, Subject, describe};
use crate::progress::Event;
use crate::record::{Record, With};
use crate::report::Level;
use crate::threshold::Threshold;
use crate::unready;
use crate::wire::{Broken, Wire};

/// What a check has to work with.
pub(crate) struct Stage<'a> {
    pub(crate) drill: &'a Drill,
    pub(crate) scratch: &'a Path,
    pub(crate) found: &'a Found,
    pub(crate) record: &'a mut Record,
    pub(crate) spec: &'static Spec,
    pub(crate) threshold: Threshold,
    pub(crate) dice: &'a mut fastrand::Rng,
    /// Which try of the check this is, from 1.
    pub(crate) run: u32,
}

/// The program while a check plays with it. Dropped, all of it is killed.
pub(crate) struct Run {
    pub(crate) subject: Subject,
    pub(crate) place: Place,
    signal: Signal,
}

/// Nothing on the same machine takes this long unless it is stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a program that has nothing left to do is watched at most.
const LINGER: Duration = Duration::from_secs(5);

impl Stage<'_> {
    /// Starts the program and waits until it is ready.
    pub(crate) async fn start(&self) -> Result<Run, CannotDrill> {
        self.start_as(&Form::Plain).await
    }

    pub(crate) async fn start_as(&self, form: &Form) -> Result<Run, CannotDrill> {
        start(self.drill, self.scratch, form).await
    }

    /// Starts it and does not wait.
    pub(crate) fn launch(&self) -> Result<Run, CannotDrill> {
        let blanks = blanks(self.scratch)?;
        launch(self.drill, self.scratch, &Form::Plain, blanks)
    }

    /// How long an idle stop takes: whatever the program does in any case, a lame duck included.
    pub(crate) fn idle_stop(&self) -> Duration {
        self.found.idle_stop.unwrap_or_default()
    }

    /// How many times something is done at this level.
    pub(crate) const fn times(&self, quick: u32, normal: u32, full: u32) -> u32 {
        match self.drill.level {
            Level::Quick => quick,
            Level::Default => normal,
            Level::Full => full,
        }
    }

    /// Tells whoever watches how far it got.
    pub(crate) fn step(&self, done: u64, doing: &str) {
        let check = self.spec.id;
        self.drill.progress.on(Event::Step { check, done, doing });
    }

    /// The request that is answered so late.
    pub(crate) fn slow(&self, run: &Run, late: Duration) -> Option<Request> {
        let template = self.found.slow.as_ref()?;
        let path = run.subject.blanks.fill(template);
        let path = path.replace("{ms}", &late.as_millis().to_string());
        Some(run.place.at(&path).ok()?.request())
    }

    /// A request that is still unanswered when whatever comes before the drain is over.
    pub(crate) fn held(&self, run: &Run, beyond: Duration) -> Option<Request> {
        self.slow(run, self.idle_stop() + beyond)
    }

    /// So many requests to the slow path that are still open now: a check stops the program right after this. Without
    /// them it has nothing to judge, and the finding says why.
    pub(crate) async fn hold_open(
        &self,
        run: &Run,
        request: &Request,
        count: usize,
    ) -> Result<Vec<Flight>, Finding> {
        let name = label(request);
        let flights = run.in_flight(request, count).await.map_err(|broken| {
            Finding::failed("the slow path cannot be asked before any stop")
                .shown([format!("{name}: {broken}")])
        })?;
        if flights.iter().all(Flight::is_open) {
            return Ok(flights);
        }
        let Some(over) = flights.into_iter().find(|flight| !flight.is_open()) else {
            return Err(Finding::skipped(crate::check::NO_SLOW));
        };
        let said = match over.land(Duration::ZERO).await.result {
            Ok(answer) => format!("answered {} at once", answer.head.status),
            Err(broken) => broken.to_string(),
        };
        Err(Finding::skipped(format!(
            "no request was in flight at the signal: {name} {said}; give a path that answers as late as it is told \
             with --slow \"/path?ms={{ms}}\""
        )))
    }

    /// Gives the program something to keep, if it takes anything. The number tells it from all else it is given.
    pub(crate) async fn give_work(&self, run: &Run, number: u32) {
        let Some((place, request)) = self.work(run, number) else {
            return;
        };
        // What becomes of it shows in what is kept.
        let _ = Wire::ask_within(&place, &request, PATIENCE).await;
    }

    /// A request that changes something: an upload, or whatever is slow to be done, or what is asked all the time.
    fn work(&self, run: &Run, number: u32) -> Option<(Place, Request)> {
        if !run.place.is_http() {
            return None;
        }
        if let Some(path) = &self.found.upload {
            let place = run.place.at(&run.subject.blanks.fill(path)).ok()?;
            let body = format!("adieu {}.{number}", self.run);
            let request = upload(&place.request(), body.into_bytes());
            return Some((place, request));
        }
        let slow = self.slow(run, Duration::ZERO);
        let slow = slow.filter(|request| request.method != "GET");
        let request = slow.unwrap_or_else(|| run.place.request());
        Some((run.place.clone(), request))
    }

    /// Waits for its end for as long as the platform would, and notes how long it took.
    pub(crate) async fn see_end(
        &mut self,
        run: &Run,
        signal: Instant,
        with: With,
    ) -> Option<Ended> {
        let left = self.drill.grace.saturating_sub(signal.elapsed());
        let ended = run.subject.ended_within(left).await;
        let took = ended.map(|ended| (ended.at.saturating_duration_since(signal), ended.status));
        self.record.exit(self.spec.id, with, took);
        ended
    }

    /// Waits a moment for the end of a program that has nothing left to do: also this stop counts among the slowest.
    /// Whether it ends at all is another check's question.
    pub(crate) async fn see_out(&mut self, run: &Run, signal: Instant) -> Option<Ended> {
        let left = self.drill.grace.saturating_sub(signal.elapsed());
        let ended = run.subject.ended_within(left.min(LINGER)).await;
        self.note_end(signal, ended);
        ended
    }

    /// Notes how long a stop took that something was held against, if it came to its end.
    pub(crate) fn note_end(&mut self, signal: Instant, ended: Option<Ended>) {
        if let Some(ended) = ended {
            let took = ended.at.saturating_duration_since(signal);
            self.record
                .exit(self.spec.id, With::Hold, Some((took, ended.status)));
        }
    }

    /// Notes a stop that had no end within all the time it was given, with something held against it.
    pub(crate) fn note_endless(&mut self) {
        self.record.exit(self.spec.id, With::Hold, None);
    }

    /// What a check finds that needs a program which ends: that it had to be killed is a failure of its own.
    pub(crate) fn killed_when_idle(&self) -> Finding {
        let kept = crate::threshold::show(self.drill.grace);
        Finding::late(format!(
            "it {} even when idle and had to be killed, so there is no stop to judge",
            self.never_ended()
        ))
        .shown([format!(
            "with nobody connected: {}, and {kept} later it was still there; SIGKILL",
            self.drill.signal
        )])
        .measured("killed")
    }

    /// The same of a stop that this check made.
    pub(crate) fn killed(&self, run: &Run, with: With) -> Finding {
        Finding::late(format!("it {} and had to be killed", self.never_ended()))
            .shown([format!("stopped {}: still there; SIGKILL", with.words())])
            .shown(run.last_lines(5))
            .measured("killed")
    }

    /// What a check finds whose only request was lost.
    pub(crate) fn one_lost(&self, finding: Finding) -> Finding {
        let finding = finding.measured("1 of 1 lost");
        match self.threshold.count() {
            0 => finding,
            _ => finding.allowed(),
        }
    }

    /// What a check finds that could not even open what it wants to hold against the stop.
    pub(crate) fn not_held(&self, open: usize, broken: &Broken) -> Finding {
        Finding::skipped(format!(
            "before any stop, with {open} connections open, a request failed: {broken}; does the program serve one \
             connection at a time?"
        ))
    }

    /// `did not end within 30 s of SIGTERM`.
    pub(crate) fn never_ended(&self) -> String {
        format!(
            "did not end within {} of {}",
            crate::threshold::show(self.drill.grace),
            self.drill.signal
        )
    }
}

impl Run {
    /// Asks it to stop, and says when.
    pub(crate) fn stop(&self) -> Instant {
        self.subject.signal(self.signal)
    }

    pub(crate) const fn stop_signal(&self) -> Signal {
        self.signal
    }

    pub(crate) async fn wire(&self) -> Result<Wire, Broken> {
        Wire::open(&self.place.target()).await
    }

    /// Sends so many requests, each on a connection of its own, and lets them arrive.
    pub(crate) async fn in_flight(
        &self,
        request: &Request,
        count: usize,
    ) -> Result<Vec<Flight>, Broken> {
        let mut flights = Vec::new();
        for _ in 0..count {
            flights.push(Flight::begin(&self.place, request).await?);
        }
        self.let_arrive().await;
        Ok(flights)
    }

    /// Gives what was sent the time to be read: nothing tells from outside when it was. A later request has been
    /// answered, and then a moment passed.
    pub(crate) async fn let_arrive(&self) {
        if self.place.is_http() {
            let _ = Wire::ask_within(&self.place, &self.place.request(), PATIENCE).await;
        }
        sleep(Duration::from_millis(100)).await;
    }

    /// The last lines it printed, as evidence.
    pub(crate) fn last_lines(&self, most: usize) -> Vec<String> {
        let lines = self.subject.output.last(most);
        lines
            .into_iter()
            .map(|line| format!("it printed: {line}"))
            .collect()
    }
}

pub(crate) fn blanks(scratch: &Path) -> Result<Blanks, CannotDrill> {
    Blanks::fill_with(scratch).map_err(|error| CannotDrill::Usage(format!("no free port: {error}")))
}

/// Starts the program in this form and waits until it is ready.
pub(crate) async fn start(drill: &Drill, scratch: &Path, form: &Form) -> Result<Run, CannotDrill> {
    let mut tries = 0;
    loop {
        tries += 1;
        match start_with(drill, scratch, form, blanks(scratch)?).await {
            // The port was free when it was looked for, and somebody else came first.
            Err(CannotDrill::Start(start))
                if tries < 3
                    && start
                        .output
                        .iter()
                        .any(|line| line.to_lowercase().contains("in use")) => {}
            other => return other,
        }
    }
}

/// The same with these ports.
pub(crate) async fn start_with(
    drill: &Drill,
    scratch: &Path,
    form: &Form,
    blanks: Blanks,
) -> Result<Run, CannotDrill> {
    // adieu: ignore(ADR102) one line of /proc, which the kernel has at hand
    let mut run = launch(drill, scratch, form, blanks)?;
    tokio::select! {
        // Whichever comes first ends the waiting; the other one is only looked at.
        biased;
        ended = run.subject.ended_within(drill.ready_within) => {
            let reason = match ended {
                Some(ended) => {
                    // What it printed last is in the pipe and read a moment later.
                    sleep(Duration::from_millis(50)).await;
                    format!(
                        "`{}` ended before it was ready: {}, after {}",
                        drill.launch.command.join(" "),
                        describe(ended.status),
                        crate::threshold::show(ended.at - run.subject.started),
                    )
                }
                None => unready::why(drill, &run).await,
            };
            let output = run.subject.output.last(20);
            run.subject.kill().await;
            Err(CannotDrill::start(reason, output))
        }
        ready = drill.ready.wait(&run.subject, &run.place) => match ready {
            Ok(()) => {
                if matches!(form, Form::PidOne | Form::BelowShell) {
                    run.subject.look_below().await.map_err(|error| {
                        CannotDrill::start(format!("no process below its wrapper: {error}"), Vec::new())
                    })?;
                }
                Ok(run)
            }
            Err(error) => Err(CannotDrill::Usage(format!("readiness cannot be asked for: {error}"))),
        },
    }
}

fn launch(drill: &Drill, scratch: &Path, form: &Form, blanks: Blanks) -> Result<Run, CannotDrill> {
    let place = place(drill, &blanks).map_err(CannotDrill::Usage)?;
    let subject =
        Subject::start(&drill.launch, form, blanks, &drill.ready, scratch).map_err(|error| {
            let program = drill.launch.command.first().map_or("", String::as_str);
            let reason = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("`{program}` cannot be started: there is no such command")
                }
                _ => format!("`{program}` cannot be started: {error}"),
            };
            CannotDrill::start(reason, Vec::new())
        })?;
    Ok(Run {
        subject,
        place,
        signal: drill.signal.raw(),
    })
}

/// Where the program is with these ports.
pub(crate) fn place(drill: &Drill, blanks: &Blanks) -> Result<Place, String> {
    match &drill.address {
        Some(Address::Http(url)) => {
            let place = Place::parse_url(&blanks.fill(url))?;
            Ok(place.with_request(|request| {
                request.headers.extend(drill.headers.iter().cloned());
                request.body.clone_from(&drill.body);
                request.method = match &drill.method {
                    Some(method) => method.clone(),
                    None if drill.body.is_empty() => "GET".to_owned(),
                    None => "POST".to_owned(),
                };
            }))
        }
        Some(Address::Tcp(address)) => Place::parse_tcp(&blanks.fill(address), drill.tls),
        // Nobody is there, and nobody asks: the checks that would are skipped.
        None => Place::parse_tcp(&blanks.fill("127.0.0.1:{port}"), false),
    }
}
