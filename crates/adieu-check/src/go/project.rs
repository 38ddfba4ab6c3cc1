//! What is wrong in a program as a whole: the files of a module together.

use rustc_hash::{FxHashMap, FxHashSet};

use super::summary::{GoFile, Need};
use crate::finding::Finding;
use crate::walk::{Kind, SourceFile};

/// What a module or a program does, over its files.
#[derive(Default)]
struct Scope<'a> {
    hears_signals: bool,
    hears_sigterm: bool,
    serves: bool,
    server_fields: FxHashSet<&'a str>,
    shut_down: FxHashSet<&'a str>,
    closed: FxHashSet<&'a str>,
}

impl<'a> Scope<'a> {
    fn add(&mut self, file: &'a GoFile) {
        self.hears_signals |= file.hears_signals;
        self.hears_sigterm |= file.hears_sigterm;
        self.serves |= file.serves;
        self.server_fields
            .extend(file.server_fields.iter().map(String::as_str));
        self.shut_down
            .extend(file.shut_down.iter().map(String::as_str));
        self.closed.extend(file.closed.iter().map(String::as_str));
    }
}

/// The findings that hold for the whole program. `walked` knows the directories that hold a `go.mod`.
pub(crate) fn findings(files: &mut [GoFile], walked: &[SourceFile]) -> Vec<Finding> {
    let modules: Vec<&str> = walked
        .iter()
        .filter(|file| file.kind == Kind::GoModule)
        .map(|file| folder(&file.shown))
        .collect();
    let found: Vec<Vec<(Finding, Vec<Need>)>> = files
        .iter_mut()
        .map(|file| std::mem::take(&mut file.found))
        .collect();
    // A package is a directory; the libraries of a module are part of each of its programs.
    let mut packages: FxHashMap<&str, Scope<'_>> = FxHashMap::default();
    let mut libraries: FxHashMap<&str, Scope<'_>> = FxHashMap::default();
    let mut programs: FxHashMap<&str, FxHashSet<&str>> = FxHashMap::default();
    let mut hears: FxHashSet<&str> = FxHashSet::default();
    for file in files.iter() {
        packages.entry(folder(&file.path)).or_default().add(file);
        let module = module_of(&file.path, &modules);
        if file.hears_signals {
            hears.insert(module);
        }
        if file.is_main {
            programs
                .entry(module)
                .or_default()
                .insert(folder(&file.path));
        } else {
            libraries.entry(module).or_default().add(file);
        }
    }
    let nothing = Scope::default();
    let mut kept = Vec::new();
    for (file, found) in files.iter().zip(found) {
        let package = packages.get(folder(&file.path)).unwrap_or(&nothing);
        let module = module_of(&file.path, &modules);
        let library = libraries.get(module).unwrap_or(&nothing);
        let holds = |need: &Need| match need {
            Need::NoSignals => !package.hears_signals && !library.hears_signals,
            Need::NoSignalsInModule => programs.contains_key(module) && !hears.contains(module),
            Need::NoSigterm => !package.hears_sigterm && !library.hears_sigterm,
            // Of several programs one may be the client of the others.
            Need::Serves => {
                let is_only = programs
                    .get(module)
                    .is_none_or(|programs| programs.len() == 1);
                package.serves || library.serves && is_only
            }
            Need::ServerField(name) => package.server_fields.contains(&**name),
            Need::ShutDown(name) => package.shut_down.contains(&**name),
            Need::NeverClosed(name) => !package.closed.contains(&**name),
            Need::Library => !programs.contains_key(module),
        };
        for (finding, needs) in found {
            if needs.iter().all(holds) {
                kept.push(finding);
            }
        }
    }
    kept
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The nearest directory above a file that holds a `go.mod`.
fn module_of<'a>(path: &str, modules: &[&'a str]) -> &'a str {
    let holds = |module: &&&str| {
        module.is_empty()
            || path
                .strip_prefix(**module)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    let nearest = modules
        .iter()
        .filter(holds)
        .max_by_key(|module| module.len());
    nearest.copied().unwrap_or("")
}
