//! nginx and HAProxy: whether an old worker has an end.

use super::Reporter;
use crate::rule;
use crate::severity::Severity;

/// What a file of settings says of the end of old workers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxy {
    software: &'static str,
    setting: &'static str,
    /// Where to say it.
    line: u32,
    is_said: bool,
    /// Where connections are let live for long: WebSockets, tunnels.
    long_lived: Option<u32>,
}

/// The main file of nginx: only this one has the context that the setting belongs to.
pub(crate) fn nginx(text: &str) -> Option<Proxy> {
    let mut depth = 0_usize;
    let mut proxy = Proxy {
        software: "nginx",
        setting: "worker_shutdown_timeout",
        ..Proxy::default()
    };
    for (line, text) in code(text) {
        let first = text.split_whitespace().next().unwrap_or("");
        match first {
            "worker_shutdown_timeout" if depth == 0 => proxy.is_said = true,
            "http" | "http{" | "stream" | "stream{" if depth == 0 && proxy.line == 0 => {
                proxy.line = line
            }
            "proxy_set_header" if text.to_ascii_lowercase().contains("$http_upgrade") => {
                proxy.long_lived.get_or_insert(line);
            }
            _ => {}
        }
        depth += text.matches('{').count();
        depth = depth.saturating_sub(text.matches('}').count());
    }
    (proxy.line > 0).then_some(proxy)
}

pub(crate) fn haproxy(text: &str) -> Option<Proxy> {
    let mut proxy = Proxy {
        software: "HAProxy",
        setting: "hard-stop-after",
        ..Proxy::default()
    };
    for (line, text) in code(text) {
        let mut words = text.split_whitespace();
        match (words.next(), words.next()) {
            (Some("global"), None) => proxy.line = line,
            (Some("hard-stop-after"), _) => proxy.is_said = true,
            (Some("timeout"), Some("tunnel")) => {
                proxy.long_lived.get_or_insert(line);
            }
            _ => {}
        }
    }
    (proxy.line > 0).then_some(proxy)
}

/// Lines without comments, from one.
fn code(text: &str) -> impl Iterator<Item = (u32, &str)> {
    text.lines().enumerate().map(|(index, line)| {
        let code = line.split('#').next().unwrap_or_default();
        (index as u32 + 1, code.trim())
    })
}

pub(crate) fn check(proxy: &Proxy, reporter: &mut Reporter<'_>) {
    if proxy.is_said {
        return;
    }
    let Proxy {
        software, setting, ..
    } = proxy;
    let what = match proxy.long_lived {
        Some(line) => format!("the long connections of line {line}"),
        None => "connections that stay open".to_owned(),
    };
    let message = format!(
        "{software} keeps old workers for as long as {what} live, at every reload and stop: set `{setting}`"
    );
    reporter.report(proxy.line, rule::PROXY_WITHOUT_LIMIT, message);
    if proxy.long_lived.is_some()
        && let Some(finding) = reporter.last_mut()
    {
        finding.severity = Severity::Warning;
    }
}

#[cfg(test)]
mod tests {
    use super::{haproxy, nginx};

    #[test]
    fn the_setting_counts_where_it_belongs() {
        let of = |text| nginx(text).map(|it| (it.line, it.is_said, it.long_lived));
        assert_eq!(
            of("worker_shutdown_timeout 30s;\nhttp {\n}\n"),
            Some((2, true, None))
        );
        assert_eq!(
            of("http {\n  worker_shutdown_timeout 30s;\n}\n"),
            Some((1, false, None))
        );
        assert_eq!(
            of("http {\n server {\n  proxy_set_header Upgrade $http_upgrade;\n }\n}\n"),
            Some((1, false, Some(3)))
        );
        // A part that another file takes in.
        assert_eq!(of("server {\n listen 80;\n}\n"), None);
    }

    #[test]
    fn a_tunnel_is_a_long_connection() {
        let of = |text| haproxy(text).map(|it| (it.line, it.is_said, it.long_lived));
        assert_eq!(
            of("global\n  maxconn 100\ndefaults\n  timeout tunnel 1h\n"),
            Some((1, false, Some(4)))
        );
        assert_eq!(of("global\n  hard-stop-after 30s\n"), Some((1, true, None)));
        assert_eq!(of("backend x\n"), None);
    }
}
