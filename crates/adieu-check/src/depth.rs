//! A guard in front of the parsers: text whose syntax tree could be deeper than a stack allows.
//!
//! Parsers, visitors and the drop of a tree recurse. The bound here is cheap and errs to the safe
//! side: brackets plus the words since the last separator at every open level.

/// How deep a tree may be. The workers' stacks ([`STACK`]) are sized for it.
pub(crate) const DEEPEST: usize = 8_000;

/// Stack of a worker thread. Only the pages in use are real memory.
pub(crate) const STACK: usize = 512 * 1024 * 1024;

/// Runs this on threads whose stacks hold the deepest tree.
pub(crate) fn on_deep_stacks<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().stack_size(STACK).build() {
        Ok(pool) => pool.install(run),
        Err(_) => run(),
    }
}

/// Whose strings and comments to step over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Python,
    Rust,
}

/// Whether a syntax tree of this text could be too deep to walk.
pub(crate) fn too_deep(text: &str, syntax: Syntax) -> bool {
    // Fewer bytes than levels: nothing to measure. This is most files.
    if text.len() < DEEPEST {
        return false;
    }
    Gauge {
        bytes: text.as_bytes(),
        at: 0,
        here: 0,
        outer: Vec::new(),
        sum: 0,
        syntax,
    }
    .overflows()
}

/// Letters, digits, the underscore and everything beyond ASCII.
const IS_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte >= 0x80 || (byte as u8).is_ascii_alphanumeric() || byte as u8 == b'_';
        byte += 1;
    }
    table
};

struct Gauge<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Words since the last separator, here and at each open bracket further out; `sum` is their
    /// total.
    here: usize,
    outer: Vec<usize>,
    sum: usize,
    syntax: Syntax,
}

impl Gauge<'_> {
    fn overflows(&mut self) -> bool {
        let bytes = self.bytes;
        while let Some(&byte) = bytes.get(self.at) {
            let start = self.at;
            self.at += 1;
            if IS_WORD[usize::from(byte)] {
                // Most of a file is words and blanks: step over a whole word at once.
                while bytes
                    .get(self.at)
                    .is_some_and(|next| IS_WORD[usize::from(*next)])
                {
                    self.at += 1;
                }
                self.count();
                if self.sum > DEEPEST {
                    return true;
                }
                continue;
            }
            let after_word = start > 0 && IS_WORD[usize::from(bytes[start - 1])];
            match byte {
                b'(' | b'[' | b'{' => {
                    self.count();
                    self.outer.push(std::mem::take(&mut self.here));
                }
                b')' | b']' | b'}' => self.close(byte),
                b',' | b';' => self.separate(),
                b'\n' if self.syntax == Syntax::Python && self.outer.is_empty() => self.separate(),
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'#' if self.syntax == Syntax::Python => self.skip_line(),
                b'/' if self.syntax == Syntax::Rust && self.peek(0) == b'/' => self.skip_line(),
                b'/' if self.syntax == Syntax::Rust && self.peek(0) == b'*' => self.skip_comment(),
                b'"' | b'\'' => {
                    self.count();
                    self.skip_string(byte, after_word);
                }
                _ => self.count(),
            }
            if self.sum > DEEPEST {
                return true;
            }
        }
        false
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn count(&mut self) {
        self.here += 1;
        self.sum += 1;
    }

    fn separate(&mut self) {
        self.sum -= self.here;
        self.here = 0;
    }

    fn close(&mut self, byte: u8) {
        if let Some(outer) = self.outer.pop() {
            self.sum -= self.here;
            self.here = outer;
        }
        // A Rust block ends a statement or an item, unless the chain of `else if` goes on.
        if self.syntax == Syntax::Rust && byte == b'}' {
            let rest = self.bytes[self.at..].trim_ascii_start();
            if !rest.starts_with(b"else") && !rest.starts_with(b".") {
                self.separate();
            }
        }
    }

    fn skip_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    fn skip_comment(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += memchr::memmem::find(rest, b"*/").map_or(rest.len(), |end| end + 2);
    }

    fn skip_string(&mut self, quote: u8, after_word: bool) {
        match self.syntax {
            Syntax::Python if self.peek(0) == quote && self.peek(1) == quote => {
                self.at += 2;
                self.skip_until(quote, 3, false);
            }
            Syntax::Python => self.skip_until(quote, 1, true),
            // A lifetime or a character; only the latter may hold a bracket.
            Syntax::Rust if quote == b'\'' => {
                if self.peek(0) == b'\\' && self.peek(2) == b'\'' {
                    self.at += 3;
                } else if self.peek(1) == b'\'' {
                    self.at += 2;
                }
            }
            Syntax::Rust => {
                let hashes = self.bytes[..self.at - 1]
                    .iter()
                    .rev()
                    .take_while(|b| **b == b'#')
                    .count();
                let marker = self
                    .at
                    .checked_sub(2 + hashes)
                    .and_then(|at| self.bytes.get(at));
                let raw = matches!(marker, Some(b'r')) && (after_word || hashes > 0);
                if raw {
                    self.skip_raw(hashes);
                } else {
                    self.skip_until(b'"', 1, false);
                }
            }
        }
    }

    fn skip_raw(&mut self, hashes: usize) {
        while let Some(found) = memchr::memchr(b'"', &self.bytes[self.at..]) {
            self.at += found + 1;
            if self.bytes[self.at..]
                .iter()
                .take(hashes)
                .filter(|b| **b == b'#')
                .count()
                == hashes
            {
                self.at += hashes;
                return;
            }
        }
        self.at = self.bytes.len();
    }

    /// Steps behind a closing quote; most of a documented file is inside of some.
    fn skip_until(&mut self, quote: u8, times: usize, one_line: bool) {
        let end = if one_line { b'\n' } else { quote };
        while let Some(rest) = self.bytes.get(self.at..)
            && let Some(found) = memchr::memchr3(quote, b'\\', end, rest)
        {
            let byte = rest[found];
            self.at += found + 1;
            if byte == b'\\' {
                self.at += 1;
            } else if byte != quote {
                return;
            } else {
                let more = rest[found + 1..].iter().take(times - 1);
                if more.filter(|b| **b == quote).count() == times - 1 {
                    self.at += times - 1;
                    return;
                }
            }
        }
        self.at = self.bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::{Syntax, too_deep};

    #[test]
    fn deep_brackets_and_long_operators_are_refused() {
        for syntax in [Syntax::Python, Syntax::Rust] {
            assert!(too_deep(&"(".repeat(20_000), syntax));
            assert!(too_deep(&"- ".repeat(20_000), syntax));
            assert!(too_deep(&format!("x = {}", "a + ".repeat(20_000)), syntax));
        }
        assert!(too_deep(&"if a {} else ".repeat(20_000), Syntax::Rust));
    }

    #[test]
    fn wide_is_not_deep() {
        assert!(!too_deep(
            &format!("x = [{}]", "'a(', (1, 2),\n".repeat(50_000)),
            Syntax::Python
        ));
        assert!(!too_deep(
            &"call(a, b)\n\"\"\"an ( in prose\n\"\"\"\n".repeat(50_000),
            Syntax::Python
        ));
        assert!(!too_deep(
            &"fn f<'a>(x: &'a str) { g('(', r#\"(\"#); }\n".repeat(50_000),
            Syntax::Rust
        ));
    }
}
