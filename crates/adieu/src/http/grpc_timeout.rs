//! The deadline that the client of a gRPC call has sent, as in `grpc-timeout: 250m`. Pure.

use std::time::Duration;

use http::HeaderMap;

/// How long the call may take; `None` if its client has not said so, or not in a way that can be read.
pub(super) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.as_bytes();
    let (unit, digits) = value.split_last()?;
    // The specification allows eight.
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 60 * 60),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &[u8]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", value.try_into().expect("a header value"));
        grpc_timeout(&headers)
    }

    #[test]
    fn every_unit_is_read() {
        assert_eq!(parse(b"2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse(b"3M"), Some(Duration::from_secs(180)));
        assert_eq!(parse(b"4S"), Some(Duration::from_secs(4)));
        assert_eq!(parse(b"250m"), Some(Duration::from_millis(250)));
        assert_eq!(parse(b"5u"), Some(Duration::from_micros(5)));
        assert_eq!(parse(b"0n"), Some(Duration::ZERO));
        assert_eq!(
            parse(b"99999999H"),
            Some(Duration::from_secs(99_999_999 * 3_600))
        );
    }

    #[test]
    fn what_cannot_be_read_is_no_deadline() {
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
        for value in [
            &b""[..],
            b"S",
            b"5",
            b"5s",
            b"-5S",
            b"+5S",
            b"5 S",
            b"123456789S",
            b"\xff\xff",
        ] {
            assert_eq!(parse(value), None, "{value:?}");
        }
    }
}
