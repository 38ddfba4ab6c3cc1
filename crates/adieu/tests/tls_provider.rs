//! Without a crypto provider of its own the library takes the one that the program has installed.
//!
//! A binary of its own: a process has one provider.
#![cfg(all(feature = "axum", feature = "tls-no-provider", unix))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use adieu::net::rustls;
use adieu::net::rustls::crypto::{CryptoProvider, KeyProvider};
use adieu::net::rustls::pki_types::PrivateKeyDer;
use adieu::net::rustls::sign::SigningKey;
use axum::Router;
use tokio_rustls::rustls::crypto::ring;

/// ring's keys, counted.
#[derive(Debug)]
struct Counted;

static LOADED: AtomicUsize = AtomicUsize::new(0);

impl KeyProvider for Counted {
    fn load_private_key(
        &self,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        LOADED.fetch_add(1, Relaxed);
        ring::default_provider().key_provider.load_private_key(key)
    }
}

async fn stopped(certificate: &std::path::Path, key: &std::path::Path) -> Result<(), String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let served = adieu::serve(listener, Router::new())
        .tls(certificate, key)
        .with_graceful_shutdown(async {});
    served.await.map(drop).map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", cause.unwrap_or_default())
    })
}

#[tokio::test]
async fn the_provider_of_the_program_is_taken_and_without_one_it_is_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let without = stopped(&certificate, &key).await;
    if cfg!(feature = "tls") {
        assert_eq!(without, Ok(()), "ring is built in");
    } else {
        let why = without.expect_err("there is none");
        assert!(why.contains("CryptoProvider::install_default"), "{why}");
        assert!(why.contains("`tls`"), "{why}");
    }
    let provider = CryptoProvider {
        key_provider: &Counted,
        ..ring::default_provider()
    };
    provider.install_default().expect("the first one");
    assert_eq!(stopped(&certificate, &key).await, Ok(()));
    assert_eq!(LOADED.load(Relaxed), 1, "another provider was taken");
}
