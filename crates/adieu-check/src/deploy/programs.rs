//! The programs of the project: which command starts which code, and the grace that code sets.
//!
//! Only what is certain counts: a command names a file that exists once, or a binary that one
//! package builds. Two files that could be meant, or two graces in one of them, say nothing.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::command;
use super::start::Start;
use crate::callgraph::{CodeGrace, CodeServer, FileSummary};
use crate::finding::Step;
use crate::role::{self, Role};
use crate::rust::Crates;

/// What gunicorn takes when its settings do not say.
const GUNICORN: u64 = 30;

/// A server that the code of a program starts, with the file.
type Served<'a> = (&'a FileSummary, CodeServer);

/// A grace that code or settings give, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GivenGrace {
    pub(crate) seconds: u64,
    pub(crate) server: &'static str,
    /// Where; not known of a default.
    pub(crate) step: Option<Step>,
}

/// What the code says, by what starts it.
pub(crate) struct Programs<'a> {
    pythons: &'a [FileSummary],
    /// Programs of cargo packages, with the graces in their code and the files these stand in.
    binaries: FxHashMap<String, Vec<(&'a FileSummary, CodeGrace)>>,
    /// Programs of cargo packages, with the servers in their code.
    served: FxHashMap<String, Vec<Served<'a>>>,
}

