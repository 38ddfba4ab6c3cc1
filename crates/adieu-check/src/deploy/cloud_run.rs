//! Services of Cloud Run, which are Knative's with annotations of their own.

use super::Reporter;
use super::launch::CLOUD_RUN;
use super::program::{self, HostedProgram, ImageOf};
use super::yaml::Node;

/// Whether an object is a service that Cloud Run runs. Elsewhere Knative waits as Kubernetes does.
pub(crate) fn is_one(object: &Node) -> bool {
    let text = |key: &str| object.get(key).and_then(Node::text).unwrap_or_default();
    let marks = |keys: &[&str]| {
        let entries = object.at(keys).map(Node::entries).unwrap_or_default();
        entries.iter().any(|(name, _)| {
            name.text().is_some_and(|name| {
                name.starts_with("run.googleapis.com/") || name.starts_with("cloud.googleapis.com/")
            })
        })
    };
    text("apiVersion").starts_with("serving.knative.dev/")
        && text("kind") == "Service"
        && (marks(&["metadata", "annotations"])
            || marks(&["metadata", "labels"])
            || marks(&["spec", "template", "metadata", "annotations"]))
}

pub(crate) fn check(object: &Node, reporter: &mut Reporter<'_>) {
    let containers = object.at(&["spec", "template", "spec", "containers"]);
    let name = object
        .at(&["metadata", "name"])
        .and_then(Node::text)
        .unwrap_or("the service");
    let programs: Vec<HostedProgram> = containers
        .map(Node::items)
        .unwrap_or_default()
        .iter()
        .map(|container| HostedProgram {
            image: container
                .get("image")
                .and_then(Node::text)
                .map_or(ImageOf::None, |name| ImageOf::Named(name.to_owned())),
            entrypoint: container.get("command").map(Node::words),
            command: container.get("args").map(Node::words),
            variables: variables(container),
            ..HostedProgram::new(
                &CLOUD_RUN,
                container.get("name").and_then(Node::text).unwrap_or(name),
                container.line,
            )
        })
        .collect();
    program::check(&programs, reporter);
}

fn variables(container: &Node) -> Vec<(String, String, u32)> {
    let items = container.get("env").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let name = item.get("name")?.text()?.to_owned();
            // A question mark: said, but not here.
            let value = item.get("value").and_then(Node::text).unwrap_or("?");
            Some((name, value.to_owned(), item.line))
        })
        .collect()
}
