//! What the chores need on the machine besides a Rust toolchain.
//!
//! A missing Debian package is installed when we may, that is as root where there is apt-get.
//! Otherwise, what is missing is named together with the command that brings it.
//!
//! A browser is wanted and not demanded: it is by far the largest of them, distributions differ in what they call it,
//! and only the tests of how a page looks and behaves need it. Without one they skip themselves, and that is said.

use std::env;
use std::path::PathBuf;

use crate::checkout::Checkout;
use crate::command;
use crate::step::{Failure, Outcome};

pub(crate) struct Need {
    binary: &'static str,
    /// Other programs that do as well.
    or: &'static [&'static str],
    from: Source,
    why: &'static str,
    /// What is left out without it; `None` if nothing goes without it.
    else_skipped: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Source {
    /// A package of the distribution.
    Debian(&'static str),
    /// A component of the toolchain. Never installed from Debian: it has to be of the same version
    /// as the compiler.
    Rustup(&'static str),
}

/// To have something installed for the tests, add a line: the program looked for, what it comes in,
/// what it is good for.
pub(crate) const FOR_TESTS: &[Need] = &[
    Need::debian("git", "git", "hygiene asks it which files are tracked"),
    Need::debian("python3", "python3", "the drill is held on programs in it"),
    Need::debian(
        "pg_ctlcluster",
        "postgresql",
        "stores and queues are tested on it",
    ),
    Need::debian(
        "redis-server",
        "redis-server",
        "stores and queues are tested on it",
    ),
    Need::debian(
        "nats-server",
        "nats-server",
        "stores and queues are tested on it",
    ),
    Need::debian("strace", "strace", "the order of flushes is read with it"),
    Need::debian("unshare", "util-linux", "namespaces are made with it"),
    Need::debian("ip", "iproute2", "networks of namespaces are made with it"),
    Need {
        else_skipped: Some("the tests on systemd"),
        ..Need::debian(
            "systemd-socket-activate",
            "systemd",
            "services are run, watched and stopped by it",
        )
    },
    Need {
        else_skipped: Some("the tests on a docker engine"),
        ..Need::debian(
            "dockerd",
            "docker.io",
            "the image of deploy/ is built and stopped by it",
        )
    },
    Need::debian("nginx", "nginx-light", "instances are drilled behind it"),
    Need::debian("haproxy", "haproxy", "instances are drilled behind it"),
    Need::debian("tini", "tini", "`adieu run` is tested beside it"),
    Need::debian("dumb-init", "dumb-init", "`adieu run` is tested beside it"),
    Need {
        else_skipped: Some("the commands of docs/getting-started.md for another language"),
        ..Need::debian("node", "nodejs", "a server in it is drilled")
    },
    Need {
        or: &["chromium-browser", "google-chrome"],
        else_skipped: Some("the tests in a browser"),
        ..Need::debian("chromium", "chromium", "the drill's page is tested in it")
    },
    Need::component("cargo-fmt", "rustfmt", "formatting is checked"),
    Need::component("cargo-clippy", "clippy", "lints are checked"),
];

/// What chaos needs besides.
pub(crate) const FOR_CHAOS: &[Need] = &[
    Need {
        else_skipped: Some("the stops with a clock that jumps"),
        ..Need::debian(
            "faketime",
            "faketime",
            "the clock of a service is set with its library",
        )
    },
    Need::debian("tc", "iproute2", "the network is made slow with it"),
];

impl Need {
    pub(crate) const fn debian(
        binary: &'static str,
        package: &'static str,
        why: &'static str,
    ) -> Self {
        Self::new(binary, Source::Debian(package), why)
    }

    pub(crate) const fn component(
        binary: &'static str,
        component: &'static str,
        why: &'static str,
    ) -> Self {
        Self::new(binary, Source::Rustup(component), why)
    }

    const fn new(binary: &'static str, from: Source, why: &'static str) -> Self {
        Self {
            binary,
            or: &[],
            from,
            why,
            else_skipped: None,
        }
    }
}

/// Sees to it that all needs are met, or says which are not.
pub(crate) fn provide(checkout: &Checkout, needs: &[Need]) -> Outcome {
    let unmet = |need: &&Need| !is_met(checkout, need);
    let mut missing: Vec<&Need> = needs.iter().filter(unmet).collect();
    // Apart: one package that a distribution does not have keeps apt-get from installing any.
    for is_wanted in [false, true] {
        let packages: Vec<&str> = missing
            .iter()
            .filter(|need| need.else_skipped.is_some() == is_wanted)
            .filter_map(|need| need.from.debian())
            .collect();
        if !packages.is_empty() && may_install(checkout) {
            install(checkout, &packages);
        }
    }
    missing.retain(unmet);
    for need in &missing {
        let without = need
            .else_skipped
            .map(|what| format!("; {what} are skipped"));
        println!(
            "missing: {} ({}); to install it: {}{}",
            need.binary,
            need.why,
            need.from.command(),
            without.unwrap_or_default()
        );
    }
    let (wanted, demanded): (Vec<&Need>, Vec<&Need>) = missing
        .into_iter()
        .partition(|need| need.else_skipped.is_some());
    let names = |needs: &[&Need]| {
        let names: Vec<&str> = needs.iter().map(|need| need.binary).collect();
        names.join(", ")
    };
    match (wanted.is_empty(), demanded.is_empty()) {
        (_, false) => Err(Failure::new(format!("missing: {}", names(&demanded)))),
        (false, true) => Ok(format!("without {}", names(&wanted))),
        (true, true) => Ok(String::new()),
    }
}

impl Source {
    fn debian(self) -> Option<&'static str> {
        match self {
            Self::Debian(package) => Some(package),
            Self::Rustup(_) => None,
        }
    }

    fn command(self) -> String {
        match self {
            Self::Debian(package) => format!("apt-get install {package}, as root"),
            Self::Rustup(component) => format!("rustup component add {component}"),
        }
    }
}

fn is_met(checkout: &Checkout, need: &Need) -> bool {
    match need.from {
        Source::Debian(_) => [need.binary].iter().chain(need.or).any(|it| on_path(it)),
        // Asked, not looked for: rustup leaves a file on the path also where the component is
        // absent.
        Source::Rustup(_) => match need.binary.strip_prefix("cargo-") {
            Some(subcommand) => command::succeeds(&mut checkout.cargo([subcommand, "--version"])),
            None => command::succeeds(checkout.program(need.binary).arg("--version")),
        },
    }
}

fn on_path(binary: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    // An ordinary user's PATH has no servers of the system.
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|directory: PathBuf| directory.join(binary).is_file())
}

