//! A project on disk and the real binary in it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const BLOCKS: &str = "import asyncio\nimport time\n\ndef nap():\n    time.sleep(1)\n\nasync def f():\n    nap()\n    time.sleep(2)\n    await asyncio.sleep(0)\n";

/// A project and a command in it.
#[must_use]
pub(crate) struct Test {
    folder: TempDir,
}

impl Test {
    pub(crate) fn new() -> Test {
        Test {
            folder: TempDir::new().expect("a directory"),
        }
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Test {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
        self
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.run_in("", args)
    }

    pub(crate) fn run_in(&self, folder: &str, args: &[&str]) -> Ran {
        let output = Command::new(env!("CARGO_BIN_EXE_adieu"))
            .arg("check")
            .args(args)
            .current_dir(self.folder.path().join(folder))
            .output()
            .expect("the command runs");
        Ran(output)
    }

    /// Runs it with a text as its standard input.
    pub(crate) fn given(&self, text: &str, args: &[&str]) -> Ran {
        self.given_bytes(text.as_bytes(), args)
    }

    pub(crate) fn given_bytes(&self, bytes: &[u8], args: &[&str]) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_adieu"))
            .arg("check")
            .args(args)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command runs");
        let mut input = child.stdin.take().expect("an input");
        // One that does not read its input may have closed it.
        let _ = input.write_all(bytes);
        drop(input);
        Ran(child.wait_with_output().expect("the command ends"))
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).expect("a file")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub(crate) struct Ran(pub(crate) Output);

impl Ran {
    pub(crate) fn code(&self) -> i32 {
        self.0.status.code().expect("an exit code")
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.0.stdout).expect("JSON on standard output")
    }
}
