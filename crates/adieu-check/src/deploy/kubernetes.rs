//! Kubernetes manifests.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Reporter;
use super::cloud_run;
use super::command;
use super::images::Image;
use super::launch;
use super::start::{Spot, Variable};
use super::yaml::{self, Node};
use crate::rule;
use crate::severity::Severity;

/// What Kubernetes waits without being told.
const DEFAULT_GRACE: u64 = 30;

/// Variables by the ConfigMap that holds them; none where two maps of a name disagree.
pub(crate) type ConfigMaps<'a> = FxHashMap<&'a str, Option<&'a Node>>;

/// The longest grace that a patch of an object gives it, by kind and name: which overlay is meant
/// cannot be known.
pub(crate) type Patches = FxHashMap<(String, String), u64>;

/// A Service, by the labels that it selects pods with.
#[derive(Debug)]
pub(crate) struct Selector<'a> {
    name: &'a str,
    namespace: Option<&'a str>,
    labels: &'a Node,
}

/// Learns the Services of a file.
pub(crate) fn selectors<'a>(documents: &'a [Node], into: &mut Vec<Selector<'a>>) {
    for object in objects(documents) {
        let is_service = object.get("kind").and_then(Node::text) == Some("Service");
        let labels = object
            .at(&["spec", "selector"])
            .filter(|labels| !labels.entries().is_empty());
        let name = object.at(&["metadata", "name"]).and_then(Node::text);
        if let (true, Some(labels), Some(name)) = (is_service, labels, name) {
            let namespace = object.at(&["metadata", "namespace"]).and_then(Node::text);
            into.push(Selector {
                name,
                namespace,
                labels,
            });
        }
    }
}

impl Selector<'_> {
    fn selects(&self, object: &Node, labels: &Node) -> bool {
        let namespace = object.at(&["metadata", "namespace"]).and_then(Node::text);
        let same_namespace = match (self.namespace, namespace) {
            (Some(own), Some(other)) => own == other,
            // Left out, it is where both are put.
            _ => true,
        };
        same_namespace && has_all(labels, self.labels)
    }
}

/// Whether labels hold all of those that are asked for.
fn has_all(labels: &Node, asked: &Node) -> bool {
    asked.entries().iter().all(|(name, value)| {
        let held = name.text().and_then(|name| labels.get(name));
        held.is_some_and(|held| held.same(value))
    })
}

/// The labels of the pods of an object.
fn pod_labels<'a>(kind: &str, object: &'a Node) -> Option<&'a Node> {
    match kind {
        "Pod" => object.at(&["metadata", "labels"]),
        _ => object.at(&["spec", "template", "metadata", "labels"]),
    }
}

/// Learns how many replicas there are of what has which labels.
pub(crate) fn replicas<'a>(documents: &'a [Node], into: &mut Vec<(&'a Node, u64)>) {
    for object in objects(documents) {
        let kind = object.get("kind").and_then(Node::text).unwrap_or("");
        let count = object.at(&["spec", "replicas"]).and_then(Node::number);
        if let ("Deployment" | "StatefulSet", Some(labels), Some(count)) =
            (kind, pod_labels(kind, object), count)
        {
            into.push((labels, count));
        }
    }
}

/// The objects of a file, those in lists too.
fn objects(documents: &[Node]) -> impl Iterator<Item = &Node> {
    documents.iter().flat_map(|document| {
        let items = document.get("items").map(Node::items).unwrap_or_default();
        std::iter::once(document).chain(items)
    })
}

/// Learns the ConfigMaps of a file.
pub(crate) fn config_maps<'a>(documents: &'a [Node], maps: &mut ConfigMaps<'a>) {
    for object in objects(documents) {
        let name = object.at(&["metadata", "name"]).and_then(Node::text);
        let is_map = object.get("kind").and_then(Node::text) == Some("ConfigMap");
        if let (true, Some(name), Some(data)) = (is_map, name, object.get("data")) {
            maps.entry(name)
                .and_modify(|held| {
                    if !held.is_some_and(|held| held.same(data)) {
                        *held = None;
                    }
                })
                .or_insert(Some(data));
        }
    }
}

/// Learns the patches of a file: a grace for pods whose images stand elsewhere.
pub(crate) fn patches(documents: &[Node], patches: &mut Patches) {
    for object in objects(documents) {
        in_kustomization(object, patches);
        let kind = object.get("kind").and_then(Node::text);
        let name = object.at(&["metadata", "name"]).and_then(Node::text);
        let (Some(kind), Some(name)) = (kind, name) else {
            continue;
        };
        let Some(pod) = pod_of(kind, object) else {
            continue;
        };
        let containers = pod.get("containers").map(Node::items).unwrap_or_default();
        let is_whole = containers.iter().any(|c| c.get("image").is_some());
        let grace = pod
            .get("terminationGracePeriodSeconds")
            .and_then(Node::number);
        if let (false, Some(grace)) = (is_whole, grace) {
            learn(kind, name, grace, patches);
        }
    }
}

