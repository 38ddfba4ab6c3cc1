//! The head of a request on its way to the command, and that of a response on its way back: pure.
//!
//! What belongs to one connection stays on it, and what the command is to believe of the client comes from us.

use std::net::SocketAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Uri};
use http::{Method, Version, response};

use super::HeaderPolicy;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// What concerns one connection, by RFC 9110 section 7.6.1, and what is meant for a proxy.
const OF_ONE_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// CONNECT, which asks for a tunnel to anywhere.
    Tunnel,
    /// No host, more than one, or one that is none.
    Host,
}

/// Whether the client asks for a WebSocket. Other protocols are not offered to the command: a tunnel of HTTP/2 would carry
/// requests past these rules.
pub(super) fn asks_for_websocket(parts: &Parts) -> bool {
    parts.version == Version::HTTP_11
        && parts.method == Method::GET
        && has_token(&parts.headers, &CONNECTION, "upgrade")
        && has_token(&parts.headers, &UPGRADE, "websocket")
}

/// Whether the client waits for a word before it sends its body.
pub(super) fn waits_for_continue(headers: &HeaderMap) -> bool {
    let expected = headers.get(EXPECT);
    expected.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Makes a request of the client one of ours to the command.
pub(super) fn to_command(
    parts: &mut Parts,
    peer: Option<SocketAddr>,
    policy: HeaderPolicy,
) -> Result<(), Unfit> {
    if parts.method == Method::CONNECT {
        return Err(Unfit::Tunnel);
    }
    let websocket = asks_for_websocket(parts);
    let takes_trailers = has_token(&parts.headers, &TE, "trailers");
    let host = host_of(parts)?;
    remove_of_one_connection(&mut parts.headers);
    if parts.version == Version::HTTP_2 {
        join_cookies(&mut parts.headers);
    }
    parts.uri = origin_form(&parts.uri);
    parts.version = Version::HTTP_11;
    policy.apply(&mut parts.headers, peer, host.as_ref());
    // A client of HTTP/1.0 needs none, and a server of HTTP/1.1 must have one.
    let host = host.unwrap_or_else(|| HeaderValue::from_static("localhost"));
    parts.headers.insert(HOST, host);
    if takes_trailers {
        let trailers = HeaderValue::from_static("trailers");
        parts.headers.insert(TE, trailers);
    }
    if websocket {
        switch_to_websocket(&mut parts.headers);
    }
    Ok(())
}

/// Makes a response of the command one of ours to the client.
pub(super) fn to_client(parts: &mut response::Parts, websocket: bool) {
    remove_of_one_connection(&mut parts.headers);
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    if websocket {
        switch_to_websocket(&mut parts.headers);
    }
}

fn switch_to_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
}

/// The host that the client has asked for. That of an absolute target wins, by RFC 9112 section 3.2.2. `None` for a client of
/// HTTP/1.0 that names none.
fn host_of(parts: &Parts) -> Result<Option<HeaderValue>, Unfit> {
    let mut named = parts.headers.get_all(HOST).iter();
    let first = named.next();
    if named.next().is_some() {
        return Err(Unfit::Host);
    }
    if let Some(authority) = parts.uri.authority() {
        let host = authority.as_str();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        return HeaderValue::from_str(host)
            .map(Some)
            .map_err(|_| Unfit::Host);
    }
    match first {
        // It may be empty, by the same section.
        Some(host) if host.is_empty() || is_authority(host) => Ok(Some(host.clone())),
        None if parts.version < Version::HTTP_11 => Ok(None),
        _ => Err(Unfit::Host),
    }
}

fn is_authority(host: &HeaderValue) -> bool {
    let text = host.to_str().unwrap_or_default();
    text.parse::<Authority>().is_ok() && !text.contains('@')
}

fn origin_form(uri: &Uri) -> Uri {
    let target = uri.path_and_query().cloned();
    let target = target.unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::from(target)
}

/// Of the two ways to say how long a body is, the one that counted is gone: the body knows.
fn remove_of_one_connection(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|name| name.parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in &OF_ONE_CONNECTION {
        headers.remove(name);
    }
}

