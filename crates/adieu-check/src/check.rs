//! The whole check, from paths to findings.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::budget::{self, Assembler, Budget};
use crate::callgraph::{FileSummary, Modules};
use crate::config::Config;
use crate::deploy::{self, Manifest, Programs};
use crate::depth;
use crate::finding::{Finding, Notice};
use crate::fix::Applicability;
use crate::go::{self, GoFile};
use crate::node::{self, NodeFile};
use crate::python::{self, Clients};
use crate::role::{self, Role, TestCode};
use crate::rule::{self, Selection};
use crate::rust;
use crate::severity::Severity;
use crate::source::{Texts, Unreadable};
use crate::suppress::{self, Ignore};
use crate::walk::{self, Kind, SourceFile, Walk};

/// What to check, and how.
#[derive(Debug, Default)]
#[must_use = "a request does nothing until it is given to `check`"]
pub struct Request {
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// The settings of the project.
    pub config: Config,
    /// The rules that are on.
    pub selection: Selection,
    /// Whether the worst-case shutdown times are computed; then only what is wrong with these is found.
    pub budget: bool,
    /// A file that is checked beside the paths, and is not read from the disk.
    pub given: Option<Given>,
}

/// A text and what it is called: what an editor holds, or another program prints.
#[derive(Debug, Default)]
pub struct Given {
    /// The name decides what it is read as; without one it is Kubernetes manifests, as `helm template` prints them.
    pub name: Option<PathBuf>,
    /// The text.
    pub bytes: Vec<u8>,
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
    /// The worst-case shutdown times, where they were asked for.
    pub budgets: Vec<Budget>,
}

/// What one file turned into.
enum Read {
    Python(FileSummary),
    Rust(FileSummary),
    Go(GoFile),
    Node(NodeFile),
    Deploy(Manifest),
    Failed(Finding),
    Nothing,
}

/// Checks all paths. `progress` hears how many of how many files are read; it is called from
/// several threads.
pub fn check(request: &Request, progress: &(dyn Fn(usize, usize) + Sync)) -> Outcome {
    let mut texts = Texts::default();
    if let Some(given) = &request.given
        && let Some(file) = walk::given(given.name.as_deref())
    {
        texts.hold(&file.shown, given.bytes.clone());
    }
    check_with(request, &texts, progress)
}

