//! All mutants of the modules, and the text of each file with those that compile.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

use super::modules;
use super::render::{Id, Numbered, Rendered, render};
use super::scan::scan;
use super::site::Mutant;
use super::tree::{Tree, digest, root_of, runtime_of};
use crate::checkout::Checkout;
use crate::step::Failure;

pub(super) struct Plan {
    /// By number; also those that turned out not to compile.
    pub(super) mutants: Vec<Mutant>,
    pub(super) unviable: BTreeSet<Id>,
    /// The content of each mutated file, as it is in the workspace, without its tests.
    pub(super) digests: BTreeMap<String, u64>,
    sources: Vec<Source>,
    keep_const: BTreeSet<String>,
}

struct Source {
    file: String,
    text: String,
    sites: Vec<Numbered>,
}

const RUNTIME_TEXT: &str = include_str!("runtime.rs.txt");

impl Plan {
    pub(super) fn new(
        checkout: &Checkout,
        files: &[String],
        keep_const: BTreeSet<String>,
    ) -> Result<Self, Failure> {
        let mut plan = Self {
            mutants: Vec::new(),
            unviable: BTreeSet::new(),
            digests: BTreeMap::new(),
            sources: Vec::new(),
            keep_const,
        };
        for file in files {
            if let Some(module) = modules::of(file) {
                let text = fs::read_to_string(checkout.root().join(file))?;
                plan.add(module.name, file, text)?;
            }
        }
        Ok(plan)
    }

    fn add(&mut self, module: &'static str, file: &str, text: String) -> Result<(), Failure> {
        let sites = scan(&text, &self.keep_const)
            .map_err(|error| Failure::new(format!("cannot read {file}: {error}")))?;
        let mut seen: HashMap<(String, String, String), usize> = HashMap::new();
        let mut numbered = Vec::new();
        for site in sites {
            let first = Id::try_from(self.mutants.len()).unwrap_or(Id::MAX);
            for change in &site.changes {
                let same = (
                    site.function.clone(),
                    change.operator.clone(),
                    site.text.clone(),
                );
                let nth = seen.entry(same).or_default();
                *nth += 1;
                self.mutants.push(Mutant {
                    module,
                    file: file.to_owned(),
                    line: site.line,
                    function: site.function.clone(),
                    operator: change.operator.clone(),
                    text: site.text.clone(),
                    nth: *nth,
                });
            }
            numbered.push(Numbered { site, first });
        }
        // Its tests may change: a mutant that was caught is not tried again for that.
        let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        self.digests.insert(file.to_owned(), digest([code]));
        self.sources.push(Source {
            file: file.to_owned(),
            text,
            sites: numbered,
        });
        Ok(())
    }

    /// Those that compile.
    pub(super) fn viable(&self) -> impl Iterator<Item = (Id, &Mutant)> {
        (0..)
            .zip(&self.mutants)
            .filter(|(id, _)| !self.unviable.contains(id))
    }

    /// Writes the mutated files, and the runtime, into the copy.
    pub(super) fn write(
        &self,
        checkout: &Checkout,
        tree: &Tree,
    ) -> Result<HashMap<String, Rendered>, Failure> {
        let mut texts = HashMap::new();
        for source in &self.sources {
            let rendered = render(&source.text, &source.sites, &self.unviable);
            tree.write(&source.file, &rendered.text)?;
            texts.insert(source.file.clone(), rendered);
        }
        let count = self.mutants.len().max(1);
        let runtime = format!("{RUNTIME_TEXT}\nconst COUNT: usize = {count};\n");
        for sources in modules::SOURCES {
            tree.write(&runtime_of(sources), &runtime)?;
            let root = root_of(sources);
            let text = fs::read_to_string(checkout.root().join(&root))?;
            tree.write(&root, &format!("{text}\nmod mutants_runtime;\n"))?;
        }
        Ok(texts)
    }

    /// The functions that were made to ask at run time, and that a constant needs after all.
    pub(super) fn keeps_const(&self) -> &BTreeSet<String> {
        &self.keep_const
    }

    /// Whether this name is of a `const fn` that asks at run time.
    pub(super) fn was_const(&self, name: &str) -> bool {
        self.sources
            .iter()
            .flat_map(|source| &source.sites)
            .any(|it| it.site.in_const.as_deref() == Some(name))
    }

    /// Leaves out those with these keys.
    pub(super) fn leave_out(&mut self, keys: &BTreeSet<String>) {
        let found: Vec<Id> = (0..)
            .zip(&self.mutants)
            .filter(|(_, mutant)| keys.contains(&mutant.key()))
            .map(|(id, _)| id)
            .collect();
        self.unviable.extend(found);
    }
}