fn learn(kind: &str, name: &str, grace: u64, patches: &mut Patches) {
    let longest = patches
        .entry((kind.to_owned(), name.to_owned()))
        .or_insert(0);
    *longest = grace.max(*longest);
}

/// The patches that a kustomization has in itself, as objects or as operations on one.
fn in_kustomization(object: &Node, patches: &mut Patches) {
    let items = ["patches", "patchesStrategicMerge", "patchesJson6902"]
        .iter()
        .filter_map(|key| object.get(key))
        .flat_map(Node::items);
    for item in items {
        let Some(text) = item
            .get("patch")
            .unwrap_or(item)
            .text()
            .filter(|text| text.contains('\n'))
        else {
            continue;
        };
        let Ok(documents) = yaml::parse(text) else {
            continue;
        };
        self::patches(&documents, patches);
        let target = |key: &str| item.at(&["target", key]).and_then(Node::text);
        let (Some(kind), Some(name)) = (target("kind"), target("name")) else {
            continue;
        };
        for operation in documents.iter().flat_map(Node::items) {
            let path = operation
                .get("path")
                .and_then(Node::text)
                .unwrap_or_default();
            let grace = operation.get("value").and_then(Node::number);
            if let (true, Some(grace)) = (path.ends_with("/terminationGracePeriodSeconds"), grace) {
                learn(kind, name, grace, patches);
            }
        }
    }
}

/// What describes the pods of an object.
fn pod_of<'a>(kind: &str, object: &'a Node) -> Option<&'a Node> {
    let spec = object.get("spec")?;
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => {
            spec.at(&["template", "spec"])
        }
        "CronJob" => spec.at(&["jobTemplate", "spec", "template", "spec"]),
        "Pod" => Some(spec),
        _ => None,
    }
}

pub(crate) fn check(documents: &[Node], reporter: &mut Reporter<'_>) {
    for object in objects(documents) {
        check_object(object, reporter);
    }
}

fn check_object(object: &Node, reporter: &mut Reporter<'_>) {
    let kind = object.get("kind").and_then(Node::text).unwrap_or("");
    let Some(spec) = object.get("spec") else {
        return;
    };
    match kind {
        "PodDisruptionBudget" => disruption(spec, reporter),
        "Deployment" => rollout(spec, reporter),
        _ => {}
    }
    if cloud_run::is_one(object) {
        cloud_run::check(object, reporter);
    }
    let Some(pod) = pod_of(kind, object) else {
        return;
    };
    // What runs once has no traffic to be ready for.
    let serves = !matches!(kind, "Job" | "CronJob" | "Pod");
    let given = pod.get("terminationGracePeriodSeconds");
    let shares_processes = pod.get("shareProcessNamespace").and_then(Node::text) == Some("true");
    let containers = pod.get("containers").map(Node::items).unwrap_or_default();
    // Without an image it is a patch of something that stands elsewhere.
    let name = object.at(&["metadata", "name"]).and_then(Node::text);
    let patched = name.and_then(|name| {
        let key = (kind.to_owned(), name.to_owned());
        reporter.project.patches.get(&key).copied()
    });
    let service = pod_labels(kind, object)
        .and_then(|labels| {
            reporter
                .project
                .selectors
                .iter()
                .find(|it| it.selects(object, labels))
        })
        .map(|service| service.name);
    for container in containers.iter().filter(|c| c.get("image").is_some()) {
        grace(given, patched, container, reporter);
        // The shell of what runs once ends with it, and a pod that shares its processes has another PID 1.
        let shell_may_stay = shares_processes || !serves;
        shell_or_wrapper(container, shell_may_stay, reporter);
        if serves {
            probes(container, service, reporter);
        }
    }
    let is_silent = |key: &str| {
        containers
            .iter()
            .all(|container| container.get(key).is_none())
    };
    if let (true, Some(service), Some(first)) = (serves, service, containers.first())
        && is_silent("ports")
        && is_silent("readinessProbe")
        && first.get("image").is_some()
    {
        not_ready(first, first.line, Some(service), reporter);
    }
}

