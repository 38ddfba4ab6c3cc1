//! The side that takes connections over.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc;

use super::channel::{Channel, Received};
use super::message::{Hello, Kind, Message, Offer, Torn};
use crate::net::SharedSocket;
use crate::runtime::shared::ServiceShared;

type Note = Box<dyn FnOnce(String) + Send>;

/// A server that takes connections of its listener's name.
struct Taker {
    name: String,
    kinds: &'static [Kind],
    /// Given what the report should say at the end.
    note: Note,
    /// Where its accept loop looks for them.
    arrivals: mpsc::Sender<SharedSocket>,
    taken: BTreeMap<Kind, u64>,
}

/// The old process, as the place where connections come from.
#[derive(Default)]
pub(super) struct Arrivals {
    state: Mutex<ArrivalState>,
}

#[derive(Default)]
struct ArrivalState {
    /// The old process and the channel to it, until the service serves.
    from: Option<(u32, OwnedFd)>,
    takers: Vec<Taker>,
}

/// So many that are taken wait for the accept loop at most.
const WAITING: usize = 16;

impl Arrivals {
    fn with<T>(&self, act: impl FnOnce(&mut ArrivalState) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn expect(&self, pid: u32, end: OwnedFd) {
        self.with(|state| state.from = Some((pid, end)));
    }

    /// A server takes connections; `None` if there is no process to take them from. At the end `note` is given what the
    /// report should say.
    pub(super) fn register(
        &self,
        name: String,
        kinds: &'static [Kind],
        note: Note,
    ) -> Option<mpsc::Receiver<SharedSocket>> {
        let (arrivals, receiver) = mpsc::channel(WAITING);
        let taker = Taker {
            name,
            kinds,
            note,
            arrivals,
            taken: BTreeMap::new(),
        };
        self.with(|state| {
            state.from.as_ref()?;
            state.takers.push(taker);
            Some(receiver)
        })
    }

    /// Every server listens: tells the old process what is taken, and takes it.
    pub(super) fn begin(&self, core: &ServiceShared) {
        let (from, takers) =
            self.with(|state| (state.from.take(), std::mem::take(&mut state.takers)));
        let Some((pid, end)) = from else { return };
        let taken = |taker: &Taker| {
            let name = taker.name.clone();
            taker.kinds.iter().map(move |kind| (name.clone(), *kind))
        };
        let hello = Hello::new(&core.name, takers.iter().flat_map(taken).collect());
        let _inside = core.runtime.enter();
        // Sent at once: the channel is empty, and the old process looks for it as soon as it knows that this one serves.
        let channel = Channel::new(end).and_then(|channel| {
            channel.send_now(Message::Hello(hello))?;
            Ok(channel)
        });
        match channel {
            // Ends with the channel, which is with the old process.
            Ok(channel) => drop(core.runtime.spawn(take_all(channel, pid, takers))),
            // The old process is gone, and with it its connections.
            Err(error) => {
                tracing::debug!(target: "adieu", %error, "no connections from process {pid}");
            }
        }
    }
}

/// Takes connections until the old process is gone or says what makes no sense. Then the channel is closed, and what was not
/// taken is the old process's.
async fn take_all(channel: Channel, pid: u32, mut takers: Vec<Taker>) {
    let mut buffer = Vec::new();
    let ended = loop {
        match channel.receive(pid, &mut buffer).await {
            Ok(None) => break Ok(()),
            Ok(Some(received)) => {
                if let Err(error) = take_one(&channel, received, &mut takers).await {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    if let Err(error) = ended {
        tracing::warn!(target: "adieu", %error, "no more connections are taken from process {pid}");
    }
    for Taker { note, taken, .. } in takers {
        let all: u64 = taken.values().sum();
        if all > 0 {
            let kinds: Vec<_> = taken
                .iter()
                .map(|(kind, count)| format!("{count} {}", kind.words()))
                .collect();
            let kinds = kinds.join(", ");
            note(format!(
                "took {all} connection(s) from process {pid}: {kinds}"
            ));
        }
    }
}

async fn take_one(
    channel: &Channel,
    Received {
        message,
        descriptor,
    }: Received,
    takers: &mut [Taker],
) -> io::Result<()> {
    let nonsense = || io::Error::other("a message that makes no sense");
    let offer = match message {
        Ok(Message::Offer(offer)) => offer,
        Err(Torn {
            number: Some(number),
        }) => {
            let why = "the offer is not whole, or its descriptor is one too many here";
            return refuse(channel, number, why).await;
        }
        _ => return Err(nonsense()),
    };
    let Offer {
        number,
        server,
        kind,
        snapshot,
    } = offer;
    let is_for = |taker: &&mut Taker| taker.name == server && taker.kinds.contains(&kind);
    let Some(taker) = takers.iter_mut().find(is_for) else {
        return refuse(channel, number, "no server takes it").await;
    };
    // Held until the answer is sent: an accept loop that ends meanwhile waits for it.
    let Ok(place) = taker.arrivals.reserve().await else {
        return refuse(channel, number, "the new process stops").await;
    };
    let socket = descriptor
        .ok_or_else(nonsense)
        .and_then(|descriptor| SharedSocket::arrived(descriptor, snapshot));
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) => return refuse(channel, number, &error.to_string()).await,
    };
    match channel.send(Message::Taken(number), None).await {
        // If the old process is gone it does not use the connection any more.
        Ok(()) => {}
        Err(error) if is_gone(&error) => {}
        Err(error) => return Err(error),
    }
    place.send(socket);
    *taker.taken.entry(kind).or_default() += 1;
    Ok(())
}

/// The descriptor is closed already, or with the caller.
async fn refuse(channel: &Channel, number: u64, why: &str) -> io::Result<()> {
    match channel
        .send(Message::Refused(number, why.to_owned()), None)
        .await
    {
        Err(error) if !is_gone(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Whether the other end of the channel is closed.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

/// What the accept loop of one server gets.
pub(crate) struct ArrivalQueue(pub(super) Option<mpsc::Receiver<SharedSocket>>);

impl ArrivalQueue {
    /// The next connection, if the old process has any. Cancel-safe.
    pub(crate) async fn next(&mut self) -> SharedSocket {
        if let Some(arrivals) = &mut self.0 {
            if let Some(socket) = arrivals.recv().await {
                return socket;
            }
            self.0 = None;
        }
        std::future::pending().await
    }

    /// Those that were taken already; none is taken from here on.
    pub(crate) async fn rest(self, mut serve: impl FnMut(SharedSocket)) {
        if let Some(mut arrivals) = self.0 {
            arrivals.close();
            while let Some(socket) = arrivals.recv().await {
                serve(socket);
            }
        }
    }
}
