//! `adieu.toml`, or `[tool.adieu]` in `pyproject.toml`.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::finding::Finding;
use crate::rule::{Rule, is_meant};
use crate::walk;

/// The settings of a project. Each has a default; none is needed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Rules to run: codes, names or prefixes. All when empty.
    pub select: Vec<String>,
    /// Rules not to run.
    pub ignore: Vec<String>,
    /// Paths to leave out, in the language of `.gitignore`.
    pub exclude: Vec<String>,
    /// Patterns of paths to the rules ignored there.
    pub per_file_ignores: BTreeMap<String, Vec<String>>,
    /// The file with the findings of old.
    pub baseline: Option<PathBuf>,
    /// Whether test code is checked too.
    pub tests: bool,
    /// How long the program itself takes to stop, for the deployment rules; read from the code
    /// and the manifests where it is not given.
    pub grace_seconds: Option<u64>,
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
        write!(f, "{}: {}", self.path.display(), self.message.trim_end())
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
    /// The settings in this file.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let fail = |message: String| ConfigError {
            path: path.to_owned(),
            message,
        };
        let text =
            fs::read_to_string(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
        let is_pyproject = path
            .file_name()
            .is_some_and(|name| name == "pyproject.toml");
        let parsed = if is_pyproject {
            let file: Pyproject = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
            let table = file.tool.and_then(|tools| tools.adieu).unwrap_or_default();
            table.try_into::<Config>()
        } else {
            toml::from_str::<Config>(&text)
        };
        let mut config = parsed.map_err(|error| fail(error.to_string()))?;
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

    /// The settings for a path: the nearest `adieu.toml`, or `pyproject.toml` with `[tool.adieu]`,
    /// in its folder or above. None is as good as an empty one.
    pub fn find(start: &Path) -> Result<Config, ConfigError> {
        let Ok(start) = std::path::absolute(start) else {
            return Ok(Config::default());
        };
        for folder in start.ancestors() {
            let own = folder.join("adieu.toml");
            if own.is_file() {
                return Config::read(&own);
            }
            let shared = folder.join("pyproject.toml");
            let mentioned =
                fs::read_to_string(&shared).is_ok_and(|text| text.contains("[tool.adieu"));
            if mentioned {
                return Config::read(&shared);
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

    /// A path as the patterns speak of it: below the folder of the settings.
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
