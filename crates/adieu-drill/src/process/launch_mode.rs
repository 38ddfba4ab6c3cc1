//! The ways in which a program can be started: by itself, by a shell, as the first of its own little world.

use std::sync::Arc;

use super::system::{self, Held};

/// How the command is wrapped.
#[derive(Clone, Debug, Default)]
pub(crate) enum LaunchMode {
    /// As it was given.
    #[default]
    Plain,
    /// As PID 1 of a PID namespace, where no signal has a default.
    PidOne,
    /// Below a shell that stays, as in a script without `exec`.
    BelowShell,
    /// With a listening socket that the drill holds: descriptor 3, as systemd passes it.
    Held(Arc<Held>),
}

impl LaunchMode {
    /// The words to run for this command.
    pub(crate) fn wrap(&self, command: Vec<String>) -> Vec<String> {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        match self {
            Self::PidOne => {
                let mut wrapped = words(&["unshare"]);
                if !system::is_root() {
                    wrapped.push("--map-current-user".to_owned());
                }
                wrapped.extend(words(&[
                    "--pid",
                    "--fork",
                    "--kill-child",
                    "--mount-proc",
                    "--",
                ]));
                wrapped.extend(command);
                wrapped
            }
            Self::BelowShell => vec![
                "sh".to_owned(),
                "-c".to_owned(),
                format!("{}; exit $?", quoted(&command)),
            ],
            // The words that hand the socket over are part of the command already.
            Self::Plain | Self::Held(_) => command,
        }
    }
}

/// The words that run this command with its standard input as descriptor 3, as systemd passes a socket. The socket comes
/// as standard input because that needs no code between fork and exec.
pub(super) fn with_socket(command: Vec<String>) -> Vec<String> {
    let script = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1; export LISTEN_PID LISTEN_FDS; exec \"$@\"";
    let mut wrapped: Vec<String> = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    wrapped.extend(command);
    wrapped
}

/// For a POSIX shell.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gets_every_word_as_it_was() {
        let command = ["a b", "it's", "$X", ""].map(str::to_owned);
        assert_eq!(quoted(&command), r"'a b' 'it'\''s' '$X' ''");
    }
}
