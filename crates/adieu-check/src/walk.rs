//! Which files there are, as git sees them, and what each one is.

mod ignored;

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, mpsc};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::config::Config;
use crate::finding::Notice;

/// What a file is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Python,
    Rust,
    CargoManifest,
    Go,
    /// A `go.mod`.
    GoModule,
    /// TypeScript and JavaScript.
    Node,
    /// A `package.json`.
    NodePackage,
    Dockerfile,
    Yaml,
    Unit,
    Script,
    Procfile,
    /// `fly.toml`
    Fly,
    /// A job of Nomad.
    Nomad,
    /// JSON that may be a task definition of ECS.
    Task,
    /// Settings that may be those of supervisord.
    Supervisor,
    Nginx,
    HaProxy,
    /// Templates that the others of a chart take in.
    ChartHelpers,
}

/// One file to look at.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    /// As it is shown and as modules are named: relative, `/` between.
    pub(crate) shown: Arc<str>,
    pub(crate) kind: Kind,
}

/// What the walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) files: Vec<SourceFile>,
    pub(crate) notices: Vec<Notice>,
    /// Arguments that are not there.
    pub(crate) missing: Vec<PathBuf>,
}

/// A text that is not read from the disk as a file; nothing where its name is of no kind that is checked.
pub(crate) fn given(name: Option<&Path>) -> Option<SourceFile> {
    let path = name.unwrap_or(Path::new("-")).to_owned();
    Some(SourceFile {
        kind: match name {
            Some(name) => kind_of(name, true)?,
            None => Kind::Yaml,
        },
        shown: shown(&path).into(),
        path,
    })
}

/// What is said of a file of another kind.
fn is_of_no_kind(path: &Path) -> Notice {
    Notice {
        path: shown(path).into(),
        message: "is not a kind of file that is checked".to_owned(),
    }
}

/// Walks all paths. Excluded files are left out unless they are named themselves.
///
/// No link below a named path is followed. What a link leads to inside is met under its own name;
/// a link that leads out is said and left.
pub(crate) fn walk(paths: &[PathBuf], config: &Config) -> Walk {
    let exclude = Exclude {
        patterns: patterns(&config.exclude),
        config,
    };
    let roots: Vec<PathBuf> = paths
        .iter()
        .filter_map(|root| std::fs::canonicalize(root).ok())
        .collect();
    let mut walk = Walk::default();
    for root in paths {
        let Ok(found) = std::fs::symlink_metadata(root) else {
            walk.missing.push(root.clone());
            continue;
        };
        // A link that is named is the user's own: it is followed, and nothing below it is.
        let named_link = found.is_symlink().then(|| std::fs::canonicalize(root));
        let start = match named_link {
            None => root.clone(),
            Some(Ok(real)) if real.is_dir() => root.join(""),
            Some(Ok(real)) => {
                walk.take(met_file(root, real, true, &exclude));
                continue;
            }
            Some(Err(_)) => {
                walk.missing.push(root.clone());
                continue;
            }
        };
        let (send, receive) = mpsc::channel();
        let mut builder = WalkBuilder::new(&start);
        builder.require_git(false).follow_links(false);
        let ignored = ignored::Root::new(&start);
        if let Some(notice) = ignored.own() {
            builder.ignore(false).git_ignore(false).parents(false);
            walk.notices.push(notice);
        }
        let said = send.clone();
        builder.filter_entry(move |entry| {
            if entry.depth() == 0 || !entry.file_type().is_some_and(|kind| kind.is_dir()) {
                return true;
            }
            if let Some(notice) = ignored.below(entry.path()) {
                // The receiver outlives the walk.
                let _ = said.send(Met::Notice(notice));
                return false;
            }
            !is_generated(entry.path())
        });
        builder
            .threads(rayon::current_num_threads())
            .build_parallel()
            .run(|| {
                let send = send.clone();
                let (exclude, roots) = (&exclude, &roots);
                Box::new(move |entry| {
                    // The receiver outlives the walk.
                    if let Some(met) = meet(entry, exclude, roots) {
                        let _ = send.send(met);
                    }
                    WalkState::Continue
                })
            });
        drop((send, builder));
        for met in receive {
            walk.take(Some(met));
        }
    }
    walk.files.sort_by(|a, b| a.shown.cmp(&b.shown));
    walk.files.dedup_by(|a, b| a.shown == b.shown);
    walk
}

