//! How the program is started.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tokio::process::Command;

use super::launch_mode::{self, LaunchMode};
use super::placeholders::Placeholders;
use super::process_tree::MARK;
use super::system::{self, Held};

/// A command with its placeholders, and what is to be in its environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Launch {
    pub(crate) command: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Where it is started; where we are, if left out.
    pub(crate) cwd: Option<PathBuf>,
    /// No other code in this process starts processes while the drill runs.
    pub(crate) alone: bool,
}

impl Launch {
    /// The command without placeholders, and the mark of its run.
    pub(crate) fn prepare(
        &self,
        mode: &LaunchMode,
        handed: Option<&Arc<Held>>,
        placeholders: &Placeholders,
    ) -> (Command, String) {
        let mark = mark();
        let filled: Vec<String> = self
            .command
            .iter()
            .map(|word| placeholders.fill(word))
            .collect();
        let socket = match mode {
            LaunchMode::Held(socket) => Some(socket),
            _ => handed,
        };
        let words = match socket {
            Some(_) => mode.wrap(launch_mode::with_socket(filled)),
            None => mode.wrap(filled),
        };
        let mut command = Command::new(words.first().map_or("", String::as_str));
        command
            .args(words.iter().skip(1))
            .env(MARK, &mark)
            .stdin(match socket {
                Some(socket) => system::as_stdin(socket),
                None => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // It can be signalled whole, and the terminal's Ctrl-C is ours alone.
        system::own_group(&mut command);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        for (name, value) in &self.env {
            command.env(name, placeholders.fill(value));
        }
        (command, mark)
    }
}

/// The mark of one run of a program or a command: a word of its own in its environment, which no other process has.
pub(super) fn mark() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", drill_mark(), RUNS.fetch_add(1, Relaxed))
}

/// What the marks of all runs of this process begin with.
pub(super) fn drill_mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| format!("{}-{:x}", std::process::id(), fastrand::u64(..)))
}
