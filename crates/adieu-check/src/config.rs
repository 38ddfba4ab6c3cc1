//! `adieu.toml`, or `[tool.adieu]` in `pyproject.toml`.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::finding::Finding;
use crate::python::ClientLine;
use crate::report;
use crate::rule::{Rule, is_meant};
use crate::source::Lines;
use crate::tree::Inside;
use crate::walk;

/// The settings of a project. Each has a default; none is needed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Rules to run: codes, names or prefixes. All when empty.
    pub select: Vec<String>,
    /// Rules to run beside those of `select`.
    pub extend_select: Vec<String>,
    /// Rules not to run.
    pub ignore: Vec<String>,
    /// Paths to leave out, in the language of `.gitignore`.
    pub exclude: Vec<String>,
    /// Patterns of paths to the rules ignored there.
    pub per_file_ignores: BTreeMap<String, Vec<String>>,
    /// The file with the findings of old.
    pub baseline: Option<PathBuf>,
    /// Whether new rules run as well, whose precision is not measured yet.
    pub preview: bool,
    /// Whether test code is checked too.
    pub tests: bool,
    /// How long the program itself takes to stop, for the deployment rules; read from the code
    /// and the manifests where it is not given.
    pub grace_seconds: Option<u64>,
    /// Calls that wait on the thread that makes them, beside those that are known: a rule and a call,
    /// `ADP102 billing.Client().*`.
    pub blocking: Vec<String>,
    /// Where the settings came from.
    #[serde(skip)]
    pub source: Option<PathBuf>,
}

/// Why the settings cannot be used.
#[derive(Debug)]
pub struct ConfigError {
    path: PathBuf,
    message: String,
}

impl fmt::Display for ConfigError {
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

impl std::error::Error for ConfigError {}

#[derive(Deserialize)]
struct Pyproject {
    tool: Option<Tools>,
}

#[derive(Deserialize)]
struct Tools {
    adieu: Option<toml::Table>,
}

impl Config {
    /// The settings in a file that the user names.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        // The user's own choice: a link, or what a shell puts there for `<(…)`, is followed.
        Config::from_bytes(path, std::fs::read(path))
    }

    fn from_bytes(path: &Path, bytes: io::Result<Vec<u8>>) -> Result<Config, ConfigError> {
        let fail = |message: String| ConfigError {
            path: path.to_owned(),
            message,
        };
        let bytes = bytes.map_err(|error| fail(format!("cannot be read: {error}")))?;
        let is_pyproject = path
            .file_name()
            .is_some_and(|name| name == "pyproject.toml");
        let mut config = Config::parse(&bytes, is_pyproject).map_err(fail)?;
        // A baseline is named relative to the file that names it.
        config.baseline = config.baseline.map(|baseline| match path.parent() {
            Some(folder) if baseline.is_relative() && !folder.as_os_str().is_empty() => {
                folder.join(baseline)
            }
            _ => baseline,
        });
        config.source = Some(path.to_owned());
        Ok(config)
    }

    /// The settings in the bytes of a file.
    #[doc(hidden)]
    pub fn parse(bytes: &[u8], is_pyproject: bool) -> Result<Config, String> {
        let text = str::from_utf8(bytes).map_err(|error| format!("is not UTF-8: {error}"))?;
        let explain = |error: toml::de::Error| {
            let place = error.span().map(|span| {
                let place = Lines::new(text).place(text, span.start);
                format!("line {}, column {}: ", place.line, place.column)
            });
            // The words alone: the excerpt would repeat the file line by line.
            format!("{}{}", place.unwrap_or_default(), error.message())
        };
        let config = if is_pyproject {
            let file: Pyproject = toml::from_str(text).map_err(explain)?;
            let table = file.tool.and_then(|tools| tools.adieu).unwrap_or_default();
            table.try_into::<Config>().map_err(explain)?
        } else {
            toml::from_str::<Config>(text).map_err(explain)?
        };
        for line in &config.blocking {
            ClientLine::parse(line).map_err(|error| format!("`blocking`: {error}"))?;
        }
        Ok(config)
    }

    /// The settings for a path: the nearest `adieu.toml`, or `pyproject.toml` with `[tool.adieu]`,
    /// in its directory or above. None is as good as an empty one.
    ///
    /// A link is not followed: it comes with a repository, and an error message would quote what
    /// it leads to. A linked `adieu.toml` is an error, a linked `pyproject.toml` is passed over.
    pub fn find(start: &Path) -> Result<Config, ConfigError> {
        let Ok(start) = std::path::absolute(start) else {
            return Ok(Config::default());
        };
        for folder in start.ancestors() {
            let own = folder.join("adieu.toml");
            match std::fs::symlink_metadata(&own) {
                Ok(found) if found.is_symlink() => {
                    return Err(ConfigError {
                        message: "is a symbolic link and was not followed; name what it leads to \
                                  with `--config FILE`"
                            .to_owned(),
                        path: own,
                    });
                }
                Ok(found) if found.is_file() => {
                    let bytes = Inside::named(&own).and_then(|file| file.read());
                    return Config::from_bytes(&own, bytes);
                }
                _ => {}
            }
            let shared = folder.join("pyproject.toml");
            let bytes = Inside::named(&shared).and_then(|file| file.read());
            let mentioned = bytes
                .as_ref()
                .is_ok_and(|bytes| memchr::memmem::find(bytes, b"[tool.adieu").is_some());
            if mentioned {
                return Config::from_bytes(&shared, bytes);
            }
        }
        Ok(Config::default())
    }

    /// Words of the per-file settings that are no rule.
    #[must_use]
    pub fn unknown_rules(&self) -> Vec<String> {
        let words = self.per_file_ignores.values().flatten();
        words
            .filter(|word| !Rule::ALL.iter().any(|rule| is_meant(rule, word)))
            .cloned()
            .collect()
    }

    pub(crate) fn is_ignored(&self, finding: &Finding) -> bool {
        self.per_file_ignores.iter().any(|(pattern, words)| {
            let rule = finding.code.rule();
            words
                .iter()
                .any(|word| rule.is_some_and(|rule| is_meant(rule, word)))
                && walk::patterns(std::slice::from_ref(pattern))
                    .matched_path_or_any_parents(self.below(&finding.path), false)
                    .is_ignore()
        })
    }

    /// A path as the patterns speak of it: below the directory of the settings.
    pub(crate) fn below(&self, path: &str) -> String {
        let folder = self.source.as_deref().and_then(Path::parent);
        let below = match folder {
            Some(folder) => walk::below(folder, path),
            None => path.to_owned(),
        };
        // A leading slash would never match.
        below.trim_start_matches('/').to_owned()
    }
}
