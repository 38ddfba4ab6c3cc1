//! `--fix` and `--diff`: edits are tried in memory, checked again with the whole project, and only then written or shown.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::check::{Outcome, Request, check_with};
use crate::depth;
use crate::finding::{Finding, Notice};
use crate::fix::{self, Applicability};
use crate::python;
use crate::rule::Code;
use crate::source::Texts;
use crate::tree::Inside;
use crate::walk;

/// What a repair did.
#[derive(Debug)]
#[must_use = "it says what could not be repaired"]
pub struct Repaired {
    /// What is found after it.
    pub outcome: Outcome,
    /// How many findings are gone.
    pub repaired: usize,
    /// What was not repaired, and why.
    pub refused: Vec<Notice>,
}

/// A file before and after its repairs.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The file as the findings name it.
    pub path: &'a str,
    /// Its text now.
    pub before: &'a str,
    /// Its text with the repairs.
    pub after: &'a str,
}

/// The repairs of an outcome: tried in memory and checked, not written yet.
#[must_use = "repairs change nothing until they are applied"]
pub struct Repairs {
    plans: BTreeMap<Arc<str>, Plan>,
    refused: Vec<Notice>,
    /// What was found before.
    outcome: Outcome,
    /// What is found with these repairs.
    after: Option<Outcome>,
}

/// A file with its edits.
struct Plan {
    file: Inside,
    before: String,
    after: String,
    /// The rules of the findings that the edits are for.
    mended: Vec<Code>,
}

const MARK: &str = "\u{feff}";

impl Repairs {
    /// Tries the fixes of an outcome: the safe ones, and with [`Applicability::Unsafe`] all.
    ///
    /// Only regular files below the paths of the request take part, and no link is followed on the way to them. A
    /// file stays in when the check of its new text no longer finds what was repaired and finds nothing new in it.
    pub fn plan(
        request: &Request,
        outcome: Outcome,
        most: Applicability,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Repairs {
        let mut refused = Vec::new();
        let mut plans = depth::on_deep_stacks(|| plans(request, &outcome, most, &mut refused));
        let mut after = None;
        // Each turn leaves a file out, so this ends.
        while !plans.is_empty() {
            let mut texts = Texts::default();
            for (path, plan) in &plans {
                texts.hold(path, plan.after.clone().into_bytes());
            }
            let tried = check_with(request, &texts, progress);
            let (was, is) = (counts(&outcome), counts(&tried));
            let before = plans.len();
            plans.retain(|path, plan| match plan.objection(path, &was, &is) {
                None => true,
                Some(code) => {
                    refused.push(Notice {
                        path: Arc::clone(path),
                        message: format!(
                            "was not repaired: with the edit the check reports {code}"
                        ),
                    });
                    false
                }
            });
            if plans.len() == before {
                after = Some(tried);
                break;
            }
        }
        refused.sort();
        Repairs {
            plans,
            refused,
            outcome,
            after,
        }
    }

    /// The files that would change, by path.
    pub fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        let changes = self.plans.iter().map(|(path, plan)| Change {
            path,
            before: &plan.before,
            after: &plan.after,
        });
        changes.filter(|change| change.before != change.after)
    }

    /// How many findings would be gone.
    #[must_use]
    pub fn findings(&self) -> usize {
        self.plans.values().map(|plan| plan.mended.len()).sum()
    }

    /// What cannot be repaired, and why.
    #[must_use]
    pub fn refused(&self) -> &[Notice] {
        &self.refused
    }

    /// Writes the files, unless they changed since they were read.
    pub fn apply(self, request: &Request, progress: &(dyn Fn(usize, usize) + Sync)) -> Repaired {
        let mut refused = self.refused;
        let mut repaired = 0;
        let mut failed = false;
        for (path, plan) in &self.plans {
            let (before, after) = (plan.before.as_bytes(), plan.after.as_bytes());
            match plan.file.replace(Some(before), after) {
                Ok(()) => repaired += plan.mended.len(),
                Err(error) => {
                    failed = true;
                    refused.push(unrepaired(path, &error));
                }
            }
        }
        let outcome = match self.after {
            Some(after) if !failed => after,
            Some(_) => check_with(request, &Texts::default(), progress),
            None => self.outcome,
        };
        refused.sort();
        Repaired {
            outcome,
            repaired,
            refused,
        }
    }
}

