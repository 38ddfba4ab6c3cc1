//! Which Dockerfile an image is built from, and what a container of it starts.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::command;
use super::dockerfile::Dockerfile;
use super::image;
use super::programs::joined;
use super::script::Script;
use super::start::{Spot, Start, Variable};
use super::yaml::Node;

/// The Dockerfiles and start scripts of the project.
#[derive(Default)]
pub(crate) struct Images<'a> {
    dockerfiles: FxHashMap<&'a str, &'a Dockerfile>,
    /// Names of images; none where two Dockerfiles could be meant.
    by_name: FxHashMap<String, Option<Image<'a>>>,
    scripts: Vec<(&'a Arc<str>, &'a Script)>,
    composes: Vec<(&'a str, &'a Node)>,
}

/// A Dockerfile with its build context.
#[derive(Debug, Clone)]
pub(crate) struct Image<'a> {
    path: &'a str,
    file: &'a Dockerfile,
    context: String,
}

impl<'a> Images<'a> {
    pub(crate) fn add_dockerfile(&mut self, path: &'a str, file: &'a Dockerfile) {
        self.dockerfiles.insert(path, file);
    }

    pub(crate) fn add_compose(&mut self, path: &'a str, document: &'a Node) {
        self.composes.push((path, document));
    }

    pub(crate) fn add_script(&mut self, path: &'a Arc<str>, script: &'a Script) {
        self.scripts.push((path, script));
    }

