//! Starts `example-web` as a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Instant;

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;

use crate::live::{End, Live, PATIENCE, Runs};

/// A certificate for `localhost`, made for this test, and its files.
pub(crate) fn certificate(directory: &TempDir) -> (CertificateDer<'static>, PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])
        .expect("a certificate can be made");
    let (chain, key) = (
        directory.path().join("cert.pem"),
        directory.path().join("key.pem"),
    );
    std::fs::write(&chain, made.cert.pem()).expect("the certificate can be written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("the key can be written");
    (made.cert.der().clone(), chain, key)
}

/// An `example-web` about to start.
#[must_use = "a server does nothing until `start`"]
pub(crate) struct Web {
    arguments: Vec<String>,
    grace: &'static str,
    directory: TempDir,
    certificate: Option<CertificateDer<'static>>,
    stdin: Stdio,
    /// What the shell says before it starts the server.
    descriptors: Option<String>,
    /// A program that starts it in its own place.
    wrapper: Vec<String>,
}

impl Web {
    /// With a grace far longer than every bound that a connection can have of its own.
    pub(crate) fn new() -> Self {
        Self {
            arguments: Vec::new(),
            grace: "20s",
            directory: TempDir::new().expect("a directory for the report"),
            certificate: None,
            stdin: Stdio::null(),
            descriptors: None,
            wrapper: Vec::new(),
        }
    }

    /// With so many file descriptors and no more.
    pub(crate) fn descriptors(mut self, most: u32) -> Self {
        self.descriptors = Some(format!("ulimit -n {most}"));
        self
    }

    /// With so many file descriptors, and the right to raise that to `hard`.
    pub(crate) fn soft_descriptors(mut self, soft: u32, hard: u32) -> Self {
        self.descriptors = Some(format!("ulimit -Sn {soft}; ulimit -Hn {hard}"));
        self
    }

    /// Started by this command, which gets the program and its arguments behind its own.
    pub(crate) fn wrapped<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.wrapper = words.map(ToOwned::to_owned).to_vec();
        self
    }

    fn command(&self) -> Command {
        let web = env!("CARGO_BIN_EXE_example-web");
        if let [program, words @ ..] = &*self.wrapper {
            let mut command = Command::new(program);
            command.args(words).arg(web);
            return command;
        }
        match &self.descriptors {
            None => Command::new(web),
            Some(limit) => {
                let mut shell = Command::new("sh");
                let script = format!("{limit}; exec \"$0\" \"$@\"");
                shell.args(["-c", &script, web]);
                shell
            }
        }
    }

    pub(crate) const fn grace(mut self, grace: &'static str) -> Self {
        self.grace = grace;
        self
    }

    pub(crate) fn admin(mut self, address: &str) -> Self {
        self.arguments
            .extend(["--admin".to_owned(), address.to_owned()]);
        self
    }

    pub(crate) fn lame_duck(mut self, lame_duck: &str) -> Self {
        self.arguments
            .extend(["--lame-duck".to_owned(), lame_duck.to_owned()]);
        self
    }

    pub(crate) fn tls(mut self, tls: bool) -> Self {
        if tls {
            let (certificate, chain, key) = certificate(&self.directory);
            self.certificate = Some(certificate);
            for (flag, file) in [("--tls-cert", chain), ("--tls-key", key)] {
                self.arguments
                    .extend([flag.to_owned(), file.display().to_string()]);
            }
        }
        self
    }

    pub(crate) fn stdin(mut self, stdin: impl Into<Stdio>) -> Self {
        self.stdin = stdin.into();
        self
    }

    pub(crate) fn start(self) -> Live {
        self.start_with(Signal::TERM)
    }

    /// Starts it, to be stopped with this signal.
    pub(crate) fn start_with(self, signal: Signal) -> Live {
        let report = self.directory.path().join("report.json");
        let mut child = self
            .command()
            .args(["--listen", "127.0.0.1:0", "--grace", self.grace])
            .arg("--report")
            .arg(&report)
            .args(&self.arguments)
            .env_remove("ADIEU_GRACE")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("ADIEU_REPORT")
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("example-web starts");
        let pid = Pid::from_child(&child);
        let mut stderr = child.stderr.take().expect("standard error is a pipe");
        thread::spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            eprint!("{text}");
        });
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap_or_else(|| panic!("no address: {read:?} {line:?}"))
            .parse()
            .expect("an address is printed");
        let (gone_to, gone) = mpsc::channel();
        thread::spawn(move || {
            // Without reaping it: until then its number is its own and can be killed.
            let _ = process::waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            );
            let _ = gone_to.send(Instant::now());
        });
        let process = Process {
            child,
            pid,
            signal,
            gone,
            report,
            _directory: self.directory,
        };
        Live::new(address, self.certificate, Box::new(process))
    }
}

struct Process {
    child: Child,
    pid: Pid,
    signal: Signal,
    gone: Receiver<Instant>,
    report: PathBuf,
    _directory: TempDir,
}

impl Runs for Process {
    fn id(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn stop(&mut self) {
        process::kill_process(self.pid, self.signal).expect("it is not reaped yet");
    }

    fn end(&mut self) -> End {
        let at = self
            .gone
            .recv_timeout(PATIENCE)
            .expect("the process must end");
        let status = self.child.wait().expect("it can be waited for");
        let report = std::fs::read_to_string(&self.report).ok();
        End {
            code: status.code(),
            report: report.map(|text| serde_json::from_str(&text).expect("the report is JSON")),
            at,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both do nothing if it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
