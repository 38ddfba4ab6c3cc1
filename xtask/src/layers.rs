//! `cargo xtask layers`: which module uses which, and whether every one only looks down.
//!
//! A reference is a path in the source that begins with `crate` or `super`. One that goes through a re-export counts for
//! the module that has the item. Tests do not count: they may look wherever they want.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use syn::visit::{self, Visit};

use crate::checkout::Checkout;
use crate::step::{Failure, Outcome};

const HELP: &str = "\
Which module uses which, and whether every one only looks down.

usage: cargo xtask layers

Prints the layers of the library from the bottom to the top, with what each module uses, and the largest circle of modules
of each crate. A reference to a layer above, or a larger circle than allowed, is a failure.

exit code: 0 every module looks down, 1 one looks up, or a circle is too large, 2 usage
";

/// A crate whose modules are looked at.
struct House {
    name: &'static str,
    sources: &'static str,
    /// How many names of a path make a module here: the directories, or what is in them.
    depth: usize,
    /// From the bottom to the top; a module is in the layer with the longest name that its path begins with. Empty where
    /// only circles count.
    layers: &'static [&'static [&'static str]],
    /// The largest circle that is allowed. It has to be in one directory.
    circle: usize,
}

const HOUSES: &[House] = &[
    House {
        name: "adieu",
        sources: "crates/adieu/src",
        depth: 2,
        layers: &[
            &["util"],
            &["error"],
            &["tracking", "platform", "signal::kind"],
            &["report"],
            &["runtime"],
            &["signal", "reload", "platform::systemd", "component"],
            &["state", "queue", "net"],
            &["http", "schedule"],
            &["admin", "otel"],
            &["handoff"],
            &["app"],
            &["testing"],
            &["crate"],
        ],
        circle: 6,
    },
    House {
        name: "adieu-core",
        sources: "crates/adieu-core/src",
        depth: 1,
        layers: &[
            &["race", "error"],
            &["address", "tls", "shutdown_signal"],
            &["store", "queue", "store_error", "queue_error"],
            &["crate"],
        ],
        circle: 2,
    },
    House {
        name: "adieu-drill",
        sources: "crates/adieu-drill/src",
        depth: 1,
        layers: &[],
        circle: 4,
    },
];

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        [] => {}
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [unknown, ..] => {
            return crate::usage(
                &format!("`layers` has no option `{unknown}`"),
                "layers --help",
            );
        }
    }
    match look(&Checkout::here(), true) {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{}", failure.why());
            ExitCode::FAILURE
        }
    }
}

/// The step of `cargo xtask test`.
pub(crate) fn check(checkout: &Checkout) -> Outcome {
    look(checkout, false)
}

fn look(checkout: &Checkout, prints_all: bool) -> Outcome {
    let (mut problems, mut summary) = (0, Vec::new());
    for house in HOUSES {
        let files = read(&checkout.root().join(house.sources))?;
        let graph = Graph::of(&files, house.depth);
        if prints_all {
            print!("{}", graph.page(house));
        }
        let circle = graph.circles().into_iter().max_by_key(BTreeSet::len);
        let circle = circle.unwrap_or_default();
        let found = graph.problems(house, &circle);
        for problem in &found {
            println!("{problem}");
        }
        problems += found.len();
        summary.push(format!(
            "{}: {} modules, largest circle {}",
            house.name,
            graph.uses.len(),
            circle.len().max(1)
        ));
    }
    match problems {
        0 => Ok(summary.join("; ")),
        count => Err(Failure::new(format!(
            "{count} references look up or make a circle too large; {}",
            summary.join("; ")
        ))
        .advise("move what both need to the layer below")),
    }
}

/// The sources of a crate by module path: `runtime::shared`, and `crate` for the root.
type Files = BTreeMap<String, String>;

fn read(sources: &Path) -> Result<Files, Failure> {
    let mut files = Files::new();
    let mut folders = vec![PathBuf::from(sources)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let module = module_of(sources, &path);
                if !module.ends_with("tests") {
                    files.insert(module, fs::read_to_string(&path)?);
                }
            }
        }
    }
    Ok(files)
}

fn module_of(sources: &Path, file: &Path) -> String {
    let path = file
        .strip_prefix(sources)
        .unwrap_or(file)
        .with_extension("");
    let mut names: Vec<_> = (path.iter().map(|name| name.to_string_lossy())).collect();
    if names
        .last()
        .is_some_and(|name| name == "mod" || name == "lib" || name == "main")
    {
        names.pop();
    }
    match names.as_slice() {
        [] => "crate".to_owned(),
        names => names.join("::"),
    }
}

/// What a file refers to, and what it passes on.
#[derive(Default)]
struct References {
    /// Absolute paths without `crate`.
    paths: BTreeSet<Vec<String>>,
    /// Names that are re-exported, with where they come from.
    reexports: HashMap<String, Vec<String>>,
}

struct Collector<'a> {
    /// The module's own path.
    module: &'a [String],
    found: References,
}

