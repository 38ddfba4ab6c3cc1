//! Where a PostgreSQL is.

use adieu_core::address::{self, AddressError};
use adieu_core::tls;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

pub(crate) struct PostgresAddress {
    pub(crate) options: PgConnectOptions,
    /// Which server this is, without its secrets.
    pub(crate) what: String,
}

impl PostgresAddress {
    /// Dropped, it has done nothing.
    pub(crate) async fn read(url: &str) -> Result<Self, AddressError> {
        // The error of the parser may quote what it could not read, and the password is in there.
        let read: Result<PgConnectOptions, _> = url.parse();
        let mut options = read.map_err(|_| {
            let example = "postgres://user:password@host:5432/database";
            AddressError::invalid("PostgreSQL", example)
        })?;
        let (_, authority) = address::authority(url).await?;
        // As with other clients of PostgreSQL: who names an authority wants it asked.
        if authority.is_some() && matches!(options.get_ssl_mode(), PgSslMode::Require) {
            options = options.ssl_mode(PgSslMode::VerifyCa);
        }
        let what = format!(
            "PostgreSQL at {}:{}",
            options.get_host(),
            options.get_port()
        );
        Ok(Self { options, what })
    }
}

/// What to say if TLS is the trouble.
pub(crate) fn about_tls(what: &str, error: &sqlx::Error) -> Option<String> {
    let tls = matches!(error, sqlx::Error::Tls(_));
    if tls && !cfg!(feature = "tls") {
        return Some(format!(
            "{what} is asked for TLS, which this program was built without: use the feature `tls` of adieu"
        ));
    }
    (tls || tls::is_tls_error(error)).then(|| tls::advice(what))
}
