//! One stop: a request that hangs, SIGTERM, and how long the process is still there.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::programs::Program;
use crate::step::Failure;

/// Nothing here is bounded by more than half of this.
const LONGEST: Duration = Duration::from_secs(60);

const REQUEST: &[u8] = b"GET /slow?ms=3600000 HTTP/1.1\r\nHost: x\r\n\r\n";

/// How many milliseconds the stop took.
pub(super) fn stop(program: &Program) -> Result<u64, Failure> {
    match fs::remove_file(&program.socket) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let (output, input) = std::io::pipe()?;
    let (first, words) = program
        .words
        .split_first()
        .ok_or_else(|| Failure::new("a program without a name"))?;
    let mut command = Command::new(first);
    command
        .args(words)
        .current_dir(&program.folder)
        .env("HOME", &program.folder)
        .env("PYTHONUNBUFFERED", "1")
        .stdin(Stdio::null())
        .stdout(input.try_clone()?)
        .stderr(input);
    let child = Running(command.spawn()?);
    // It holds ends of the pipe too, and the output would have no end while it is there.
    drop(command);
    // A reader of its own, so that the program never waits for one.
    let (send, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nothing more is waited for once the stop has begun.
            let _ = send.send(line);
        }
    });
    wait_for(&lines, program.listens)?;
    let mut client = UnixStream::connect(&program.socket)?;
    client.write_all(REQUEST)?;
    if let Some(words) = program.hangs {
        wait_for(&lines, words)?;
    }
    child.end()
}

/// A program that is killed if nothing else ends it.
struct Running(Child);

impl Running {
    fn end(mut self) -> Result<u64, Failure> {
        let pid = self.0.id().to_string();
        let signalled = Instant::now();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let (send, ended) = mpsc::channel();
        let limit = thread::spawn(move || {
            // The channel is closed when the process has ended.
            if ended.recv_timeout(LONGEST) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        self.0.wait()?;
        let took = signalled.elapsed();
        drop::<mpsc::Sender<()>>(send);
        let _ = limit.join();
        Ok(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail where it has ended, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(lines: &mpsc::Receiver<String>, words: &str) -> Result<(), Failure> {
    let mut said = String::new();
    while let Ok(line) = lines.recv_timeout(LONGEST) {
        if line.contains(words) {
            return Ok(());
        }
        said.push_str(&line);
        said.push('\n');
    }
    Err(Failure::new(format!(
        "the program did not say {words:?}, but:\n{said}"
    )))
}