/// Checks as [`check`] does, with texts that stand in for some of the files.
pub(crate) fn check_with(
    request: &Request,
    texts: &Texts,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Outcome {
    let walk_and_run = || {
        let mut walked = walk::walk(&request.paths, &request.config);
        if let Some(given) = &request.given {
            walked.give(given.name.as_deref());
        }
        run(request, walked, texts, progress)
    };
    depth::on_deep_stacks(walk_and_run)
}

/// Checks these files.
pub(crate) fn run(
    request: &Request,
    walked: Walk,
    texts: &Texts,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Outcome {
    let mut modules = Modules::default();
    let crates = rust::Crates::discover(&walked.files, texts, &mut modules);
    let ids: Vec<u32> = walked
        .files
        .iter()
        .map(|file| match file.kind {
            Kind::Python => modules.add_python(&file.shown),
            _ => 0,
        })
        .collect();
    modules.index_tops();
    let packages = node::Packages::discover(&walked.files, texts);

    let clients = Clients::new(&request.config.blocking);
    let total = walked.files.len();
    let done = AtomicUsize::new(0);
    let reads: Vec<Read> = walked
        .files
        .par_iter()
        .zip(&ids)
        .map(|(file, id)| {
            let read = read(request, texts, file, *id, (&modules, &clients), &crates);
            // Only a counter for people: no other memory hangs on it.
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
            read
        })
        .collect();

    let mut found: Vec<Finding> = Vec::new();
    let mut ignores: Vec<(Arc<str>, Vec<Ignore>)> = Vec::new();
    let (mut pythons, mut rusts, mut manifests) = (Vec::new(), Vec::new(), Vec::new());
    let (mut goes, mut nodes) = (Vec::new(), Vec::new());
    for read in reads {
        match read {
            Read::Python(summary) => pythons.push(summary),
            Read::Rust(summary) => rusts.push(summary),
            Read::Go(file) => goes.push(file),
            Read::Node(file) => nodes.push(file),
            Read::Deploy(manifest) => manifests.push(manifest),
            Read::Failed(finding) => found.push(finding),
            Read::Nothing => {}
        }
    }
    let (mut of_python, mut of_rust) = rayon::join(
        || python::findings(&pythons, &modules, &clients),
        || rust::findings(&rusts, &modules, &crates),
    );
    found.append(&mut of_python);
    found.append(&mut of_rust);
    found.extend(go::findings(&mut goes, &walked.files));
    found.extend(node::findings(&mut nodes, &packages));
    let of_goes = goes.iter_mut().map(|file| (&file.path, &mut file.ignores));
    let of_nodes = nodes.iter_mut().map(|file| (&file.path, &mut file.ignores));
    for (path, found) in of_goes.chain(of_nodes).filter(|(_, it)| !it.is_empty()) {
        ignores.push((Arc::clone(path), std::mem::take(found)));
    }
    for summary in pythons.iter_mut().chain(&mut rusts) {
        found.append(&mut summary.findings);
        if !summary.ignores.is_empty() {
            ignores.push((
                Arc::clone(&summary.path),
                std::mem::take(&mut summary.ignores),
            ));
        }
    }
    let mut notices = walked.notices;
    let programs = Programs::new(&pythons, &rusts, &crates);
    let deployed = deploy::findings(manifests, &request.config, &programs);
    let mut budgets = Vec::new();
    if request.budget {
        let linker = python::linker(&pythons, &modules);
        let mut assembler = Assembler::new(&request.config, &programs, &pythons, linker);
        budgets = assembler.budgets(&deployed.launches);
    }
    // Hundreds of thousands of small pieces to let go of, in the background.
    rayon::spawn(move || drop((pythons, rusts)));
    found.extend(deployed.findings);
    notices.extend(deployed.notices);
    ignores.extend(deployed.ignores);

    if request.budget {
        found.retain(|finding| finding.code.as_str().starts_with("ADX0"));
        found.extend(budget::findings(&budgets));
    }
    // What is not looked for is not there to be ignored.
    for (_, ignores) in &mut ignores {
        ignores.retain(|ignore| ignore.is_for_budget() == request.budget);
    }
    lower_what_stands_aside(request, &walked.files, &mut found);
    // Every stop is one of its own, whatever they share.
    if !request.budget {
        lower_all_but_one_way(&mut found);
    }
    let findings = settle(request, found, ignores);
    notices.sort();
    notices.dedup();
    Outcome {
        findings,
        notices,
        missing: walked.missing,
        files: total,
        budgets,
    }
}

/// One call that blocks is one thing to mend, however many ways lead to it: the shortest way keeps
/// its severity, the others are notes.
fn lower_all_but_one_way(found: &mut [Finding]) {
    let rank = |finding: &Finding| {
        let place = (Arc::clone(&finding.path), finding.place);
        (
            std::cmp::Reverse(finding.severity),
            finding.trace.len(),
            place,
        )
    };
    let end = |finding: &Finding| match finding.trace.as_slice() {
        [_, .., last] => Some((finding.code, Arc::clone(&last.path), last.place)),
        _ => None,
    };
    let mut best = rustc_hash::FxHashMap::default();
    for finding in found.iter() {
        if let Some(end) = end(finding) {
            let own = rank(finding);
            let best = best.entry(end).or_insert_with(|| own.clone());
            if own < *best {
                *best = own;
            }
        }
    }
    for finding in found {
        let is_best = end(finding).is_none_or(|end| best.get(&end) == Some(&rank(finding)));
        if !is_best {
            finding.severity = Severity::Note;
        }
    }
}

fn aside(role: Role, mut summary: FileSummary) -> FileSummary {
    summary.facts.is_aside |= role == Role::Aside;
    summary
}

/// What is found in an example, a script or a tool of the developers is a note.
fn lower_what_stands_aside(request: &Request, files: &[SourceFile], found: &mut [Finding]) {
    let aside: rustc_hash::FxHashSet<&str> = files
        .iter()
        .filter(|file| role::of(&file.shown_below(&request.paths)) == Role::Aside)
        .map(|file| &*file.shown)
        .collect();
    for finding in found {
        if aside.contains(&*finding.path) {
            finding.severity = Severity::Note;
        }
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
    texts: &Texts,
    file: &SourceFile,
    id: u32,
    (modules, clients): (&Modules, &Clients),
    crates: &rust::Crates,
) -> Read {
    if matches!(
        file.kind,
        Kind::CargoManifest | Kind::GoModule | Kind::NodePackage
    ) {
        return Read::Nothing;
    }
    let role = role::of(&file.shown_below(&request.paths));
    let tests = TestCode::of(role, request.config.tests);
    let text = match texts.read(file) {
        Ok(text) => text,
        // Files that only might be ours were not asked for.
        Err(_) if file.kind == Kind::Yaml || file.kind == Kind::Script => return Read::Nothing,
        // A bundle.
        Err(Unreadable::TooLarge(_)) if file.kind == Kind::Node => return Read::Nothing,
        // What a test is given may be broken on purpose.
        Err(_) if tests == TestCode::WholeFile => return Read::Nothing,
        Err(error) => {
            return Read::Failed(Finding::new(
                &file.shown,
                error.place(),
                rule::UNREADABLE,
                error.message(),
            ));
        }
    };
    let folder = file.shown.rsplit_once('/').map_or("", |(folder, _)| folder);
    match file.kind {
        Kind::Python => Read::Python(aside(
            role,
            python::extract(
                &text,
                &file.shown,
                python::Position {
                    modules,
                    folder,
                    clients,
                },
                id,
                tests,
                request.budget,
            ),
        )),
        Kind::Rust => rust::extract(&text, &file.shown, crates, tests)
            .map_or(Read::Nothing, |summary| Read::Rust(aside(role, summary))),
        _ if tests == TestCode::WholeFile => Read::Nothing,
        Kind::Go => go::extract(&text, &file.shown).map_or(Read::Nothing, Read::Go),
        Kind::Node => node::extract(&text, &file.shown).map_or(Read::Nothing, Read::Node),
        kind => deploy::read(kind, &text, &file.shown).map_or(Read::Nothing, Read::Deploy),
    }
}

impl SourceFile {
    /// The path below the argument it was found under: a checkout inside a directory named `tests` is
    /// not a test.
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
    /// Takes out what is less than that, and says how many there were.
    pub fn leave_out_below(&mut self, least: Severity) -> usize {
        let before = self.findings.len();
        self.findings.retain(|finding| finding.severity >= least);
        before - self.findings.len()
    }

    /// Findings that have a repair of this kind.
    #[must_use]
    pub fn fixable(&self, kind: Applicability) -> usize {
        self.findings
            .iter()
            .filter(|finding| {
                finding
                    .fix
                    .as_ref()
                    .is_some_and(|fix| fix.applicability == kind)
            })
            .count()
    }
}
