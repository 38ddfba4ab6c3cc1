//! One question over a plain socket, with a time by which it is over.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use super::body::{Body, end_of_head};
use super::status::Statuses;
use super::target::{Place, Question, Target};

/// No head is longer that we care to read.
const MOST: usize = 8 * 1_024;

/// Why something counts as unhealthy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unhealthy {
    /// Nothing, or not enough, came in time.
    Late(Duration),
    /// The connection could not be made, or broke.
    Broken(String),
    /// It answered with a status that is not a good one; the status line, and the beginning of what it said.
    Answered(String),
}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(timeout) => write!(f, "no answer within {timeout:?}"),
            Self::Broken(why) | Self::Answered(why) => f.write_str(why),
        }
    }
}

trait HealthStream: Read + Write {
    fn patience(&self, left: Duration) -> io::Result<()>;
}

macro_rules! wire {
    ($kind:ty) => {
        impl HealthStream for $kind {
            fn patience(&self, left: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(left))?;
                self.set_write_timeout(Some(left))
            }
        }
    };
}

wire!(TcpStream);
#[cfg(unix)]
wire!(std::os::unix::net::UnixStream);

/// When it must be over.
struct Deadline {
    at: Instant,
    whole: Duration,
}

impl Deadline {
    fn left(&self) -> Result<Duration, Unhealthy> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Unhealthy::Late(self.whole));
        }
        Ok(left)
    }

    fn judge(&self, what: &str, error: &io::Error) -> Unhealthy {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Unhealthy::Late(self.whole),
            _ => Unhealthy::Broken(format!("{what}: {error}")),
        }
    }
}

/// Asks, and gives back what was good about the answer. Waits at most so long, apart from resolving a name.
pub(crate) fn ask(
    target: &Target,
    statuses: &Statuses,
    timeout: Duration,
) -> Result<String, Unhealthy> {
    let deadline = Deadline {
        at: Instant::now() + timeout,
        whole: timeout,
    };
    let wire = connect(target, &deadline)?;
    match &target.question {
        None => Ok(format!("{target} accepts connections")),
        Some(question) => inquire(wire, target, question, statuses, &deadline),
    }
}

fn connect(target: &Target, deadline: &Deadline) -> Result<Box<dyn HealthStream>, Unhealthy> {
    let what = format!("cannot connect to {target}");
    let failed = |error: io::Error| deadline.judge(&what, &error);
    match &target.place {
        #[cfg(unix)]
        Place::Unix(path) => {
            let stream = std::os::unix::net::UnixStream::connect(path).map_err(failed)?;
            Ok(Box::new(stream))
        }
        #[cfg(not(unix))]
        Place::Unix(_) => Err(Unhealthy::Broken(format!(
            "{what}: this system has no Unix sockets"
        ))),
        Place::Tcp(address) => {
            let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            for address in address.to_socket_addrs().map_err(failed)? {
                match TcpStream::connect_timeout(&address, deadline.left()?) {
                    Ok(stream) => return Ok(Box::new(stream)),
                    Err(error) => last = error,
                }
            }
            Err(failed(last))
        }
    }
}

fn inquire(
    mut wire: Box<dyn HealthStream>,
    target: &Target,
    question: &Question,
    statuses: &Statuses,
    deadline: &Deadline,
) -> Result<String, Unhealthy> {
    let what = format!("no answer from {target}");
    let failed = |error: io::Error| deadline.judge(&what, &error);
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: adieu-health\r\naccept: */*\r\nconnection: close\r\n\r\n",
        question.path, question.host
    );
    wire.patience(deadline.left()?).map_err(failed)?;
    wire.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = Vec::new();
    let mut part = [0; 1_024];
    let status = loop {
        if let Some(end) = answer.iter().position(|byte| *byte == b'\n') {
            let status = read_status(&answer[..end]).ok_or_else(|| {
                let line = String::from_utf8_lossy(&answer[..end.min(80)]).into_owned();
                Unhealthy::Broken(format!("{target} does not speak HTTP: {line:?}"))
            })?;
            if !is_interim(status.0) {
                break status;
            }
            if let Some(next) = end_of_head(&answer) {
                answer.drain(..next);
                continue;
            }
        }
        if answer.len() > MOST {
            return Err(Unhealthy::Broken(format!("{target} does not speak HTTP")));
        }
        wire.patience(deadline.left()?).map_err(failed)?;
        match wire.read(&mut part) {
            Ok(0) => {
                return Err(Unhealthy::Broken(format!(
                    "{target} closed the connection without an answer"
                )));
            }
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    };
    let (number, line) = status;
    if statuses.hold(number) {
        return Ok(line);
    }
    // The status is enough; the first words of the body say why, if they come in time.
    let is_enough = |answer: &[u8]| {
        Body::of(answer).is_some_and(|body| body.is_whole || body.words().is_some())
    };
    while answer.len() < MOST && !is_enough(&answer) {
        let in_time = deadline.left().map(|left| wire.patience(left));
        match in_time {
            Ok(Ok(())) => match wire.read(&mut part) {
                Ok(count @ 1..) => answer.extend_from_slice(&part[..count]),
                _ => break,
            },
            _ => break,
        }
    }
    let why = Body::of(&answer).and_then(|body| body.words());
    let why = why.map_or(String::new(), |words| format!(": {words}"));
    Err(Unhealthy::Answered(format!("{target} says {line}{why}")))
}

/// The number, and the line without the version of the protocol.
fn read_status(line: &[u8]) -> Option<(u16, String)> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    let rest = line.strip_prefix("HTTP/1.")?.get(1..)?.trim_start();
    let number = rest.get(..3)?.parse().ok()?;
    let shown = rest
        .chars()
        .filter(|it| !it.is_control())
        .take(80)
        .collect();
    Some((number, shown))
}

/// Whether the answer is still to come, as after `103 Early Hints`. After a change of protocol none does.
fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read() {
        assert_eq!(
            read_status(b"HTTP/1.1 200 OK\r"),
            Some((200, "200 OK".into()))
        );
        assert_eq!(read_status(b"HTTP/1.0 503\r"), Some((503, "503".into())));
        for line in ["", "HTTP/1.", "HTTP/1.1 ", "HTTP/1.1 2x0", "SSH-2.0-x"] {
            assert_eq!(read_status(line.as_bytes()), None, "{line}");
        }
    }
}