impl Walk {
    /// A file of this path, if it is one that is checked.
    pub(crate) fn file(path: PathBuf) -> Option<SourceFile> {
        Some(SourceFile {
            kind: kind_of(&path, false)?,
            shown: shown(&path).into(),
            path,
        })
    }

    /// Adds a text that is not read from the disk, in the place of the file of its name.
    pub(crate) fn give(&mut self, name: Option<&Path>) {
        let Some(file) = given(name) else {
            self.notices.extend(name.map(is_of_no_kind));
            return;
        };
        self.files.retain(|met| met.shown != file.shown);
        self.files.push(file);
        self.files.sort_by(|a, b| a.shown.cmp(&b.shown));
    }

    fn take(&mut self, met: Option<Met>) {
        match met {
            Some(Met::File(file)) => self.files.push(file),
            Some(Met::Notice(notice)) => self.notices.push(notice),
            None => {}
        }
    }
}

enum Met {
    File(SourceFile),
    Notice(Notice),
}

/// What the settings leave out.
struct Exclude<'a> {
    patterns: Gitignore,
    config: &'a Config,
}

impl Exclude<'_> {
    fn has(&self, shown: &str) -> bool {
        !self.patterns.is_empty()
            && self
                .patterns
                .matched_path_or_any_parents(self.config.below(shown), false)
                .is_ignore()
    }
}

fn meet(
    entry: Result<DirEntry, ignore::Error>,
    exclude: &Exclude<'_>,
    roots: &[PathBuf],
) -> Option<Met> {
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return Some(Met::Notice(notice(&error))),
    };
    let kind = entry.file_type()?;
    if kind.is_symlink() {
        return met_link(entry.path(), exclude, roots);
    }
    if !kind.is_file() {
        return None;
    }
    let named = entry.depth() == 0;
    let path = entry.into_path();
    met_file(&path, path.clone(), named, exclude)
}

/// A file, as it is shown and where it is read.
fn met_file(as_found: &Path, path: PathBuf, named: bool, exclude: &Exclude<'_>) -> Option<Met> {
    let Some(kind) = kind_of(as_found, named) else {
        // The others were not asked for.
        return named.then(|| Met::Notice(is_of_no_kind(as_found)));
    };
    let shown = shown(as_found);
    if !named && exclude.has(&shown) {
        return None;
    }
    Some(Met::File(SourceFile {
        path,
        shown: shown.into(),
        kind,
    }))
}

/// A link below a named directory. Only where it ends is looked up, and nothing there is opened.
fn met_link(path: &Path, exclude: &Exclude<'_>, roots: &[PathBuf]) -> Option<Met> {
    let target = std::fs::canonicalize(path).ok()?;
    let is_ours = target.is_dir() || kind_of(path, false).is_some();
    if !is_ours || roots.iter().any(|root| target.starts_with(root)) || exclude.has(&shown(path)) {
        return None;
    }
    Some(Met::Notice(Notice {
        path: shown(path).into(),
        message: "is a symbolic link out of what is checked and was not followed; name what it \
                  leads to if that is to be checked too"
            .to_owned(),
    }))
}

