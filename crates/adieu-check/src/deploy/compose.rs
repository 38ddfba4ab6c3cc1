//! Compose files.

use std::sync::Arc;

use super::Reporter;
use super::command;
use super::image;
use super::launch;
use super::start::{Spot, StopTime, Variable};
use super::yaml::Node;
use crate::rule;

/// What compose waits without being told.
const DEFAULT_GRACE: u64 = 10;

pub(crate) fn check(document: &Node, reporter: &mut Reporter<'_>) {
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
            check_service(name, service, reporter);
        }
    }
}

fn check_service(name: &Node, service: &Node, reporter: &mut Reporter<'_>) {
    let said = name.text().unwrap_or("the service");
    let image = reporter.images.of_service(reporter.path, service);
    let mut start = reporter.images.start(
        image.as_ref(),
        service.get("entrypoint").map(Node::words),
        service.get("command").map(Node::words),
        environment(service, reporter.path),
    );
    let told = service.get("command").or_else(|| service.get("entrypoint"));
    start.at = start.at.or_else(|| Some(reporter.spot(told?.line)));
    let own = reporter.own(&start);
    grace(name, service, own.as_ref(), reporter);
    let mut words = service
        .get("entrypoint")
        .map(Node::words)
        .unwrap_or_default();
    words.extend(service.get("command").map(Node::words).unwrap_or_default());
    let shell = words
        .first()
        .is_some_and(|first| matches!(command::program(first), "sh" | "bash"));
    let line = words.last().map(String::as_str).unwrap_or_default();
    let several = shell
        && (line.contains(" & ") || line.contains("&&") || line.contains(';'))
        && !line.contains("exec ")
        // What ends by itself is over before anything stops it.
        && !line.trim_end().rsplit([';', '&']).next().is_some_and(|end| end.trim_start().starts_with("exit"));
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
            "`{said}` starts a shell as PID 1 with children below it: set `init: true` and `exec` the service"
        );
        reporter.report(line, rule::COMPOSE_INIT, message);
        // How an image of others is made to start is seldom for this project to mend.
        if service.get("build").is_none() {
            reporter.lower_last();
        }
    }
    // What the image starts by itself is said of its Dockerfile.
    if let (Some(told), Some(wrapper)) = (told, command::wrapper(&start.words)) {
        reporter.report_wrapper(told.line, &wrapper);
    }
    if let Some(signal) = service.get("stop_signal")
        && matches!(signal.text(), Some("SIGKILL" | "KILL" | "9"))
    {
        reporter.report(
            signal.line,
            rule::STOP_SIGNAL,
            "SIGKILL cannot be handled: the program is cut off in the middle",
        );
    }
    let period = service.get("stop_grace_period");
    let period = period.map(|it| (it.text().and_then(command::seconds), reporter.spot(it.line)));
    // The file that says it is the one to hold a stop against.
    if period.is_some() || !reporter.images.is_said_elsewhere(reporter.path, said) {
        reporter.launch(
            said,
            name.line,
            start,
            launch::compose(period, reporter.spot(name.line)),
            None,
        );
    }
}

fn grace(name: &Node, service: &Node, own: Option<&StopTime>, reporter: &mut Reporter<'_>) {
    let said = name.text().unwrap_or("the service");
    let runs_once = service
        .at(&["deploy", "restart_policy", "condition"])
        .and_then(Node::text)
        == Some("none");
    let code = match own {
        Some(own) if own.is_server => rule::SERVER_GRACE,
        _ => rule::COMPOSE_GRACE,
    };
    match (service.get("stop_grace_period"), own) {
        (None, _) if runs_once => {}
        // Another file of the directory says it, or is the one to say it.
        (None, _) if reporter.images.is_said_elsewhere(reporter.path, said) => {}
        // Known to be done before docker loses patience.
        (None, Some(own)) if own.seconds < DEFAULT_GRACE => {}
        (None, own) => {
            let why = match own {
                Some(own) => format!(" while {}", own.said()),
                None => String::new(),
            };
            let message = format!(
                "`{said}` is killed {DEFAULT_GRACE} s after SIGTERM{why}: say `stop_grace_period`"
            );
            reporter.report_grace(name.line, rule::COMPOSE_GRACE, message, own);
        }
        (Some(period), Some(own)) => {
            let given = period.text().and_then(command::seconds);
            if let Some(given) = given
                && given < own.seconds
            {
                let message = format!("`{said}` is killed after {given} s while {}", own.said());
                reporter.report_grace(period.line, code, message, Some(own));
            }
        }
        (Some(_), None) => {}
    }
}

/// The variables that a service sets.
fn environment(service: &Node, path: &Arc<str>) -> Vec<Variable> {
    let Some(environment) = service.get("environment") else {
        return Vec::new();
    };
    let pairs = environment
        .entries()
        .iter()
        .filter_map(|(name, value)| Some((name.text()?, value.text()?, name.line)));
    let lines = environment.items().iter().filter_map(|item| {
        let (name, value) = item.text()?.split_once('=')?;
        Some((name, value, item.line))
    });
    pairs
        .chain(lines)
        .map(|(name, value, line)| Variable {
            name: name.to_owned(),
            value: value.to_owned(),
            at: Some(Spot {
                path: Arc::clone(path),
                line,
            }),
        })
        .collect()
}
