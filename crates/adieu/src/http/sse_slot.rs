//! What is known of the stream of events that is the present response of a connection.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::Request;

use crate::net::{Carried, CarriedRequest, RawState};

/// Among the extensions of a request whose response the old process has begun.
#[derive(Clone)]
pub(super) struct Resumed;

/// No route goes on with a response that the old process has begun.
pub(super) struct NotResumed;

/// What is known of the stream of events that is the present response of a connection.
#[derive(Default)]
pub(super) struct EventSlot {
    /// There was one on this connection.
    is_used: AtomicBool,
    /// The response is one whose handler may leave it to the new process.
    may_move: AtomicBool,
    /// The handler has left it, and the new process is yet to take it.
    is_left: AtomicBool,
    /// The client has the head of the response from the old process.
    is_resumed: AtomicBool,
    state: Mutex<Option<Box<EventState>>>,
}

#[derive(Default)]
pub(super) struct EventState {
    /// The request, once a route has answered it with a stream.
    pub(super) request: Option<CarriedRequest>,
    /// What the handler in the old process has left, until a route takes it.
    pub(super) resumed: Option<Carried>,
    /// What the handler in this process has left.
    left: Option<Carried>,
}

impl EventSlot {
    fn state(&self) -> MutexGuard<'_, Option<Box<EventState>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with<T>(&self, act: impl FnOnce(&mut EventState) -> T) -> T {
        self.is_used.store(true, Relaxed);
        act(self.state().get_or_insert_default())
    }

    /// The connection comes from the old process, in the middle of a stream.
    pub(super) fn resume(&self, state: Option<Carried>) {
        self.with(|slot| slot.resumed = state);
    }

    /// The next request of the connection, marked if its response has begun in the old process.
    pub(super) fn next_request<B>(&self, mut request: Request<B>) -> Request<B> {
        if !self.is_used.load(Relaxed) {
            return request;
        }
        self.may_move.store(false, Relaxed);
        self.is_left.store(false, Relaxed);
        let is_resumed = self.with(|slot| {
            slot.request = None;
            slot.left = None;
            slot.resumed.is_some()
        });
        self.is_resumed.store(is_resumed, Relaxed);
        if is_resumed {
            request.extensions_mut().insert(Resumed);
        }
        request
    }

    /// A service has answered. Whether the response is a stream of events as a route has made it, which then may move, or go on
    /// here.
    ///
    /// An error is a response that the old process has begun, and that is anything else.
    pub(super) fn answered(&self, is_as_made: bool) -> Result<(), NotResumed> {
        if !self.is_used.load(Relaxed) {
            return Ok(());
        }
        let is_stream = is_as_made && self.with(|slot| slot.request.is_some());
        self.may_move.store(is_stream, Relaxed);
        if !self.is_resumed.swap(false, Relaxed) || is_stream {
            return Ok(());
        }
        self.with(|slot| slot.resumed = None);
        Err(NotResumed)
    }

    pub(super) fn may_move(&self) -> bool {
        self.may_move.load(Relaxed)
    }

    /// The handler has returned with this state, and all its events are with the transport.
    pub(super) fn leave(&self, state: Carried) {
        self.with(|slot| slot.left = Some(state));
        self.is_left.store(true, Relaxed);
    }

    /// Whether the handler has left it, and nothing more is written here.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Relaxed)
    }

    /// The stream stays with this process, and ends.
    pub(super) fn stays(&self) {
        self.is_left.store(false, Relaxed);
    }

    /// What goes along with the connection.
    pub(super) fn take_left(&self) -> Option<(CarriedRequest, RawState)> {
        if !self.is_left.swap(false, Relaxed) {
            return None;
        }
        let (request, left) = self.with(|slot| slot.request.take().zip(slot.left.take()))?;
        Some((request, left.into_parts().0))
    }
}
