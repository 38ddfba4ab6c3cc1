//! The findings of old: a project starts clean and stays clean, and pays its debts when it likes.
//!
//! An entry is a path below the folder of the baseline, a rule and a message, with how often; no
//! line numbers, so that code may move. A finding above the count is new.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::walk;

const VERSION: u32 = 1;

/// Known findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Its own folder.
    folder: PathBuf,
    known: BTreeMap<(String, String, String), usize>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    findings: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    path: String,
    code: String,
    message: String,
    count: usize,
}

/// Why a baseline cannot be used.
#[derive(Debug)]
pub struct BaselineError {
    path: PathBuf,
    message: String,
}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl std::error::Error for BaselineError {}

impl Baseline {
    /// All these findings, for a baseline in this file.
    #[must_use]
    pub fn of(findings: &[Finding], file: &Path) -> Baseline {
        let mut baseline = Baseline {
            folder: folder_of(file),
            known: BTreeMap::new(),
        };
        for finding in findings {
            let key = baseline.key(finding);
            *baseline.known.entry(key).or_insert(0) += 1;
        }
        baseline
    }

    /// Reads a baseline file.
    pub fn read(path: &Path) -> Result<Baseline, BaselineError> {
        let fail = |message: String| BaselineError {
            path: path.to_owned(),
            message,
        };
        let text = fs::read_to_string(path).map_err(|error| {
            fail(format!(
                "the baseline cannot be read: {error}; make one with `adieu check --write-baseline`"
            ))
        })?;
        let file: File = serde_json::from_str(&text)
            .map_err(|error| fail(format!("this is no baseline: {error}")))?;
        if file.version != VERSION {
            return Err(fail(format!(
                "version {} is not known here; write it anew",
                file.version
            )));
        }
        let known = file
            .findings
            .into_iter()
            .map(|entry| ((entry.path, entry.code, entry.message), entry.count));
        Ok(Baseline {
            folder: folder_of(path),
            known: known.collect(),
        })
    }

    /// Writes the baseline, in an order that makes small diffs.
    pub fn write(&self, path: &Path) -> Result<(), BaselineError> {
        let fail = |message: String| BaselineError {
            path: path.to_owned(),
            message,
        };
        let findings = self
            .known
            .iter()
            .map(|((path, code, message), count)| Entry {
                path: path.clone(),
                code: code.clone(),
                message: message.clone(),
                count: *count,
            })
            .collect();
        let text = serde_json::to_string_pretty(&File {
            version: VERSION,
            findings,
        })
        .map_err(|error| fail(error.to_string()))?;
        fs::write(path, text + "\n").map_err(|error| fail(format!("cannot be written: {error}")))
    }

    /// The findings that are new, and how many were known.
    #[must_use]
    pub fn subtract(&self, findings: Vec<Finding>) -> (Vec<Finding>, usize) {
        let mut left = self.known.clone();
        let before = findings.len();
        let fresh: Vec<Finding> = findings
            .into_iter()
            .filter(|finding| match left.get_mut(&self.key(finding)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            })
            .collect();
        let known = before - fresh.len();
        (fresh, known)
    }

    fn key(&self, finding: &Finding) -> (String, String, String) {
        (
            walk::below(&self.folder, &finding.path),
            finding.code.to_string(),
            finding.message.clone(),
        )
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
