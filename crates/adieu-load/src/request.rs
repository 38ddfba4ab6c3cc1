//! What an HTTP client asks for.

use std::fmt::Write;

/// A request, sent again and again.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, as a rule.
    pub method: String,
    /// With its query: `/slow?ms=100`.
    pub path: String,
    /// Whom the request is for.
    pub host: String,
    /// Names and values besides the host and what frames the body.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: Vec<u8>,
}

impl Request {
    /// Asks for this path.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.into(),
            host: "localhost".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// This request for another path.
    #[must_use]
    pub fn at(&self, path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            ..self.clone()
        }
    }

    /// The head, to its empty line.
    #[must_use]
    pub fn head(&self, last: bool) -> String {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\n",
            self.method, self.path, self.host
        );
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let has_length = self
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        if !has_length && (!self.body.is_empty() || !matches!(&*self.method, "GET" | "HEAD")) {
            let _ = write!(head, "content-length: {}\r\n", self.body.len());
        }
        if last {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        head
    }

    /// All of it as HTTP/1.1; `last` says that the connection will not be used again.
    #[must_use]
    pub fn bytes(&self, last: bool) -> Vec<u8> {
        let mut bytes = self.head(last).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
