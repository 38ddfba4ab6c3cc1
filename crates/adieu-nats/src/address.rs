//! Where a NATS server is.

use adieu_core::address::{self, AddressError, decoded};
use adieu_core::tls;
use async_nats::{ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};

pub(crate) struct NatsAddress {
    pub(crate) address: ServerAddr,
    /// With what the address says of who we are and whom we believe: the client does not look there by itself.
    pub(crate) options: ConnectOptions,
    /// Which server this is, without its secrets.
    pub(crate) what: String,
}

impl NatsAddress {
    /// Dropped, it has done nothing.
    pub(crate) async fn read(url: &str) -> Result<Self, AddressError> {
        let (plain, authority) = address::authority(url).await?;
        // The error of the parser may quote what it could not read, and the password is in there.
        let address: ServerAddr = plain
            .parse()
            .map_err(|_| AddressError::invalid("NATS", "nats://user:password@host:4222"))?;
        let what = format!("NATS at {}:{}", address.host(), address.port());
        let mut options = match (address.username(), address.password()) {
            (Some(user), Some(password)) => {
                ConnectOptions::with_user_and_password(decoded(user), decoded(password))
            }
            (Some(token), None) => ConnectOptions::with_token(decoded(token)),
            (None, _) => ConnectOptions::new(),
        };
        // Also without `tls://`: the server may ask for it.
        tls::install_default_provider();
        if let Some((file, _)) = authority {
            // Who names an authority wants it asked.
            options = options.add_root_certificates(file.into()).require_tls(true);
        }
        Ok(Self {
            address,
            options,
            what,
        })
    }
}

/// What to say if TLS is the trouble.
pub(crate) fn about_tls(what: &str, error: &ConnectError) -> Option<String> {
    let tls = error.kind() == ConnectErrorKind::Tls || tls::is_tls_error(error);
    tls.then(|| tls::advice(what))
}
