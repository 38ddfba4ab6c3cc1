//! Why a connection is closed before its first byte belongs to the protocol, for log and report.

use std::borrow::Cow;
use std::io;

use super::proxy_header::Malformed;

/// Why a connection is closed before its first byte is handled.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Its source is neither trusted nor direct.
    Untrusted,
    /// It does not begin with a header, and why.
    Malformed(&'static str),
    /// The TLS handshake has failed, and why; `is_ours` if the server had no part of it to give.
    #[cfg(feature = "tls-no-provider")]
    Tls { why: String, is_ours: bool },
    /// The other end has gone.
    Gone,
}

impl Refusal {
    /// In words, after "connection"; `None` if there is nothing to say.
    pub(crate) const fn state(&self) -> Option<&'static str> {
        match self {
            Self::Untrusted => Some("from a source that is not trusted with the PROXY protocol"),
            Self::Malformed(_) => Some("with a malformed PROXY header"),
            #[cfg(feature = "tls-no-provider")]
            Self::Tls { .. } => Some("whose TLS handshake has failed"),
            Self::Gone => None,
        }
    }

    /// Whether an operator can do something about it. Clients whose handshakes fail come to every public port.
    pub(crate) const fn is_warning(&self) -> bool {
        match self {
            Self::Untrusted | Self::Malformed(_) => true,
            #[cfg(feature = "tls-no-provider")]
            Self::Tls { is_ours, .. } => *is_ours,
            Self::Gone => false,
        }
    }

    /// For the log.
    pub(crate) fn reason(&self) -> Cow<'static, str> {
        match self {
            Self::Untrusted => {
                "its source is neither trusted nor direct: name it in `ProxyProtocol` if it should be".into()
            }
            Self::Malformed(why) => (*why).into(),
            #[cfg(feature = "tls-no-provider")]
            Self::Tls { why, is_ours: true } => {
                format!("{why}: the TLS configuration has no certificate for the name that the client asks for, or none at all").into()
            }
            #[cfg(feature = "tls-no-provider")]
            Self::Tls { why, .. } => why.clone().into(),
            Self::Gone => "the client has gone".into(),
        }
    }

    /// Of a TLS handshake.
    #[cfg(feature = "tls-no-provider")]
    pub(super) fn of_handshake(error: &io::Error) -> Self {
        use tokio_rustls::rustls;

        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        match cause {
            None => Self::Gone,
            Some(cause) => Self::Tls {
                why: crate::util::printable::bounded(rustls::Error::to_string(cause)),
                // What rustls says where the resolver has found no certificate.
                is_ours: matches!(cause, rustls::Error::General(_)),
            },
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

impl From<io::Error> for Refusal {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}