impl<'a> Programs<'a> {
    pub(crate) fn new(
        pythons: &'a [FileSummary],
        rusts: &'a [FileSummary],
        crates: &Crates,
    ) -> Programs<'a> {
        let mut binaries: FxHashMap<String, Vec<(&FileSummary, CodeGrace)>> = FxHashMap::default();
        let mut served: FxHashMap<String, Vec<Served<'_>>> = FxHashMap::default();
        for summary in rusts
            .iter()
            .filter(|summary| !summary.facts.graces.is_empty() || !summary.facts.servers.is_empty())
        {
            if let Some(program) = crates.program(&summary.path) {
                let graces = summary.facts.graces.iter().map(|grace| (summary, *grace));
                let servers = summary
                    .facts
                    .servers
                    .iter()
                    .map(|server| (summary, *server));
                served.entry(program.clone()).or_default().extend(servers);
                binaries.entry(program).or_default().extend(graces);
            }
        }
        Programs {
            pythons,
            binaries,
            served,
        }
    }

    /// The Python file that a command runs.
    pub(crate) fn code(&self, start: &Start) -> Option<&'a FileSummary> {
        let words = command::inner(&start.words);
        let (first, rest) = words.split_first()?;
        is_python(command::program(first))
            .then(|| self.python(start, rest))
            .flatten()
    }

    /// Whether any Python file of the project handles a signal, or hands the process to a server that does.
    pub(crate) fn handle_signals(&self) -> bool {
        self.pythons
            .iter()
            .any(|summary| summary.facts.handles_signals)
    }

    /// The file of the application that a server is given as `package.module:name`.
    pub(crate) fn application(&self, start: &Start) -> Option<&'a FileSummary> {
        let words = command::inner(&start.words).iter().skip(1);
        let mut named = words
            .filter_map(|word| word.split_once(':'))
            .filter(|(module, _)| {
                !module.starts_with('-')
                    && module
                        .chars()
                        .all(|c| c.is_alphanumeric() || c == '_' || c == '.')
            });
        named.find_map(|(module, _)| {
            let path = module.replace('.', "/");
            self.file(start, &format!("{path}.py"))
                .or_else(|| self.file(start, &format!("{path}/__init__.py")))
        })
    }

    /// The server in the Rust program that a command starts, where there is only one.
    pub(crate) fn rust_server(&self, start: &Start) -> Option<Served<'a>> {
        let words = command::inner(&start.words);
        let name = start.before_copy(command::program(words.first()?));
        match self.served.get(name)?.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// The servers of the Rust programs that start one.
    pub(crate) fn rust_servers(&self) -> Vec<Served<'a>> {
        let mut servers: Vec<Served<'a>> = Vec::new();
        for served in self.served.values() {
            if let [(summary, server)] = served.as_slice()
                && role::of(&summary.path) == Role::Product
            {
                servers.push((summary, *server));
            }
        }
        servers
    }

    /// What the settings of a server say that its command line names: the grace, or that it cannot be read.
    pub(crate) fn said(&self, start: &Start, server: &str) -> Option<(Arc<str>, CodeGrace)> {
        match self.grace(start) {
            Some(GivenGrace {
                seconds,
                step: Some(step),
                ..
            }) => Some((
                step.path,
                CodeGrace {
                    seconds: Some(seconds),
                    place: step.place,
                    server: "",
                    setting: "",
                },
            )),
            // The default.
            Some(GivenGrace { step: None, .. }) => None,
            None => {
                let unclear = |summary: &'a FileSummary| {
                    let mut graces = summary.facts.graces.iter();
                    let grace = graces.find(|grace| grace.server == server)?;
                    Some((
                        Arc::clone(&summary.path),
                        CodeGrace {
                            seconds: None,
                            ..*grace
                        },
                    ))
                };
                self.pythons.iter().find_map(unclear)
            }
        }
    }

    /// The grace that the started code gives itself.
    pub(crate) fn grace(&self, start: &Start) -> Option<GivenGrace> {
        let words = command::inner(&start.words);
        let (first, rest) = words.split_first()?;
        let name = command::program(first);
        if name == "gunicorn" || is_python(name) && rest.starts_with(&gunicorn_module()) {
            return self.gunicorn(start, rest);
        }
        let of_celery = ["-m".to_owned(), "celery".to_owned()];
        if name == "celery" || is_python(name) && rest.starts_with(&of_celery) {
            return self.celery(start, rest);
        }
        if is_python(name) {
            let summary = self.python(start, rest)?;
            let graces = summary.facts.graces.iter();
            return only(
                graces
                    .filter(|grace| !matches!(grace.server, "gunicorn" | "celery"))
                    .map(|grace| (summary, *grace)),
            );
        }
        let name = start.before_copy(name);
        only(self.binaries.get(name)?.iter().copied())
    }

    /// gunicorn reads a file that `-c` names, or `gunicorn.conf.py` where it is started.
    fn gunicorn(&self, start: &Start, rest: &[String]) -> Option<GivenGrace> {
        let named = rest.iter().enumerate().find_map(|(at, word)| {
            match word.as_str() {
                "-c" | "--config" => return Some(rest.get(at + 1).map(String::as_str)),
                _ => {}
            }
            word.strip_prefix("--config=").map(Some)
        });
        let default = GivenGrace {
            seconds: GUNICORN,
            server: "gunicorn",
            step: None,
        };
        let summary = match named {
            Some(file) => {
                let file = file?.strip_prefix("file:").unwrap_or(file?);
                // `python:module` and files from elsewhere say nothing here.
                self.file(start, file)?
            }
            None => match self.file(start, "gunicorn.conf.py") {
                Some(summary) => summary,
                // Somewhere there is one, and where it is started is not known.
                None if start.folder.is_none() && self.has_file("gunicorn.conf.py") => return None,
                None => return Some(default),
            },
        };
        let graces = summary.facts.graces.iter();
        let mut graces = graces
            .filter(|grace| grace.server == "gunicorn")
            .map(|grace| (summary, *grace))
            .peekable();
        if graces.peek().is_none() {
            return Some(default);
        }
        only(graces)
    }

    /// A worker of celery finishes its tasks, which may take as long as its settings let them. Where these stand is
    /// up to the application: all that there are must agree.
    fn celery(&self, start: &Start, rest: &[String]) -> Option<GivenGrace> {
        if !rest.iter().any(|word| word == "worker") {
            return None;
        }
        let setting = if start.stops_quickly() {
            "worker_soft_shutdown_timeout"
        } else {
            "task_time_limit"
        };
        let summaries = self.pythons.iter().filter(|summary| {
            start
                .folder
                .as_ref()
                .is_none_or(|folder| is_below(&summary.path, folder))
        });
        only(summaries.flat_map(|summary| {
            let graces = summary.facts.graces.iter();
            graces
                .filter(|grace| grace.setting == setting)
                .map(move |grace| (summary, *grace))
        }))
    }

    /// The file behind `python main.py` or `python -m package.main`.
    fn python(&self, start: &Start, rest: &[String]) -> Option<&'a FileSummary> {
        let mut words = rest.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-m" => {
                    let module = words.next()?.replace('.', "/");
                    return self
                        .file(start, &format!("{module}.py"))
                        .or_else(|| self.file(start, &format!("{module}/__main__.py")));
                }
                "-c" => return None,
                "-W" | "-X" => {
                    words.next();
                }
                flag if flag.starts_with('-') => {}
                file => return self.file(start, file),
            }
        }
        None
    }

    /// The one file of the project that can be meant.
    fn file(&self, start: &Start, name: &str) -> Option<&'a FileSummary> {
        let name = name.trim_start_matches("./");
        if let Some(folder) = &start.folder {
            let exact = joined(folder, name);
            if let Some(summary) = self.pythons.iter().find(|summary| *summary.path == *exact) {
                return Some(summary);
            }
        }
        // An image or a machine has directories of its own: `/app/main.py` is `main.py` of the project.
        let relative = name.trim_start_matches('/');
        let tails =
            std::iter::successors(Some(relative), |tail| tail.split_once('/').map(|(_, t)| t));
        for tail in tails {
            let mut found = self.pythons.iter().filter(|summary| {
                start
                    .folder
                    .as_ref()
                    .is_none_or(|folder| is_below(&summary.path, folder))
                    && ends_with(&summary.path, tail)
            });
            match (found.next(), found.next()) {
                (Some(summary), None) => return Some(summary),
                (Some(_), Some(_)) => return None,
                (None, _) if !name.starts_with('/') => return None,
                (None, _) => {}
            }
        }
        None
    }

    fn has_file(&self, name: &str) -> bool {
        self.pythons
            .iter()
            .any(|summary| ends_with(&summary.path, name))
    }
}

