//! What `adieu run` says, on standard error: one line for each stage.
//!
//! Written by a thread of its own: the reader of standard error may have stopped reading, and then only that thread
//! waits.

use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Event, Metadata, Subscriber, span};

use super::sys;

/// Lines that may wait to be written; more are dropped, and said to be.
const MOST: usize = 256;

/// What an answer, or the steps of a restart, take at most, as a rule.
const MEMORY_RELEASE_DELAY: Duration = Duration::from_millis(500);

enum LogLine {
    Text(String),
    /// Everything before has been written.
    Flush(SyncSender<()>),
    /// Start-up is over, also that of the thread.
    Settle,
    /// A short burst of work has begun.
    SettleSoon,
}

struct Writer {
    quiet: bool,
    /// Where lines go to be written, from the first one on; `None` if there can be no thread for it.
    lines: OnceLock<Option<SyncSender<LogLine>>>,
}

static WRITER: OnceLock<Writer> = OnceLock::new();

/// From here on there is a writer. Its thread comes with the first line, or when [the command runs](settle): that is
/// not to wait for it.
pub(super) fn start(quiet: bool) {
    let lines = OnceLock::new();
    let _ = WRITER.set(Writer { quiet, lines });
    let _ = tracing::subscriber::set_global_default(NullSubscriber);
}

/// The command runs. Has the thread now: later there may be no room for one. What start-up needed is let go of when the
/// thread, too, is through with it.
pub(super) fn settle() {
    if let Some(lines) = lines() {
        let _ = lines.try_send(LogLine::Settle);
    }
}

/// Something is done that was not done since the start, or not for a while: a restart, an answer about health. What it
/// needed is let go of a moment later.
pub(super) fn settle_soon() {
    if let Some(lines) = lines() {
        let _ = lines.try_send(LogLine::SettleSoon);
    }
}

fn lines() -> Option<&'static SyncSender<LogLine>> {
    WRITER.get()?.lines.get_or_init(begin).as_ref()
}

fn begin() -> Option<SyncSender<LogLine>> {
    let (lines, waiting) = mpsc::sync_channel(MOST);
    let started = thread::Builder::new()
        .name("adieu-log".into())
        .spawn(move || write_all(&waiting));
    started.ok().map(|_| lines)
}

fn write_all(waiting: &Receiver<LogLine>) {
    let mut settle_at = None;
    while let Some(line) = next(waiting, settle_at) {
        match line {
            // A closed standard error changes nothing.
            LogLine::Text(text) => drop(std::io::stderr().lock().write_all(text.as_bytes())),
            LogLine::Flush(done) => drop(done.try_send(())),
            LogLine::Settle => {
                settle_at = None;
                sys::let_go_of_code();
            }
            // From the first one on: of whatever comes all the time, there is no end to wait for.
            LogLine::SettleSoon => {
                settle_at.get_or_insert_with(|| Instant::now() + MEMORY_RELEASE_DELAY);
            }
        }
    }
}

/// What is to be done next; `None` when there will be nothing any more.
fn next(waiting: &Receiver<LogLine>, settle_at: Option<Instant>) -> Option<LogLine> {
    let Some(at) = settle_at else {
        return waiting.recv().ok();
    };
    match waiting.recv_timeout(at.saturating_duration_since(Instant::now())) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Timeout) => Some(LogLine::Settle),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

/// Waits until all is written, but not forever.
pub(super) fn flush(patience: Duration) {
    if let Some(Some(lines)) = WRITER.get().and_then(|writer| writer.lines.get()) {
        let (done, written) = mpsc::sync_channel(1);
        if lines.try_send(LogLine::Flush(done)).is_ok() {
            let _ = written.recv_timeout(patience);
        }
    }
}

pub(super) fn text(text: String) {
    match lines() {
        Some(lines) => drop(lines.try_send(LogLine::Text(text))),
        // Without a thread only warnings are written, by the calling thread: this run fails anyway.
        None => drop(std::io::stderr().lock().write_all(text.as_bytes())),
    }
}

/// Something that is as it should be.
pub(super) fn info(message: impl fmt::Display) {
    let is_said = |writer: &Writer| !writer.quiet && !matches!(writer.lines.get(), Some(None));
    if WRITER.get().is_some_and(is_said) {
        text(format!("adieu: {message}\n"));
    }
}

/// Something that is not.
pub(super) fn warn(message: impl fmt::Display) {
    text(format!("adieu: {message}\n"));
}

/// The library's own lines are dropped: what matters of them comes in as notices. Without a subscriber it
/// would write to standard error itself, and wait there.
struct NullSubscriber;

impl Subscriber for NullSubscriber {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }
    fn event(&self, _: &Event<'_>) {}
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
