//! The whole check, from paths to findings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::config::Config;
use crate::deploy::{self, Manifest, Programs};
use crate::depth;
use crate::finding::{Finding, Notice};
use crate::program::{Modules, Unit};
use crate::rule::{self, Selection};
use crate::source;
use crate::suppress::{self, Ignore};
use crate::walk::{self, Kind, SourceFile};
use crate::{python, rust};

/// What to check, and how.
#[derive(Debug, Default)]
#[must_use = "a request does nothing until it is given to `check`"]
pub struct Request {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// The settings of the project.
    pub config: Config,
    /// The rules that are on.
    pub selection: Selection,
}

/// What a check found.
#[derive(Debug, Default)]
#[must_use = "the findings are the point of the check"]
pub struct Outcome {
    /// What is wrong, by path and place.
    pub findings: Vec<Finding>,
    /// What could not be looked at, and why.
    pub notices: Vec<Notice>,
    /// Paths that were asked for and are not there.
    pub missing: Vec<PathBuf>,
    /// How many files were read.
    pub files: usize,
}

/// What one file turned into.
enum Read {
    Python(Unit),
    Rust(Unit),
    Deploy(Manifest),
    Failed(Finding),
    Nothing,
}

/// Checks all paths. `progress` hears how many of how many files are read; it is called from
/// several threads.
pub fn check(request: &Request, progress: &(dyn Fn(usize, usize) + Sync)) -> Outcome {
    // Deep trees recurse deeply; a pool of our own has the stacks for it.
    let pool = rayon::ThreadPoolBuilder::new()
        .stack_size(depth::STACK)
        .build();
    match pool {
        Ok(pool) => pool.install(|| run(request, progress)),
        Err(_) => run(request, progress),
    }
}

fn run(request: &Request, progress: &(dyn Fn(usize, usize) + Sync)) -> Outcome {
    let walked = walk::walk(&request.paths, &request.config);
    let mut modules = Modules::default();
    let crates = rust::Crates::discover(&walked.files, &mut modules);
    let ids: Vec<u32> = walked
        .files
        .iter()
        .map(|file| match file.kind {
            Kind::Python => modules.add_python(&file.shown),
            _ => 0,
        })
        .collect();
    modules.index_tops();

    let total = walked.files.len();
    let done = AtomicUsize::new(0);
    let reads: Vec<Read> = walked
        .files
        .par_iter()
        .zip(&ids)
        .map(|(file, id)| {
            let read = read(request, file, *id, &modules, &crates);
            // Only a counter for people: no other memory hangs on it.
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            read
        })
        .collect();

    let mut found: Vec<Finding> = Vec::new();
    let mut ignores: Vec<(Arc<str>, Vec<Ignore>)> = Vec::new();
    let (mut pythons, mut rusts, mut manifests) = (Vec::new(), Vec::new(), Vec::new());
    for read in reads {
        match read {
            Read::Python(unit) => pythons.push(unit),
            Read::Rust(unit) => rusts.push(unit),
            Read::Deploy(manifest) => manifests.push(manifest),
            Read::Failed(finding) => found.push(finding),
            Read::Nothing => {}
        }
    }
    let (mut of_python, mut of_rust) = rayon::join(
        || python::findings(&pythons, &modules),
        || rust::findings(&rusts, &modules, &crates),
    );
    found.append(&mut of_python);
    found.append(&mut of_rust);
    for unit in pythons.iter_mut().chain(&mut rusts) {
        found.append(&mut unit.findings);
        if !unit.ignores.is_empty() {
            ignores.push((Arc::clone(&unit.path), std::mem::take(&mut unit.ignores)));
        }
    }
    let mut notices = walked.notices;
    let programs = Programs::new(&pythons, &rusts, &crates);
    let deployed = deploy::findings(manifests, &request.config, &programs);
    // Hundreds of thousands of small pieces to let go of, which nobody has to wait for.
    rayon::spawn(move || drop((pythons, rusts)));
    found.extend(deployed.findings);
    notices.extend(deployed.notices);
    ignores.extend(deployed.ignores);

    let findings = settle(request, found, ignores);
    notices.sort();
    notices.dedup();
    Outcome {
        findings,
        notices,
        missing: walked.missing,
        files: total,
    }
}

/// Ignore comments first, then the selection: a comment is not unused because its rule is off.
fn settle(
    request: &Request,
    found: Vec<Finding>,
    ignores: Vec<(Arc<str>, Vec<Ignore>)>,
) -> Vec<Finding> {
    let mut by_path: rustc_hash::FxHashMap<Arc<str>, Vec<Finding>> =
        rustc_hash::FxHashMap::default();
    for finding in found {
        by_path
            .entry(Arc::clone(&finding.path))
            .or_default()
            .push(finding);
    }
    for (path, ignores) in ignores {
        let entry = by_path.entry(Arc::clone(&path)).or_default();
        suppress::apply(&path, &ignores, entry);
    }
    let mut findings: Vec<Finding> = by_path
        .into_values()
        .flatten()
        .filter(|finding| {
            request.selection.has(finding.code) && !request.config.is_ignored(finding)
        })
        .collect();
    findings.sort_by(|a, b| {
        (&a.path, a.place, a.code, &a.message).cmp(&(&b.path, b.place, b.code, &b.message))
    });
    findings.dedup();
    findings
}

fn read(
    request: &Request,
    file: &SourceFile,
    id: u32,
    modules: &Modules,
    crates: &rust::Crates,
) -> Read {
    if file.kind == Kind::CargoManifest {
        return Read::Nothing;
    }
    let text = match source::read(&file.path) {
        Ok(text) => text,
        // Of files that only might be ours, nobody asked.
        Err(_) if file.kind == Kind::Yaml || file.kind == Kind::Script => return Read::Nothing,
        Err(error) => {
            return Read::Failed(Finding::new(
                &file.shown,
                error.place(),
                rule::UNREADABLE,
                error.message(),
            ));
        }
    };
    let is_test = !request.config.tests && python::is_test_file(&file.shown_below(&request.paths));
    let folder = file.shown.rsplit_once('/').map_or("", |(folder, _)| folder);
    match file.kind {
        Kind::Python => Read::Python(python::extract(
            &text,
            &file.shown,
            folder,
            id,
            modules,
            is_test,
        )),
        Kind::Rust => {
            rust::extract(&text, &file.shown, crates, is_test).map_or(Read::Nothing, Read::Rust)
        }
        kind => deploy::read(kind, &text, &file.shown).map_or(Read::Nothing, Read::Deploy),
    }
}

impl SourceFile {
    /// The path below the argument it was found under: a checkout inside a folder named `tests` is
    /// no test.
    fn shown_below(&self, roots: &[PathBuf]) -> String {
        let below = roots
            .iter()
            .filter_map(|root| self.path.strip_prefix(root).ok())
            .find(|below| !below.as_os_str().is_empty());
        match (below, self.path.file_name()) {
            (Some(below), _) => walk::shown(below),
            (None, Some(name)) => name.to_string_lossy().into_owned(),
            (None, None) => String::new(),
        }
    }
}

impl Outcome {
    /// Findings that have a repair.
    #[must_use]
    pub fn fixable(&self) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.fix.is_some())
            .count()
    }
}
