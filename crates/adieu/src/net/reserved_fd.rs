//! Descriptors in reserve, for a port that is to answer when all others are used up.
//!
//! A connection is accepted in the place of a reserve, and when it is closed its descriptor is a reserve again. The kernel
//! cannot accept into a descriptor that is open, so a reserve is closed first; until it is used, every accept loop of
//! this process waits (see `lock_accepts` in `acceptor.rs`). The way back is one step (`dup3`, on Linux), so no thread can take the number in between.
//! Code that opens files may still take one at the wrong moment: that is why there are several.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use socket2::{Domain, Socket, Type};

use super::acceptor::DescriptorReserve;
use super::os::{self, Descriptor};
use super::socket::SharedSocket;

/// So many connections can be there at a time that were accepted without a free descriptor.
const RESERVED: usize = 4;

/// The reserve of one port.
#[derive(Clone)]
pub(crate) struct ReservedFds(Arc<Reserve>);

struct Reserve {
    /// What the reserves are copies of. Without one there is no reserve.
    pattern: Option<Socket>,
    free: Mutex<Vec<Descriptor>>,
}

impl ReservedFds {
    pub(crate) fn new() -> Self {
        let spare = Self(Arc::new(Reserve {
            pattern: Socket::new(Domain::IPV4, Type::DGRAM, None).ok(),
            free: Mutex::default(),
        }));
        spare.restock();
        spare
    }

    fn free(&self) -> MutexGuard<'_, Vec<Descriptor>> {
        self.0.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a connection; its descriptor becomes a reserve if one is missing.
    pub(crate) fn reclaim(&self, socket: SharedSocket) {
        let mut free = self.free();
        if free.len() < RESERVED
            && let Some(pattern) = &self.0.pattern
            && let Some(descriptor) = socket.into_descriptor()
            && let Some(reserve) = os::replaced(descriptor, pattern)
        {
            free.push(reserve);
        }
    }
}

impl DescriptorReserve for ReservedFds {
    fn release(&self) -> bool {
        self.free().pop().is_some()
    }

    /// Fills the reserve up, as far as there are descriptors: other code may have taken one.
    fn restock(&self) {
        let mut free = self.free();
        while free.len() < RESERVED {
            let copy = self.0.pattern.as_ref().map(Socket::try_clone);
            let Some(Ok(copy)) = copy else { return };
            free.push(copy.into());
        }
    }
}
