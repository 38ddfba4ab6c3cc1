//! Signals by their names, and what becomes of each on its way to the command.

use std::fmt;

use adieu::signal::Signal as Caught;

/// A signal by its number, as the kernel takes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal(pub(super) i32);

impl Signal {
    pub(super) const TERM: Self = Self(libc::SIGTERM);
    pub(super) const INT: Self = Self(libc::SIGINT);
    pub(super) const HUP: Self = Self(libc::SIGHUP);
    pub(super) const KILL: Self = Self(libc::SIGKILL);
    pub(super) const ABRT: Self = Self(libc::SIGABRT);
    pub(super) const CONT: Self = Self(libc::SIGCONT);
}

const NAMES: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
    // Other names of the same; the first is shown.
    ("IOT", libc::SIGIOT),
    ("CLD", libc::SIGCHLD),
    ("POLL", libc::SIGPOLL),
];

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = NAMES.iter().find(|(_, number)| *number == self.0) {
            return write!(f, "SIG{name}");
        }
        match self.0 - libc::SIGRTMIN() {
            0 => f.write_str("SIGRTMIN"),
            above if above > 0 => write!(f, "SIGRTMIN+{above}"),
            _ => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `term`, `SIGTERM`, `15`, `rtmin+3`, `rtmax-1`; the two numbers that a C library keeps for itself are none.
pub(super) fn parse(text: &str) -> Result<Signal, String> {
    let upper = text.trim().to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let by_name = NAMES.iter().find(|(it, _)| *it == name).map(|it| it.1);
    let away = |rest: &str, sign: char| match rest {
        "" => Some(0),
        away => away.strip_prefix(sign)?.parse::<u8>().ok().map(i32::from),
    };
    let real_time = || match name.strip_prefix("RTMAX") {
        Some(below) => Some(libc::SIGRTMAX() - away(below, '-')?),
        None => Some(libc::SIGRTMIN() + away(name.strip_prefix("RTMIN")?, '+')?),
    };
    let is_known = |number: &i32| {
        let is_named = NAMES.iter().any(|(_, it)| it == number);
        is_named || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(number)
    };
    by_name
        .or_else(real_time)
        .or_else(|| name.parse().ok())
        .filter(is_known)
        .map(Signal)
        .ok_or_else(|| {
            format!("unknown signal `{text}`: give a name, as in term or usr1, or a number")
        })
}

/// All signals that mean something to us.
pub(super) fn heard() -> impl Iterator<Item = Signal> {
    let others = passed_on().map(|(_, signal)| signal);
    [Signal::TERM, Signal::INT].into_iter().chain(others)
}

/// The signals that we can hear and pass on, besides the two that stop.
pub(super) fn passed_on() -> impl Iterator<Item = (Caught, Signal)> {
    let real_time =
        (0..u8::try_from(libc::SIGRTMAX() - libc::SIGRTMIN() + 1).unwrap_or(0)).map(|above| {
            (
                Caught::RealTime(above),
                Signal(libc::SIGRTMIN() + i32::from(above)),
            )
        });
    [
        (Caught::Hangup, libc::SIGHUP),
        (Caught::Quit, libc::SIGQUIT),
        (Caught::User1, libc::SIGUSR1),
        (Caught::User2, libc::SIGUSR2),
        (Caught::Alarm, libc::SIGALRM),
        (Caught::Continue, libc::SIGCONT),
        (Caught::Window, libc::SIGWINCH),
        (Caught::Urgent, libc::SIGURG),
        (Caught::Io, libc::SIGIO),
        (Caught::VirtualAlarm, libc::SIGVTALRM),
        (Caught::Profile, libc::SIGPROF),
        (Caught::CpuLimit, libc::SIGXCPU),
        (Caught::FileLimit, libc::SIGXFSZ),
        (Caught::Power, libc::SIGPWR),
    ]
    .into_iter()
    .map(|(caught, number)| (caught, Signal(number)))
    .chain(real_time)
}

/// What the command is sent in the place of what we heard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SignalMap(Vec<(Signal, Option<Signal>)>);

impl SignalMap {
    /// Each is `FROM=TO`, and `TO` may be `none`.
    pub(super) fn parse(texts: &[String]) -> Result<Self, String> {
        let mut map = Self::default();
        for text in texts {
            let (from, to) = text
                .split_once('=')
                .ok_or_else(|| format!("--signal {text}: expected FROM=TO, as in term=quit"))?;
            let to = (to.trim() != "none").then_some(to);
            map.add(from, to)
                .map_err(|problem| format!("--signal {text}: {problem}"))?;
        }
        Ok(map)
    }

    /// Adds those in dumb-init's spelling: each is `FROM:TO`, and `TO` may be `0`.
    pub(super) fn rewrite(mut self, texts: &[String]) -> Result<Self, String> {
        for text in texts {
            let (from, to) = text
                .split_once(':')
                .ok_or_else(|| format!("--rewrite {text}: expected FROM:TO, as in 15:3"))?;
            let to = (to.trim() != "0").then_some(to);
            self.add(from, to)
                .map_err(|problem| format!("--rewrite {text}: {problem}"))?;
        }
        Ok(self)
    }

    /// On platforms that stop with SIGINT the command is asked with SIGTERM, unless another signal was chosen: to many
    /// servers SIGINT means to stop at once.
    pub(super) fn interrupt_means_terminate(mut self) -> Self {
        if !self.has(Signal::INT) {
            let terminate = self.of(Signal::TERM);
            self.0.push((Signal::INT, terminate));
        }
        self
    }

    fn add(&mut self, from: &str, to: Option<&str>) -> Result<(), String> {
        let from = parse(from)?;
        if !heard().any(|signal| signal == from) {
            return Err(format!("{from} cannot be passed on"));
        }
        if self.has(from) {
            return Err(format!("{from} was mapped before"));
        }
        let to = to.map(parse).transpose()?;
        if to.is_none() && [Signal::TERM, Signal::INT].contains(&from) {
            return Err(format!(
                "the command would never be asked to stop; to kill it at once, map {from} to kill"
            ));
        }
        self.0.push((from, to));
        Ok(())
    }

    /// `None` if it is not to be passed on.
    pub(super) fn of(&self, signal: Signal) -> Option<Signal> {
        self.0
            .iter()
            .find(|(from, _)| *from == signal)
            .map_or(Some(signal), |(_, to)| *to)
    }

    pub(super) fn has(&self, signal: Signal) -> bool {
        self.0.iter().any(|(from, _)| *from == signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown() {
        for (text, shown) in [
            ("term", "SIGTERM"),
            ("SIGTERM", "SIGTERM"),
            ("sigusr1", "SIGUSR1"),
            ("15", "SIGTERM"),
            ("rtmin", "SIGRTMIN"),
            ("SIGRTMIN+3", "SIGRTMIN+3"),
            ("stkflt", "SIGSTKFLT"),
            ("SIGPOLL", "SIGIO"),
            ("iot", "SIGABRT"),
        ] {
            assert_eq!(parse(text).map(|it| it.to_string()), Ok(shown.into()));
        }
        assert_eq!(parse("rtmax-1"), Ok(Signal(libc::SIGRTMAX() - 1)));
        for text in [
            "",
            "0",
            "32",
            "65",
            "-1",
            "terminate",
            "RTMIN+99",
            "RTMIN-1",
            "RTMAX-99",
            "RTMAX+1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_map_replaces_what_it_names() {
        let map = SignalMap::parse(&["term=quit".into(), "usr1=none".into()]).unwrap();
        assert_eq!(map.of(Signal::TERM), Some(Signal(libc::SIGQUIT)));
        assert_eq!(map.of(Signal(libc::SIGUSR1)), None);
        assert_eq!(map.of(Signal::HUP), Some(Signal::HUP));
        for wrong in [
            "term",
            "term=",
            "=quit",
            "kill=term",
            "term=none",
            "term=soon",
        ] {
            assert!(SignalMap::parse(&[wrong.into()]).is_err(), "{wrong}");
        }
        let twice = ["hup=usr1".to_owned(), "sighup=usr2".to_owned()];
        assert!(SignalMap::parse(&twice).is_err());
    }

    #[test]
    fn rewrites_of_dumb_init_are_read() {
        let map = SignalMap::default()
            .rewrite(&["15:3".into(), "SIGHUP:0".into()])
            .unwrap();
        assert_eq!(map.of(Signal::TERM), Some(Signal(libc::SIGQUIT)));
        assert_eq!(map.of(Signal::HUP), None);
        for wrong in ["15", "15=3", "9:15", "15:0", "15:", "15:3:2"] {
            let map = SignalMap::default().rewrite(&[wrong.into()]);
            assert!(map.is_err(), "{wrong}");
        }
        let before = SignalMap::parse(&["term=quit".into()]).unwrap();
        assert!(before.rewrite(&["15:2".into()]).is_err(), "twice");
    }

    #[test]
    fn where_sigint_means_stop_the_command_gets_sigterm() {
        let plain = SignalMap::default().interrupt_means_terminate();
        assert_eq!(plain.of(Signal::INT), Some(Signal::TERM));
        let mapped = SignalMap::parse(&["term=quit".into()]).unwrap();
        let mapped = mapped.interrupt_means_terminate();
        assert_eq!(mapped.of(Signal::INT), Some(Signal(libc::SIGQUIT)));
        let chosen = SignalMap::parse(&["int=usr1".into()]).unwrap();
        let chosen = chosen.interrupt_means_terminate();
        assert_eq!(chosen.of(Signal::INT), Some(Signal(libc::SIGUSR1)));
    }
}
