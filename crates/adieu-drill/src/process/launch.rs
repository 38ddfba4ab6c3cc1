//! How the program is started.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::process::Command;

use super::form::Form;
use super::kin::MARK;
use super::ports::Blanks;
use super::system;

/// A command with its blanks, and what is to be in its environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Nobody else in this process starts others while the drill is held.
    pub(crate) alone: bool,
}

impl Launch {
    /// The command without blanks, and the mark of its run.
    pub(crate) fn prepare(&self, form: &Form, blanks: &Blanks) -> (Command, String) {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let mark = format!(
            "{}-{}-{:x}",
            std::process::id(),
            RUNS.fetch_add(1, Relaxed),
            fastrand::u64(..)
        );
        let filled: Vec<String> = self.command.iter().map(|word| blanks.fill(word)).collect();
        let words = form.wrap(filled);
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command
            .args(words.iter().skip(1))
            .env(MARK, &mark)
            .stdin(match form {
                Form::Held(socket) => system::as_stdin(socket),
                _ => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // It can be signalled whole, and the terminal's Ctrl-C is ours alone.
        system::own_group(&mut command);
        for (name, value) in &self.env {
            command.env(name, blanks.fill(value));
        }
        (command, mark)
    }
}
