//! Kubernetes manifests.

use super::Desk;
use super::command;
use super::yaml::Node;
use crate::rule;

/// What Kubernetes waits without being told.
const DEFAULT_GRACE: u64 = 30;

pub(crate) fn check(documents: &[Node], desk: &mut Desk<'_>) {
    for document in documents {
        let items = document.get("items").map(Node::items).unwrap_or_default();
        for object in std::iter::once(document).chain(items) {
            check_object(object, desk);
        }
    }
}

fn check_object(object: &Node, desk: &mut Desk<'_>) {
    let kind = object.get("kind").and_then(Node::text).unwrap_or("");
    if !matches!(
        kind,
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet"
    ) {
        return;
    }
    let Some(spec) = object.get("spec") else {
        return;
    };
    if kind == "Deployment" {
        rollout(spec, desk);
    }
    let Some(pod) = spec.at(&["template", "spec"]) else {
        return;
    };
    let given = pod.get("terminationGracePeriodSeconds");
    for container in pod.get("containers").map(Node::items).unwrap_or_default() {
        grace(pod, given, container, desk);
        probes(container, desk);
    }
}

fn rollout(spec: &Node, desk: &mut Desk<'_>) {
    let replicas = spec.get("replicas").and_then(Node::number).unwrap_or(1);
    let Some(limit) = spec.at(&["strategy", "rollingUpdate", "maxUnavailable"]) else {
        return;
    };
    let text = limit.text().unwrap_or("");
    let count = match text.strip_suffix('%') {
        // Kubernetes rounds a percentage of what may be missing down.
        Some(percent) => percent
            .trim()
            .parse::<u64>()
            .ok()
            .map(|percent| percent.saturating_mul(replicas) / 100),
        None => limit.number(),
    };
    if count.is_some_and(|count| count >= replicas && count > 0) {
        let message = format!(
            "a roll-out may take all {replicas} replicas away at once: lower `maxUnavailable`"
        );
        desk.report(limit.line, rule::DROPS_ALL, message);
    }
}

fn grace(pod: &Node, given: Option<&Node>, container: &Node, desk: &mut Desk<'_>) {
    let name = container
        .get("name")
        .and_then(Node::text)
        .unwrap_or("the container");
    let total = match given {
        Some(node) => match node.number() {
            Some(total) => total,
            None => return,
        },
        None => DEFAULT_GRACE,
    };
    let mut words = container
        .get("command")
        .map(Node::words)
        .unwrap_or_default();
    words.extend(container.get("args").map(Node::words).unwrap_or_default());
    let flag = command::grace(&words);
    let default = command::default_grace(&words).filter(|_| flag.is_none());
    let own = flag
        .or_else(|| environment_grace(container))
        .or(desk.grace)
        .or(default.map(|(_, grace)| grace));
    let hook = container.at(&["lifecycle", "preStop"]).and_then(pre_stop);
    let needed = hook.unwrap_or(0).saturating_add(own.unwrap_or(0));
    if needed == 0 || needed < total || needed == total && hook.is_none() {
        return;
    }
    let line = given.map_or(container.line.min(pod.line.max(1)), |node| node.line);
    let parts = match (hook, own) {
        (Some(hook), Some(own)) => format!("preStop takes {hook} s and the program up to {own} s"),
        (Some(hook), None) => format!("preStop alone takes {hook} s"),
        (None, own) => format!("the program takes up to {} s", own.unwrap_or(0)),
    };
    let server = command::server(&words).filter(|_| hook.is_none());
    let code = if server.is_some() {
        rule::SERVER_GRACE
    } else {
        rule::POD_GRACE
    };
    let message = format!(
        "`{name}` is killed after {total} s, but {parts}: raise `terminationGracePeriodSeconds`"
    );
    desk.report(line, code, message);
}

/// The seconds a hook visibly sleeps.
fn pre_stop(hook: &Node) -> Option<u64> {
    if let Some(seconds) = hook.at(&["sleep", "seconds"]).and_then(Node::number) {
        return Some(seconds);
    }
    let words = hook.at(&["exec", "command"])?.words();
    let line = words.join(" ");
    let mut rest = line.split_whitespace();
    rest.find(|word| word.trim_matches(['"', '\'', ';']).ends_with("sleep"))?;
    rest.next()
        .and_then(|time| command::seconds(time.trim_end_matches([';', '"', '\''])))
}

fn environment_grace(container: &Node) -> Option<u64> {
    container.get("env")?.items().iter().find_map(|variable| {
        command::grace_variable(
            variable.get("name")?.text()?,
            variable.get("value")?.text()?,
        )
    })
}

fn probes(container: &Node, desk: &mut Desk<'_>) {
    let name = container
        .get("name")
        .and_then(Node::text)
        .unwrap_or("the container");
    let ports = container.get("ports");
    let readiness = container.get("readinessProbe");
    if let (Some(ports), None) = (ports, readiness) {
        let message = format!(
            "`{name}` gets traffic before it is ready and while it stops: add a readiness probe"
        );
        desk.report(ports.line, rule::NO_READINESS, message);
    }
    if let (Some(readiness), Some(liveness)) = (readiness, container.get("livenessProbe")) {
        let same = ["httpGet", "exec", "tcpSocket", "grpc"].iter().any(|kind| {
            matches!((readiness.get(kind), liveness.get(kind)), (Some(a), Some(b)) if a.same(b))
        });
        // A bare TCP connect asks nothing that a drain would change.
        if same && liveness.get("tcpSocket").is_none() {
            let message = format!(
                "`{name}` is restarted whenever it is not ready, for instance while it drains: let liveness ask something else"
            );
            desk.report(liveness.line, rule::SAME_PROBES, message);
        }
    }
}