impl Collector<'_> {
    /// The absolute path, if this one is of the crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base: Vec<String> = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.to_vec(),
            _ => return None,
        };
        let mut rest = path;
        if let [first, after @ ..] = rest
            && (first == "crate" || first == "self")
        {
            rest = after;
        }
        while let [first, after @ ..] = rest
            && first == "super"
        {
            base.pop()?;
            rest = after;
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn use_tree(&mut self, tree: &syn::UseTree, before: &[String], is_public: bool) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(it) => {
                path.push(it.ident.to_string());
                self.use_tree(&it.tree, &path, is_public);
            }
            syn::UseTree::Group(it) => {
                for tree in &it.items {
                    self.use_tree(tree, before, is_public);
                }
            }
            syn::UseTree::Name(it) if it.ident == "self" => self.used(&path, None),
            syn::UseTree::Name(it) => {
                path.push(it.ident.to_string());
                self.used(&path, is_public.then(|| it.ident.to_string()));
            }
            syn::UseTree::Rename(it) => {
                path.push(it.ident.to_string());
                self.used(&path, is_public.then(|| it.rename.to_string()));
            }
            syn::UseTree::Glob(_) => self.used(&path, None),
        }
    }

    fn used(&mut self, path: &[String], exported: Option<String>) {
        let absolute = self.absolute(path);
        if let Some(name) = exported {
            // Of a child, as in `pub use child::Name`.
            let of_child = || self.module.iter().chain(path).cloned().collect();
            let from = absolute.unwrap_or_else(of_child);
            self.found.reexports.insert(name, from);
        } else if let Some(absolute) = absolute {
            self.found.paths.insert(absolute);
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let words = list.tokens.to_string();
        attribute.path().is_ident("cfg")
            && words
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "test")
            && !words.starts_with("not")
    })
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            self.use_tree(&item.tree, &[], is_public);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        // An inline module is looked at as a part of its file.
        if !is_test(&item.attrs) && item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = (path.segments.iter().map(|it| it.ident.to_string())).collect();
        if names.len() > 1
            && let Some(absolute) = self.absolute(&names)
        {
            self.found.paths.insert(absolute);
        }
        visit::visit_path(self, path);
    }
}

struct Graph {
    /// What each module uses.
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn of(files: &Files, depth: usize) -> Self {
        let references: BTreeMap<&str, References> = files
            .iter()
            .filter_map(|(module, text)| {
                let names = names_of(module);
                let mut collector = Collector {
                    module: &names,
                    found: References::default(),
                };
                collector.visit_file(&syn::parse_file(text).ok()?);
                Some((module.as_str(), collector.found))
            })
            .collect();
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, found) in &references {
            let from = cut(&names_of(module), depth);
            let used = uses.entry(from.clone()).or_default();
            for path in &found.paths {
                let to = cut(&names_of(&owner(&references, path, 0)), depth);
                // A directory's own `mod.rs` only says what is in it.
                if to != from && !is_folder_of(&to, &from) {
                    used.insert(to);
                }
            }
        }
        Self { uses }
    }

    /// Groups of modules that reach each other, of two and more.
    fn circles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> = self
            .uses
            .keys()
            .map(|it| (it.as_str(), self.reach(it)))
            .collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (module, reached) in &reach {
            let back = |other: &&str| reach.get(other).is_some_and(|it| it.contains(module));
            let circle: BTreeSet<String> = reached
                .iter()
                .copied()
                .filter(back)
                .map(str::to_owned)
                .collect();
            if circle.len() > 1 && !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    fn reach<'a>(&'a self, from: &str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self
            .uses
            .get(from)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                next.extend(
                    self.uses
                        .get(module)
                        .into_iter()
                        .flatten()
                        .map(String::as_str),
                );
            }
        }
        reached
    }

    fn problems(&self, house: &House, circle: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        if !house.layers.is_empty() {
            for (from, used) in &self.uses {
                let Some(layer) = layer_of(house, from) else {
                    problems.push(format!("{}: {from} is in no layer", house.name));
                    continue;
                };
                let above = used
                    .iter()
                    .filter(|to| layer_of(house, to).is_some_and(|it| it > layer));
                problems.extend(
                    above.map(|to| format!("{}: {from} uses {to}, which is above it", house.name)),
                );
            }
        }
        let folders: BTreeSet<_> = circle.iter().map(|it| cut(&names_of(it), 1)).collect();
        if circle.len() > house.circle || house.depth > 1 && folders.len() > 1 {
            let names: Vec<_> = circle.iter().map(String::as_str).collect();
            problems.push(format!(
                "{}: a circle of {} modules, {} are allowed, in one directory: {}",
                house.name,
                circle.len(),
                house.circle,
                names.join(", ")
            ));
        }
        problems
    }

    fn page(&self, house: &House) -> String {
        let mut page = format!("{}\n", house.name);
        let mut modules: Vec<_> = self.uses.iter().collect();
        modules.sort_by_key(|(module, _)| layer_of(house, module));
        let mut last = None;
        for (module, used) in modules {
            let layer = layer_of(house, module);
            if let Some(number) = layer.filter(|_| layer != last) {
                let _ = writeln!(page, "  layer {number}");
            }
            last = layer;
            let used: Vec<_> = used.iter().map(String::as_str).collect();
            let _ = writeln!(page, "    {module}: {}", used.join(", "));
        }
        for circle in self.circles() {
            let names: Vec<_> = circle.iter().map(String::as_str).collect();
            let _ = writeln!(page, "  circle of {}: {}", circle.len(), names.join(", "));
        }
        page
    }
}

