//! One stop: a request that hangs, SIGTERM, and how long the process is still there.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::programs::{Client, Program};
use crate::step::Failure;

/// Nothing here is bounded by more than half of this.
const LONGEST: Duration = Duration::from_secs(60);

/// What has no limit is watched for so long.
const WATCHED: Duration = Duration::from_millis(WATCHED_MILLIS);
pub(super) const WATCHED_MILLIS: u64 = 15_000;

/// How many milliseconds the stop took; as long as it was watched where it did not end.
pub(super) fn stop(program: &Program, is_limited: bool) -> Result<u64, Failure> {
    if let Client::Path(socket, _) = &program.client {
        match fs::remove_file(socket) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
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
    if let Some(words) = program.listens {
        wait_for(&lines, words)?;
    }
    // Held open until the program has ended.
    let _client = request(&program.client)?;
    if let Some(words) = program.hangs {
        wait_for(&lines, words)?;
    }
    let limit = if is_limited { LONGEST } else { WATCHED };
    child.end(limit)
}

/// Sends the request that hangs.
fn request(client: &Client) -> Result<Option<Box<dyn Write>>, Failure> {
    let (mut connection, request): (Box<dyn Write>, &[u8]) = match client {
        Client::None => return Ok(None),
        Client::Path(socket, request) => (Box::new(UnixStream::connect(socket)?), request),
        Client::Port(port, request) => (Box::new(connected(*port)?), request),
    };
    connection.write_all(request)?;
    Ok(Some(connection))
}

/// A connection to a program that does not say when it listens.
fn connected(port: u16) -> Result<TcpStream, Failure> {
    let started = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(connection) => return Ok(connection),
            Err(error) if started.elapsed() > LONGEST => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A program that is killed if nothing else ends it.
struct Running(Child);

impl Running {
    fn end(mut self, limit: Duration) -> Result<u64, Failure> {
        let pid = self.0.id().to_string();
        let signalled = Instant::now();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        let (send, ended) = mpsc::channel();
        let watch = thread::spawn(move || {
            // The channel is closed when the process has ended.
            if ended.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = Command::new("kill").args(["-KILL", &pid]).status();
            }
        });
        self.0.wait()?;
        let took = signalled.elapsed();
        drop::<mpsc::Sender<()>>(send);
        let _ = watch.join();
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