/// Patterns in the language of `.gitignore`. One that cannot be read matches nothing; the
/// configuration has refused it before.
pub(crate) fn patterns(lines: &[String]) -> Gitignore {
    let mut builder = GitignoreBuilder::new("");
    for line in lines {
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Virtual environments, build output and other people's packages.
fn is_generated(folder: &Path) -> bool {
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    matches!(name, "node_modules" | "__pycache__" | "site-packages")
        || folder.join("pyvenv.cfg").exists()
        || folder.join("CACHEDIR.TAG").exists()
}

fn notice(error: &ignore::Error) -> Notice {
    let path = path_of(error).map(shown).unwrap_or_default();
    let message = match error {
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithPath { err, .. } => inner(err),
        other => inner(other),
    };
    Notice {
        path: path.into(),
        message,
    }
}

fn inner(error: &ignore::Error) -> String {
    match error {
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithPath { err, .. } => inner(err),
        ignore::Error::Io(error) => format!("cannot be read: {error}"),
        other => other.to_string(),
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithDepth { err, .. } => path_of(err),
        ignore::Error::WithPath { path, .. } => Some(path),
        _ => None,
    }
}

/// A shown path as it stands below a directory, wherever the check was started; as it is when it
/// stands elsewhere.
pub(crate) fn below(folder: &Path, path: &str) -> String {
    let (Ok(folder), Ok(whole)) = (std::path::absolute(folder), std::path::absolute(path)) else {
        return path.to_owned();
    };
    match plain(&whole).strip_prefix(plain(&folder)) {
        Ok(below) => shown(below),
        Err(_) => path.to_owned(),
    }
}

/// Without `..`: by its words alone, because a file may be gone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// A path for people and for tables: `./` gone, `/` between.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = if cfg!(windows) {
        text.replace('\\', "/")
    } else {
        text.into_owned()
    };
    text.strip_prefix("./").map_or(text.clone(), str::to_owned)
}

fn is_overlay(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name);
    folder.is_some_and(|folder| folder.to_string_lossy().ends_with(".service.d"))
}

/// Whether a directory above a file has this in its name.
fn is_in(path: &Path, part: &str) -> bool {
    let folders = path.parent().into_iter().flat_map(Path::components);
    folders
        .rev()
        .take(3)
        .any(|folder| folder.as_os_str().to_string_lossy().contains(part))
}

fn kind_of(path: &Path, named: bool) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    let lower = name.to_ascii_lowercase();
    let extension = lower
        .rsplit_once('.')
        .map(|(_, extension)| extension)
        .unwrap_or_default();
    Some(match extension {
        "py" => Kind::Python,
        "rs" => Kind::Rust,
        "go" => Kind::Go,
        "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" => Kind::Node,
        "yml" | "yaml" => Kind::Yaml,
        "service" => Kind::Unit,
        // What is laid over a unit: `app.service.d/override.conf`.
        "conf" if is_overlay(path) => Kind::Unit,
        "sh" | "bash" => Kind::Script,
        "dockerfile" | "containerfile" => Kind::Dockerfile,
        "nomad" => Kind::Nomad,
        "hcl" if lower.ends_with(".nomad.hcl") => Kind::Nomad,
        "toml" if lower == "fly.toml" || lower.starts_with("fly.") => Kind::Fly,
        "json" if lower.contains("task") && lower.contains("def") => Kind::Task,
        "conf" | "ini" if lower.contains("supervisor") || is_in(path, "supervisor") => {
            Kind::Supervisor
        }
        "conf" if lower == "nginx.conf" => Kind::Nginx,
        "cfg" if lower == "haproxy.cfg" => Kind::HaProxy,
        "tpl" if is_in(path, "templates") => Kind::ChartHelpers,
        // A unit that a build completes: `app.service.in`.
        "in" | "j2" | "tmpl" | "tpl" | "template" | "erb" if lower.contains(".service.") => {
            Kind::Unit
        }
        _ if lower == "cargo.toml" => Kind::CargoManifest,
        _ if lower == "go.mod" => Kind::GoModule,
        _ if lower == "package.json" => Kind::NodePackage,
        _ if lower == "procfile" => Kind::Procfile,
        _ if ["dockerfile", "containerfile"].iter().any(|base| {
            lower == *base
                || lower
                    .strip_prefix(base)
                    .is_some_and(|rest| rest.starts_with(['.', '-']))
        }) && !matches!(extension, "md" | "txt" | "dockerignore") =>
        {
            Kind::Dockerfile
        }
        _ if matches!(
            lower.as_str(),
            "entrypoint" | "docker-entrypoint" | "start" | "run"
        ) && !named =>
        {
            Kind::Script
        }
        _ => return None,
    })
}
