//! A directory, the real binary in it, and the processes that are left when it has ended.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A program that answers every request with `hello`, closes, and ends at SIGTERM with 0.
pub(crate) const HELLO: &str = r#"
import signal, socket, sys
def stop(*_):
    print("bye", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    peer, _ = listener.accept()
    with peer:
        if peer.recv(65536):
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
"#;

/// A program that stops with care, and does one thing wrong if an argument says so.
const CAREFUL: &str = include_str!("careful.py");

/// A directory and a command in it.
pub(crate) struct Test {
    folder: TempDir,
}

impl Test {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().expect("a directory");
        fs::write(folder.path().join("hello.py"), HELLO).expect("a file");
        fs::write(folder.path().join("careful.py"), CAREFUL).expect("a file");
        Self { folder }
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        fs::write(self.folder.path().join(name), text).expect("a file");
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_adieu"));
        command.arg("drill").args(words).current_dir(self.path());
        // A process that is left behind is found by this.
        command.env("ADIEU_DRILL_TEST", self.mark());
        command
    }

    pub(crate) fn mark(&self) -> String {
        self.path().display().to_string()
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ran {
        let output = self.command(words).output().expect("the command runs");
        assert_eq!(
            self.left(),
            Vec::<String>::new(),
            "a process was left behind"
        );
        Ran(output)
    }

    /// The checks of a drill of the careful program with this fault.
    pub(crate) fn judge(&self, words: &[&str], fault: &str) -> Judged {
        let command = ["--json", "--", "python3", "careful.py", "{port}", fault];
        let ran = self.run(&[&["--http", URL], words, &command].concat());
        let report: Value = serde_json::from_str(&ran.out())
            .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out(), ran.err()));
        Judged(report)
    }

    /// The processes that carry our mark.
    pub(crate) fn left(&self) -> Vec<String> {
        let wanted = format!("ADIEU_DRILL_TEST={}", self.mark());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        processes
            .filter(|entry| {
                let environ = fs::read(entry.path().join("environ")).unwrap_or_default();
                environ
                    .split(|byte| *byte == 0)
                    .any(|pair| pair == wanted.as_bytes())
            })
            .map(|entry| fs::read_to_string(entry.path().join("comm")).unwrap_or_default())
            .collect()
    }
}

pub(crate) struct Ran(Output);

impl Ran {
    pub(crate) fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// The code, no word on standard output, and these words on standard error.
    #[track_caller]
    pub(crate) fn refuses(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), Some(code), "{}", self.err());
        assert_eq!(self.out(), "");
        for words in words {
            assert!(self.err().contains(words), "{}", self.err());
        }
    }
}

/// A report, to be asked about its checks.
pub(crate) struct Judged(pub(crate) Value);

impl Judged {
    pub(crate) fn check(&self, id: &str) -> &Value {
        let checks = self.0["checks"].as_array().expect("checks");
        let found = checks.iter().find(|check| check["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {}", self.0))
    }

    /// The check came out like this, and its reason and evidence have these words. A failure always has evidence.
    #[track_caller]
    pub(crate) fn is(&self, id: &str, outcome: &str, words: &[&str]) {
        let check = self.check(id);
        let is_unjudged = check["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("not judged"));
        // A fault was seen, and the drill had the processor too late to be sure of it.
        if outcome == "failed" && check["outcome"] == "skipped" && is_unjudged {
            return fixture_skip::too_busy(format!("{id}: {}", check["reason"]));
        }
        assert_eq!(check["outcome"], outcome, "{check}");
        let told = format!("{} {}", check["reason"], check["evidence"]);
        for words in words {
            assert!(told.contains(words), "no `{words}` in {check}");
        }
        let evidence = check["evidence"].as_array().expect("a list");
        assert!(outcome != "failed" || !evidence.is_empty(), "{check}");
    }
}

pub(crate) const URL: &str = "http://127.0.0.1:{port}/";
