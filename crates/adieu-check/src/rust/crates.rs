//! Packages and their modules, from the manifests and the file names.

use rustc_hash::FxHashMap;

use crate::callgraph::{ModuleId, Modules};
use crate::source::Texts;
use crate::walk::{Kind, SourceFile};

/// One package.
#[derive(Debug, Default)]
pub(crate) struct Package {
    /// As code names it, with underscores.
    pub(crate) name: String,
    /// A service under adieu's care.
    pub(crate) uses_adieu: bool,
    /// Dependencies that it calls by another name: that name, the real one.
    aliases: Vec<(String, String)>,
    /// The name its `src/main.rs` is built under.
    main: String,
    /// What its `[[bin]]` tables rename: path in the package, name.
    renamed: Vec<(String, String)>,
    /// The programs it is seen to have.
    binaries: Vec<String>,
}

/// The packages of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Crates {
    /// Directory of the manifest, with its package.
    packages: Vec<(String, Package)>,
    /// File to its module and package.
    modules: FxHashMap<String, Position>,
    /// Name of a library to its root.
    roots: FxHashMap<String, ModuleId>,
}

/// Where a file stands in its package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) module: ModuleId,
    pub(crate) root: ModuleId,
    pub(crate) parent: Option<ModuleId>,
    package: usize,
}

impl Crates {
    pub(crate) fn discover(files: &[SourceFile], texts: &Texts, modules: &mut Modules) -> Crates {
        let mut crates = Crates::default();
        for file in files.iter().filter(|file| file.kind == Kind::CargoManifest) {
            let folder = file.shown.rsplit_once('/').map_or("", |(folder, _)| folder);
            if let Some(package) = texts.read(file).ok().as_deref().and_then(read_manifest) {
                crates.packages.push((folder.to_owned(), package));
            }
        }
        // The longest directory that fits is the nearest manifest.
        crates
            .packages
            .sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        crates.packages.push((String::new(), Package::default()));
        for file in files.iter().filter(|file| file.kind == Kind::Rust) {
            crates.place(&file.shown, modules);
        }
        for file in files.iter().filter(|file| file.kind == Kind::Rust) {
            crates.note_binary(&file.shown);
        }
        crates
    }

    fn place(&mut self, shown: &str, modules: &mut Modules) {
        let last = self.packages.len() - 1;
        let package = self
            .packages
            .iter()
            .position(|(folder, _)| below(shown, folder).is_some())
            .unwrap_or(last);
        let folder = self.packages[package].0.clone();
        let inner = below(shown, &folder).unwrap_or(shown);
        let stem = inner.strip_suffix(".rs").unwrap_or(inner);
        // A name no Python module can have keeps the two languages apart.
        let library = format!("\u{1}{folder}");
        let (root, path) = match stem.strip_prefix("src/") {
            Some("lib") => (library.clone(), library),
            Some("main") => (format!("{library}\u{1}main"), format!("{library}\u{1}main")),
            Some(rest) if rest.starts_with("bin/") => (
                format!("{library}\u{1}{rest}"),
                format!("{library}\u{1}{rest}"),
            ),
            Some(rest) => (
                library.clone(),
                format!("{library}/{}", rest.strip_suffix("/mod").unwrap_or(rest)),
            ),
            None => (
                format!("{library}\u{1}{stem}"),
                format!("{library}\u{1}{stem}"),
            ),
        };
        let root_id = modules.add_named(&root);
        let module = modules.add_named(&path);
        if let Some(name) = path.strip_prefix(&format!("{root}/")) {
            // The same files are modules of the binary beside the library.
            let top = name.split('/').next().unwrap_or(name);
            let top_id = modules.add_named(&format!("{root}/{top}"));
            let main = modules.add_named(&format!("{root}\u{1}main"));
            modules.adopt(main, top, top_id);
            modules.adopt(root_id, top, top_id);
        }
        let parent = path
            .rsplit_once('/')
            .filter(|_| path != root)
            .map(|(parent, _)| modules.add_named(parent));
        let name = self.packages[package].1.name.clone();
        if !name.is_empty() && stem == "src/lib" {
            self.roots.insert(name, root_id);
        }
        self.modules.insert(
            shown.to_owned(),
            Position {
                module,
                root: root_id,
                parent,
                package,
            },
        );
    }