fn rollout(spec: &Node, reporter: &mut Reporter<'_>) {
    let Some(limit) = spec.at(&["strategy", "rollingUpdate", "maxUnavailable"]) else {
        return;
    };
    let text = limit.text().unwrap_or("");
    // Left out, an autoscaler may set the number.
    let replicas = spec.get("replicas").and_then(Node::number);
    let all = match (text.strip_suffix('%'), replicas) {
        (Some("100"), _) => true,
        // Kubernetes rounds a percentage of what may be missing down.
        (Some(percent), Some(replicas)) => percent
            .trim()
            .parse::<u64>()
            .is_ok_and(|percent| percent.saturating_mul(replicas) / 100 >= replicas.max(1)),
        (None, Some(replicas)) => limit.number().is_some_and(|count| count >= replicas.max(1)),
        _ => false,
    };
    if all {
        let count = match replicas {
            Some(replicas) => format!("all {replicas} replicas"),
            None => "all replicas".to_owned(),
        };
        let message = format!("a roll-out may take {count} away at once: lower `maxUnavailable`");
        reporter.report(limit.line, rule::DROPS_ALL, message);
    }
}

/// A budget that allows everything is none.
fn disruption(spec: &Node, reporter: &mut Reporter<'_>) {
    let allows = |key: &str, all: &[&str]| {
        spec.get(key)
            .filter(|node| node.text().is_some_and(|text| all.contains(&text)))
    };
    let selected = spec
        .at(&["selector", "matchLabels"])
        .filter(|labels| !labels.entries().is_empty());
    let replicas = selected.and_then(|asked| {
        let mut all = reporter
            .project
            .replicas
            .iter()
            .filter(|(labels, _)| has_all(labels, asked));
        all.next().map(|(_, count)| *count)
    });
    let needs_all = spec.get("minAvailable").filter(|node| {
        node.number()
            .is_some_and(|least| replicas.is_some_and(|replicas| least >= replicas))
    });
    let blocks = allows("maxUnavailable", &["0", "0%"])
        .or_else(|| allows("minAvailable", &["100%"]))
        .or(needs_all);
    if let Some(budget) = blocks {
        reporter.report(
            budget.line,
            rule::BLOCKS_DRAIN,
            "this budget refuses every eviction, so no node of these pods can be drained: let one be away",
        );
    }
    let budget =
        allows("maxUnavailable", &["100%"]).or_else(|| allows("minAvailable", &["0", "0%"]));
    if let Some(budget) = budget {
        reporter.report(
            budget.line,
            rule::DROPS_ALL,
            "this budget lets a drain of the nodes take all replicas away at once: keep one available",
        );
    }
}

fn grace(
    given: Option<&Node>,
    patched: Option<u64>,
    container: &Node,
    reporter: &mut Reporter<'_>,
) {
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
    let total = total.max(patched.unwrap_or(0));
    let Some(variables) = environment(container, reporter) else {
        return;
    };
    let mut start = reporter.images.start(
        image(container, reporter).as_ref(),
        container.get("command").map(Node::words),
        container.get("args").map(Node::words),
        variables,
    );
    let told = container.get("command").or_else(|| container.get("args"));
    start.at = start.at.or_else(|| Some(reporter.spot(told?.line)));
    let own = reporter.own(&start);
    let pre = container.at(&["lifecycle", "preStop"]);
    let hook = pre.and_then(pre_stop);
    let said = (given.is_some() || patched.is_some()).then(|| {
        (
            Some(total),
            reporter.spot(given.map_or(container.line, |node| node.line)),
        )
    });
    let before = pre.map(|pre| launch::before(hook, reporter.spot(pre.line)));
    reporter.launch(
        name,
        container.line,
        start.clone(),
        launch::kubernetes(said, reporter.spot(container.line)),
        before,
    );
    let of_own = own.as_ref().map_or(0, |own| own.seconds);
    let needed = hook.unwrap_or(0).saturating_add(of_own);
    if needed == 0 || needed < total || needed == total && hook.is_none() {
        return;
    }
    let line = given.map_or(container.line, |node| node.line);
    let parts = match (hook, &own) {
        (Some(hook), Some(own)) => format!("preStop takes {hook} s and then {}", own.said()),
        (Some(hook), None) => format!("preStop alone takes {hook} s"),
        (None, Some(own)) => own.said(),
        (None, None) => return,
    };
    let is_server = hook.is_none() && own.as_ref().is_some_and(|own| own.is_server);
    let code = if is_server {
        rule::SERVER_GRACE
    } else {
        rule::POD_GRACE
    };
    let message = format!(
        "`{name}` is killed after {total} s, but {parts}: raise `terminationGracePeriodSeconds`"
    );
    reporter.report_grace(line, code, message, own.as_ref());
}

/// The Dockerfile behind a container, where it is known.
fn image<'a>(container: &Node, reporter: &Reporter<'a>) -> Option<Image<'a>> {
    let name = container.get("image").and_then(Node::text)?;
    reporter.images.named(name)
}

