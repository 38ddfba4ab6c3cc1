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
    pub(crate) fn cargo<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.program(cargo);
        for (name, _) in env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&*name);
            }
        }
        command.args(words);
        command
    }
}
