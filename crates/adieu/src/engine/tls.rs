//! What goes wrong with TLS, told from what goes wrong otherwise: a server that is away comes back, one that is not
//! believed has to be looked at by a person.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// Whether the two could not agree on TLS. rustls says so in an I/O error of a kind that no socket has.
pub(super) fn is_the_trouble(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        // Redis shares its causes, and so hides them.
        let shared = error.downcast_ref::<Arc<dyn Error + Send + Sync>>();
        let io = match shared {
            Some(shared) => shared.downcast_ref(),
            None => error.downcast_ref(),
        };
        if io.is_some_and(|error: &io::Error| error.kind() == io::ErrorKind::InvalidData) {
            return true;
        }
        next = error.source();
    }
    false
}

/// What to say about it, and what to do.
pub(super) fn advice(what: &str) -> String {
    format!(
        "{what} and we do not agree on TLS: see that it is turned on there, that its certificate is for the name in the \
         address, and that who signed it is known to this system or named by `sslrootcert=FILE` in the address"
    )
}
