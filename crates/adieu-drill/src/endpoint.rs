//! Where a program is spoken to.

use std::net::{SocketAddr, ToSocketAddrs};

use adieu_load::{Request, Target};

/// An address without placeholders, and what is asked there.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    target: Target,
    /// What is asked for again and again; none for a server that does not speak HTTP.
    request: Option<Request>,
    pub(crate) tls: bool,
}

impl Endpoint {
    /// `http://host:port/path` or `https://…`.
    ///
    /// # Errors
    ///
    /// With a sentence, if it is not such a URL, or its host name has no address.
    pub(crate) fn parse_url(url: &str) -> Result<Self, String> {
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => {
                return Err(format!(
                    "`{url}` is not a URL: it begins with http:// or https://"
                ));
            }
        };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if authority.contains('@') {
            return Err(
                "a URL with a user name or a password: send them with --header instead".to_owned(),
            );
        }
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let with_port = match authority.rsplit_once(':') {
            Some((_, port)) if !port.is_empty() && !port.contains(']') => authority.to_owned(),
            _ => format!("{authority}:{}", if tls { 443 } else { 80 }),
        };
        let mut endpoint = Self::parse_tcp(&with_port, tls)?;
        endpoint.request = Some(Request {
            host: authority.to_owned(),
            ..Request::get(path)
        });
        Ok(endpoint)
    }

    /// `host:port`.
    ///
    /// # Errors
    ///
    /// With a sentence, if it is not one, or its host name has no address.
    pub(crate) fn parse_tcp(text: &str, tls: bool) -> Result<Self, String> {
        let unknown = |why: String| {
            format!("invalid address `{text}`, expected one as in 127.0.0.1:8080: {why}")
        };
        let found = text
            .to_socket_addrs()
            .map_err(|error| unknown(error.to_string()))?;
        let found: Vec<SocketAddr> = found.collect();
        // A name that has both is as a rule `localhost`, and most programs listen on the old one.
        let address = found
            .iter()
            .find(|address| address.is_ipv4())
            .or(found.first());
        let address = *address.ok_or_else(|| unknown("the host name has no address".to_owned()))?;
        let mut target = Target::tcp(address);
        if tls {
            let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
            let host = host.trim_matches(['[', ']']);
            target = target
                .tls_unverified(host)
                .map_err(|error| unknown(error.to_string()))?;
        }
        Ok(Self {
            address,
            target,
            request: None,
            tls,
        })
    }

    pub(crate) const fn is_http(&self) -> bool {
        self.request.is_some()
    }

    /// To connect to it and speak HTTP/1.1, or whatever it speaks.
    pub(crate) fn target(&self) -> Target {
        self.plain().offering(b"http/1.1")
    }

    pub(crate) fn plain(&self) -> Target {
        self.target.clone()
    }

    /// What is asked for again and again.
    pub(crate) fn request(&self) -> Request {
        self.request.clone().unwrap_or_else(|| Request::get("/"))
    }

    pub(crate) fn with_request(mut self, change: impl FnOnce(&mut Request)) -> Self {
        if let Some(request) = &mut self.request {
            change(request);
        }
        self
    }

    /// Another path on this server; or another server, if it is a whole URL. A method may stand before the path,
    /// and then the body of the drill goes with it: `POST /orders?ms=100`.
    ///
    /// # Errors
    ///
    /// As [`Endpoint::parse_url`].
    pub(crate) fn at(&self, path: &str) -> Result<Self, String> {
        if path.contains("://") {
            return Self::parse_url(path);
        }
        let is_method =
            |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase());
        let method = path.split_once(' ').map(|(word, _)| word).filter(is_method);
        let path = method.map_or(path, |method| path[method.len()..].trim_start());
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/{path}")
        };
        let body = if method.is_some() {
            self.request().body
        } else {
            Vec::new()
        };
        Ok(Self {
            request: Some(Request {
                // A probe asks with GET whatever the drill sends otherwise.
                method: method.unwrap_or("GET").to_owned(),
                body,
                ..self.request().at(path)
            }),
            ..self.clone()
        })
    }
}

/// Whether headers and a method can stand in a request.
pub(crate) fn check_request(
    headers: &[(String, String)],
    method: Option<&str>,
) -> Result<(), String> {
    for (name, value) in headers {
        let good = |text: &str| !text.contains(['\r', '\n']);
        if name.is_empty() || name.contains([':', ' ']) || !good(name) || !good(value) {
            return Err(
                "a header has a name without spaces, a colon, and a value in one line".to_owned(),
            );
        }
    }
    let is_token = |text: &str| {
        text.chars()
            .all(|it| it.is_ascii_alphanumeric() || "-_".contains(it))
    };
    if let Some(method) = method
        && (method.is_empty() || !is_token(method))
    {
        return Err(format!(
            "invalid method `{method}`, expected one as in GET or POST"
        ));
    }
    Ok(())
}

/// A path is one word in the first line of a request.
pub(crate) fn sendable(endpoint: &Endpoint, option: &str) -> Result<(), String> {
    let is_torn = |it: char| it.is_whitespace() || it.is_control();
    if endpoint.request().path.contains(is_torn) {
        return Err(format!(
            "{option}: the path has characters that a URL cannot have: write them as %20 and so on"
        ));
    }
    Ok(())
}

/// What a request is called in a report: its method and path. What follows the path may be a secret.
pub(crate) fn label(request: &Request) -> String {
    format!("{} {}", request.method, without_query(&request.path))
}

/// A path or a URL as it is shown.
pub(crate) fn without_query(path: &str) -> &str {
    path.split('?').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_address_and_a_request() {
        let endpoint = Endpoint::parse_url("http://127.0.0.1:8080/a?b=c#d").expect("a URL");
        assert_eq!(endpoint.address.to_string(), "127.0.0.1:8080");
        assert_eq!(endpoint.request().path, "/a?b=c");
        assert_eq!(endpoint.request().host, "127.0.0.1:8080");
        let bare = Endpoint::parse_url("http://[::1]:81").expect("a URL");
        assert_eq!(
            (bare.address.port(), bare.request().path.as_str()),
            (81, "/")
        );
        let elsewhere = endpoint.at("http://127.0.0.1:9/ready").expect("a URL");
        assert_eq!(
            (elsewhere.address.port(), elsewhere.request().path.as_str()),
            (9, "/ready")
        );
    }

    #[test]
    fn a_method_may_stand_before_a_path() {
        let endpoint = Endpoint::parse_url("http://127.0.0.1:8080/").expect("a URL");
        let endpoint = endpoint.with_request(|request| request.body = b"tea".to_vec());
        let post = endpoint.at("POST /orders?ms=1").expect("a path").request();
        assert_eq!(
            (&*post.method, &*post.path, &*post.body),
            ("POST", "/orders?ms=1", &b"tea"[..])
        );
        let get = endpoint.at("/a b").expect("a path").request();
        assert_eq!(
            (&*get.method, &*get.path, get.body.len()),
            ("GET", "/a b", 0)
        );
    }

    #[test]
    fn what_is_no_url_is_said_without_its_secrets() {
        for (url, words) in [
            ("127.0.0.1:80", "is not a URL"),
            ("http://127.0.0.1:http/", "invalid address"),
            ("http://me:secret@127.0.0.1/", "--header"),
        ] {
            let error = Endpoint::parse_url(url).expect_err(url);
            assert!(
                error.contains(words) && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
