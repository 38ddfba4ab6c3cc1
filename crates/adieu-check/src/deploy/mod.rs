//! Deployment: what stands between a signal and the program, and how long it waits.

mod command;
mod compose;
mod dockerfile;
mod image;
mod kubernetes;
mod script;
mod systemd;
mod yaml;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::config::Config;
use crate::finding::{Finding, Notice, Place};
use crate::rule::{self, Code};
use crate::source::Lines;
use crate::suppress::{self, Ignore};
use crate::walk::Kind;

/// One deployment file, parsed.
pub(crate) struct Manifest {
    path: Arc<str>,
    content: Content,
    ignores: Vec<Ignore>,
}

enum Content {
    Dockerfile(dockerfile::Dockerfile),
    Script(script::Script),
    Compose(yaml::Node),
    Kubernetes(Vec<yaml::Node>),
    Unit(systemd::UnitFile),
    Broken(Place, String),
    Template(String),
}

/// What the deployment files gave.
#[derive(Default)]
pub(crate) struct Deployed {
    pub(crate) findings: Vec<Finding>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) ignores: Vec<(Arc<str>, Vec<Ignore>)>,
}

/// Reads a file that may be a deployment file; nothing if it is none.
pub(crate) fn read(kind: Kind, text: &str, path: &Arc<str>) -> Option<Manifest> {
    let content = match kind {
        Kind::Dockerfile if text.contains("{{") || text.contains("{%") => {
            Content::Template("is a template; what it becomes cannot be checked".to_owned())
        }
        Kind::Dockerfile => Content::Dockerfile(dockerfile::parse(text)),
        Kind::Script => Content::Script(script::parse(text)),
        Kind::Unit if text.contains("{{") || text.contains("{%") => {
            Content::Template("is a template; what it becomes cannot be checked".to_owned())
        }
        Kind::Unit => Content::Unit(systemd::parse(text)),
        Kind::Yaml => read_yaml(text, path)?,
        Kind::Python | Kind::Rust | Kind::CargoManifest | Kind::Procfile => return None,
    };
    let ignores = if text.contains("adieu:") {
        suppress::read_lines(text, &Lines::new(text), "#")
    } else {
        Vec::new()
    };
    Some(Manifest {
        path: Arc::clone(path),
        content,
        ignores,
    })
}

fn read_yaml(text: &str, path: &str) -> Option<Content> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_compose = name.starts_with("docker-compose") || name.starts_with("compose.");
    // Only manifests have both; a quick look saves parsing every other YAML file of the tree.
    let is_kubernetes = text.contains("apiVersion:") && text.contains("kind:");
    if !is_compose && !is_kubernetes {
        return None;
    }
    if text.contains("{{") || text.contains("{%") {
        let kind = if path.contains("templates/") {
            "a Helm template"
        } else {
            "a template"
        };
        return Some(Content::Template(format!(
            "is {kind}; what it becomes cannot be checked"
        )));
    }
    Some(match yaml::parse(text) {
        Ok(documents) if is_compose => Content::Compose(documents.into_iter().next()?),
        Ok(documents) => Content::Kubernetes(documents),
        Err(error) => Content::Broken(error.place, error.message),
    })
}

/// Where findings go, with the settings at hand.
pub(crate) struct Desk<'a> {
    path: &'a Arc<str>,
    /// The program's own grace, if someone said it.
    grace: Option<u64>,
    findings: &'a mut Vec<Finding>,
}

impl Desk<'_> {
    fn report(&mut self, line: u32, code: Code, message: impl Into<String>) {
        self.findings
            .push(Finding::new(self.path, Place::line(line), code, message));
    }

    fn last_mut(&mut self) -> Option<&mut Finding> {
        self.findings.last_mut()
    }
}

/// Checks all deployment files, and the scripts that Dockerfiles name.
pub(crate) fn findings(manifests: Vec<Manifest>, config: &Config) -> Deployed {
    let mut deployed = Deployed::default();
    let mut scripts: FxHashMap<&str, (&Arc<str>, &script::Script)> = FxHashMap::default();
    for manifest in &manifests {
        if let Content::Script(script) = &manifest.content {
            let name = manifest.path.rsplit('/').next().unwrap_or(&manifest.path);
            scripts.insert(name, (&manifest.path, script));
        }
    }
    let mut started = Vec::new();
    for manifest in &manifests {
        let mut desk = Desk {
            path: &manifest.path,
            grace: config.grace_seconds,
            findings: &mut deployed.findings,
        };
        match &manifest.content {
            Content::Dockerfile(file) => {
                dockerfile::check(file, &mut desk);
                started.extend(file.scripts());
            }
            Content::Compose(document) => compose::check(document, &mut desk),
            Content::Kubernetes(documents) => kubernetes::check(documents, &mut desk),
            Content::Unit(unit) => systemd::check(unit, &mut desk),
            Content::Broken(place, message) => {
                let finding = Finding::new(&manifest.path, *place, rule::SYNTAX, message.clone());
                deployed.findings.push(finding);
            }
            Content::Template(message) => {
                deployed.notices.push(Notice {
                    path: Arc::clone(&manifest.path),
                    message: message.clone(),
                });
            }
            Content::Script(_) => {}
        }
    }
    started.sort_unstable();
    started.dedup();
    for name in started {
        if let Some((path, script)) = scripts.get(name.as_str()) {
            let mut desk = Desk {
                path,
                grace: config.grace_seconds,
                findings: &mut deployed.findings,
            };
            script::check(script, &mut desk);
        }
    }
    for manifest in manifests {
        if !manifest.ignores.is_empty() {
            deployed.ignores.push((manifest.path, manifest.ignores));
        }
    }
    deployed
}
