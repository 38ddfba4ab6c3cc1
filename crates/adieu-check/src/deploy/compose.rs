//! Compose files.

use super::Desk;
use super::command;
use super::image;
use super::yaml::Node;
use crate::rule;

/// What compose waits without being told.
const DEFAULT_GRACE: u64 = 10;

pub(crate) fn check(document: &Node, desk: &mut Desk<'_>) {
    let Some(services) = document.get("services") else {
        return;
    };
    for (name, service) in services.entries() {
        // What another file adds cannot be known here.
        if service.get("extends").is_some() || service.entries().is_empty() {
            continue;
        }
        let is_infrastructure = service
            .get("image")
            .and_then(Node::text)
            .is_some_and(image::is_infrastructure)
            && service.get("build").is_none();
        if !is_infrastructure {
            check_service(name, service, desk);
        }
    }
}

fn check_service(name: &Node, service: &Node, desk: &mut Desk<'_>) {
    let said = name.text().unwrap_or("the service");
    let mut words = service
        .get("entrypoint")
        .map(Node::words)
        .unwrap_or_default();
    words.extend(service.get("command").map(Node::words).unwrap_or_default());
    let runs_once = service
        .at(&["deploy", "restart_policy", "condition"])
        .and_then(Node::text)
        == Some("none");
    let period = service.get("stop_grace_period");
    let own = command::grace(&words)
        .or_else(|| environment_grace(service))
        .or(desk.grace);
    match period {
        None if !runs_once => {
            let message = format!(
                "`{said}` is killed {DEFAULT_GRACE} s after SIGTERM: say `stop_grace_period`"
            );
            desk.report(name.line, rule::COMPOSE_GRACE, message);
        }
        Some(period) => {
            let given = period.text().and_then(command::seconds);
            let server = command::server(&words);
            let default = command::default_grace(&words).filter(|_| own.is_none());
            if let (Some(given), Some(own)) = (given, own.or(default.map(|(_, grace)| grace)))
                && given < own
            {
                let (code, who) = match server {
                    Some(server) => (rule::SERVER_GRACE, server),
                    None => (rule::COMPOSE_GRACE, "the program"),
                };
                let message = format!(
                    "`{said}` is killed after {given} s while {who} takes up to {own} s to stop"
                );
                desk.report(period.line, code, message);
            }
        }
        None => {}
    }
    let shell = words
        .first()
        .is_some_and(|first| matches!(command::program(first), "sh" | "bash"));
    let line = words.last().map(String::as_str).unwrap_or_default();
    let several = shell
        && (line.contains(" & ") || line.contains("&&") || line.contains(';'))
        && !line.contains("exec ");
    let has_init = service
        .get("init")
        .and_then(Node::text)
        .is_some_and(|text| matches!(text, "true" | "yes" | "on"));
    if several && !has_init {
        let line = service
            .get("command")
            .or_else(|| service.get("entrypoint"))
            .map_or(name.line, |node| node.line);
        let message = format!(
            "`{said}` starts a shell as process 1 with children below it: set `init: true` and `exec` the service"
        );
        desk.report(line, rule::COMPOSE_INIT, message);
    }
    if let Some(wrapper) = command::wrapper(&words) {
        let line = service
            .get("command")
            .or_else(|| service.get("entrypoint"))
            .map_or(name.line, |node| node.line);
        let message = format!(
            "`{wrapper}` stands between the signal and the program: start the program itself"
        );
        desk.report(line, rule::SWALLOWING_WRAPPER, message);
    }
    if let Some(signal) = service.get("stop_signal")
        && matches!(signal.text(), Some("SIGKILL" | "KILL" | "9"))
    {
        desk.report(
            signal.line,
            rule::STOP_SIGNAL,
            "SIGKILL cannot be handled: the program is cut off in the middle",
        );
    }
}

fn environment_grace(service: &Node) -> Option<u64> {
    let environment = service.get("environment")?;
    let pairs = environment
        .entries()
        .iter()
        .filter_map(|(name, value)| Some((name.text()?, value.text()?)));
    let lines = environment
        .items()
        .iter()
        .filter_map(|item| item.text()?.split_once('='));
    pairs
        .chain(lines)
        .find_map(|(name, value)| command::grace_variable(name, value))
}