fn may_install(checkout: &Checkout) -> bool {
    on_path("apt-get")
        && command::ask(checkout.program("id").arg("-u")).is_ok_and(|id| id == b"0\n")
}

fn apt(checkout: &Checkout, words: &[&str]) -> Result<(), Failure> {
    let mut apt = checkout.program("apt-get");
    command::run(apt.env("DEBIAN_FRONTEND", "noninteractive").args(words))
}

/// Fetches the lists of what there is anew, where we may: old ones have old versions. Whatever keeps one of them from
/// being fetched, what is looked for may be in another.
pub(crate) fn refresh(checkout: &Checkout) {
    if may_install(checkout) {
        let _ = apt(checkout, &["update"]);
    }
}

/// Tries; whether it worked is seen by looking again.
fn install(checkout: &Checkout, packages: &[&str]) {
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(packages);
    // A fresh machine has no package lists yet; any other is spared the download.
    if apt(checkout, &words).is_err() {
        refresh(checkout);
        let _ = apt(checkout, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_named() {
        let needs = [
            Need::component("rustc", "rustc", "we were built with it"),
            Need::component("cargo-no-such-thing", "no-such-thing", "nothing"),
        ];
        let failure = provide(&Checkout::here(), &needs).expect_err("one cannot be met");
        assert_eq!(failure.why(), "missing: cargo-no-such-thing");
    }

    #[test]
    fn what_is_only_wanted_may_be_missing() {
        let wanted = || Need {
            else_skipped: Some("the tests of nothing"),
            ..Need::component("cargo-no-such-thing", "no-such-thing", "nothing")
        };
        let outcome = provide(&Checkout::here(), &[wanted()]).expect("it goes on");
        assert_eq!(outcome, "without cargo-no-such-thing");
        let other = Need {
            or: &["sh"],
            ..Need::debian("no-such-shell", "no-such-shell", "nothing")
        };
        assert!(is_met(&Checkout::here(), &other));
    }
}
