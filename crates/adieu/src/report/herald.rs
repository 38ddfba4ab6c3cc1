//! Says what happens: each notice to the log and to the listener, and at the end the report to a person.
//!
//! In a service the herald has a thread of its own. Logs go to places that can be full, slow or gone, and
//! the stop must not wait for them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

#[cfg(feature = "net")]
use super::aside::Aside;
use super::log::log;
use super::notice::Notice;
use crate::publish::{Publisher, complain};

/// Hears every notice, in order, when it is said.
pub(crate) type Listener = Box<dyn FnMut(&Notice) + Send>;

pub(crate) struct Herald {
    service: Arc<str>,
    listener: Option<Listener>,
}

impl Herald {
    pub(crate) const fn new(service: Arc<str>, listener: Option<Listener>) -> Self {
        Self { service, listener }
    }

    /// Whoever panics here, a log writer or the listener, has no say in the life cycle.
    fn say(&mut self, notice: &Notice) {
        let _ = catch_unwind(|| log(&self.service, notice));
        if let Some(listener) = &mut self.listener
            && catch_unwind(AssertUnwindSafe(|| listener(notice))).is_err()
        {
            self.listener = None;
        }
    }
}

pub(crate) enum Saying {
    Notices(Vec<Notice>),
    #[cfg(feature = "net")]
    Aside(Aside),
    Status(String),
    Report(Arc<Publisher>),
}

/// The conductor's way to the herald.
pub(crate) enum Voice {
    /// The herald speaks where the conductor is.
    Here(Herald),
    /// The herald speaks on its own thread, in the order it is told.
    Away(Sender<Saying>, JoinHandle<()>),
    /// All is said.
    Silent,
}

impl Voice {
    /// Gives the herald a thread; without one it speaks here.
    pub(crate) fn away(mut herald: Herald) -> Self {
        let (tell, told) = mpsc::channel();
        let (service, listener) = (Arc::clone(&herald.service), herald.listener.take());
        let mut speaker = Herald::new(service, listener);
        let speaking = thread::Builder::new()
            .name("adieu-herald".into())
            .spawn(move || {
                for saying in told {
                    match saying {
                        Saying::Notices(notices) => notices.iter().for_each(|it| speaker.say(it)),
                        #[cfg(feature = "net")]
                        Saying::Aside(line) => line.say(),
                        Saying::Status(text) => complain(format_args!("{text}")),
                        Saying::Report(publisher) => publisher.print(),
                    }
                }
            });
        match speaking {
            Ok(thread) => Self::Away(tell, thread),
            Err(_) => Self::Here(herald),
        }
    }

    pub(crate) fn say(&mut self, notices: Vec<Notice>) {
        match self {
            Self::Here(herald) => notices.iter().for_each(|it| herald.say(it)),
            // The thread ends after its sender, never before.
            Self::Away(tell, _) => drop(tell.send(Saying::Notices(notices))),
            Self::Silent => {}
        }
    }

    /// Says a line from the midst of work.
    #[cfg(feature = "net")]
    pub(crate) fn say_aside(&self, line: Aside) {
        match self {
            Self::Here(_) => line.say(),
            Self::Away(tell, _) => drop(tell.send(Saying::Aside(line))),
            Self::Silent => {}
        }
    }

    /// Shows the status to a person.
    pub(crate) fn show(&self, status: String) {
        match self {
            Self::Here(_) => complain(format_args!("{status}")),
            Self::Away(tell, _) => drop(tell.send(Saying::Status(status))),
            Self::Silent => {}
        }
    }

    /// The last thing to say.
    pub(crate) fn print(&self, publisher: &Arc<Publisher>) {
        match self {
            Self::Here(_) => publisher.print(),
            Self::Away(tell, _) => drop(tell.send(Saying::Report(Arc::clone(publisher)))),
            Self::Silent => {}
        }
    }

    /// Waits until all is said. Only a sentinel that ends the process makes this safe to call.
    pub(crate) fn finish(&mut self) {
        if let Self::Away(tell, thread) = std::mem::replace(self, Self::Silent) {
            drop(tell);
            let _ = thread.join();
        }
    }
}
