//! The body of an answer, as far as it has come.

/// What came after the head.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Body {
    bytes: Vec<u8>,
    /// Whether all has come that the head speaks of, if it does. The connection may stay open.
    pub(super) is_whole: bool,
}

impl Body {
    /// `None` before the head has ended.
    pub(super) fn of(answer: &[u8]) -> Option<Self> {
        let (head, rest) = answer.split_at(end_of_head(answer)?);
        let head = String::from_utf8_lossy(head);
        let field = |wanted: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(':'));
            fields.find_map(|(name, value)| {
                let is_it = name.trim_end().eq_ignore_ascii_case(wanted);
                is_it.then(|| value.trim().to_ascii_lowercase())
            })
        };
        // What is in chunks has no other length, whatever the head says.
        if field("transfer-encoding").is_some_and(|it| it.contains("chunked")) {
            return Some(Self::from_chunks(rest));
        }
        let length = field("content-length").and_then(|it| it.parse::<usize>().ok());
        Some(Self {
            bytes: rest.to_vec(),
            is_whole: length.is_some_and(|length| rest.len() >= length),
        })
    }

    /// Each chunk has its length before it, in hexadecimal digits on a line of its own; the last one has none.
    fn from_chunks(mut rest: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let mut is_whole = false;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&rest[..end]);
            let digits = line.split(';').next().unwrap_or_default().trim();
            rest = &rest[end + 1..];
            match usize::from_str_radix(digits, 16) {
                // The end of the chunk before.
                Err(_) if digits.is_empty() => {}
                Ok(length @ 1..) => {
                    let (chunk, after) = rest.split_at(length.min(rest.len()));
                    bytes.extend_from_slice(chunk);
                    rest = after;
                }
                // The last one; and after text that is not a length nothing can be read.
                Ok(_) | Err(_) => {
                    is_whole = true;
                    break;
                }
            }
        }
        Self { bytes, is_whole }
    }

    /// Its first line, if it has come.
    pub(super) fn words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.bytes);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        let shown = line.chars().filter(|it| !it.is_control());
        Some(shown.take(200).collect())
    }
}

pub(super) fn end_of_head(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|end| end == b"\r\n\r\n")?;
    Some(end + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str, rest: &str) -> Option<(Option<String>, bool)> {
        let answer = format!("HTTP/1.1 503 No\r\n{head}\r\n\r\n{rest}");
        Body::of(answer.as_bytes()).map(|body| (body.words(), body.is_whole))
    }

    #[test]
    fn a_body_is_read_as_its_head_says() {
        let says = |words: &str, is_whole| Some((Some(words.to_owned()), is_whole));
        assert_eq!(Body::of(b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n"), None);
        assert_eq!(read("content-length: 4", "gone"), says("gone", true));
        assert_eq!(read("Content-Length: 9", "gone"), says("gone", false));
        assert_eq!(read("content-length: 0", ""), Some((None, true)));
        assert_eq!(read("x: y", "\n\n gone\nfor good"), says("gone", false));
    }

    #[test]
    fn what_is_in_chunks_is_put_together() {
        let chunked = "Transfer-Encoding: gzip, Chunked";
        let says = |words: &str, is_whole| Some((Some(words.to_owned()), is_whole));
        let whole = "3;x=y\r\nthe\r\n9\r\n database\r\n0\r\n\r\n";
        assert_eq!(read(chunked, whole), says("the database", true));
        assert_eq!(read(chunked, "8\r\nthe da"), says("the da", false));
        assert_eq!(read(chunked, "1"), Some((None, false)));
        assert_eq!(read(chunked, "0\r\n\r\n"), Some((None, true)));
        assert_eq!(read(chunked, "words\r\n"), Some((None, true)));
        assert_eq!(read(chunked, "ffffffffffffffff\r\na"), says("a", false));
    }
}
