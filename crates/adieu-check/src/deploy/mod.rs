//! Deployment: what stands between a signal and the program, and how long it waits.

mod cloud_run;
pub(crate) mod command;
mod compose;
mod dockerfile;
mod ecs;
mod fly;
mod hcl;
mod helm;
mod image;
mod images;
mod kubernetes;
mod launch;
mod nomad;
mod procfile;
mod program;
mod programs;
mod proxy;
mod script;
mod shell;
mod stages;
mod start;
mod supervisor;
mod systemd;
mod yaml;

use std::sync::Arc;

use images::Images;
use kubernetes::{ConfigMaps, Patches, Selector};
pub(crate) use launch::{Launch, said_at};
pub(crate) use programs::{Programs, is_below};
pub(crate) use start::{Spot, Start, StopTime};

use crate::budget::{BudgetNode, Patience};
use crate::config::Config;
use crate::finding::{Finding, Notice, Place, Step};
use crate::rule::{self, Code};
use crate::severity::Severity;
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
    Procfile(Vec<procfile::Process>),
    Programs(Vec<program::HostedProgram>),
    Proxy(proxy::Proxy),
    Chart(helm::ChartFile),
    Broken(Place, String),
    Template(String),
}

/// What the deployment files gave.
#[derive(Default)]
pub(crate) struct Deployed {
    pub(crate) findings: Vec<Finding>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) ignores: Vec<(Arc<str>, Vec<Ignore>)>,
    /// What is started, and how long each is given to stop.
    pub(crate) launches: Vec<Launch>,
}

