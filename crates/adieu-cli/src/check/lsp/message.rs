//! Messages on a pipe: a header that says how long each is.

use std::io::{self, BufRead, Error, ErrorKind, Read, Write};

use serde_json::Value;

/// A text is checked up to eight megabytes; in JSON it may be several times as long.
const LONGEST: usize = 64 * 1024 * 1024;
/// Two short lines are all that is ever sent.
const LONGEST_HEADER: u64 = 4_096;

/// The next message; nothing at the end of the input.
pub(super) fn read(input: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut length = None;
    let mut header = input.take(LONGEST_HEADER);
    loop {
        let mut line = String::new();
        if header.read_line(&mut line)? == 0 {
            return match length {
                None if header.limit() > 0 => Ok(None),
                _ => Err(wrong("a header without an end")),
            };
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let length = length
        .filter(|length| *length <= LONGEST)
        .ok_or_else(|| wrong("a header without a Content-Length that can be taken"))?;
    let mut message = Vec::new();
    let taken = input.take(length as u64).read_to_end(&mut message)?;
    match taken == length {
        true => Ok(Some(message)),
        false => Err(wrong("a message that is shorter than its header says")),
    }
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

pub(super) fn write(out: &mut impl Write, message: &Value) -> io::Result<()> {
    let text = message.to_string();
    write!(out, "Content-Length: {}\r\n\r\n{text}", text.len())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, read};

    #[test]
    fn messages_come_one_after_the_other() {
        let mut input = &b"Content-Length: 2\r\n\r\n{}content-length:3\r\nX: y\r\n\r\n[1]"[..];
        assert_eq!(read(&mut input).expect("a message"), Some(b"{}".to_vec()));
        assert_eq!(read(&mut input).expect("a message"), Some(b"[1]".to_vec()));
        assert_eq!(read(&mut input).expect("the end"), None);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let endless = vec![b'x'; 100_000];
        let huge = format!("Content-Length: {}\r\n\r\n", LONGEST + 1);
        for (wrong, why) in [
            (&b"Content-Length: 5\r\n\r\n{}"[..], "shorter"),
            (b"Content-Length: -1\r\n\r\n{}", "can be taken"),
            (b"Content-Type: x\r\n\r\n{}", "can be taken"),
            (b"Content-Length: 2\r\n", "without an end"),
            (&endless, "without an end"),
            (huge.as_bytes(), "can be taken"),
        ] {
            let error = read(&mut &*wrong).expect_err(why);
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
    }
}