    /// Learns the names of images: from compose files that build them, then from the names of
    /// Dockerfiles, their directories and the programs they start.
    pub(crate) fn name_images(&mut self) {
        for (path, document) in self.composes.clone() {
            for (_, service) in document.get("services").map_or(&[][..], Node::entries) {
                let name = service.get("image").and_then(Node::text);
                if let (Some(name), Some(image)) = (name, self.of_service(path, service)) {
                    self.name_image(image::bare(name).to_owned(), image);
                }
            }
        }
        let known: Vec<String> = self.by_name.keys().cloned().collect();
        let mut files: Vec<(&str, &Dockerfile)> = self.dockerfiles.clone().into_iter().collect();
        files.sort_unstable_by_key(|(path, _)| *path);
        for (path, file) in files {
            let (folder, own) = path.rsplit_once('/').unwrap_or(("", path));
            let lower = own.to_ascii_lowercase();
            let suffix = lower
                .strip_prefix("dockerfile.")
                .or_else(|| lower.strip_suffix(".dockerfile"));
            let started = command::inner(&file.start_words())
                .first()
                .map(|first| command::program(first).to_owned());
            let names = [
                suffix.map(str::to_owned),
                folder.rsplit('/').next().map(str::to_owned),
                started,
            ];
            let image = Image {
                path,
                file,
                context: folder.to_owned(),
            };
            let mut names: Vec<String> = names.into_iter().flatten().collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let is_told = known.contains(&name) || image::is_infrastructure(&name);
                if !name.is_empty() && !is_told {
                    self.name_image(name, image.clone());
                }
            }
        }
    }

    /// Compose files of one directory are laid over each other: a service may have its grace in
    /// another one, and the plainest of them is where it is missed.
    pub(crate) fn is_said_elsewhere(&self, path: &str, service: &str) -> bool {
        let folder = |path: &'a str| path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let own = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let siblings = self
            .composes
            .iter()
            .filter(|(other, _)| *other != path && folder(other) == own);
        siblings
            .filter_map(|(other, document)| Some((other, document.at(&["services", service])?)))
            .any(|(other, service)| {
                service.get("stop_grace_period").is_some() || other.len() < path.len()
            })
    }

    fn name_image(&mut self, name: String, image: Image<'a>) {
        self.by_name
            .entry(name)
            .and_modify(|held| {
                let same = held
                    .as_ref()
                    .is_some_and(|held| std::ptr::eq(held.file, image.file));
                if !same {
                    *held = None;
                }
            })
            .or_insert(Some(image));
    }

    /// What a compose service builds.
    pub(crate) fn of_service(&self, compose: &str, service: &Node) -> Option<Image<'a>> {
        let build = service.get("build")?;
        // A stage of its own starts something else, or something more.
        if build.get("target").is_some() || build.get("dockerfile_inline").is_some() {
            return None;
        }
        let context = match build.text() {
            Some(context) => context,
            None => build.get("context").and_then(Node::text).unwrap_or("."),
        };
        let name = build
            .get("dockerfile")
            .and_then(Node::text)
            .unwrap_or("Dockerfile");
        let folder = compose.rsplit_once('/').map_or("", |(folder, _)| folder);
        let context = joined(folder, context);
        let path = joined(&context, name);
        let (path, file) = self.dockerfiles.get_key_value(path.as_str())?;
        Some(Image {
            path,
            file,
            context,
        })
    }

    /// Whether a compose file starts this Dockerfile under an init program.
    pub(crate) fn has_init(&self, dockerfile: &str) -> bool {
        self.composes.iter().any(|(path, document)| {
            let services = document
                .get("services")
                .map(Node::entries)
                .unwrap_or_default();
            services.iter().any(|(_, service)| {
                let init = service.get("init").and_then(Node::text);
                matches!(init, Some("true" | "yes" | "on"))
                    && self
                        .of_service(path, service)
                        .is_some_and(|image| image.path == dockerfile)
            })
        })
    }

    /// A Dockerfile as an image of its own.
    pub(crate) fn of_file(&self, path: &str) -> Option<Image<'a>> {
        let (path, file) = self.dockerfiles.get_key_value(path)?;
        let context = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Some(Image {
            path,
            file,
            context: context.to_owned(),
        })
    }

    /// What an image of this name is built from.
    pub(crate) fn named(&self, name: &str) -> Option<Image<'a>> {
        self.by_name.get(image::bare(name))?.clone()
    }

    /// What a container starts: its own command over the image's.
    pub(crate) fn start(
        &self,
        image: Option<&Image<'a>>,
        entrypoint: Option<Vec<String>>,
        command: Option<Vec<String>>,
        mut variables: Vec<Variable>,
    ) -> Start {
        let overridden = entrypoint.is_some();
        let of_image = image.filter(|_| !overridden && command.is_none());
        let mut words = match (entrypoint, image) {
            (Some(words), _) => words,
            (None, Some(image)) => image.file.entrypoint(),
            (None, None) => Vec::new(),
        };
        match (command, image) {
            (Some(command), _) => words.extend(command),
            // An entrypoint from outside takes the image's CMD away too.
            (None, Some(image)) if !overridden => words.extend(image.file.cmd()),
            (None, _) => {}
        }
        variables.extend(
            image
                .map(|image| image.file.variables(image.path))
                .unwrap_or_default(),
        );
        let start = Start {
            words: command::unshelled(words),
            // What a manifest starts itself stands there, and its reader knows the line.
            at: of_image.and_then(|image| {
                Some(Spot {
                    path: image.path.into(),
                    line: image.file.start_line()?,
                })
            }),
            variables,
            folder: image.map(|image| image.context.clone()),
            dockerfile: image.map(|image| image.path.to_owned()),
            copies: image.map(|image| image.file.copies()).unwrap_or_default(),
        };
        self.through_script(start)
    }

    /// A start script ends in what it starts.
    fn through_script(&self, mut start: Start) -> Start {
        let words = command::inner(&start.words);
        let Some((first, arguments)) = words.split_first() else {
            return start;
        };
        let folder = start.folder.as_deref();
        if let Some((path, script)) = self.script(folder, command::program(first)) {
            let words = command::unshelled(script.starts(arguments));
            // What it hands on was said where it was started.
            if let Some(line) = script.start_line()
                && !arguments.ends_with(&words)
            {
                start.at = Some(Spot {
                    path: Arc::clone(path),
                    line,
                });
            }
            start.words = words;
        }
        start
    }

    /// Whether a script of the project takes in one of this name.
    pub(crate) fn is_taken_in(&self, name: &str) -> bool {
        self.scripts.iter().any(|(_, script)| script.takes_in(name))
    }

    /// The script of a name: the only one, or the only one below a directory.
    pub(crate) fn script(
        &self,
        folder: Option<&str>,
        name: &str,
    ) -> Option<(&'a Arc<str>, &'a Script)> {
        let named = |(path, _): &&(&'a Arc<str>, &'a Script)| {
            path.rsplit('/').next().is_some_and(|last| last == name)
        };
        let below = |(path, _): &&(&'a Arc<str>, &'a Script)| {
            folder.is_some_and(|folder| {
                folder.is_empty()
                    || path
                        .strip_prefix(folder)
                        .is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let mut near = self.scripts.iter().filter(named).filter(below);
        if let (Some(script), None) = (near.next(), near.next()) {
            return Some(*script);
        }
        let mut all = self.scripts.iter().filter(named);
        match (all.next(), all.next()) {
            (Some(script), None) => Some(*script),
            _ => None,
        }
    }
}
