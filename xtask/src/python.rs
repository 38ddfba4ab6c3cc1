//! A Python environment with the servers that `adieu run` and `adieu drill` are tested on, under target/.
//!
//! Fetched from the package index the first time. Where that cannot be done the tests skip themselves, which is a failure in CI.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

/// What the tests start. A version that changes makes a new environment.
const PACKAGES: [&str; 5] = [
    "fastapi==0.163.2",
    "gunicorn==27.0.1",
    "kubernetes-validate==1.37.0",
    "pygls==2.1.1",
    "uvicorn==0.54.0",
];

/// The variable in which tests find the interpreter.
const INTERPRETER: &str = "ADIEU_PYTHON";

/// The environment, complete or not there.
pub(crate) struct Environment {
    folder: PathBuf,
}

impl Environment {
    pub(crate) fn of(checkout: &Checkout) -> Self {
        Self {
            folder: checkout.root().join("target/python"),
        }
    }

    /// Fetches what is missing; says why it cannot.
    pub(crate) fn provide(&self, checkout: &Checkout) -> Result<(), Failure> {
        let wanted = PACKAGES.join("\n");
        if fs::read_to_string(self.list()).is_ok_and(|list| list == wanted) {
            return Ok(());
        }
        let mut venv = checkout.program("python3");
        venv.args(["-m", "venv", "--clear"]).arg(&self.folder);
        command::run(&mut venv).map_err(|failure| {
            failure.advise("`apt-get install python3-venv`, as root, brings it")
        })?;
        let mut install = checkout.program(self.interpreter());
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        command::run(install.args(PACKAGES)).map_err(|failure| {
            failure.advise("the package index cannot be reached, or lacks it")
        })?;
        // Last: what is there has all of them.
        fs::write(self.list(), wanted)?;
        Ok(())
    }

    /// Has tests find the interpreter, if it is complete.
    pub(crate) fn offer<'command>(&self, command: &'command mut Command) -> &'command mut Command {
        if self.list().is_file() {
            command.env(INTERPRETER, self.interpreter());
        }
        command
    }

    fn interpreter(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    fn list(&self) -> PathBuf {
        self.folder.join("adieu-packages.txt")
    }
}