    fn note_binary(&mut self, shown: &str) {
        if let Some(position) = self.position(shown) {
            let (folder, package) = &mut self.packages[position.package];
            let own = below(shown, folder).and_then(|inner| package.binary_at(inner));
            package.binaries.extend(own);
        }
    }

    /// The program that a file is part of: its root, or the only one of its package.
    pub(crate) fn program(&self, shown: &str) -> Option<String> {
        let position = self.position(shown)?;
        let (folder, package) = &self.packages[position.package];
        let inner = below(shown, folder)?;
        package
            .binary_at(inner)
            .or_else(|| match package.binaries.as_slice() {
                [only] if inner.starts_with("src/") => Some(only.clone()),
                _ => None,
            })
    }

    pub(crate) fn position(&self, shown: &str) -> Option<Position> {
        self.modules.get(shown).copied()
    }

    pub(crate) fn package(&self, position: Position) -> &Package {
        &self.packages[position.package].1
    }

    /// A number that all files of one package share.
    pub(crate) fn package_number(&self, shown: &str) -> Option<usize> {
        self.position(shown).map(|position| position.package)
    }

    /// The root of another package of the workspace.
    pub(crate) fn root(&self, name: &str) -> Option<ModuleId> {
        self.roots.get(name).copied()
    }

    /// What a crate is really called that the package at this position may have renamed.
    pub(crate) fn real_name<'n>(&'n self, position: Position, name: &'n str) -> &'n str {
        let aliases = self.package(position).aliases.iter();
        aliases
            .filter(|(alias, _)| alias == name)
            .map(|(_, real)| real.as_str())
            .next()
            .unwrap_or(name)
    }
}

impl Package {
    /// The program whose root this file is, by its path in the package.
    fn binary_at(&self, inner: &str) -> Option<String> {
        let renamed = self.renamed.iter().find(|(path, _)| path == inner);
        if let Some((_, name)) = renamed {
            return Some(name.clone());
        }
        if inner == "src/main.rs" {
            return (!self.main.is_empty()).then(|| self.main.clone());
        }
        let name = inner.strip_prefix("src/bin/")?;
        let name = name
            .strip_suffix("/main.rs")
            .or_else(|| name.strip_suffix(".rs"))?;
        (!name.contains('/')).then(|| name.to_owned())
    }
}

fn below<'a>(path: &'a str, folder: &str) -> Option<&'a str> {
    if folder.is_empty() {
        return Some(path);
    }
    path.strip_prefix(folder)
        .and_then(|rest| rest.strip_prefix('/'))
}

fn read_manifest(text: &str) -> Option<Package> {
    let table: toml::Table = text.parse().ok()?;
    let package = table.get("package")?.as_table()?;
    let name = table
        .get("lib")
        .and_then(|lib| lib.get("name"))
        .or_else(|| package.get("name"))
        .and_then(|name| name.as_str())
        .unwrap_or_default()
        .replace('-', "_");
    let dependencies = table.get("dependencies").and_then(|it| it.as_table());
    let uses_adieu = dependencies.is_some_and(|them| them.contains_key("adieu"));
    let aliases = dependencies
        .into_iter()
        .flatten()
        .filter_map(|(alias, it)| {
            let real = it.get("package")?.as_str()?;
            Some((alias.replace('-', "_"), real.replace('-', "_")))
        });
    let main = package.get("name").and_then(|name| name.as_str());
    let bins = table.get("bin").and_then(|bins| bins.as_array());
    let renamed = bins.into_iter().flatten().filter_map(|bin| {
        let name = bin.get("name")?.as_str()?;
        let path = bin.get("path")?.as_str()?;
        Some((path.to_owned(), name.to_owned()))
    });
    Some(Package {
        name,
        uses_adieu,
        aliases: aliases.collect(),
        main: main.unwrap_or_default().to_owned(),
        renamed: renamed.collect(),
        binaries: Vec::new(),
    })
}
