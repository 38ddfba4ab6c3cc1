//! The signals a program can be told to stop with. The only file that knows their numbers.

use std::fmt;
use std::str::FromStr;

use crate::process::Signal;

/// The signal that asks for a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopSignal {
    /// What docker, Kubernetes and systemd send.
    #[cfg_attr(unix, default)]
    Term,
    /// Ctrl-C.
    Int,
    /// What nginx and gunicorn take for a graceful or a quick stop.
    Quit,
    /// The terminal is gone.
    Hup,
    /// Of the program's own choice.
    Usr1,
    /// Of the program's own choice.
    Usr2,
    /// Graceful stop of Apache and php-fpm's master.
    Winch,
    /// Ctrl-Break: all that can be sent to another program on Windows, and nothing elsewhere.
    #[cfg(windows)]
    #[default]
    Break,
}

impl StopSignal {
    /// Those that this system can send.
    #[cfg(windows)]
    const ALL: [Self; 1] = [Self::Break];
    #[cfg(unix)]
    const ALL: [Self; 7] = [
        Self::Term,
        Self::Int,
        Self::Quit,
        Self::Hup,
        Self::Usr1,
        Self::Usr2,
        Self::Winch,
    ];

    pub(crate) const fn raw(self) -> Signal {
        match self {
            Self::Term => Signal::TERM,
            Self::Int => Signal::INT,
            Self::Quit => Signal::QUIT,
            Self::Hup => Signal::HUP,
            Self::Usr1 => Signal::USR1,
            Self::Usr2 => Signal::USR2,
            Self::Winch => Signal::WINCH,
            #[cfg(windows)]
            Self::Break => Signal::BREAK,
        }
    }

    /// `TERM`, `BREAK`.
    fn short(self) -> &'static str {
        let name = self.name();
        let prefixes = ["SIG", "Ctrl-"];
        prefixes
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .unwrap_or(name)
    }

    /// As a person writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Int => "SIGINT",
            Self::Quit => "SIGQUIT",
            Self::Hup => "SIGHUP",
            Self::Usr1 => "SIGUSR1",
            Self::Usr2 => "SIGUSR2",
            Self::Winch => "SIGWINCH",
            #[cfg(windows)]
            Self::Break => "Ctrl-Break",
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StopSignal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = text.trim().to_ascii_uppercase();
        let short = word.strip_prefix("SIG").unwrap_or(&word);
        let found = Self::ALL.into_iter().find(|signal| {
            signal.short().eq_ignore_ascii_case(short)
                || signal.name().eq_ignore_ascii_case(&word)
                || word == signal.raw().as_raw().to_string()
        });
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|signal| signal.name()).collect();
            format!(
                "`{text}` is not a signal to stop with; these are: {}",
                names.join(", ")
            )
        })
    }
}

/// The name of any signal, or its number.
pub(crate) fn name(number: i32) -> String {
    const OTHERS: [(Signal, &str); 8] = [
        (Signal::KILL, "SIGKILL"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::BUS, "SIGBUS"),
        (Signal::ILL, "SIGILL"),
        (Signal::FPE, "SIGFPE"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
    ];
    let stop = StopSignal::ALL
        .into_iter()
        .find(|signal| signal.raw().as_raw() == number);
    let other = OTHERS
        .into_iter()
        .find(|(signal, _)| signal.as_raw() == number);
    match (stop, other) {
        (Some(signal), _) => signal.name().to_owned(),
        (None, Some((_, name))) => name.to_owned(),
        (None, None) => format!("signal {number}"),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_known_by_name_short_name_and_number() {
        for text in ["SIGTERM", "term", "15"] {
            assert_eq!(text.parse(), Ok(StopSignal::Term));
        }
        assert!("KILL".parse::<StopSignal>().is_err());
        assert_eq!(
            (name(9), name(64)),
            ("SIGKILL".to_owned(), "signal 64".to_owned())
        );
    }
}
