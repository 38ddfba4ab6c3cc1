//! Starts the program and plays the world around it. Order comes from its own lines; no wait is unbounded.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use adieu_testkit::SchedulingDelay;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Far more than any test needs: only a broken promise gets here.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running shop; killed if its test fails.
pub(crate) struct Shop {
    child: Child,
    lines: Receiver<String>,
    admin: String,
    listen: String,
    directory: TempDir,
}

/// A shop that is gone.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) status: ExitStatus,
    pub(crate) report: Value,
    /// From the signal to the end.
    pub(crate) took: Duration,
    /// For how long threads of this machine had to wait for a processor meanwhile.
    pub(crate) delay: Duration,
}

/// When the stop of a shop was requested.
pub(crate) struct Asked {
    at: Instant,
    delay: SchedulingDelay,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Shop {
    /// Opens a shop on this database, and waits until it is ready.
    pub(crate) fn open(database: &str, arguments: &[&str]) -> Self {
        let directory = TempDir::new().expect("a directory for the report");
        let mut child = command(database)
            .arg("--report")
            .arg(directory.path().join("report.json"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("example-orders starts");
        let stdout = child.stdout.take().expect("its output");
        let stderr = child.stderr.take().expect("its log");
        let (tell, lines) = mpsc::channel();
        for pipe in [Box::new(stdout) as Box<dyn Read + Send>, Box::new(stderr)] {
            let tell = tell.clone();
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = tell.send(line);
                }
            });
        }
        let mut shop = Self {
            child,
            lines,
            admin: String::new(),
            listen: String::new(),
            directory,
        };
        shop.admin = shop.wait_for("admin on ");
        shop.listen = shop.wait_for("listening on ");
        shop.poll("readiness", |shop| shop.ask("/readyz").status == 200);
        shop
    }

    /// What follows these words in the next line that has them.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.split_once(words) {
                    Some((_, rest)) => return rest.trim().to_owned(),
                    None => {
                        assert!(!line.contains('\x1b'), "colours are for terminals: {line}");
                        seen.push(line);
                    }
                },
                Err(_) => panic!("`{words}` never came: {seen:#?}"),
            }
        }
    }

    /// Looks until it is so, at something that says nothing by itself.
    #[track_caller]
    fn poll(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> bool) {
        let begun = Instant::now();
        while !look(self) {
            assert!(begun.elapsed() < PATIENCE, "{what} never came");
            thread::yield_now();
        }
    }

    /// Asks the admin port.
    pub(crate) fn ask(&self, path: &str) -> Answer {
        finish(begin(&self.admin, "GET", path, ""))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        finish(self.begin_post(path, body))
    }

    /// Sends an order whose answer is for later.
    pub(crate) fn begin_post(&self, path: &str, body: &str) -> TcpStream {
        begin(&self.listen, "POST", path, body)
    }

    pub(crate) fn begin_get(&self, path: &str) -> TcpStream {
        begin(&self.listen, "GET", path, "")
    }

    /// The items ordered so far.
    #[track_caller]
    pub(crate) fn items(&self) -> Vec<String> {
        let answer = finish(self.begin_get("/orders"));
        let orders: Value = serde_json::from_str(&answer.body).expect("a list");
        let orders = orders.as_array().expect("a list").iter();
        orders
            .map(|order| order["item"].as_str().unwrap_or("?").to_owned())
            .collect()
    }

    pub(crate) fn terminate(&self) -> Asked {
        let asked = Asked {
            at: Instant::now(),
            delay: SchedulingDelay::start(),
        };
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is not reaped yet");
        asked
    }

    /// Waits for the end of a shop whose stop was requested.
    #[track_caller]
    pub(crate) fn closed(mut self, asked: Asked) -> Closed {
        let mut ended = None;
        self.poll("the end", |shop| {
            ended = shop.child.try_wait().expect("it can be waited for");
            ended.is_some()
        });
        let (took, delay) = (asked.at.elapsed(), asked.delay.latest());
        let report = std::fs::read_to_string(self.directory.path().join("report.json"));
        Closed {
            status: ended.expect("it has ended"),
            report: serde_json::from_str(&report.expect("a report")).expect("JSON"),
            took,
            delay,
        }
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        // Both do nothing if it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Closed {
    /// It was gone in this time. One that is late by no more than threads had to wait for a processor is not judged.
    #[track_caller]
    pub(crate) fn within(&self, limit: Duration) {
        let excess = self.took.saturating_sub(limit);
        if !excess.is_zero() && excess <= self.delay {
            let (took, delay) = (self.took, self.delay);
            return fixture_skip::too_busy(format!("{took:?} of {limit:?}, delay {delay:?}"));
        }
        assert!(excess.is_zero(), "over {limit:?}: {self:#?}");
    }

    #[track_caller]
    pub(crate) fn outcome(&self, part: &str) -> &Value {
        let parts = self.report["parts"].as_array().expect("parts");
        let found = parts.iter().find(|listed| listed["name"] == part);
        &found.unwrap_or_else(|| panic!("no {part}: {self:#?}"))["outcome"]
    }

    /// The parts in the order of their outcomes.
    #[track_caller]
    pub(crate) fn order(&self) -> Vec<&str> {
        let timeline = self.report["timeline"].as_array().expect("a timeline");
        let settled = timeline.iter().filter(|entry| {
            ["finished", "closed", "abandoned"].contains(&entry["event"].as_str().unwrap_or(""))
        });
        settled.filter_map(|entry| entry["part"].as_str()).collect()
    }
}

/// The program on this database and on ports of its own.
pub(crate) fn command(database: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-orders"));
    command
        .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--database", database])
        .env_remove("ADIEU_GRACE")
        .env_remove("DATABASE_URL");
    command
}

fn begin(address: &str, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .expect("it reads");
    stream
}

pub(crate) fn finish(mut stream: TcpStream) -> Answer {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Answer {
        status: status.expect("a status"),
        body: body.to_owned(),
    }
}
