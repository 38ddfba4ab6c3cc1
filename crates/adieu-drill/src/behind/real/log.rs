//! What a balancer wrote about each request.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;

use adieu_load::{Loss, Outcome};

use super::{haproxy, nginx};
use crate::behind::profile::RealBalancer;

/// One line: the last instance that the request was sent to, and what the balancer saw of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::behind) struct LogLine {
    /// Absent if the balancer had none to send it to.
    pub(in crate::behind) instance: Option<u32>,
    /// How many attempts there were.
    pub(in crate::behind) tries: usize,
    /// What became of the last one.
    pub(in crate::behind) outcome: Outcome,
}

/// All lines, by the number of the request. The balancer has ended.
pub(super) fn read(
    kind: RealBalancer,
    dir: &Path,
    known: &HashMap<SocketAddr, u32>,
) -> io::Result<HashMap<u64, LogLine>> {
    let (file, parse): (_, fn(&str, &HashMap<_, _>) -> _) = match kind {
        RealBalancer::Nginx => (nginx::LOG, of_nginx),
        RealBalancer::HaProxy => (haproxy::LOG, of_haproxy),
    };
    let bytes = fs::read(dir.join(file))?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(|line| parse(line, known)).collect())
}

/// The number in `adieu-12ab34cd-0000000017`.
fn number(id: &str) -> Option<u64> {
    id.rsplit_once('-')?.1.parse().ok()
}

/// `id|status|addresses|statuses|times to connect|times to the first byte`, a list each.
fn of_nginx(line: &str, known: &HashMap<SocketAddr, u32>) -> Option<(u64, LogLine)> {
    let fields: Vec<&str> = line.split('|').collect();
    let &[id, _, addresses, statuses, connects, heads] = fields.as_slice() else {
        return None;
    };
    let last = |list: &str| list.rsplit(", ").next().unwrap_or("-").to_owned();
    let status: u16 = last(statuses).parse().unwrap_or(502);
    let outcome = match (last(connects).as_str(), last(heads).as_str()) {
        _ if status == 504 => Outcome::Lost(Loss::TimedOut),
        ("-", _) => Outcome::Refused,
        (_, "-") => Outcome::Lost(Loss::Closed),
        _ if status >= 500 => Outcome::Failed(status),
        _ => Outcome::Answered,
    };
    // With no server left it names the upstream.
    let instance = last(addresses).parse().ok();
    let instance = instance.and_then(|address: SocketAddr| known.get(&address).copied());
    let tries = addresses.split(", ").count();
    let line = LogLine {
        instance,
        tries,
        outcome,
    };
    Some((number(id)?, line))
}

/// `id|status|address|state at the end|retries`.
fn of_haproxy(line: &str, known: &HashMap<SocketAddr, u32>) -> Option<(u64, LogLine)> {
    let fields: Vec<&str> = line.split('|').collect();
    let &[id, status, address, state, retries] = fields.as_slice() else {
        return None;
    };
    let status: u16 = status.parse().unwrap_or(503);
    let outcome = match state.get(..2) {
        Some("SC") => Outcome::Refused,
        Some("sC" | "sH" | "sQ") => Outcome::Lost(Loss::TimedOut),
        Some("SD" | "sD") => Outcome::Lost(Loss::Truncated),
        Some("SH") => Outcome::Lost(Loss::Closed),
        _ if status >= 500 => Outcome::Failed(status),
        _ => Outcome::Answered,
    };
    let instance = address.parse().ok();
    let instance = instance.and_then(|address: SocketAddr| known.get(&address).copied());
    let retries: usize = retries.trim_start_matches('+').parse().unwrap_or_default();
    let line = LogLine {
        instance,
        tries: retries + 1,
        outcome,
    };
    Some((number(id)?, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> HashMap<SocketAddr, u32> {
        [("127.0.0.1:8001", 1), ("127.0.0.1:8002", 2)]
            .map(|(address, id)| (address.parse().expect("an address"), id))
            .into()
    }

    #[test]
    fn a_line_of_nginx_tells_the_last_attempt() {
        let lost = Outcome::Lost(Loss::Closed);
        for (line, instance, tries, outcome) in [
            (
                "a-0000000007|200|127.0.0.1:8001|200|0.001|0.002",
                Some(1),
                1,
                Outcome::Answered,
            ),
            (
                "a-0000000007|200|127.0.0.1:8001, 127.0.0.1:8002|502, 200|-, 0.001|-, 0.002",
                Some(2),
                2,
                Outcome::Answered,
            ),
            (
                "a-0000000007|502|127.0.0.1:8002|502|-|-",
                Some(2),
                1,
                Outcome::Refused,
            ),
            (
                "a-0000000007|502|127.0.0.1:8002|502|0.000|-",
                Some(2),
                1,
                lost,
            ),
            (
                "a-0000000007|503|127.0.0.1:8002|503|0.000|0.001",
                Some(2),
                1,
                Outcome::Failed(503),
            ),
            (
                "a-0000000007|502|instances|502|-|-",
                None,
                1,
                Outcome::Refused,
            ),
        ] {
            let (number, line) = of_nginx(line, &known()).expect("a line");
            let expected = LogLine {
                instance,
                tries,
                outcome,
            };
            assert_eq!((number, line), (7, expected));
        }
        assert_eq!(of_nginx("-|200|-|-|-|-", &known()), None);
        assert_eq!(of_nginx("half a li", &known()), None);
    }

    #[test]
    fn a_line_of_haproxy_tells_how_the_server_ended() {
        for (rest, instance, tries, outcome) in [
            ("200|127.0.0.1:8001|----|0", Some(1), 1, Outcome::Answered),
            ("200|127.0.0.1:8002|----|+1", Some(2), 2, Outcome::Answered),
            ("503|127.0.0.1:8001|SC--|3", Some(1), 4, Outcome::Refused),
            (
                "502|127.0.0.1:8001|SH--|0",
                Some(1),
                1,
                Outcome::Lost(Loss::Closed),
            ),
            (
                "200|127.0.0.1:8001|SD--|0",
                Some(1),
                1,
                Outcome::Lost(Loss::Truncated),
            ),
            (
                "503|127.0.0.1:8001|----|0",
                Some(1),
                1,
                Outcome::Failed(503),
            ),
            ("503|-:-|SC--|0", None, 1, Outcome::Refused),
        ] {
            let line = format!("adieu-1f-0000000012|{rest}");
            let (number, line) = of_haproxy(&line, &known()).expect("a line");
            let expected = LogLine {
                instance,
                tries,
                outcome,
            };
            assert_eq!((number, line), (12, expected), "{rest}");
        }
        let other = "Proxy load stopped (cumulated conns: FE: 7).";
        assert_eq!(of_haproxy(other, &known()), None);
    }
}
