//! What the address of the database says about it.

use std::fmt;

use adieu::BoxError;

/// A database by its address.
pub(crate) struct Database {
    url: String,
}

impl Database {
    pub(crate) fn at(mut url: String) -> Self {
        if url.starts_with("sqlite:") && !url.contains('?') {
            // The file is made if it is missing.
            url.push_str("?mode=rwc");
        }
        Self { url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        let path = self.url.trim_start_matches("sqlite:");
        let path = path.trim_start_matches("//").split('?').next();
        // Without a name it is a file of each connection's own, which is gone with it.
        let has_no_name = path.is_none_or(str::is_empty);
        self.is_sqlite()
            && (has_no_name || self.url.contains(":memory:") || self.url.contains("mode=memory"))
    }

    /// The type of a key that counts up.
    pub(crate) fn key(&self) -> &'static str {
        if self.is_sqlite() {
            "INTEGER PRIMARY KEY"
        } else {
            "BIGSERIAL PRIMARY KEY"
        }
    }

    /// How a transaction that writes begins. SQLite has one writer at a time: a transaction that asks for the lock at once
    /// waits for it, and one that asks after a read may be refused without waiting.
    pub(crate) fn begin(&self) -> &'static str {
        if self.is_sqlite() {
            "BEGIN IMMEDIATE"
        } else {
            "BEGIN"
        }
    }

    pub(crate) fn unreachable(&self, cause: BoxError) -> Unreachable {
        let advice = if self.is_sqlite() {
            "can the file be made and written there?"
        } else if self.url.starts_with("postgres") {
            "is the server up?"
        } else {
            "an address begins with sqlite: or postgres:"
        };
        Unreachable {
            address: without_secrets(&self.url),
            advice,
            cause,
        }
    }
}

/// The address without the user and the password, for a log that others read.
fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.split_once('?').map_or(host, |(host, _)| host);
    format!("{scheme}://{host}")
}

/// The database cannot be used; the cause says why.
#[derive(Debug)]
pub(crate) struct Unreachable {
    address: String,
    advice: &'static str,
    cause: BoxError,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address, advice, ..
        } = self;
        write!(
            f,
            "no connection to {address} ({advice} --database or DATABASE_URL names another)"
        )
    }
}

impl std::error::Error for Unreachable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_tells_no_password() {
        for (url, shown) in [
            (
                "postgres://me:pass@db:5432/orders",
                "postgres://db:5432/orders",
            ),
            ("postgres://db/orders?password=pass", "postgres://db/orders"),
            ("postgres://me:p@ss@db/orders", "postgres://db/orders"),
            ("sqlite::memory:", "sqlite::memory:"),
        ] {
            assert_eq!(without_secrets(url), shown);
        }
    }

    #[test]
    fn a_database_in_memory_is_known_by_either_way_to_ask_for_it() {
        for (url, in_memory) in [
            ("sqlite::memory:", true),
            ("sqlite://orders?mode=memory", true),
            ("sqlite://", true),
            ("sqlite:", true),
            ("sqlite://orders.db", false),
            ("postgres://localhost/memory", false),
        ] {
            assert_eq!(
                Database::at(url.to_owned()).is_in_memory(),
                in_memory,
                "{url}"
            );
        }
    }
}
