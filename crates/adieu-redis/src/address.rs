//! Where a Redis is.

use adieu_core::address::{self, AddressError};
use adieu_core::tls;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, RedisError};

pub(crate) struct RedisAddress {
    pub(crate) client: Client,
    /// Which server this is, without its secrets.
    pub(crate) what: String,
}

impl RedisAddress {
    /// Dropped, it has done nothing.
    pub(crate) async fn read(url: &str) -> Result<Self, AddressError> {
        // The error of the parser may quote what it could not read, and the password is in there.
        let unread = |_: RedisError| {
            let encrypted = ["rediss:", "valkeys:"];
            if !cfg!(feature = "tls") && encrypted.iter().any(|scheme| url.starts_with(scheme)) {
                return AddressError {
                    what: "the address of Redis asks for TLS".to_owned(),
                    how: "this program was built without it: use the feature `tls` of adieu"
                        .to_owned(),
                };
            }
            AddressError::invalid("Redis", "redis://user:password@host:6379/0")
        };
        let (plain, authority) = address::authority(url).await?;
        let info = plain.into_connection_info().map_err(unread)?;
        let what = match info.addr() {
            ConnectionAddr::Tcp(host, port) => format!("Redis at {host}:{port}"),
            ConnectionAddr::TcpTls { host, port, .. } => format!("Redis at {host}:{port}"),
            other => format!("Redis at {other}"),
        };
        #[cfg(feature = "tls")]
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            tls::install_default_provider();
        }
        let client = match authority {
            None => Client::open(info).map_err(unread)?,
            #[cfg(feature = "tls")]
            Some((file, pem)) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
                let certificates = redis::TlsCertificates {
                    client_tls: None,
                    root_cert: Some(pem.into_bytes()),
                };
                let built = Client::build_with_tls(info, certificates);
                built.map_err(|error| address::invalid_authority(&file, error))?
            }
            Some(_) => {
                return Err(AddressError {
                    what: format!(
                        "the address of {what} names a certificate authority and is not encrypted"
                    ),
                    how: "begin it with rediss://".to_owned(),
                });
            }
        };
        Ok(Self { client, what })
    }
}

/// What to say if TLS is the trouble.
pub(crate) fn about_tls(what: &str, error: &RedisError) -> Option<String> {
    tls::is_tls_error(error).then(|| tls::advice(what))
}