/// A shell or a wrapper in the manifest's own words; what the image starts is said of its Dockerfile.
fn shell_or_wrapper(container: &Node, shell_may_stay: bool, reporter: &mut Reporter<'_>) {
    let image = image(container, reporter);
    let (command, args) = (container.get("command"), container.get("args"));
    // Arguments alone go to a program that only a known image names.
    let Some(own) = command.or_else(|| args.filter(|_| image.is_some())) else {
        return;
    };
    let start = reporter.images.start(
        image.as_ref(),
        command.map(Node::words),
        args.map(Node::words),
        Vec::new(),
    );
    if let Some(wrapper) = command::wrapper(&start.words) {
        reporter.report_wrapper(own.line, &wrapper);
    }
    let mut words = command.map(Node::words).unwrap_or_default();
    words.extend(args.map(Node::words).unwrap_or_default());
    if command.is_some() && !shell_may_stay && command::shell_stays(&words) {
        let name = container
            .get("name")
            .and_then(Node::text)
            .unwrap_or("the container");
        let message = format!(
            "`{name}` runs under a shell that keeps the signal: put `exec` before the program"
        );
        reporter.report(own.line, rule::SHELL_FORM, message);
        // Which shell the image has is not known, and some make way for the last command.
        if let Some(finding) = reporter.last_mut() {
            finding.severity = Severity::Warning;
        }
    }
}

/// The variables of a container; none when a map it takes them from is not known and might hold
/// the one that counts.
fn environment(container: &Node, reporter: &Reporter<'_>) -> Option<Vec<Variable>> {
    let mut variables = Vec::new();
    for variable in container.get("env").map(Node::items).unwrap_or_default() {
        let Some(name) = variable.get("name").and_then(Node::text) else {
            continue;
        };
        let key = variable.at(&["valueFrom", "configMapKeyRef"]);
        let of_map = key.and_then(|key| {
            let map = reporter.config_map(key.get("name")?.text()?)?;
            map.get(key.get("key")?.text()?)?.text()
        });
        let value = variable.get("value").and_then(Node::text).or(of_map);
        // A question mark: said, but not here.
        let value = value.unwrap_or("?");
        variables.push(Variable {
            name: name.to_owned(),
            value: value.to_owned(),
            at: Some(Spot {
                path: Arc::clone(reporter.path),
                line: variable.line,
            }),
        });
    }
    for source in container
        .get("envFrom")
        .map(Node::items)
        .unwrap_or_default()
    {
        // Secrets do not hold times.
        if let Some(name) = source.at(&["configMapRef", "name"]).and_then(Node::text) {
            for (name, value) in reporter.config_map(name)?.entries() {
                if let (Some(name), Some(value)) = (name.text(), value.text()) {
                    // Which file the map stands in is not known here.
                    variables.push(Variable {
                        name: name.to_owned(),
                        value: value.to_owned(),
                        at: None,
                    });
                }
            }
        }
    }
    Some(variables)
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

/// Nothing says when a container can answer.
fn not_ready(container: &Node, line: u32, service: Option<&str>, reporter: &mut Reporter<'_>) {
    let name = container
        .get("name")
        .and_then(Node::text)
        .unwrap_or("the container");
    let message = match service {
        Some(service) => {
            format!(
                "`{name}` gets the traffic of the Service `{service}` before it is ready: add a readiness probe"
            )
        }
        None => format!("`{name}` gets traffic before it is ready: add a readiness probe"),
    };
    reporter.report(line, rule::NO_READINESS, message);
    // That it gets traffic is known, and not only that it listens.
    if let (Some(_), Some(finding)) = (service, reporter.last_mut()) {
        finding.severity = Severity::Warning;
    }
}

fn probes(container: &Node, service: Option<&str>, reporter: &mut Reporter<'_>) {
    let name = container
        .get("name")
        .and_then(Node::text)
        .unwrap_or("the container");
    let ports = container.get("ports");
    let readiness = container.get("readinessProbe");
    if let (Some(ports), None) = (ports, readiness) {
        not_ready(container, ports.line, service, reporter);
    }
    if let (Some(readiness), Some(liveness)) = (readiness, container.get("livenessProbe")) {
        let same = ["httpGet", "exec", "tcpSocket", "grpc"].iter().any(|kind| {
            matches!((readiness.get(kind), liveness.get(kind)), (Some(a), Some(b)) if a.same(b))
        });
        // A bare TCP connect asks nothing that a drain would change.
        if same && liveness.get("tcpSocket").is_none() {
            let message = format!(
                "`{name}` is restarted whenever it is not ready, for instance while a database is away: let liveness ask something else"
            );
            reporter.report(liveness.line, rule::SAME_PROBES, message);
        }
    }
}
