//! What the chores need on the machine besides a Rust toolchain.
//!
//! A missing Debian package is installed when we may, that is as root where there is apt-get.
//! Otherwise, what is missing is named together with the command that brings it.

use std::env;

use crate::checkout::Checkout;
use crate::command;
use crate::step::{Failure, Outcome};

pub(crate) struct Need {
    binary: &'static str,
    from: Source,
    why: &'static str,
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
    Need::debian("tini", "tini", "`adieu run` is tested beside it"),
    Need::debian("dumb-init", "dumb-init", "`adieu run` is tested beside it"),
    Need::component("cargo-fmt", "rustfmt", "formatting is checked"),
    Need::component("cargo-clippy", "clippy", "lints are checked"),
];

impl Need {
    pub(crate) const fn debian(
        binary: &'static str,
        package: &'static str,
        why: &'static str,
    ) -> Self {
        let from = Source::Debian(package);
        Self { binary, from, why }
    }

    pub(crate) const fn component(
        binary: &'static str,
        component: &'static str,
        why: &'static str,
    ) -> Self {
        let from = Source::Rustup(component);
        Self { binary, from, why }
    }
}

/// Sees to it that all needs are met, or says which are not.
pub(crate) fn provide(checkout: &Checkout, needs: &[Need]) -> Outcome {
    let unmet = |need: &&Need| !is_met(checkout, need);
    let mut missing: Vec<&Need> = needs.iter().filter(unmet).collect();
    let packages: Vec<&str> = missing
        .iter()
        .filter_map(|need| need.from.debian())
        .collect();
    if !packages.is_empty() && may_install(checkout) {
        install(checkout, &packages);
        missing.retain(unmet);
    }
    for need in &missing {
        println!(
            "missing: {} ({}); to install it: {}",
            need.binary,
            need.why,
            need.from.command()
        );
    }
    if missing.is_empty() {
        return Ok(String::new());
    }
    let names: Vec<&str> = missing.iter().map(|need| need.binary).collect();
    Err(Failure::new(format!("missing: {}", names.join(", "))))
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
        Source::Debian(_) => on_path(need.binary),
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
    env::split_paths(&path).any(|directory| directory.join(binary).is_file())
}

fn may_install(checkout: &Checkout) -> bool {
    on_path("apt-get")
        && command::ask(checkout.program("id").arg("-u")).is_ok_and(|id| id == b"0\n")
}

/// Tries; whether it worked is seen by looking again.
fn install(checkout: &Checkout, packages: &[&str]) {
    let apt = |words: &[&str]| {
        let mut apt = checkout.program("apt-get");
        command::run(apt.env("DEBIAN_FRONTEND", "noninteractive").args(words))
    };
    let mut words = vec!["install", "--yes", "--no-install-recommends"];
    words.extend(packages);
    // A fresh machine has no package lists yet; any other is spared the download.
    if apt(&words).is_err() {
        // Whatever keeps one of the lists from being fetched, the package may be in another.
        let _ = apt(&["update"]);
        let _ = apt(&words);
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
}