/// A client of HTTP/2 may send each cookie in a field of its own; HTTP/1.1 has one.
fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let Some(first) = crumbs.next() else {
        return;
    };
    let mut all = first.as_bytes().to_vec();
    let before = all.len();
    for crumb in crumbs {
        all.extend_from_slice(b"; ");
        all.extend_from_slice(crumb.as_bytes());
    }
    if all.len() > before
        && let Ok(joined) = HeaderValue::from_bytes(&all)
    {
        headers.insert(COOKIE, joined);
    }
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|token| token.split(';').next().unwrap_or_default().trim())
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    tokens(headers, name).any(|it| it.eq_ignore_ascii_case(token))
}

impl HeaderPolicy {
    /// Tells the command of the client. What the client says of itself is removed, in every spelling that a server takes for
    /// the same: CGI variables have no hyphens.
    fn apply(self, headers: &mut HeaderMap, peer: Option<SocketAddr>, host: Option<&HeaderValue>) {
        if self == Self::Keep {
            return;
        }
        let claims: Vec<HeaderName> = headers.keys().filter(|it| is_claim(it)).cloned().collect();
        for name in claims {
            headers.remove(name);
        }
        match self {
            Self::XForwarded => {
                let peer = peer.map(|peer| peer.ip().to_canonical().to_string());
                if let Some(peer) = peer.and_then(|it| HeaderValue::from_str(&it).ok()) {
                    headers.insert(X_FORWARDED_FOR, peer);
                }
                if let Some(host) = host {
                    headers.insert(X_FORWARDED_HOST, host.clone());
                }
                headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
            }
            Self::Forwarded => {
                let said = forwarded(peer, host);
                if let Ok(said) = HeaderValue::from_str(&said) {
                    headers.insert(FORWARDED, said);
                }
            }
            Self::Keep => {}
        }
    }
}

fn is_claim(name: &HeaderName) -> bool {
    let name = name.as_str().replace('_', "-");
    name == "forwarded" || name == "x-real-ip" || name.starts_with("x-forwarded-")
}

