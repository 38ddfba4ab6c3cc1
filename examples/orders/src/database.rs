//! What the address of the database says about it.

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
        self.is_sqlite() && (self.url.contains(":memory:") || self.url.contains("mode=memory"))
    }

    /// The type of a key that counts up.
    pub(crate) fn key(&self) -> &'static str {
        if self.is_sqlite() {
            "INTEGER PRIMARY KEY"
        } else {
            "BIGSERIAL PRIMARY KEY"
        }
    }

    /// How a transaction that writes begins. SQLite has one writer at a time: whoever asks for the lock at once waits
    /// for it, and whoever asks after a read may be refused without waiting.
    pub(crate) fn begin(&self) -> &'static str {
        if self.is_sqlite() {
            "BEGIN IMMEDIATE"
        } else {
            "BEGIN"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_in_memory_is_known_by_either_way_to_ask_for_it() {
        for (url, in_memory) in [
            ("sqlite::memory:", true),
            ("sqlite://orders?mode=memory", true),
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