/// The module that has what a path names: through re-exports, to the deepest one there is.
fn owner(references: &BTreeMap<&str, References>, path: &[String], turns: usize) -> String {
    let known = |names: &[String]| match names {
        [] => "crate".to_owned(),
        names => names.join("::"),
    };
    let mut at = path.len();
    while at > 0 && !references.contains_key(known(&path[..at]).as_str()) {
        at -= 1;
    }
    let module = known(&path[..at]);
    let reexport = path
        .get(at)
        .and_then(|name| references.get(module.as_str())?.reexports.get(name));
    match reexport {
        // A chain of re-exports has an end; a glob of one crate's own may not.
        Some(from) if turns < 8 && from != path => owner(references, from, turns + 1),
        _ => module,
    }
}

fn layer_of(house: &House, module: &str) -> Option<usize> {
    let length = |name: &str| {
        let is_in = module == name
            || module
                .strip_prefix(name)
                .is_some_and(|it| it.starts_with("::"));
        is_in.then_some(name.len())
    };
    let layers = house.layers.iter().enumerate();
    let all = layers.flat_map(|(number, names)| names.iter().map(move |name| (number, *name)));
    all.filter_map(|(number, name)| Some((length(name)?, number)))
        .max()
        .map(|(_, number)| number)
}

fn names_of(module: &str) -> Vec<String> {
    match module {
        "crate" => Vec::new(),
        module => module.split("::").map(str::to_owned).collect(),
    }
}

fn cut(names: &[String], depth: usize) -> String {
    match names {
        [] => "crate".to_owned(),
        names => names[..names.len().min(depth)].join("::"),
    }
}

fn is_folder_of(folder: &str, module: &str) -> bool {
    module
        .strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: House = House {
        name: "toy",
        sources: "src",
        depth: 2,
        layers: &[&["low"], &["high"], &["crate"]],
        circle: 2,
    };

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files = files
            .iter()
            .map(|(module, text)| ((*module).to_owned(), (*text).to_owned()));
        Graph::of(&files.collect(), HOUSE.depth)
    }

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(files);
        let circle = graph.circles().into_iter().max_by_key(BTreeSet::len);
        graph.problems(&HOUSE, &circle.unwrap_or_default())
    }

    #[test]
    fn a_module_may_use_the_layers_below_it() {
        let files = [
            ("low::a", "pub struct A;"),
            ("high::b", "use crate::low::a::A; fn b(_: A) {}"),
        ];
        assert_eq!(graph(&files).uses["high::b"].len(), 1);
        assert!(problems(&files).is_empty());
    }

    #[test]
    fn a_reference_to_a_layer_above_is_found_in_a_use_and_in_a_path() {
        for text in [
            "use crate::high::b::B;",
            "fn a() { crate::high::b::b() }",
            "struct A(super::super::high::b::B);",
            "use crate::{high::b::{B, C}};",
        ] {
            let files = [("low::a", text), ("high::b", "pub struct B;")];
            assert_eq!(
                problems(&files),
                ["toy: low::a uses high::b, which is above it"],
                "{text}"
            );
        }
    }

    #[test]
    fn a_re_export_counts_for_the_module_that_has_the_item() {
        let files = [
            ("crate", "pub use high::B;"),
            ("high", "mod b; pub use b::B;"),
            ("high::b", "pub struct B;"),
            ("low::a", "use crate::B;"),
        ];
        assert_eq!(
            problems(&files),
            ["toy: low::a uses high::b, which is above it"]
        );
    }

    #[test]
    fn a_test_may_use_what_it_wants() {
        let files = [
            (
                "low::a",
                "#[cfg(test)] mod tests { use crate::high::b::B; }\n#[cfg(test)] use crate::high::b::B;",
            ),
            ("high::b", "pub struct B;"),
        ];
        assert!(problems(&files).is_empty());
    }

    #[test]
    fn a_circle_that_is_too_large_or_in_two_folders_is_found() {
        let small = [
            ("low::a", "use super::b::B;"),
            ("low::b", "use super::a::A;"),
        ];
        assert!(problems(&small).is_empty());
        let large = [
            ("low::a", "use super::b::B;"),
            ("low::b", "use super::c::C;"),
            ("low::c", "use super::a::A;"),
        ];
        assert_eq!(
            problems(&large),
            ["toy: a circle of 3 modules, 2 are allowed, in one directory: low::a, low::b, low::c"]
        );
        let wide = [
            ("low::a", "use crate::high::b::B;"),
            ("high::b", "use crate::low::a::A;"),
        ];
        assert_eq!(problems(&wide).len(), 2);
    }

    #[test]
    fn a_module_without_a_layer_is_named() {
        assert_eq!(problems(&[("new::a", "")]), ["toy: new::a is in no layer"]);
    }
}
