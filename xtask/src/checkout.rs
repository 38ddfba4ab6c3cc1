//! The working copy that the chores act on.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The one this program was built from.
    pub(crate) fn here() -> Self {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self {
            root: xtask.parent().unwrap_or(xtask).to_owned(),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A program that works at the root.
    pub(crate) fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(name);
        command.current_dir(&self.root);
        command
    }

    /// The cargo that runs us, as if called by hand: what it says about the package `xtask` in the
    /// environment would otherwise reach build scripts and tests, and have some of them built
    /// again.
    ///
    /// Whatever resolves dependencies is `--locked`: a lock file that is out of date is an error and not repaired in
    /// passing.
    pub(crate) fn cargo<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.program(cargo);
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&*name);
            }
        }
        let words: Vec<&str> = words.into_iter().collect();
        let verbs = words_before_options(&words);
        command.args(&words[..verbs]);
        if verbs > 0 && RESOLVES.contains(&words[verbs - 1]) {
            command.arg("--locked");
        }
        command.args(&words[verbs..]);
        command
    }
}

/// The commands of cargo that read the lock file; the last one is that of `cargo nextest run`.
const RESOLVES: [&str; 7] = ["build", "check", "clippy", "doc", "metadata", "test", "run"];

/// How many words name the command: one, or two as in `nextest run`.
fn words_before_options(words: &[&str]) -> usize {
    match words {
        ["nextest", "run", ..] => 2,
        [] => 0,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let command = Checkout::here().cargo(words);
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn commands_that_resolve_dependencies_keep_the_lock_file() {
        assert_eq!(shown(["test", "--doc"]), ["test", "--locked", "--doc"]);
        assert_eq!(
            shown(["nextest", "run", "--workspace"]),
            ["nextest", "run", "--locked", "--workspace"]
        );
        assert_eq!(shown(["fmt", "--check"]), ["fmt", "--check"]);
        assert_eq!(shown(["nextest", "--version"]), ["nextest", "--version"]);
    }
}
