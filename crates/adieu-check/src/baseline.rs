//! The findings of old: a project starts clean and stays clean, and pays its debts when it likes.
//!
//! An entry is a path below the directory of the baseline, a rule and a message, with how often; no
//! line numbers, so that code may move. A finding above the count is new.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::finding::Finding;
use crate::report;
use crate::tree::Inside;
use crate::walk;

const VERSION: u32 = 1;

/// Known findings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Its own directory.
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

/// Where a baseline is, and who said so.
///
/// A path from the settings of a repository is the word of its author, so it must stay below the
/// directory of these settings, without a link on the way. A path from the command line is the user's
/// own; the file itself must still be no link, because it may stand in a cloned repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineFile {
    path: PathBuf,
    /// The directory of the settings that name it.
    folder: Option<PathBuf>,
}

impl BaselineFile {
    /// A file that the user names.
    #[must_use]
    pub fn named(path: &Path) -> BaselineFile {
        BaselineFile {
            path: path.to_owned(),
            folder: None,
        }
    }

    /// The file that the settings name, if they do.
    #[must_use]
    pub fn of(config: &Config) -> Option<BaselineFile> {
        let path = config.baseline.clone()?;
        let folder = config.source.as_deref().map(folder_of);
        Some(BaselineFile { path, folder })
    }

    /// The path to show.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self) -> io::Result<Inside> {
        match &self.folder {
            None => Inside::named(&self.path),
            Some(folder) => {
                let below = self.path.strip_prefix(folder).unwrap_or(&self.path);
                Inside::new(folder, below)
            }
        }
    }

    fn fail(&self, message: impl Into<String>) -> BaselineError {
        BaselineError {
            path: self.path.clone(),
            message: message.into(),
        }
    }

    /// What to do where links or the place are the reason.
    fn advice(&self, error: &io::Error) -> &'static str {
        match (error.kind(), &self.folder) {
            (io::ErrorKind::InvalidInput, Some(_)) => {
                "; the settings may name a file below their own directory only, give another with `--baseline FILE`"
            }
            (io::ErrorKind::InvalidInput, None) => {
                "; remove it or give another with `--baseline FILE`"
            }
            _ => "",
        }
    }
}

/// Why a baseline cannot be used.
#[derive(Debug)]
pub struct BaselineError {
    path: PathBuf,
    message: String,
}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.to_string_lossy();
        write!(
            f,
            "{}: {}",
            report::plain(&path),
            report::plain(&self.message)
        )
    }
}

impl std::error::Error for BaselineError {}

impl Baseline {
    /// All these findings, for a baseline in this file.
    #[must_use]
    pub fn of(findings: &[Finding], file: &BaselineFile) -> Baseline {
        let mut baseline = Baseline {
            folder: folder_of(&file.path),
            known: BTreeMap::new(),
        };
        for finding in findings {
            let key = baseline.key(finding);
            *baseline.known.entry(key).or_insert(0) += 1;
        }
        baseline
    }

    /// Reads a baseline file.
    pub fn read(file: &BaselineFile) -> Result<Baseline, BaselineError> {
        let bytes = file.file().and_then(|it| it.read()).map_err(|error| {
            let advice = match file.advice(&error) {
                "" => "; make one with `adieu check --write-baseline`",
                advice => advice,
            };
            file.fail(format!("the baseline cannot be read: {error}{advice}"))
        })?;
        let known = Baseline::parse(&bytes).map_err(|message| file.fail(message))?;
        Ok(Baseline {
            folder: folder_of(&file.path),
            known,
        })
    }

    /// The entries in the bytes of a file.
    #[doc(hidden)]
    pub fn parse(bytes: &[u8]) -> Result<BTreeMap<(String, String, String), usize>, String> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| {
            format!(
                "this cannot be read as a baseline: {error}; write it anew with `adieu check --write-baseline`"
            )
        })?;
        if file.version != VERSION {
            return Err(format!(
                "version {} is not known here; write it anew",
                file.version
            ));
        }
        let known = file
            .findings
            .into_iter()
            .map(|entry| ((entry.path, entry.code, entry.message), entry.count));
        Ok(known.collect())
    }

    /// Writes the baseline, in an order that makes small diffs.
    pub fn write(&self, file: &BaselineFile) -> Result<(), BaselineError> {
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
        .map_err(|error| file.fail(error.to_string()))?;
        file.file()
            .and_then(|it| it.replace(None, (text + "\n").as_bytes()))
            .map_err(|error| {
                let advice = file.advice(&error);
                file.fail(format!("cannot be written: {error}{advice}"))
            })
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
