//! What `/livez` and `/readyz` are asked for: one check by its name, without some, in detail. As the Kubernetes API server
//! answers them.

use std::fmt::Write as _;

use super::health::{Readiness, Unready};

/// The path before the name of a check.
const ONE_CHECK: &str = "/readyz/";

/// A request to a probe.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeRequest {
    /// `/readyz/<check>`: only this check.
    pub(super) only: Option<String>,
    /// `?exclude=<check>`, any number of times.
    exclude: Vec<String>,
    /// `?verbose`: a line for each check.
    pub(super) is_verbose: bool,
}

impl ProbeRequest {
    /// What a path and a query ask of `/readyz`.
    pub(super) fn new(path: &str, query: Option<&str>) -> Self {
        let only = path.strip_prefix(ONE_CHECK).map(decoded);
        let pairs = query.unwrap_or_default().split('&');
        let mut request = Self {
            only,
            ..Self::default()
        };
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "verbose" => request.is_verbose = true,
                "exclude" => request.exclude.push(decoded(&value.replace('+', " "))),
                _ => {}
            }
        }
        request
    }

    /// Whether this check is to be asked.
    pub(super) fn wants(&self, check: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == check)
            && !self.exclude.iter().any(|excluded| excluded == check)
    }

    /// Whether the path names one check, and the service has none of that name.
    pub(super) fn names_no_check(&self, readiness: &Readiness) -> bool {
        let Some(only) = &self.only else { return false };
        let asked = readiness.checks.iter().map(|(check, _)| check);
        !asked
            .chain(&readiness.excluded)
            .any(|check| check.name == *only)
    }

    /// A line for each check, and the result. Names and no error texts: the answer may be shown to strangers.
    pub(super) fn lines(&self, readiness: &Readiness) -> String {
        let mut text = String::new();
        let of_service = readiness
            .unready
            .iter()
            .filter(|reason| !matches!(reason, Unready::Check(_)))
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        if of_service.is_empty() {
            text.push_str("[+]service ok\n");
        } else {
            let _ = writeln!(text, "[-]service failed: {}", of_service.join(", "));
        }
        for (check, answer) in &readiness.checks {
            let _ = match answer {
                Some(answer) if answer.problem.is_none() => writeln!(text, "[+]{} ok", check.name),
                Some(_) => writeln!(text, "[-]{} failed: reason withheld", check.name),
                None => writeln!(text, "[-]{} failed: not asked", check.name),
            };
        }
        let excluded = |name: &str| self.exclude.iter().any(|excluded| excluded == name);
        for check in &readiness.excluded {
            if excluded(&check.name) {
                let _ = writeln!(text, "[+]{} excluded: ok", check.name);
            }
        }
        let all = readiness.checks.iter().map(|(check, _)| check);
        let all: Vec<_> = all.chain(&readiness.excluded).collect();
        for name in &self.exclude {
            if !all.iter().any(|check| check.name == *name) {
                let name = crate::util::printable::name(name);
                let _ = writeln!(text, "warn: no check is named {name}, so none was excluded");
            }
        }
        let result = if readiness.unready.is_empty() {
            "passed"
        } else {
            "failed"
        };
        let _ = writeln!(text, "readyz check {result}");
        text
    }
}

/// Whether this is the path of a probe.
pub(super) fn is_probe(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz")
        || path
            .strip_prefix(ONE_CHECK)
            .is_some_and(|name| !name.is_empty())
}

/// Text without percent-encoding. Characters that are not an encoding stay as they are.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let code = behind
            .get(..2)
            .filter(|code| *first == b'%' && code.iter().all(u8::is_ascii_hexdigit));
        let code = code.and_then(|code| str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_query_select_checks() {
        let all = ProbeRequest::new("/readyz", None);
        assert_eq!(all, ProbeRequest::default());
        assert!(all.wants("db"));
        let one = ProbeRequest::new("/readyz/my%20db", Some("verbose"));
        assert!(one.is_verbose && one.wants("my db") && !one.wants("db"));
        let query = "exclude=db&timeout=1&exclude=my+cache&verbose=1";
        let some = ProbeRequest::new("/readyz", Some(query));
        assert!(some.is_verbose && some.wants("queue"));
        assert!(!some.wants("db") && !some.wants("my cache"));
    }

    #[test]
    fn what_is_no_encoding_stays() {
        for text in ["100%", "%zz", "%4", "%+1"] {
            assert_eq!(decoded(text), text);
        }
        assert_eq!(decoded("%C3%A4%2F"), "ä/");
    }

    #[test]
    fn a_probe_is_known_by_its_path() {
        for path in ["/livez", "/readyz", "/readyz/db"] {
            assert!(is_probe(path), "{path}");
        }
        for path in ["/readyz/", "/readyzz", "/livez/db", "/health", "/"] {
            assert!(!is_probe(path), "{path}");
        }
    }
}