/// Reads a file that may be a deployment file; nothing if it is none.
pub(crate) fn read(kind: Kind, text: &str, path: &Arc<str>) -> Option<Manifest> {
    let content = match kind {
        Kind::Dockerfile if is_templated(text) => Content::Template(TEMPLATE.to_owned()),
        Kind::Dockerfile => Content::Dockerfile(dockerfile::parse(text)),
        // A language of s6, in which every command makes way for the next.
        Kind::Script
            if text
                .lines()
                .next()
                .is_some_and(|it| it.contains("execlineb")) =>
        {
            return None;
        }
        Kind::Script => Content::Script(script::parse(text)),
        Kind::Unit => Content::Unit(systemd::parse(text)),
        Kind::Yaml => read_yaml(text, path)?,
        Kind::Procfile => Content::Procfile(procfile::parse(text)),
        Kind::Fly => match fly::parse(text) {
            Ok(programs) => Content::Programs(programs),
            Err((place, message)) => Content::Broken(place, message),
        },
        Kind::Task if !ecs::is_one(text) => return None,
        Kind::Task => match ecs::parse(text) {
            Ok(programs) => Content::Programs(programs),
            Err(error) => Content::Broken(error.place, error.message),
        },
        Kind::Nomad if is_templated(text) => Content::Template(TEMPLATE.to_owned()),
        Kind::Nomad => match nomad::parse(text) {
            Some(programs) => Content::Programs(programs),
            None => Content::Broken(Place::TOP, "syntax error: a block is not closed".to_owned()),
        },
        Kind::Supervisor if !supervisor::is_one(text) || is_templated(text) => return None,
        Kind::Supervisor => Content::Programs(supervisor::parse(text)),
        Kind::Nginx => Content::Proxy(proxy::nginx(text)?),
        Kind::HaProxy => Content::Proxy(proxy::haproxy(text)?),
        Kind::ChartHelpers => Content::Chart(helm::template(text)),
        Kind::Python | Kind::Rust | Kind::Go | Kind::Node => return None,
        Kind::CargoManifest | Kind::GoModule | Kind::NodePackage => return None,
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

const TEMPLATE: &str = "is a template; what it becomes cannot be checked";

fn is_templated(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn read_yaml(text: &str, path: &str) -> Option<Content> {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name {
        "Chart.yaml" => {
            let about = yaml::parse(text).ok()?.into_iter().next()?;
            return Some(Content::Chart(helm::ChartFile::About(about)));
        }
        "values.yaml" => return Some(Content::Chart(helm::values(text))),
        _ if text.contains("{{") && helm::is_template(path) => {
            return Some(Content::Chart(helm::template(text)));
        }
        _ => {}
    }
    let is_compose = name.starts_with("docker-compose") || name.starts_with("compose.");
    // Only manifests have both; a quick look saves parsing every other YAML file of the tree.
    let is_kubernetes =
        text.contains("apiVersion:") && text.contains("kind:") || name == "kustomization.yaml";
    if !is_compose && !is_kubernetes {
        return read_unnamed_compose(text);
    }
    if is_templated(text) {
        return Some(Content::Template(TEMPLATE.to_owned()));
    }
    Some(match yaml::parse(text) {
        Ok(documents) if is_compose => Content::Compose(documents.into_iter().next()?),
        Ok(documents) => Content::Kubernetes(documents),
        Err(error) => Content::Broken(error.place, error.message),
    })
}

/// A compose file of another name: `deploy/stack.yaml`. What only looks like one is left alone, and so is what cannot be read.
fn read_unnamed_compose(text: &str) -> Option<Content> {
    let has_services = text.starts_with("services:") || text.contains("\nservices:");
    if !has_services || is_templated(text) {
        return None;
    }
    let document = yaml::parse(text).ok()?.into_iter().next()?;
    let services = document.get("services")?.entries();
    let is_service = |node: &yaml::Node| node.get("image").or_else(|| node.get("build")).is_some();
    let is_compose =
        !services.is_empty() && services.iter().all(|(_, service)| is_service(service));
    is_compose.then_some(Content::Compose(document))
}

/// Where findings go, with what is known of the project at hand.
pub(crate) struct Reporter<'a> {
    path: &'a Arc<str>,
    project: &'a ProjectContext<'a>,
    images: &'a Images<'a>,
    findings: &'a mut Vec<Finding>,
    launches: &'a mut Vec<Launch>,
}

/// What all deployment files of a project are read with.
struct ProjectContext<'a> {
    /// The program's own grace, if someone set it.
    grace: Option<u64>,
    programs: &'a Programs<'a>,
    maps: ConfigMaps<'a>,
    patches: Patches,
    selectors: Vec<Selector<'a>>,
    replicas: Vec<(&'a yaml::Node, u64)>,
}

impl Reporter<'_> {
    fn report(&mut self, line: u32, code: Code, message: impl Into<String>) {
        self.findings
            .push(Finding::new(self.path, Place::line(line), code, message));
    }

    fn report_wrapper(&mut self, line: u32, wrapper: &str) {
        let message = format!(
            "`{wrapper}` stands between the signal and the program: start the program itself"
        );
        self.report(line, rule::SWALLOWING_WRAPPER, message);
        // It hands SIGTERM on to the program, and only its exit code and a second signal are lost.
        if wrapper.starts_with("uv ") {
            self.lower_last();
        }
    }

    /// Reports a grace that does not fit, with the way to the code that sets it.
    fn report_grace(&mut self, line: u32, code: Code, message: String, own: Option<&StopTime>) {
        self.report(line, code, message);
        if own.is_some()
            && let Some(finding) = self.findings.last_mut()
        {
            // What the program needs is known, and it is more than it gets.
            finding.severity = Severity::Error;
        }
        if let Some(step) = own.and_then(|own| own.step.clone())
            && let Some(finding) = self.findings.last_mut()
        {
            let first = Step {
                path: Arc::clone(&finding.path),
                place: finding.place,
                call: "stop".to_owned(),
            };
            finding.trace = vec![first, step];
        }
    }

    /// Makes a note of what was reported last.
    fn lower_last(&mut self) {
        if let Some(finding) = self.findings.last_mut() {
            finding.severity = Severity::Note;
        }
    }

    fn last_mut(&mut self) -> Option<&mut Finding> {
        self.findings.last_mut()
    }

    /// A line of the file at hand.
    fn spot(&self, line: u32) -> Spot {
        Spot {
            path: Arc::clone(self.path),
            line,
        }
    }

    /// Notes a program that the file at hand starts.
    fn launch(
        &mut self,
        name: &str,
        line: u32,
        start: Start,
        patience: Patience,
        before: Option<BudgetNode>,
    ) {
        let at = self.spot(line);
        self.launches.push(Launch {
            name: name.to_owned(),
            at,
            start,
            patience,
            before,
        });
    }

    /// How long what is started takes to stop, where that is known.
    fn own(&self, start: &Start) -> Option<StopTime> {
        start.own(self.project.grace, self.project.programs)
    }

    fn config_map(&self, name: &str) -> Option<&yaml::Node> {
        self.project.maps.get(name).copied().flatten()
    }
}

/// Images that no other file starts run under `docker run`, as far as the project says.
fn plain_images(manifests: &[Manifest], images: &Images<'_>, launches: &mut Vec<Launch>) {
    for manifest in manifests {
        let Content::Dockerfile(file) = &manifest.content else {
            continue;
        };
        let is_started = launches
            .iter()
            .any(|launch| launch.start.dockerfile.as_deref() == Some(&*manifest.path));
        let (Some(line), false) = (file.start_line(), is_started) else {
            continue;
        };
        let image = images.of_file(&manifest.path);
        launches.push(Launch {
            name: "the image".to_owned(),
            at: Spot {
                path: Arc::clone(&manifest.path),
                line,
            },
            start: images.start(image.as_ref(), None, None, Vec::new()),
            patience: launch::docker(),
            before: None,
        });
    }
}

/// Puts what the templates of charts are rendered to in their place.
fn render_charts(manifests: &mut [Manifest], notices: &mut Vec<Notice>) {
    let files = manifests.iter().enumerate();
    let charts = files.filter_map(|(index, manifest)| match &manifest.content {
        Content::Chart(file) => Some((index, &manifest.path, file)),
        _ => None,
    });
    let (rendered, of_charts) = helm::render(charts);
    notices.extend(of_charts);
    for helm::Manifests { file, documents } in rendered {
        manifests[file].content = Content::Kubernetes(documents);
    }
}

/// The `run` scripts of services of s6.
fn supervised(
    manifests: &[Manifest],
    project: &ProjectContext<'_>,
    images: &Images<'_>,
    deployed: &mut Deployed,
) {
    for manifest in manifests {
        let Content::Script(script) = &manifest.content else {
            continue;
        };
        let mut folders = manifest.path.rsplit('/');
        let is_run = folders.next() == Some("run");
        let of_s6 = matches!(folders.nth(1), Some("s6-rc.d" | "services.d" | "service"));
        if is_run && of_s6 && script.has_shebang {
            let mut reporter = Reporter {
                path: &manifest.path,
                project,
                images,
                findings: &mut deployed.findings,
                launches: &mut deployed.launches,
            };
            script::check(script, script::RunBy::S6, &mut reporter);
        }
    }
}

/// Checks all deployment files, and the scripts that Dockerfiles name.
pub(crate) fn findings(
    mut manifests: Vec<Manifest>,
    config: &Config,
    programs: &Programs<'_>,
) -> Deployed {
    let mut deployed = Deployed::default();
    render_charts(&mut manifests, &mut deployed.notices);
    let mut images = Images::default();
    let mut maps = ConfigMaps::default();
    let mut patches = Patches::default();
    let (mut selectors, mut replicas) = (Vec::new(), Vec::new());
    for manifest in &manifests {
        match &manifest.content {
            Content::Script(script) => images.add_script(&manifest.path, script),
            Content::Dockerfile(file) => images.add_dockerfile(&manifest.path, file),
            Content::Compose(document) => images.add_compose(&manifest.path, document),
            Content::Kubernetes(documents) => {
                kubernetes::config_maps(documents, &mut maps);
                kubernetes::patches(documents, &mut patches);
                kubernetes::selectors(documents, &mut selectors);
                kubernetes::replicas(documents, &mut replicas);
            }
            _ => {}
        }
    }
    images.name_images();
    let project = ProjectContext {
        grace: config.grace_seconds,
        programs,
        maps,
        patches,
        selectors,
        replicas,
    };
    let mut started = Vec::new();
    for manifest in &manifests {
        let mut reporter = Reporter {
            path: &manifest.path,
            project: &project,
            images: &images,
            findings: &mut deployed.findings,
            launches: &mut deployed.launches,
        };
        match &manifest.content {
            Content::Dockerfile(file) => {
                dockerfile::check(file, &mut reporter);
                let folder = manifest.path.rsplit_once('/').map_or("", |(f, _)| f);
                let scripts = file.scripts().into_iter();
                started.extend(scripts.filter_map(|name| images.script(Some(folder), &name)));
            }
            Content::Compose(document) => compose::check(document, &mut reporter),
            Content::Kubernetes(documents) => kubernetes::check(documents, &mut reporter),
            Content::Unit(unit) => systemd::check(unit, &mut reporter),
            Content::Procfile(processes) => procfile::check(processes, &mut reporter),
            Content::Programs(programs) => program::check(programs, &mut reporter),
            Content::Proxy(proxy) => proxy::check(proxy, &mut reporter),
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
            Content::Script(_) | Content::Chart(_) => {}
        }
    }
    started.sort_by_key(|(path, _)| Arc::clone(path));
    started.dedup_by_key(|(path, _)| Arc::clone(path));
    for (path, script) in started {
        let mut reporter = Reporter {
            path,
            project: &project,
            images: &images,
            findings: &mut deployed.findings,
            launches: &mut deployed.launches,
        };
        script::check(script, script::RunBy::Container, &mut reporter);
    }
    supervised(&manifests, &project, &images, &mut deployed);
    plain_images(&manifests, &images, &mut deployed.launches);
    for manifest in manifests {
        if !manifest.ignores.is_empty() {
            deployed.ignores.push((manifest.path, manifest.ignores));
        }
    }
    deployed
}
