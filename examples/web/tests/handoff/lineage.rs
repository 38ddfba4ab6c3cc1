//! `example-web` and the processes that take over from it.
//!
//! All of them write to the pipes of the first one. The test is the one that orphans are given to, so that it can
//! wait for each of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use tempfile::TempDir;

/// Only a broken promise takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

const WEB: &str = env!("CARGO_BIN_EXE_example-web");

/// A server, through all its generations.
pub(crate) struct Lineage {
    first: Child,
    /// The processes that served, and whether they were waited for.
    pids: Vec<(u32, bool)>,
    /// The processes that were started to serve.
    started: Vec<u32>,
    lines: Receiver<String>,
    seen: Vec<String>,
    pub(crate) directory: TempDir,
    pub(crate) listen: Option<SocketAddr>,
    admin: SocketAddr,
}

impl Lineage {
    pub(crate) fn start(listen: &str, arguments: &[&str]) -> Self {
        Self::start_with(listen, arguments, &[])
    }

    pub(crate) fn start_with(listen: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let me = Pid::from_raw(1).filter(|_| std::process::id() == 1);
        // Any process id says yes.
        rustix::process::set_child_subreaper(me.or(Pid::from_raw(2))).expect("orphans come to us");
        let directory = TempDir::new().expect("a directory");
        let program = directory.path().join("web");
        symlink(WEB, &program).expect("a link");
        let mut command = Command::new(&program);
        command
            .args([
                "--listen",
                listen,
                "--admin",
                "127.0.0.1:0",
                "--grace",
                "30s",
            ])
            .arg("--report")
            .arg(directory.path().join("report.json"))
            .args(arguments)
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("NOTIFY_SOCKET")
            .env("NO_COLOR", "1")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut first = command.spawn().expect("example-web starts");
        let (tell, lines) = mpsc::channel();
        let stdout = first.stdout.take().expect("its output");
        let stderr = first.stderr.take().expect("its log");
        for pipe in [Box::new(stdout) as Box<dyn Read + Send>, Box::new(stderr)] {
            let tell = tell.clone();
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = tell.send(line);
                }
            });
        }
        let mut lineage = Self {
            pids: vec![(first.id(), false)],
            first,
            started: Vec::new(),
            lines,
            seen: Vec::new(),
            directory,
            listen: None,
            admin: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        lineage.admin = lineage.wait_for("admin on ").parse().expect("an address");
        lineage.listen = lineage.wait_for("listening on ").parse().ok();
        let begun = Instant::now();
        while lineage
            .ask("/readyz")
            .is_none_or(|(status, _)| status != 200)
        {
            assert!(begun.elapsed() < PATIENCE, "never ready");
            thread::yield_now();
        }
        lineage
    }

    /// What follows these words in the next line that has them.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let rest = line
                        .split_once(words)
                        .map(|(_, rest)| rest.trim_end_matches(" service=web").to_owned());
                    self.remember(&line);
                    self.seen.push(line);
                    if let Some(rest) = rest {
                        return rest;
                    }
                }
                Err(_) => panic!("`{words}` never came: {:#?}", self.seen),
            }
        }
    }

    /// Processes that were started are killed if the test fails.
    fn remember(&mut self, line: &str) {
        let begun = line.split_once("handing over to process ");
        let pid: Option<u32> = begun.and_then(|(_, rest)| rest.split(':').next()?.parse().ok());
        self.started.extend(pid);
    }

    /// Everything that was printed so far.
    pub(crate) fn log(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    /// A question to the admin port.
    pub(crate) fn ask(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.admin).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
    }

    /// The report so far of the process that serves.
    #[track_caller]
    pub(crate) fn report(&self) -> Value {
        let (_, text) = self.ask("/report").expect("an answer");
        serde_json::from_str(&text).expect("the report is JSON")
    }

    /// The health of the process that serves.
    #[track_caller]
    pub(crate) fn health(&self) -> Value {
        let (_, text) = self.ask("/health").expect("an answer");
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// The report that the last one has left.
    pub(crate) fn last_report(&self) -> Value {
        let text = fs::read_to_string(self.directory.path().join("report.json")).expect("a report");
        serde_json::from_str(&text).expect("the report is JSON")
    }

    /// The process that serves now.
    pub(crate) fn pid(&self) -> u32 {
        self.pids.last().expect("at least one").0
    }

    pub(crate) fn signal(&self, pid: u32, signal: Signal) {
        kill_process(as_pid(pid), signal).expect("it is there");
    }

    /// The next one will be this script, in which `$WEB` is the real program.
    pub(crate) fn next_is(&self, script: &str) {
        let beside = self.directory.path().join("next");
        let _ = fs::remove_file(&beside);
        fs::write(&beside, format!("#!/bin/sh\nWEB={WEB}\n{script}\n")).expect("a script");
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o700)).expect("a program");
        fs::rename(beside, self.program()).expect("a new version");
    }

    /// The next one will be the real program.
    pub(crate) fn next_is_good(&self) {
        let beside = self.directory.path().join("next");
        symlink(WEB, &beside).expect("a link");
        fs::rename(beside, self.program()).expect("a new version");
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("web")
    }

    /// Hands over to a new process, and waits until the old one is gone.
    #[track_caller]
    pub(crate) fn hand_over(&mut self) {
        let old = self.pid();
        self.signal(old, Signal::USR2);
        let new = self.wait_for("adieu: handed over to process ");
        let new: u32 = new
            .split_whitespace()
            .next()
            .expect("a number")
            .parse()
            .expect("a number");
        self.pids.push((new, false));
        assert_eq!(self.await_end(old), Some(0), "{}", self.log());
    }

    /// A hand-off that comes to nothing; says why.
    #[track_caller]
    pub(crate) fn hand_over_in_vain(&mut self) -> String {
        self.signal(self.pid(), Signal::USR2);
        self.wait_for("the hand-off failed, and this process goes on: ")
    }

    /// Waits for the end of a process; gives its exit code.
    pub(crate) fn await_end(&mut self, pid: u32) -> Option<i32> {
        if let Some(entry) = self.pids.iter_mut().find(|entry| entry.0 == pid) {
            entry.1 = true;
        }
        if pid == self.first.id() {
            return self.first.wait().expect("it can be waited for").code();
        }
        let status = waitid(WaitId::Pid(as_pid(pid)), WaitIdOptions::EXITED).expect("it is ours");
        status.and_then(|status| status.exit_status())
    }

    /// Stops the one that serves.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let pid = self.pid();
        self.signal(pid, Signal::TERM);
        self.await_end(pid)
    }

    /// The processes that have this server's port.
    pub(crate) fn holders(&self) -> BTreeSet<u32> {
        let port = self.listen.expect("a port").port();
        let table = fs::read_to_string("/proc/net/tcp").expect("Linux");
        let inode = table.lines().skip(1).find_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let here = columns[1].ends_with(&format!(":{port:04X}")) && columns[3] == "0A";
            here.then(|| format!("socket:[{}]", columns[9]))
        });
        let inode = inode.expect("a process listens");
        processes()
            .filter(|pid| links(*pid).contains(&inode))
            .collect()
    }
}

fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a number")).expect("not zero")
}

fn processes() -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").expect("Linux");
    all.flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// What the descriptors of a process lead to.
pub(crate) fn links(pid: u32) -> Vec<String> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect()
}

impl Drop for Lineage {
    fn drop(&mut self) {
        let waited = |pid| self.pids.contains(&(pid, true));
        let all = self
            .started
            .iter()
            .chain(self.pids.iter().map(|(pid, _)| pid));
        // One that has ended is a child of ours as long as it is not waited for, and its number its own.
        for pid in all.filter(|pid| !waited(**pid) && is_child(**pid)) {
            let _ = kill_process(as_pid(*pid), Signal::KILL);
        }
        let _ = self.first.wait();
    }
}

/// Whether it is a child of the test, by itself or as an orphan, or of one of its children.
fn is_child(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
    parent.is_some_and(|parent: u32| parent == std::process::id() || parent > 1 && is_child(parent))
}
