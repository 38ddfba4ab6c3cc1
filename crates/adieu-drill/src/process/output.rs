//! What the program prints: read as it comes, so that a full pipe never blocks it, and the last of it kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

/// Enough to see why a program did not start.
const KEPT_LINES: usize = 200;
/// A line is cut here, and a program that never ends its line costs no more than this.
const LONGEST_LINE: usize = 4_096;

/// The last lines, and whether the one that was waited for came.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    lines: Arc<Mutex<VecDeque<String>>>,
    wanted: Option<Arc<str>>,
    came: watch::Sender<bool>,
}

impl Output {
    /// `wanted` is part of the line that says that the program is ready.
    pub(crate) fn new(wanted: Option<&str>) -> Self {
        Self {
            lines: Arc::default(),
            wanted: wanted.map(Into::into),
            came: watch::Sender::new(false),
        }
    }

    /// Reads until every writer is gone. Lines of two pipes never mix within a line.
    pub(crate) async fn drink(self, mut pipe: impl AsyncRead + Unpin) {
        let mut piece = vec![0; 8_192];
        let mut line = Vec::new();
        while let Ok(count @ 1..) = pipe.read(&mut piece).await {
            for &byte in &piece[..count] {
                if byte == b'\n' {
                    self.add(&line);
                    line.clear();
                } else if line.len() < LONGEST_LINE {
                    line.push(byte);
                }
            }
        }
        if !line.is_empty() {
            self.add(&line);
        }
    }

    fn add(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line).trim_end().to_owned();
        if self
            .wanted
            .as_deref()
            .is_some_and(|wanted| line.contains(wanted))
        {
            self.came.send_replace(true);
        }
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Completes when the line came. Cancel-safe.
    pub(crate) async fn wanted(&self) {
        // The sender is in `self`.
        let _ = self.came.subscribe().wait_for(|came| *came).await;
    }

    /// The last lines.
    pub(crate) fn last(&self, most: usize) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = lines.len().saturating_sub(most);
        lines.iter().skip(skipped).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_are_kept_and_the_wanted_one_is_seen() {
        let output = Output::new(Some("ready"));
        let mut text = "x".repeat(LONGEST_LINE * 3);
        text.push_str("\nnow ready to serve\n");
        for number in 0..KEPT_LINES {
            text.push_str(&format!("line {number}\n"));
        }
        text.push_str("half");
        output.clone().drink(text.as_bytes()).await;
        output.wanted().await;
        assert_eq!(output.last(2), ["line 199", "half"]);
        assert_eq!(output.last(1_000).len(), KEPT_LINES);
    }
}
