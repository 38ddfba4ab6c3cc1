//! The bot as a process. Order comes from its lines and from the API; no wait is unbounded.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Far more than any test needs: only a broken promise gets here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running bot; killed if its test fails.
pub(crate) struct Bot {
    child: Child,
    lines: Receiver<String>,
    log: Option<JoinHandle<String>>,
}

impl Bot {
    pub(crate) fn start(api: &str, state: &Path) -> Self {
        Self::start_with(api, state, &["--grace", "40s"])
    }

    pub(crate) fn start_with(api: &str, state: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_example-bot"))
            .args(["--api", api, "--state"])
            .arg(state)
            .args(flags)
            .env_remove("ADIEU_GRACE")
            .env_remove("BOT_API")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("example-bot starts");
        let stdout = child.stdout.take().expect("its output");
        let mut stderr = child.stderr.take().expect("its log");
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let log = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self {
            child,
            lines,
            log: Some(log),
        }
    }

    /// Waits for a line.
    #[track_caller]
    pub(crate) fn wait_for(&self, wanted: &str) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == wanted => return,
                Ok(_) => {}
                Err(_) => panic!("`{wanted}` never came"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it is not reaped yet");
    }

    /// Waits for its end; says its log.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().expect("it can be waited for");
        let log = self.log.take().expect("once");
        (status, log.join().expect("it reads"))
    }

    /// Stops it, which must be clean.
    #[track_caller]
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        let (status, log) = self.end();
        assert_eq!(status.code(), Some(0), "{log}");
        log
    }
}

impl Drop for Bot {
    fn drop(&mut self) {
        // Both do nothing if it was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
