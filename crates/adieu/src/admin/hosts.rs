//! The names that an admin port answers to.
//!
//! A web page can have its own host name resolve to an address of this machine (DNS rebinding), and a browser then lets
//! it read what the port answers. The browser still sends the name of the page as `Host`, so such a request can be told
//! from others. An address in place of a name cannot be made to mean another machine.

use std::net::IpAddr;

use http::uri::Authority;
use http::{Request, header::HOST};

/// Names, separated by commas, that every admin port of the process answers to.
const VARIABLE: &str = "ADIEU_ADMIN_HOSTS";
/// What no public name ends with: clusters and local networks use these.
const PRIVATE: [&str; 4] = [".internal", ".local", ".localhost", ".svc"];

/// Which names a port answers to.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// The port can be reached from this machine alone, so that no other machine has a name for it.
    is_local: bool,
    /// Its clients are no browsers: a Unix socket.
    is_any: bool,
    names: Vec<String>,
}

impl Hosts {
    /// For a port that was asked for at this address and is at that one.
    pub(super) fn new(
        asked: &str,
        local: Option<std::net::SocketAddr>,
        names: Vec<String>,
    ) -> Self {
        let asked = asked.rsplit_once(':').map(|(host, _)| host.to_owned());
        let said = std::env::var(VARIABLE).unwrap_or_default();
        let said = said.split(',').map(str::to_owned);
        let names = names.into_iter().chain(asked).chain(said);
        Self {
            is_local: local.is_some_and(|local| local.ip().is_loopback()),
            is_any: local.is_none(),
            names: names
                .map(|name| plain(&name))
                .filter(|name| !name.is_empty())
                .collect(),
        }
    }

    /// What a request calls this port, if it is not one of its names.
    pub(super) fn refused<B>(&self, request: &Request<B>) -> Option<String> {
        if self.is_any {
            return None;
        }
        if let Some(authority) = request.uri().authority() {
            return self.refuses(authority.host());
        }
        let mut hosts = request.headers().get_all(HOST).iter();
        // HTTP/1.0 has none, and no browser leaves it out.
        let host = hosts.next()?;
        let text = String::from_utf8_lossy(host.as_bytes());
        match text.parse::<Authority>() {
            Ok(authority) if hosts.next().is_none() => self.refuses(authority.host()),
            _ => Some(text.into_owned()),
        }
    }

    fn refuses(&self, host: &str) -> Option<String> {
        let name = plain(host);
        let is_address = name.parse::<IpAddr>().is_ok();
        let is_own = name == "localhost" || name.ends_with(".localhost");
        let is_private = !name.contains('.') || PRIVATE.iter().any(|end| name.ends_with(end));
        let is_known =
            is_address || is_own || (!self.is_local && is_private) || self.names.contains(&name);
        (!is_known).then_some(name)
    }
}

/// What to answer a request for another host.
pub(super) fn advice(name: &str) -> String {
    format!(
        "the admin port does not answer to the host name {name:?}: ask by IP address or as localhost, or allow the name \
         with `.host(…)` or {VARIABLE}\n"
    )
}

/// A host as it is compared: without brackets and the dot at its end, in small letters.
fn plain(host: &str) -> String {
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    host.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(hosts: &Hosts, host: &str) -> bool {
        let request = Request::builder().header(HOST, host).body(());
        hosts.refused(&request.expect("a request")).is_none()
    }

    fn at(address: &str, names: &[&str]) -> Hosts {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Hosts::new(address, address.parse().ok(), names)
    }

    #[test]
    fn a_port_of_this_machine_answers_to_this_machine() {
        let hosts = at("127.0.0.1:9100", &["Orders.Example.com"]);
        for host in [
            "localhost",
            "localhost:41000",
            "LOCALHOST:9100",
            "a.localhost",
            "127.0.0.1:9100",
            "127.0.0.1",
            "[::1]:9100",
            "10.1.2.3:9100",
            "orders.example.com",
            "orders.example.com.:9100",
        ] {
            assert!(answers(&hosts, host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9100",
            "orders",
            "x.svc",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "",
            "a@localhost:1:2",
        ] {
            assert!(!answers(&hosts, host), "{host}");
        }
    }

    #[test]
    fn a_port_for_others_answers_to_names_of_clusters_as_well() {
        let hosts = at("0.0.0.0:9100", &[]);
        for host in [
            "10.1.2.3:9100",
            "[fd00::7]:9100",
            "orders",
            "orders:9100",
            "orders.shop.svc",
            "localhost:41000",
            "orders.shop.svc.cluster.local:9100",
            "ip-10-0-0-1.compute.internal",
        ] {
            assert!(answers(&hosts, host), "{host}");
        }
        for host in ["evil.example", "orders.shop", "svc.example.com"] {
            assert!(!answers(&hosts, host), "{host}");
        }
    }

    #[test]
    fn the_name_in_the_request_line_counts_and_two_hosts_are_refused() {
        let hosts = at("127.0.0.1:9100", &[]);
        let request = Request::builder()
            .uri("http://evil.example/report")
            .header(HOST, "localhost");
        let refused = hosts.refused(&request.body(()).expect("a request"));
        assert_eq!(refused.as_deref(), Some("evil.example"));
        let request = Request::builder()
            .header(HOST, "localhost")
            .header(HOST, "evil.example");
        assert!(
            hosts
                .refused(&request.body(()).expect("a request"))
                .is_some()
        );
        let request = Request::builder().body(()).expect("a request");
        assert_eq!(hosts.refused(&request), None, "HTTP/1.0");
    }

    #[test]
    fn the_name_it_was_asked_for_by_counts_and_a_unix_socket_has_none() {
        let local = "127.0.0.1:9100".parse().ok();
        assert!(answers(
            &Hosts::new("web1.example.com:9100", local, Vec::new()),
            "web1.example.com"
        ));
        assert!(answers(
            &Hosts::new("unix:/run/x.sock", None, Vec::new()),
            "anything.example"
        ));
    }
}
