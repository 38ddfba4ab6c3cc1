//! The side that gives connections away.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::channel::Channel;
use super::message::{Hello, Kind, Message, Offer};
use super::move_stats::NotMoved;
use super::offers::{OfferAnswer, Offers};
use crate::net::{ConnectionSnapshot, SharedSocket};

/// So many connections are offered at a time. Each of them is in the kernel's hands for a moment, and the kernel lets a
/// user have no more there than a process may have descriptors. Those that wait for their turn are served meanwhile.
const AT_A_TIME: usize = 128;

/// The new process, as the place where connections go.
pub(crate) struct Successor {
    pid: u32,
    channel: Channel,
    takes: BTreeSet<(String, Kind)>,
    turns: Arc<Semaphore>,
    offers: Mutex<Offers<oneshot::Sender<OfferAnswer>>>,
}

/// The right to offer one connection now.
pub(crate) struct Turn {
    successor: Arc<Successor>,
    _permit: OwnedSemaphorePermit,
}

impl Successor {
    /// The new process has said that it serves, and before that what connections it takes. An error says why it gets
    /// none; `Ok(None)` that it does not know of any.
    pub(super) fn begin(
        runtime: &Handle,
        end: OwnedFd,
        pid: u32,
        service: &str,
    ) -> Result<Option<Arc<Self>>, String> {
        let trouble = |error: io::Error| error.to_string();
        let channel = {
            let _inside = runtime.enter();
            Channel::new(end).map_err(trouble)?
        };
        let hello = match channel.receive_now(pid) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            received => match received.map_err(trouble)? {
                None => return Ok(None),
                Some(received) => match received.message {
                    Ok(Message::Hello(hello)) => hello,
                    _ => return Err("the new process speaks another language".to_owned()),
                },
            },
        };
        if let Some(objection) = hello.objection(service) {
            return Err(objection);
        }
        let Hello { servers, .. } = hello;
        let successor = Arc::new(Self {
            pid,
            channel,
            takes: servers.into_iter().collect(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
            offers: Mutex::default(),
        });
        // Ends with the channel, which is with the new process, or with this one.
        runtime.spawn(Arc::clone(&successor).read_answers());
        Ok(Some(successor))
    }

    fn offers(&self) -> MutexGuard<'_, Offers<oneshot::Sender<OfferAnswer>>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it takes connections of this listener.
    pub(crate) fn takes(&self, name: &str, kind: Kind) -> bool {
        self.takes
            .iter()
            .any(|(listener, taken)| listener == name && *taken == kind)
    }

    /// Whether it takes anything still.
    pub(crate) fn is_open(&self) -> bool {
        !self.turns.is_closed()
    }

    /// Waits for the right to offer a connection; `None` if nothing more may be offered. Cancel-safe.
    pub(crate) async fn turn(self: Arc<Self>) -> Option<Turn> {
        let permit = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        Some(Turn {
            successor: self,
            _permit: permit,
        })
    }

    async fn read_answers(self: Arc<Self>) {
        let mut buffer = Vec::new();
        loop {
            let (number, answer) = match self.channel.receive(self.pid, &mut buffer).await {
                Ok(Some(received)) => match received.message {
                    Ok(Message::Taken(number)) => (number, OfferAnswer::Taken),
                    Ok(Message::Refused(number, why)) => (number, OfferAnswer::Refused(why)),
                    _ => {
                        self.turns.close();
                        self.offers().distrust();
                        continue;
                    }
                },
                // The end of the channel, or of what can be known of it.
                Ok(None) | Err(_) => break,
            };
            let waiting = self.offers().answered(number);
            match waiting {
                // A connection that does not wait any more has ended with the drain.
                Some(waiting) => drop(waiting.send(answer)),
                None => self.turns.close(),
            }
        }
        self.turns.close();
        let waiting = self.offers().ended();
        for waiting in waiting {
            let _ = waiting.send(OfferAnswer::NewProcessGone);
        }
    }
}

impl Turn {
    /// Offers a connection that nothing in this process reads or writes any more. Returns once it is the new process's; an
    /// error says that it is this one's, as before.
    ///
    /// Dropped half-way, the connection may be either's, and must not be used any more nor shut down.
    pub(crate) async fn offer(
        self,
        name: &str,
        kind: Kind,
        socket: &SharedSocket,
        snapshot: ConnectionSnapshot,
    ) -> Result<(), NotMoved> {
        let successor = &*self.successor;
        let (tell, answer) = oneshot::channel();
        let number = successor.offers().begin(tell).map_err(|_| NotMoved::Gone)?;
        let offer = Message::Offer(Offer {
            number,
            server: name.to_owned(),
            kind,
            snapshot,
        });
        let sent = successor
            .channel
            .send(offer, Some(socket.descriptor()))
            .await;
        if let Err(error) = sent {
            successor.offers().not_sent(number);
            return Err(match error.kind() {
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => NotMoved::Gone,
                _ => NotMoved::NotSent(error),
            });
        }
        match answer.await {
            Ok(OfferAnswer::Taken) => Ok(()),
            Ok(OfferAnswer::Refused(why)) => Err(NotMoved::Refused(why)),
            Ok(OfferAnswer::NewProcessGone) => Err(NotMoved::Gone),
            // The reader of the answers never drops one that waits: the runtime is gone, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }
}
