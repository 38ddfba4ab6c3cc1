//! Addresses of servers, as URLs: read once, shown without their secrets, with the certificate authority they may name.

use std::fmt;
use std::fs;

use tokio::task::spawn_blocking;

/// Why an address cannot be used. The text quotes only the parts that are not secret, because an address contains a password.
#[derive(Debug)]
pub struct AddressError {
    /// What is wrong with it.
    pub what: String,
    /// What it should be.
    pub how: String,
}

impl AddressError {
    /// It cannot be read; `example` is one that could.
    #[must_use]
    pub fn invalid(engine: &str, example: &str) -> Self {
        Self {
            what: format!("the address of {engine} cannot be read"),
            how: format!("it should look like {example}"),
        }
    }
}

impl std::error::Error for AddressError {}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.how)
    }
}

/// The file of a certificate authority is of no use.
pub fn invalid_authority(file: &str, why: impl fmt::Display) -> AddressError {
    AddressError {
        what: format!("the certificate authority `{file}` cannot be used"),
        how: why.to_string(),
    }
}

/// The address without `sslrootcert=FILE`, and the file with what is in it. It is looked at here, because the clients
/// only say that there is no such file, or nothing at all. Dropped, it has done nothing.
///
/// # Errors
/// The file cannot be read, or has no certificate in it.
pub async fn authority(url: &str) -> Result<(String, Option<(String, String)>), AddressError> {
    let (url, file) = without(url, "sslrootcert");
    let Some(file) = file else {
        return Ok((url, None));
    };
    let path = file.clone();
    let read = spawn_blocking(move || fs::read_to_string(path)).await;
    let pem = read
        .unwrap_or_else(|gone| Err(gone.into()))
        .map_err(|error| invalid_authority(&file, error))?;
    if !pem.contains("-----BEGIN CERTIFICATE-----") {
        return Err(invalid_authority(&file, "it has no certificate in PEM"));
    }
    Ok((url, Some((file, pem))))
}

/// Takes a parameter out of the query of an address: what is left, and the value in plain.
fn without(url: &str, name: &str) -> (String, Option<String>) {
    let Some((front, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let (query, fragment) = match query.split_once('#') {
        Some((query, fragment)) => (query, Some(fragment)),
        None => (query, None),
    };
    let mut value = None;
    let mut left = Vec::new();
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((key, text)) if key == name => value = Some(decoded(text)),
            _ => left.push(pair),
        }
    }
    let mut url = front.to_owned();
    for (separator, part) in [
        ('?', left.join("&")),
        ('#', fragment.unwrap_or_default().to_owned()),
    ] {
        if !part.is_empty() {
            url.push(separator);
            url.push_str(&part);
        }
    }
    (url, value)
}

/// An address has what would end it early as `%` and a number: `p%40ss` is `p@ss`.
#[must_use]
pub fn decoded(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        let number = after
            .first_chunk::<2>()
            .filter(|_| *byte == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(number.unwrap_or(*byte));
        rest = if number.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_may_have_any_letter() {
        assert_eq!(decoded("p%40ss%3Aw%c3%bcrd"), "p@ss:würd");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }

    #[test]
    fn a_parameter_is_taken_out_and_the_rest_is_left() {
        for (url, left, value) in [
            ("redis://h/0", "redis://h/0", None),
            ("redis://h/0?a=1", "redis://h/0?a=1", None),
            (
                "redis://h?sslrootcert=/a%20b.pem",
                "redis://h",
                Some("/a b.pem"),
            ),
            (
                "redis://h?a=1&sslrootcert=c&b=2#x",
                "redis://h?a=1&b=2#x",
                Some("c"),
            ),
        ] {
            let (url, found) = without(url, "sslrootcert");
            assert_eq!((url.as_str(), found.as_deref()), (left, value));
        }
    }

    #[tokio::test]
    async fn an_authority_that_is_none_is_named_with_the_reason() {
        let missing = authority("redis://u:secret@h?sslrootcert=/no/such.pem").await;
        let text = missing.expect_err("there is none").to_string();
        assert!(
            text.contains("/no/such.pem") && !text.contains("secret"),
            "{text}"
        );
        let empty = tempfile::NamedTempFile::new().expect("a file");
        let url = format!("redis://h?sslrootcert={}", empty.path().display());
        let text = authority(&url).await.expect_err("it is empty").to_string();
        assert!(text.contains("no certificate"), "{text}");
    }
}
