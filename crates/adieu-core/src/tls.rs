//! What goes wrong with TLS, told from what goes wrong otherwise: a server that is away comes back, one that is not
//! believed has to be looked at by a person.

use std::error::Error;
use std::io;
use std::sync::Arc;

/// Whether the two could not agree on TLS. rustls says so in an I/O error of a kind that no socket has.
#[must_use]
pub fn is_tls_error(error: &(dyn Error + 'static)) -> bool {
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
#[must_use]
pub fn advice(what: &str) -> String {
    format!(
        "TLS handshake with {what} failed: check that TLS is enabled on the server, that its certificate matches the host \
         name in the address, and that its CA is trusted by this system or given with `sslrootcert=FILE` in the address"
    )
}

/// Some clients ask rustls for the crypto provider of the process, and panic if there is none and several are possible. A
/// choice that the program has made stays.
#[cfg(feature = "tls")]
pub fn install_default_provider() {
    use rustls::crypto::{CryptoProvider, ring};
    if CryptoProvider::get_default().is_none() {
        // Fails only if another thread has just done it.
        let _ = ring::default_provider().install_default();
    }
}
