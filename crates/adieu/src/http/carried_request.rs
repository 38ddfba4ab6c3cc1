//! A request that a route of the new process sees again, between its form in a message and its form here.

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Uri};

use crate::error::BoxError;
use crate::net::CarriedRequest;

/// Each byte as a character: values need not be UTF-8.
pub(super) fn text(value: &HeaderValue) -> String {
    value.as_bytes().iter().copied().map(char::from).collect()
}

/// The request as it is kept, with the target that its client has asked for.
pub(super) fn remember(target: String, headers: &HeaderMap) -> CarriedRequest {
    CarriedRequest {
        target,
        headers: (headers.iter())
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        protocol: None,
    }
}

/// Its header fields. An error if a message has brought what cannot be one.
pub(super) fn fields(
    request: &CarriedRequest,
) -> impl Iterator<Item = Result<(HeaderName, HeaderValue), BoxError>> {
    request.headers.iter().map(|(name, value)| {
        let value: Vec<u8> = value.chars().map(u8::try_from).collect::<Result<_, _>>()?;
        let name = HeaderName::from_bytes(name.as_bytes())?;
        Ok((name, HeaderValue::from_bytes(&value)?))
    })
}

/// Its head, as the client may have written it: a GET.
pub(super) fn head(request: &CarriedRequest) -> Result<Vec<u8>, BoxError> {
    let target: Uri = request.target.parse()?;
    let mut head = format!("GET {target} HTTP/1.1\r\n").into_bytes();
    for field in fields(request) {
        let (name, value) = field?;
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_what_was_remembered() {
        let mut headers = HeaderMap::new();
        headers.append("accept", HeaderValue::from_static("text/event-stream"));
        let latin = HeaderValue::from_bytes(b"caf\xe9").expect("a value");
        headers.append("cookie", latin);
        let request = remember("/ticks?from=3".to_owned(), &headers);
        let head = head(&request).expect("a head");
        let expected =
            b"GET /ticks?from=3 HTTP/1.1\r\naccept: text/event-stream\r\ncookie: caf\xe9\r\n\r\n";
        assert_eq!(head, expected);
    }

    #[test]
    fn what_is_no_head_is_an_error() {
        let with = |target: &str, name: &str, value: &str| CarriedRequest {
            target: target.to_owned(),
            headers: vec![(name.to_owned(), value.to_owned())],
            protocol: None,
        };
        for request in [
            with("/ a", "accept", "x"),
            with("/", "acc ept", "x"),
            with("/", "accept", "x\r\ny: z"),
            with("/", "accept", "\u{20ac}"),
        ] {
            assert!(head(&request).is_err(), "{request:?}");
        }
    }
}
