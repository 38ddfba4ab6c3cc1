//! How a feature hangs itself into a running service: the shared core knows no feature, only this trait.
//!
//! The first use of an extension creates it, so a service has those that it uses and no others.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use adieu_lifecycle::Time;

use crate::report::{ComponentReport, Notice};
use crate::runtime::shared::ServiceShared;
use crate::signal::Signal;

/// State of a feature in one service, and what the driver tells and asks it.
///
/// Everything is called on the driver's thread, or its task, unless it says otherwise. Nothing may block.
pub(crate) trait Extension: Any + Send + Sync {
    /// A notice was put on record.
    fn on_notice(&self, _: &Notice, _: Time) {}

    /// A signal that the program has not bound; says whether it was for this extension. On the signal thread.
    fn on_signal(&self, _: &Arc<ServiceShared>, _: Signal) -> bool {
        false
    }

    /// The first request to stop. On the thread that makes it.
    fn on_stop_requested(&self) {}

    /// A reload begins. In its task.
    fn on_reload_started(&self) {}

    /// `setup` has returned without an error. In its task.
    fn on_setup_done(&self, _: &ServiceShared) {}

    /// Whether something outside the service has yet to allow it to run. If so, it begins by itself to ask for that, and
    /// sends [`DriverMessage::MayRun`](crate::runtime::shared::DriverMessage::MayRun) when it has it.
    fn holds_back(&self, _: &Arc<ServiceShared>) -> bool {
        false
    }

    /// Whether clients can come. When that has changed, send
    /// [`DriverMessage::MayServe`](crate::runtime::shared::DriverMessage::MayServe).
    fn is_ready_to_serve(&self) -> bool {
        true
    }

    /// Asks what it knows of whether the service is ready; `None` if it has no say. Dropped half-way, it asks no further. On any
    /// thread.
    #[cfg(feature = "tonic")]
    fn asks_whether_ready(
        &self,
        _: &Arc<ServiceShared>,
    ) -> Option<crate::runtime::ending::BoxFuture<bool>> {
        None
    }

    /// The service runs, and clients can come.
    fn on_serving(&self, _: &ServiceShared) {}

    /// The end has come; the report is not written yet.
    fn before_end(&self) {}

    /// The report is written.
    fn after_report(&self) {}

    /// The names that stand at the end of the plan.
    fn add_to_plan(&self, _: &mut Vec<Arc<str>>) {}

    /// Adds what is not a component of the stop, and still in the report.
    fn add_to_report(&self, _: Time, _: &mut Vec<ComponentReport>) {}

    /// Lines of the status that SIGUSR1 prints.
    fn write_status(&self, _: &mut String) -> fmt::Result {
        Ok(())
    }
}

/// The extensions of one service, in the order of their first use. Only ever grows, and is read without a lock.
#[derive(Default)]
pub(crate) struct Extensions {
    first: OnceLock<Box<Node>>,
}

struct Node {
    extension: Box<dyn Extension>,
    next: OnceLock<Box<Node>>,
}

impl Node {
    fn new(extension: impl Extension) -> Box<Self> {
        Box::new(Self {
            extension: Box::new(extension),
            next: OnceLock::new(),
        })
    }
}

impl Extensions {
    /// The extension of this type; created by its first use.
    pub(crate) fn get<E: Extension + Default>(&self) -> &E {
        let mut slot = &self.first;
        loop {
            let node = slot.get_or_init(|| Node::new(E::default()));
            let extension: &dyn Any = &*node.extension;
            if let Some(found) = extension.downcast_ref() {
                return found;
            }
            slot = &node.next;
        }
    }

    /// One that cannot be created by its first use.
    #[cfg(unix)]
    pub(crate) fn add(&self, extension: impl Extension) {
        let mut new = Node::new(extension);
        let mut slot = &self.first;
        loop {
            match slot.set(new) {
                Ok(()) => return,
                Err(back) => new = back,
            }
            // Full, or it would have been set.
            let Some(node) = slot.get() else { return };
            slot = &node.next;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Extension> {
        std::iter::successors(self.first.get(), |node| node.next.get()).map(|node| &*node.extension)
    }
}

/// What a component that serves clients can be asked.
pub(crate) trait ComponentProbe: Any + Send {
    /// What the connection that this task serves is doing, and with which client.
    fn describe_task(&self, task: u64) -> Option<(String, String)>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct One;
    impl Extension for One {}

    #[derive(Default)]
    struct Two(std::sync::atomic::AtomicU8);
    impl Extension for Two {}

    #[test]
    fn the_first_use_creates_an_extension_and_later_ones_find_it() {
        let extensions = Extensions::default();
        extensions.get::<One>();
        let two: *const Two = extensions.get();
        extensions.get::<One>();
        assert_eq!(two, std::ptr::from_ref(extensions.get::<Two>()));
        assert_eq!(extensions.iter().count(), 2);
    }

    #[test]
    fn threads_that_use_an_extension_first_at_the_same_time_share_one() {
        let extensions = Extensions::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    extensions.get::<One>();
                    extensions
                        .get::<Two>()
                        .0
                        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                });
            }
        });
        assert_eq!(extensions.iter().count(), 2);
        assert_eq!(
            extensions
                .get::<Two>()
                .0
                .load(std::sync::atomic::Ordering::Relaxed),
            4
        );
    }
}
