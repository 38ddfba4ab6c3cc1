//! The packages of the project: what each `package.json` says.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;

use crate::source::Texts;
use crate::walk::{Kind, SourceFile};

/// Modules that wait for SIGTERM themselves.
const SIGNAL_MODULES: &[&str] = &[
    "@godaddy/terminus",
    "@fastify/close-with-grace",
    "@temporalio/worker",
    "@moleculer",
    "@strapi/strapi",
    "close-with-grace",
    "death",
    "exit-hook",
    "express-graceful-exit",
    "fastify-cli",
    "fastify-graceful-shutdown",
    "http-graceful-shutdown",
    "@tygra/graceful-shutdown",
    "grace",
    "lightship",
    "moleculer",
    "next",
    "node-graceful-shutdown",
    "nodemon",
    "nuxt",
    "pm2",
    "signal-exit",
    "shutdown-cleanup",
    "@apollo/server/standalone",
    "apollo-server",
    "@adonisjs/core",
    "@feathersjs/cli",
    "node-cleanup",
    "async-exit-hook",
    "graceful-fs-exit",
];

/// One package.
#[derive(Debug, Default)]
pub(crate) struct Package {
    folder: String,
    name: String,
    dependencies: FxHashSet<String>,
    /// Runs in an editor, a browser or a phone, and not as a service.
    pub(crate) is_guest: bool,
    /// The oldest version of Node that it says it runs on.
    pub(crate) oldest_node: Option<u32>,
}

/// The packages, from the innermost directory on.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    all: Vec<Package>,
    by_name: FxHashMap<String, usize>,
}

impl Packages {
    /// Reads the package files of the project. One that cannot be read is a directory without a package.
    pub(crate) fn discover(files: &[SourceFile], texts: &Texts) -> Packages {
        let mut packages = Packages::default();
        for file in files.iter().filter(|file| file.kind == Kind::NodePackage) {
            let Ok(text) = texts.read(file) else { continue };
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                packages.all.push(read(&file.shown, &value));
            }
        }
        packages
            .all
            .sort_by_key(|package| std::cmp::Reverse(package.folder.len()));
        let named = packages.all.iter().enumerate();
        packages.by_name = named
            .map(|(at, package)| (package.name.clone(), at))
            .collect();
        packages
    }

    /// The number of the package that a file belongs to.
    pub(crate) fn of(&self, path: &str) -> Option<usize> {
        self.all.iter().position(|package| {
            package.folder.is_empty()
                || path
                    .strip_prefix(&*package.folder)
                    .is_some_and(|rest| rest.starts_with('/'))
        })
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Package> {
        self.all.get(number)
    }

    /// The packages of the project that this one depends on, itself first.
    pub(crate) fn reached(&self, number: usize) -> Vec<usize> {
        let mut reached = vec![number];
        let mut next = 0;
        while let Some(package) = reached.get(next).and_then(|at| self.all.get(*at)) {
            for name in &package.dependencies {
                if let Some(at) = self.by_name.get(name)
                    && !reached.contains(at)
                {
                    reached.push(*at);
                }
            }
            next += 1;
        }
        reached
    }
}

impl Package {
    /// Whether it depends on a framework for servers.
    pub(crate) fn has_framework(&self) -> bool {
        let frameworks = [
            "express", "koa", "fastify", "polka", "restify", "hono", "h3",
        ];
        frameworks
            .iter()
            .any(|name| self.dependencies.contains(*name))
    }

    /// Whether a module that it depends on waits for SIGTERM.
    pub(crate) fn waits_for_signals(&self) -> bool {
        self.dependencies.iter().any(|name| waits_for_signals(name))
    }
}

fn read(path: &Arc<str>, value: &Value) -> Package {
    let keys = |field: &str| {
        let object = value.get(field).and_then(Value::as_object);
        object.into_iter().flat_map(|object| object.keys().cloned())
    };
    let engines = |field: &str| {
        value
            .get("engines")
            .and_then(|engines| engines.get(field)?.as_str())
    };
    let dependencies: FxHashSet<String> = keys("dependencies").collect();
    let guests = ["electron", "react-native", "expo", "@capacitor/core"];
    let in_guest =
        |name: &str| dependencies.contains(name) || keys("devDependencies").any(|it| it == name);
    Package {
        folder: path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder)
            .to_owned(),
        name: value
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        is_guest: engines("vscode").is_some() || guests.iter().any(|name| in_guest(name)),
        oldest_node: engines("node").and_then(oldest),
        dependencies,
    }
}

/// The lowest version that a range such as `>=16.14 <19 || ^20` names.
fn oldest(range: &str) -> Option<u32> {
    let parts = range.split("||").flat_map(|part| {
        let part = part.trim();
        let first = part.split_whitespace().next().unwrap_or(part);
        let digits = first.trim_start_matches(['>', '=', '^', '~', 'v', ' ']);
        let digits = if digits.is_empty() {
            part.split_whitespace().nth(1).unwrap_or("")
        } else {
            digits
        };
        digits.split('.').next()?.parse::<u32>().ok()
    });
    parts.min()
}

/// Whether a module waits for SIGTERM itself.
pub(super) fn waits_for_signals(module: &str) -> bool {
    let is_own = module.starts_with('.');
    let lower = module.to_ascii_lowercase();
    !is_own
        && (SIGNAL_MODULES.contains(&module)
            || lower.contains("graceful")
            || lower.contains("shutdown"))
}

#[cfg(test)]
mod tests {
    use super::oldest;

    #[test]
    fn the_oldest_version_of_a_range() {
        for (range, version) in [
            (">=16", Some(16)),
            ("^18.12.0 || >=20", Some(18)),
            (">= 14.0.0 <21", Some(14)),
            ("v22.x", Some(22)),
            ("20", Some(20)),
            ("*", None),
            ("lts/*", None),
        ] {
            assert_eq!(oldest(range), version, "{range}");
        }
    }
}
