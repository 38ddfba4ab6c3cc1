//! `example-web --admin`: how a real process is seen from outside while it serves and stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Far more than any test needs: only a broken promise gets here.
const PATIENCE: Duration = Duration::from_secs(30);

/// A child that is killed if its test fails.
struct Web {
    child: Child,
    lines: Receiver<String>,
    admin: String,
    listen: String,
}

impl Web {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_example-web"))
            .args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(arguments)
            .env_remove("ADIEU_GRACE")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("example-web starts");
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
        let mut web = Self {
            child,
            lines,
            admin: String::new(),
            listen: String::new(),
        };
        web.admin = web.wait_for("admin on ");
        web.listen = web.wait_for("listening on ");
        web.poll("readiness", |web| web.ask("/readyz").0 == 200);
        web
    }

    /// What follows these words in the next line that has them.
    #[track_caller]
    fn wait_for(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("`{words}` never came"));
            if let Some((_, rest)) = line.split_once(words) {
                return rest.trim().to_owned();
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
    fn ask(&self, path: &str) -> (u16, String) {
        finish(begin(&self.admin, path))
    }

    fn get(&self, path: &str) -> (u16, String) {
        finish(begin(&self.listen, path))
    }

    fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is not reaped yet");
    }

    #[track_caller]
    fn ends_well(mut self) {
        let mut status = None;
        self.poll("the end", |web| {
            status = web.child.try_wait().expect("it can be waited for");
            status.is_some()
        });
        assert_eq!(status.and_then(|status| status.code()), Some(0));
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // Both do nothing if it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn begin(address: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    stream
}

fn finish(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// The lame duck still serves, but says at once that no client is to be sent to it; it is not to be killed either.
#[test]
fn a_lame_duck_is_live_and_not_ready_and_serves() {
    let web = Web::start(&["--grace", "20s", "--lame-duck", "3s"]);
    assert_eq!(web.get("/").0, 200);
    web.terminate();
    web.wait_for("stopping: sigterm");
    let unready = (503, "not ready: stopping\n".to_owned());
    assert_eq!(web.ask("/readyz"), unready);
    assert_eq!(web.ask("/livez").0, 200);
    assert_eq!(web.get("/").0, 200);
    web.ends_well();
}

/// While a request in flight holds the drain, the port still answers, and counts it.
#[test]
fn a_drain_can_be_watched() {
    const IN_FLIGHT: &str = "adieu_requests_in_flight{service=\"web\",part=\"web\"} 1";
    let mut web = Web::start(&["--grace", "30s"]);
    let slow = begin(&web.listen, "/slow?ms=4000");
    web.poll("the request", |web| {
        web.ask("/metrics").1.contains(IN_FLIGHT)
    });
    web.terminate();
    web.wait_for("phase drain");
    assert_eq!(web.ask("/livez").0, 200);
    assert_eq!(web.ask("/readyz").0, 503);
    let health = web.ask("/health").1;
    assert!(health.contains("\"phase\": \"drain\""), "{health}");
    assert!(web.ask("/metrics").1.contains(IN_FLIGHT));
    assert_eq!(finish(slow), (200, "slept 4000 ms\n".to_owned()));
    web.ends_well();
}

#[test]
fn a_blocked_loop_is_counted() {
    let mut web = Web::start(&["--grace", "20s"]);
    assert_eq!(web.get("/block?ms=400").0, 200);
    web.poll("the count", |web| {
        let text = web.ask("/metrics").1;
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("adieu_blocked_total{service=\"web\"} "));
        count.is_some_and(|count| count != "0")
    });
    assert_eq!(web.ask("/livez").0, 200);
    web.terminate();
    web.ends_well();
}