/// As in RFC 7239. A client of a Unix socket has no address.
fn forwarded(peer: Option<SocketAddr>, host: Option<&HeaderValue>) -> String {
    let node = match peer.map(|peer| peer.ip().to_canonical()) {
        Some(std::net::IpAddr::V6(ip)) => format!("\"[{ip}]\""),
        Some(ip) => ip.to_string(),
        None => "unknown".to_owned(),
    };
    let mut said = format!("for={node}");
    // It is an authority: it has no quotation marks.
    if let Some(host) = host.and_then(|host| host.to_str().ok()) {
        said.push_str(&format!(";host=\"{host}\""));
    }
    said.push_str(";proto=http");
    said
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(version: Version, target: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().version(version).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn peer() -> Option<SocketAddr> {
        "192.0.2.7:4711".parse().ok()
    }

    fn forwarded_by(policy: HeaderPolicy, fields: &[(&str, &str)]) -> Vec<String> {
        let mut parts = parts(Version::HTTP_11, "/", fields);
        to_command(&mut parts, peer(), policy).unwrap();
        let mut all: Vec<String> = (parts.headers.iter())
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn what_belongs_to_a_connection_stays_on_it() {
        let fields = [
            ("host", "shop"),
            ("connection", "close, x-hop"),
            ("connection", "keep-alive"),
            ("keep-alive", "timeout=5"),
            ("x-hop", "1"),
            ("proxy-authorization", "secret"),
            ("te", "gzip;q=0.5, trailers;q=1"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
        ];
        assert_eq!(
            forwarded_by(HeaderPolicy::Keep, &fields),
            ["accept: */*", "host: shop", "te: trailers"]
        );
    }

    #[test]
    fn what_a_client_claims_is_not_believed() {
        let fields = [
            ("host", "shop"),
            ("x-forwarded-for", "10.0.0.1"),
            ("X_Forwarded_For", "10.0.0.1"),
            ("x-forwarded-prefix", "/admin"),
            ("x_real_ip", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
        ];
        assert_eq!(
            forwarded_by(HeaderPolicy::XForwarded, &fields),
            [
                "host: shop",
                "x-forwarded-for: 192.0.2.7",
                "x-forwarded-host: shop",
                "x-forwarded-proto: http",
            ]
        );
        assert_eq!(
            forwarded_by(HeaderPolicy::Forwarded, &fields),
            [
                "forwarded: for=192.0.2.7;host=\"shop\";proto=http",
                "host: shop"
            ]
        );
        assert_eq!(
            forwarded_by(HeaderPolicy::Keep, &fields).len(),
            fields.len()
        );
        // A field that is named in Connection is removed, and ours is set after that.
        let named = [("host", "shop"), ("connection", "x-forwarded-for, host")];
        assert_eq!(forwarded_by(HeaderPolicy::XForwarded, &named).len(), 4);
    }

    #[test]
    fn an_ipv6_client_is_named_as_the_rfc_says() {
        let mapped = "[::ffff:192.0.2.7]:1".parse().ok();
        assert_eq!(forwarded(mapped, None), "for=192.0.2.7;proto=http");
        let peer = "[2001:db8::1]:1".parse().ok();
        assert_eq!(forwarded(peer, None), "for=\"[2001:db8::1]\";proto=http");
        assert_eq!(forwarded(None, None), "for=unknown;proto=http");
    }

    #[test]
    fn one_host_goes_to_the_command() {
        let host = |version, target, fields: &[(&str, &str)]| {
            let mut parts = parts(version, target, fields);
            let result = to_command(&mut parts, None, HeaderPolicy::Keep);
            result.map(|()| {
                let host = parts.headers[HOST].to_str().unwrap().to_owned();
                (host, parts.uri.to_string())
            })
        };
        let is = |host: &str, target: &str| Ok((host.to_owned(), target.to_owned()));
        let (v10, v11, v2) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        assert_eq!(
            host(v11, "/a?b", &[("host", "shop:80")]),
            is("shop:80", "/a?b")
        );
        assert_eq!(host(v11, "/", &[("host", "[::1]:80")]), is("[::1]:80", "/"));
        assert_eq!(host(v11, "/", &[("host", "")]), is("", "/"));
        assert_eq!(host(v11, "http://a/b", &[("host", "c")]), is("a", "/b"));
        assert_eq!(host(v2, "http://me:pw@a/b", &[]), is("a", "/b"));
        assert_eq!(host(v10, "/", &[]), is("localhost", "/"));
        assert_eq!(host(v11, "/", &[]), Err(Unfit::Host));
        assert_eq!(
            host(v11, "/", &[("host", "a"), ("host", "b")]),
            Err(Unfit::Host)
        );
        assert_eq!(host(v11, "/", &[("host", "a\"b")]), Err(Unfit::Host));
        assert_eq!(host(v11, "/", &[("host", "me@a")]), Err(Unfit::Host));
    }

    #[test]
    fn cookies_of_http_2_are_one_field() {
        let crumbs = [("cookie", "a=1"), ("cookie", "b=2")];
        let mut parts = parts(Version::HTTP_2, "http://shop/", &crumbs);
        to_command(&mut parts, None, HeaderPolicy::Keep).unwrap();
        let cookies: Vec<_> = parts.headers.get_all(COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1; b=2"]);
    }

    #[test]
    fn a_websocket_is_asked_for_and_no_other_protocol() {
        let ask = |protocol: &str| {
            let fields = [
                ("host", "shop"),
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", protocol),
            ];
            let mut parts = parts(Version::HTTP_11, "/", &fields);
            let asked = asks_for_websocket(&parts);
            to_command(&mut parts, None, HeaderPolicy::Keep).unwrap();
            assert_eq!(parts.headers.contains_key(UPGRADE), asked);
            assert_eq!(parts.headers.contains_key(CONNECTION), asked);
            asked
        };
        assert!(ask("WebSocket"));
        assert!(!ask("h2c"));
        let mut connect = parts(Version::HTTP_11, "shop:443", &[("host", "shop:443")]);
        connect.method = Method::CONNECT;
        let refused = to_command(&mut connect, None, HeaderPolicy::Keep);
        assert_eq!(refused, Err(Unfit::Tunnel));
    }

    #[test]
    fn one_length_is_left() {
        let fields = [
            ("host", "shop"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
        ];
        assert_eq!(forwarded_by(HeaderPolicy::Keep, &fields), ["host: shop"]);
    }
}
