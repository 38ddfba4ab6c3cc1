//! Which files are modules, and how an import finds one.
//!
//! Known before the first file is parsed: the walk is done. So an import is decided while its
//! file is read, and two services of one repository may both have a `utils` without meeting.

use rustc_hash::{FxHashMap, FxHashSet};

/// A module or package of the project.
pub(crate) type ModuleId = u32;

/// The modules of a project as a forest of directories and files.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Directory or file path without suffix, with `/` between, to its module.
    by_path: FxHashMap<Box<str>, ModuleId>,
    children: FxHashMap<ModuleId, FxHashMap<Box<str>, ModuleId>>,
    /// Directories with an `__init__`: never a place where imports start.
    packages: FxHashSet<Box<str>>,
    /// First directory or file name to where it stands, for imports from beside the importer's tree.
    tops: FxHashMap<Box<str>, Vec<Box<str>>>,
    next: ModuleId,
}

impl Modules {
    fn id(&mut self, path: &str) -> ModuleId {
        if let Some(id) = self.by_path.get(path) {
            return *id;
        }
        let id = self.next;
        self.next += 1;
        self.by_path.insert(path.into(), id);
        if let Some((parent, name)) = path.rsplit_once('/') {
            let parent = self.id(parent);
            let children = self.children.entry(parent).or_default();
            children.insert(name.into(), id);
        }
        id
    }

    /// Adds a Python file by its path from the root, `/` between.
    pub(crate) fn add_python(&mut self, path: &str) -> ModuleId {
        let stem = path
            .strip_suffix(".py")
            .or_else(|| path.strip_suffix(".pyi"))
            .unwrap_or(path);
        match stem
            .strip_suffix("__init__")
            .and_then(|package| package.strip_suffix('/'))
        {
            Some(package) => {
                self.packages.insert(package.into());
                self.id(package)
            }
            None => self.id(stem),
        }
    }

    /// Call once after the last [`Modules::add_python`].
    pub(crate) fn index_tops(&mut self) {
        for path in self.by_path.keys() {
            let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
            if !self.packages.contains(parent) {
                self.tops.entry(name.into()).or_default().push(path.clone());
            }
        }
    }

    /// A module that other languages name themselves.
    pub(crate) fn add_named(&mut self, path: &str) -> ModuleId {
        self.id(path)
    }

    /// Makes `child` reachable from `parent` under a name.
    pub(crate) fn adopt(&mut self, parent: ModuleId, name: &str, child: ModuleId) {
        let children = self.children.entry(parent).or_default();
        children.entry(name.into()).or_insert(child);
    }

    pub(crate) fn by_path(&self, path: &str) -> Option<ModuleId> {
        self.by_path.get(path).copied()
    }

    pub(crate) fn child(&self, parent: ModuleId, name: &str) -> Option<ModuleId> {
        self.children.get(&parent)?.get(name).copied()
    }

    /// The module that an absolute import of `name` (one segment) finds from a file in `folder`.
    ///
    /// Imports start in directories that are not packages: the nearest one above the file, or one
    /// anywhere in the project if only one has the name. A name that is also a known library
    /// (`famous`) is only taken from the importer's own tree.
    pub(crate) fn top(&self, folder: &str, name: &str, famous: bool) -> Option<ModuleId> {
        // Most imports are of other people's packages: one look and done.
        let places = self.tops.get(name)?;
        let parent = |place: &'_ str| place.len().saturating_sub(name.len() + 1);
        let mut at = folder;
        loop {
            let near = places.iter().find(|place| place[..parent(place)] == *at);
            if let Some(near) = near {
                return self.by_path(near);
            }
            match at.rsplit_once('/') {
                Some((above, _)) => at = above,
                None if !at.is_empty() => at = "",
                None => break,
            }
        }
        match places.as_slice() {
            [only] if !famous => self.by_path(only),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Modules;

    fn modules(paths: &[&str]) -> Modules {
        let mut modules = Modules::default();
        for path in paths {
            modules.add_python(path);
        }
        modules.index_tops();
        modules
    }

    #[test]
    fn a_package_is_found_from_its_root_and_not_from_inside() {
        let m = modules(&["src/app/__init__.py", "src/app/time.py", "src/app/web.py"]);
        assert_eq!(m.top("src/app", "app", false), m.by_path("src/app"));
        assert_eq!(m.top("src/app", "time", false), None);
        let app = m.top("src/app", "app", false);
        assert_eq!(
            app.and_then(|app| m.child(app, "web")),
            m.by_path("src/app/web")
        );
    }

    #[test]
    fn two_services_keep_their_own_siblings() {
        let m = modules(&["a/utils.py", "a/main.py", "b/utils.py", "b/main.py"]);
        assert_eq!(m.top("a", "utils", false), m.by_path("a/utils"));
        assert_eq!(m.top("b", "utils", false), m.by_path("b/utils"));
        assert_eq!(m.top("c", "utils", false), None);
    }
}
