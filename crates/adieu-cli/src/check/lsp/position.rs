//! Places and paths as editors count and write them.

use std::path::PathBuf;

use adieu_check::Place;
use serde_json::{Value, json};

/// The path of a `file://` URI.
pub(super) fn path(uri: &str) -> Option<PathBuf> {
    let encoded = uri.strip_prefix("file://")?;
    // A drive of Windows stands behind the slash.
    let encoded = match encoded.as_bytes() {
        [b'/', letter, b':', ..] if letter.is_ascii_alphabetic() => &encoded[1..],
        _ => encoded,
    };
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// The `file://` URI of a path with `/` between.
pub(super) fn uri(path: &str) -> String {
    let mut uri = "file://".to_owned();
    if !path.starts_with('/') {
        uri.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => uri.push(char::from(byte)),
            b'/' | b'.' | b'-' | b'_' | b'~' => uri.push(char::from(byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// A byte of a text: editors count lines from zero, and columns in units of UTF-16.
pub(super) fn of_offset(text: &str, offset: usize) -> Value {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    json!({ "line": line, "character": before[start..].encode_utf16().count() })
}

/// From a place to the end of its line.
pub(super) fn to_end_of_line(text: &str, place: Place) -> Value {
    let line = place.line.saturating_sub(1);
    let content = text.lines().nth(line as usize).unwrap_or_default();
    let before = content
        .chars()
        .take(place.column.saturating_sub(1) as usize);
    let start: usize = before.map(char::len_utf16).sum();
    let end = content.trim_end().encode_utf16().count().max(start);
    json!({
        "start": { "line": line, "character": start },
        "end": { "line": line, "character": end },
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use adieu_check::Place;
    use serde_json::json;

    use super::{of_offset, path, to_end_of_line, uri};

    #[test]
    fn paths_are_written_as_uris_and_back() {
        for name in ["/srv/app.py", "/a b/é#1%.py"] {
            assert_eq!(path(&uri(name)), Some(PathBuf::from(name)));
        }
        assert_eq!(
            path("file:///C%3A/app.py"),
            Some(PathBuf::from("/C:/app.py"))
        );
        assert_eq!(path("file:///C:/app.py"), Some(PathBuf::from("C:/app.py")));
        for wrong in ["untitled:1", "file:///%", "file:///%zz", "file:///%ff"] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn columns_count_units_of_utf_16() {
        let text = "a\n𝄞 = x  \n";
        let place = Place { line: 2, column: 5 };
        assert_eq!(
            to_end_of_line(text, place),
            json!({ "start": { "line": 1, "character": 5 }, "end": { "line": 1, "character": 6 } })
        );
        let at = text.find('x').unwrap_or(0);
        assert_eq!(of_offset(text, at), json!({ "line": 1, "character": 5 }));
        let beyond = Place { line: 9, column: 9 };
        assert_eq!(to_end_of_line(text, beyond)["start"]["character"], 0);
    }
}