fn plans(
    request: &Request,
    outcome: &Outcome,
    most: Applicability,
    refused: &mut Vec<Notice>,
) -> BTreeMap<Arc<str>, Plan> {
    let mut by_path: BTreeMap<&Arc<str>, Vec<&Finding>> = BTreeMap::new();
    let wanted = |it: &&Finding| it.fix.as_ref().is_some_and(|fix| fix.applicability <= most);
    for finding in outcome.findings.iter().filter(wanted) {
        by_path.entry(&finding.path).or_default().push(finding);
    }
    let mut plans = BTreeMap::new();
    for (path, findings) in by_path {
        match plan(&request.paths, path, &findings) {
            Ok(plan) => {
                plans.insert(Arc::clone(path), plan);
            }
            Err(error) => refused.push(unrepaired(path, &error)),
        }
    }
    plans
}

fn plan(roots: &[PathBuf], path: &str, findings: &[&Finding]) -> io::Result<Plan> {
    let file = locate(roots, path)?;
    let before = String::from_utf8(file.read()?).map_err(io::Error::other)?;
    // Offsets count from behind a byte order mark, as the check read the file.
    let (mark, body) = match before.strip_prefix(MARK) {
        Some(rest) => (MARK, rest),
        None => ("", before.as_str()),
    };
    let fixes: Vec<&fix::Fix> = findings.iter().filter_map(|it| it.fix.as_ref()).collect();
    let (mut text, applied) = fix::apply(body, &fixes);
    if Path::new(path)
        .extension()
        .is_some_and(|it| it.eq_ignore_ascii_case("py"))
    {
        let mut needed: Vec<&str> = fixes.iter().filter_map(|fix| fix.import).collect();
        needed.dedup();
        let package = path.ends_with("__init__.py");
        text = python::tidy_imports(body, &text, &needed, package)
            .ok_or_else(|| io::Error::other("the import that it needs cannot be added"))?;
    }
    let mended = findings
        .iter()
        .zip(applied)
        .filter_map(|(finding, applied)| applied.then_some(finding.code))
        .collect();
    Ok(Plan {
        file,
        after: format!("{mark}{text}"),
        before,
        mended,
    })
}

/// The text of a file that a finding names, without a byte order mark.
pub(crate) fn text_of(request: &Request, path: &str) -> io::Result<String> {
    let file = locate(&request.paths, path)?;
    let text = String::from_utf8(file.read()?).map_err(io::Error::other)?;
    Ok(text.strip_prefix(MARK).map(str::to_owned).unwrap_or(text))
}

/// The file behind a shown path: below one of the named directories, or one of the named files.
fn locate(roots: &[PathBuf], path: &str) -> io::Result<Inside> {
    // A name that is not UTF-8 is shown with this in its place, and could be another file's.
    if path.contains(char::REPLACEMENT_CHARACTER) {
        return Err(io::Error::other("its path is not UTF-8"));
    }
    let found = roots.iter().find_map(|root| {
        let shown = walk::shown(root);
        let below = match shown.as_str() {
            "" | "." => Path::new(path),
            shown => Path::new(path).strip_prefix(shown).ok()?,
        };
        Some(if below.as_os_str().is_empty() {
            Inside::named(root)
        } else {
            Inside::new(root, below)
        })
    });
    found.unwrap_or_else(|| Inside::new(Path::new("."), Path::new(path)))
}

fn unrepaired(path: &Arc<str>, error: &io::Error) -> Notice {
    Notice {
        path: Arc::clone(path),
        message: format!("was not repaired: {error}"),
    }
}

type Counts<'a> = FxHashMap<(&'a str, Code), usize>;

fn counts(outcome: &Outcome) -> Counts<'_> {
    let mut counts = Counts::default();
    for finding in &outcome.findings {
        *counts.entry((&finding.path, finding.code)).or_default() += 1;
    }
    counts
}

impl Plan {
    /// A rule that speaks against the edit: still broken, or newly so.
    fn objection(&self, path: &str, was: &Counts<'_>, is: &Counts<'_>) -> Option<Code> {
        let mut codes: Vec<Code> = is
            .keys()
            .filter(|(of, _)| *of == path)
            .map(|(_, code)| *code)
            .collect();
        codes.sort_unstable();
        codes.into_iter().find(|code| {
            let count = |counts: &Counts<'_>| counts.get(&(path, *code)).copied().unwrap_or(0);
            let mended = self.mended.iter().filter(|it| *it == code).count();
            count(is) + mended > count(was)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::locate;

    #[test]
    fn a_shown_path_is_found_below_its_root() {
        let roots = ["./a", "/b", "..", "f.py"].map(PathBuf::from);
        for path in ["a/x.py", "/b/c/x.py", "../x.py", "f.py"] {
            assert!(locate(&roots, path).is_ok(), "{path}");
        }
        for path in ["/c/x.py", "../../x.py", "a/../../x.py", "a/\u{fffd}.py"] {
            assert!(locate(&roots, path).is_err(), "{path}");
        }
    }
}
