//! Imports as paths.

use ruff_python_ast::{StmtImport, StmtImportFrom};

use super::models::clients::{self, Clients};
use crate::callgraph::{ModuleId, Modules};

/// Where a file stands, as far as its imports care.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position<'m> {
    pub(crate) modules: &'m Modules,
    /// The file's directory from the root, `/` between.
    pub(crate) folder: &'m str,
    pub(crate) clients: &'m Clients,
}

impl Position<'_> {
    /// The path of a dotted absolute module name.
    pub(crate) fn absolute(&self, dotted: &str) -> String {
        let mut segments = dotted.split('.');
        let first = segments.next().unwrap_or_default();
        // A module of the standard library wins over a namesake in the project; a third-party package does not.
        let famous = self.clients.is_known_root(first);
        if famous && !is_third_party(first) {
            return dotted.to_owned();
        }
        let Some(mut module) = self.modules.top(self.folder, first, famous) else {
            return dotted.to_owned();
        };
        while let Some(segment) = segments.next() {
            match self.modules.child(module, segment) {
                Some(child) => module = child,
                None => {
                    let rest: Vec<&str> = std::iter::once(segment).chain(segments).collect();
                    return format!("@{module}.{}", rest.join("."));
                }
            }
        }
        format!("@{module}")
    }

    /// The path of `from ..a.b`, or nothing when it leads out of the project.
    fn relative(&self, level: u32, dotted: Option<&str>) -> Option<String> {
        let mut folder = self.folder;
        for _ in 1..level {
            folder = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
        let path = match dotted {
            Some(dotted) => {
                let below = dotted.replace('.', "/");
                if folder.is_empty() {
                    below
                } else {
                    format!("{folder}/{below}")
                }
            }
            None => folder.to_owned(),
        };
        let module: ModuleId = self.modules.by_path(&path)?;
        Some(format!("@{module}"))
    }

    /// Names bound by `import a.b, c as d`.
    pub(crate) fn import(&self, import: &StmtImport, mut bind: impl FnMut(&str, Option<String>)) {
        for alias in &import.names {
            let dotted = alias.name.as_str();
            match &alias.asname {
                Some(name) => bind(name.as_str(), Some(self.absolute(dotted))),
                None => {
                    let first = dotted.split('.').next().unwrap_or(dotted);
                    bind(first, Some(self.absolute(first)));
                }
            }
        }
    }

    /// Names bound by `from a import b as c`; a star gives the module's path under `*`.
    pub(crate) fn import_from(
        &self,
        import: &StmtImportFrom,
        mut bind: impl FnMut(&str, Option<String>),
    ) {
        let dotted = import.module.as_ref().map(|module| module.as_str());
        let module = match import.level {
            0 => dotted.map(|dotted| self.absolute(dotted)),
            level => self.relative(level, dotted),
        };
        for alias in &import.names {
            let name = alias.name.as_str();
            let bound = alias.asname.as_ref().map_or(name, |asname| asname.as_str());
            let path = match name {
                "*" => module.clone(),
                _ => module.as_ref().map(|module| format!("{module}.{name}")),
            };
            bind(bound, path);
        }
    }
}

fn is_third_party(root: &str) -> bool {
    matches!(
        root,
        "requests"
            | "urllib3"
            | "httpx"
            | "psycopg2"
            | "psycopg"
            | "pymysql"
            | "MySQLdb"
            | "mysql"
            | "cx_Oracle"
            | "oracledb"
            | "pymssql"
            | "pyodbc"
            | "redis"
            | "pymongo"
            | "sqlalchemy"
            | "nest_asyncio"
            | "paramiko"
    ) || clients::has(root)
}
