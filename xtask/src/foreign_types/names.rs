//! What the names in a module stand for, as far as other crates are concerned.

use std::collections::{BTreeSet, HashMap, HashSet};

use syn::{Item, Path, UseTree};

/// The names that a module brings in, each with its whole path if that leads to another crate.
pub(super) struct Names<'a> {
    crates: &'a BTreeSet<&'a str>,
    /// The modules in this one: each hides a crate of its name.
    modules: HashSet<String>,
    used: HashMap<String, Option<String>>,
}

impl<'a> Names<'a> {
    pub(super) fn of(items: &[Item], crates: &'a BTreeSet<&'a str>) -> Self {
        let module = |item: &Item| match item {
            Item::Mod(item) => Some(item.ident.to_string()),
            _ => None,
        };
        let mut names = Self {
            crates,
            modules: items.iter().filter_map(module).collect(),
            used: HashMap::new(),
        };
        for item in items {
            if let Item::Use(item) = item {
                names.add(&item.tree, &mut Vec::new());
            }
        }
        names
    }

    fn add(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(next) => {
                path.push(next.ident.to_string());
                self.add(&next.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|it| self.add(it, path)),
            UseTree::Name(name) => self.insert(&name.ident.to_string(), None, path),
            UseTree::Rename(name) => {
                self.insert(&name.ident.to_string(), Some(name.rename.to_string()), path);
            }
            // Nothing is known of the names that a glob brings in; the lints allow none but in tests.
            UseTree::Glob(_) => {}
        }
    }

    fn insert(&mut self, name: &str, alias: Option<String>, path: &[String]) {
        let whole = match name {
            "self" => path.join("::"),
            name => [path, &[name.to_owned()]].concat().join("::"),
        };
        let last = whole.rsplit("::").next().unwrap_or_default().to_owned();
        let first = whole.split("::").next().unwrap_or_default();
        let is_foreign = self.is_crate(first);
        let whole = is_foreign.then(|| whole.clone());
        self.used.insert(alias.unwrap_or(last), whole);
    }

    fn is_crate(&self, name: &str) -> bool {
        self.crates.contains(name) && !self.modules.contains(name)
    }

    /// The whole path, if it leads to another crate.
    pub(super) fn foreign(&self, path: &Path) -> Option<String> {
        let segments: Vec<String> = path
            .segments
            .iter()
            .map(|it| it.ident.to_string())
            .collect();
        let (first, rest) = segments.split_first()?;
        let known = match path.leading_colon {
            Some(_) => None,
            None => self.used.get(first),
        };
        match known {
            Some(None) => None,
            Some(Some(whole)) => Some([std::slice::from_ref(whole), rest].concat().join("::")),
            None => (self.is_crate(first) && !rest.is_empty()).then(|| segments.join("::")),
        }
    }

    /// What a `pub use` hands on of other crates.
    pub(super) fn reexported(&self, tree: &UseTree) -> Vec<String> {
        let mut names = Names {
            crates: self.crates,
            modules: self.modules.clone(),
            used: HashMap::new(),
        };
        names.add(tree, &mut Vec::new());
        names.used.into_values().flatten().collect()
    }
}
