//! A log that takes no more lines, as a pipe that no process reads: jobs go on beside it.
//!
//! A binary of its own: its subscriber is that of the process.

use std::fmt;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use adieu::App;
use adieu::queue::{Job, MemoryQueue};
use adieu::report::PrintReport;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Far more than a job takes; it passes only if jobs wait for the log.
const AT_MOST: Duration = Duration::from_secs(20);

/// Takes no line after the one of the failed job, until it is released.
struct StuckLog {
    released: Mutex<Receiver<()>>,
    was_released: Sender<bool>,
}

#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for StuckLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "adieu"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message::default();
        event.record(&mut message);
        if message.0.starts_with("a job failed") {
            let released = self.released.lock().expect("never poisoned");
            let released = released.recv_timeout(AT_MOST).is_ok();
            self.was_released.send(released).expect("the test waits");
        }
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_stuck_log_holds_up_no_job() {
    let (release, released) = channel();
    let (was_released, result) = channel();
    let log = StuckLog {
        released: Mutex::new(released),
        was_released,
    };
    tracing::subscriber::set_global_default(log).expect("the only one");
    let queue = MemoryQueue::new(Duration::from_secs(30));
    queue.push("fails");
    queue.push("works");
    let report =
        adieu::service("jobs")
            .print(PrintReport::Never)
            .run(async move |app: &mut App| {
                let done = app.shutdown_handle();
                // One at a time: the second job begins when the first one is settled.
                app.consume("orders", queue, move |job: Job| {
                    let (done, release) = (done.clone(), release.clone());
                    async move {
                        if job.text() == "fails" {
                            return Err("it always does");
                        }
                        release.send(()).expect("the log waits");
                        done.stop("both jobs had their turn");
                        Ok(())
                    }
                });
                Ok(())
            });
    assert_eq!(report.exit_code(), 0, "{report}");
    let released = result.recv().expect("the first job was logged");
    assert!(released, "the second job waited for the log of the first");
}