/// The grace if all say the same, and say it in seconds.
fn only<'a>(mut graces: impl Iterator<Item = (&'a FileSummary, CodeGrace)>) -> Option<GivenGrace> {
    let (summary, first) = graces.next()?;
    if graces.any(|(_, other)| other.seconds != first.seconds) {
        return None;
    }
    Some(GivenGrace {
        seconds: first.seconds?,
        server: first.server,
        step: Some(Step {
            path: Arc::clone(&summary.path),
            place: first.place,
            call: first.setting.to_owned(),
        }),
    })
}

fn is_python(name: &str) -> bool {
    name.strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn gunicorn_module() -> [String; 2] {
    ["-m".to_owned(), "gunicorn".to_owned()]
}

fn ends_with(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail)
        .is_some_and(|head| head.is_empty() || head.ends_with('/'))
}

pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
}

/// A path below a directory, with `.` and `..` taken out.
pub(crate) fn joined(folder: &str, below: &str) -> String {
    let absolute = folder.starts_with('/') || folder.is_empty() && below.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(below.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    if absolute { format!("/{path}") } else { path }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn folders_are_joined_as_a_build_context_is() {
        assert_eq!(joined("", "."), "");
        assert_eq!(joined("deploy", ".."), "");
        assert_eq!(joined("deploy", "../app/Dockerfile"), "app/Dockerfile");
        assert_eq!(joined("/tmp/x", "./app"), "/tmp/x/app");
        assert_eq!(joined("", "../other"), "../other");
    }
}
