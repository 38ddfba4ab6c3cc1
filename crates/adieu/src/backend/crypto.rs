//! The cryptography that TLS is done with.

#[cfg(feature = "nats")]
use async_nats::rustls::crypto::{CryptoProvider, ring};
#[cfg(not(feature = "nats"))]
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

/// The clients of NATS and Redis ask rustls for the choice of the process, and panic if there is none and several are
/// possible. A choice that the program has made stays.
pub(super) fn install_default() {
    if CryptoProvider::get_default().is_none() {
        // Fails only if another thread has just done it.
        let _ = ring::default_provider().install_default();
    }
}
