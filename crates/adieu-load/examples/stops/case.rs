//! The loads under which the servers are stopped.

use std::fmt;

use adieu_load::{Load, Mode, Target};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    Http1,
    Http2,
    Lines,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) speech: Speech,
    pub(crate) tls: bool,
    pub(crate) unix: bool,
    pub(crate) mode: Mode,
    pub(crate) clients: usize,
    pub(crate) lame_duck: &'static str,
}

/// Every combination that is worth its time.
pub(crate) fn all() -> impl Iterator<Item = Case> {
    let http1 = (Speech::Http1, false, false);
    let kinds = [
        http1,
        (Speech::Http1, true, false),
        (Speech::Http2, false, false),
        (Speech::Http2, true, false),
        (Speech::Http1, false, true),
        (Speech::Lines, false, false),
    ];
    kinds.into_iter().flat_map(move |(speech, tls, unix)| {
        let modes = [Mode::KeepAlive, Mode::Fresh, Mode::Mixed];
        modes.into_iter().flat_map(move |mode| {
            let runs = [("0s", 32), ("0s", 64), ("0s", 128), ("1s", 64)];
            let runs = runs
                .into_iter()
                .filter(move |(duck, _)| speech != Speech::Lines || *duck == "0s");
            runs.map(move |(lame_duck, clients)| Case {
                speech,
                tls,
                unix,
                mode,
                clients,
                lame_duck,
            })
        })
    })
}

impl Case {
    pub(crate) const fn program(&self) -> &'static str {
        match self.speech {
            Speech::Http1 | Speech::Http2 => "example-web",
            Speech::Lines => "example-echo",
        }
    }

    pub(crate) fn load(&self, target: Target) -> Load {
        let load = match self.speech {
            Speech::Http1 => Load::http1(target, "/"),
            Speech::Http2 => Load::http2(target, "/"),
            Speech::Lines => Load::lines(target, "Server is shutting down. Goodbye!\r\n"),
        };
        load.clients(self.clients).mode(self.mode)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speech = match self.speech {
            Speech::Http1 => "http1",
            Speech::Http2 => "http2",
            Speech::Lines => "echo",
        };
        let way = match (self.tls, self.unix) {
            (true, _) => "tls",
            (_, true) => "unix",
            _ => "tcp",
        };
        let mode = match self.mode {
            Mode::KeepAlive => "keep-alive",
            Mode::Fresh => "fresh",
            Mode::Mixed => "mixed",
        };
        write!(
            f,
            "{speech} {way} {mode} {} clients, duck {}",
            self.clients, self.lame_duck
        )
    }
}
