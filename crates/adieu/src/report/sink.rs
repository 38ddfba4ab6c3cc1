//! Says what happens: each notice to the log and to the listener, and at the end the report to a person.
//!
//! In a service the sink has a thread of its own. Logs go to places that can be full, slow or gone, and
//! the stop must not wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use tracing::Span;

use super::deferred_log::DeferredLog;
use super::log::log;
use super::notice::Notice;
use crate::report::writer::{ReportWriter, write_stderr};

/// Hears every notice, in order, when it is said.
pub(crate) type NoticeListener = Box<dyn FnMut(&Notice) + Send>;

pub(crate) struct NoticeSink {
    service: Arc<str>,
    listener: Option<NoticeListener>,
    /// Of the stop that goes on, and of its phase.
    stop: Option<Span>,
    phase: Option<Span>,
}

impl NoticeSink {
    pub(crate) const fn new(service: Arc<str>, listener: Option<NoticeListener>) -> Self {
        Self {
            service,
            listener,
            stop: None,
            phase: None,
        }
    }

    /// A panic of a log writer or of the listener does not change the life cycle.
    fn emit(&mut self, notice: &Notice) {
        let _ = catch_unwind(|| log(&self.service, notice));
        let _ = catch_unwind(AssertUnwindSafe(|| self.change_spans(notice)));
        if let Some(listener) = &mut self.listener
            && catch_unwind(AssertUnwindSafe(|| listener(notice))).is_err()
        {
            self.listener = None;
        }
    }

    /// A span for the stop, and below it one for each phase.
    fn change_spans(&mut self, notice: &Notice) {
        let service = &*self.service;
        match notice {
            Notice::Stopping { cause } => {
                self.stop = Some(
                    tracing::info_span!(target: "adieu", parent: None, "stop", service, cause = %cause),
                );
            }
            Notice::Phase { phase, .. } => {
                // The one before it ends first.
                self.phase = None;
                let stop = self.stop.as_ref().and_then(Span::id);
                self.phase = Some(
                    tracing::info_span!(target: "adieu", parent: stop, "phase", service, phase = %phase),
                );
            }
            Notice::Ended { .. } => (self.phase, self.stop) = (None, None),
            _ => {}
        }
    }
}

pub(crate) enum SinkMessage {
    Notices(Vec<Notice>),
    DeferredLog(DeferredLog),
    Status(String),
    Report(Arc<ReportWriter>),
}

/// The driver's way to the sink.
pub(crate) enum SinkHandle {
    /// The sink speaks where the driver is.
    Inline(NoticeSink),
    /// The sink writes on its own thread, in the order of the messages.
    OnThread(Sender<SinkMessage>, JoinHandle<()>),
    /// All is said.
    Finished,
}

impl SinkHandle {
    /// Gives the sink a thread; without one it speaks here.
    pub(crate) fn on_thread(mut sink: NoticeSink) -> Self {
        let (tell, told) = mpsc::channel();
        let (service, listener) = (Arc::clone(&sink.service), sink.listener.take());
        let mut theirs = NoticeSink::new(service, listener);
        let spawned = thread::Builder::new()
            .name("adieu-log".into())
            .spawn(move || {
                for message in told {
                    match message {
                        SinkMessage::Notices(notices) => {
                            notices.iter().for_each(|it| theirs.emit(it))
                        }
                        SinkMessage::DeferredLog(line) => line.write(),
                        SinkMessage::Status(text) => write_stderr(format_args!("{text}")),
                        SinkMessage::Report(writer) => writer.print(),
                    }
                }
            });
        match spawned {
            Ok(thread) => Self::OnThread(tell, thread),
            Err(_) => Self::Inline(sink),
        }
    }

    pub(crate) fn emit(&mut self, notices: Vec<Notice>) {
        match self {
            Self::Inline(sink) => notices.iter().for_each(|it| sink.emit(it)),
            // The thread ends after its sender, never before.
            Self::OnThread(tell, _) => drop(tell.send(SinkMessage::Notices(notices))),
            Self::Finished => {}
        }
    }

    /// Says a line from the midst of work.
    pub(crate) fn log_deferred(&self, line: DeferredLog) {
        match self {
            Self::Inline(_) => line.write(),
            Self::OnThread(tell, _) => drop(tell.send(SinkMessage::DeferredLog(line))),
            Self::Finished => {}
        }
    }

    /// Shows the status to a person.
    pub(crate) fn print_status(&self, status: String) {
        match self {
            Self::Inline(_) => write_stderr(format_args!("{status}")),
            Self::OnThread(tell, _) => drop(tell.send(SinkMessage::Status(status))),
            Self::Finished => {}
        }
    }

    /// The last thing to say.
    pub(crate) fn print_report(&self, writer: &Arc<ReportWriter>) {
        match self {
            Self::Inline(_) => writer.print(),
            Self::OnThread(tell, _) => drop(tell.send(SinkMessage::Report(Arc::clone(writer)))),
            Self::Finished => {}
        }
    }

    /// Waits until all is said. Only the hard exit, which ends the process, makes this safe to call.
    pub(crate) fn finish(&mut self) {
        if let Self::OnThread(tell, thread) = std::mem::replace(self, Self::Finished) {
            drop(tell);
            let _ = thread.join();
        }
    }
}
