//! What `adieu check` understands.

use std::path::PathBuf;

use adieu_check::report::Format;
use clap::{Args, ValueEnum};

/// Arguments of `adieu check`.
#[derive(Debug, Args)]
#[command(after_help = "Exit code: 0 nothing found, 1 findings, 2 wrong usage.")]
pub(crate) struct CheckArgs {
    /// Files and folders to check.
    #[arg(default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// Rules to run: codes, names or prefixes, e.g. ADP,ADR101.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub(crate) select: Vec<String>,

    /// Rules not to run.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub(crate) ignore: Vec<String>,

    /// How to write the findings.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: FormatArg,

    /// Repair what can be repaired without changing what a correct program does.
    #[arg(long)]
    pub(crate) fix: bool,

    /// Explain a rule and exit.
    #[arg(long, value_name = "RULE")]
    pub(crate) explain: Option<String>,

    /// Settings to use instead of the nearest adieu.toml or pyproject.toml.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Findings of old, which are not reported.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Write all findings to the baseline and exit clean.
    #[arg(long)]
    pub(crate) write_baseline: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum FormatArg {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Format {
        match format {
            FormatArg::Text => Format::Text,
            FormatArg::Json => Format::Json,
            FormatArg::Sarif => Format::Sarif,
            FormatArg::Github => Format::Github,
        }
    }
}
