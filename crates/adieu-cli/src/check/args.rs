//! What `adieu check` understands.

use std::path::PathBuf;

use adieu_check::report::Format;
use adieu_check::{Applicability, Severity};
use clap::{Args, ValueEnum};

/// Arguments of `adieu check`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 nothing found, 1 errors or warnings (with --show notes: or notes), 2 wrong usage. \
                  With --diff: 0 nothing to repair, 1 --fix would change a file."
)]
pub(crate) struct CheckArgs {
    /// Files and directories to check; `-` is standard input, and `helm template CHART | adieu check -` works.
    #[arg(default_value = ".")]
    pub(crate) paths: Vec<PathBuf>,

    /// Rules to run: codes, names or prefixes, e.g. ADP,ADR101.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub(crate) select: Vec<String>,

    /// Rules not to run.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub(crate) ignore: Vec<String>,

    /// Rules to run beside those of --select or the settings.
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    pub(crate) extend_select: Vec<String>,

    /// Also run new rules, whose precision is not measured yet.
    #[arg(long)]
    pub(crate) preview: bool,

    /// Output format.
    #[arg(long, visible_alias = "output-format", value_enum, default_value_t)]
    pub(crate) format: FormatArg,

    /// The least that is shown and counted for the exit code.
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t)]
    pub(crate) show: ShowArg,

    /// Print how often each rule was broken in the place of the findings.
    #[arg(long, conflicts_with_all = ["diff", "budget", "write_baseline"])]
    pub(crate) statistics: bool,

    /// Exit with 0 whatever is found.
    #[arg(long)]
    pub(crate) exit_zero: bool,

    /// What standard input is called, for `-`: the name says what kind of file it is.
    /// Kubernetes manifests where it is left out.
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin_filename: Option<PathBuf>,

    /// Repair what can be repaired without changing what the program does.
    #[arg(long)]
    pub(crate) fix: bool,

    /// Print what --fix would change as a unified diff; no file is written and no finding printed.
    #[arg(long, conflicts_with_all = ["fix", "format", "write_baseline"])]
    pub(crate) diff: bool,

    /// Write an ignore comment for every finding, so that only new ones are reported from then on; --diff shows them.
    #[arg(long, conflicts_with_all = ["fix", "budget", "statistics", "write_baseline"])]
    pub(crate) add_noqa: bool,

    /// With --fix or --diff: also repairs that may change what the program does.
    #[arg(long)]
    pub(crate) unsafe_fixes: bool,

    /// Compute the worst-case shutdown time of every program that is started, with the place of each number, and hold it
    /// against what its platform waits.
    #[arg(long, conflicts_with_all = ["fix", "diff"])]
    pub(crate) budget: bool,

    /// Serve an editor: findings while one types, by the Language Server Protocol on standard input and output.
    #[arg(long, conflicts_with_all = ["fix", "diff", "budget", "statistics", "explain", "write_baseline", "stdin_filename"])]
    pub(crate) lsp: bool,

    /// Explain a rule and exit.
    #[arg(long, value_name = "RULE")]
    pub(crate) explain: Option<String>,

    /// Settings to use instead of the nearest adieu.toml or pyproject.toml.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Ignore the findings recorded in FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,

    /// Record the current findings in the baseline and exit with 0.
    #[arg(long)]
    pub(crate) write_baseline: bool,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum ShowArg {
    /// What breaks or blocks a stop on a path that a service runs.
    Errors,
    /// Errors, and what is likely to.
    #[default]
    Warnings,
    /// All, with start-up, tools, examples and single questions to the file system.
    Notes,
}

impl CheckArgs {
    /// The repairs that are asked for.
    pub(crate) fn repairs(&self) -> Applicability {
        if self.unsafe_fixes {
            Applicability::Unsafe
        } else {
            Applicability::Safe
        }
    }
}

impl From<ShowArg> for Severity {
    fn from(show: ShowArg) -> Severity {
        match show {
            ShowArg::Errors => Severity::Error,
            ShowArg::Warnings => Severity::Warning,
            ShowArg::Notes => Severity::Note,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum FormatArg {
    #[default]
    #[value(aliases = ["full", "concise"])]
    Text,
    Json,
    Sarif,
    Github,
    Junit,
    Gitlab,
    Rdjson,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Format {
        match format {
            FormatArg::Text => Format::Text,
            FormatArg::Json => Format::Json,
            FormatArg::Sarif => Format::Sarif,
            FormatArg::Github => Format::Github,
            FormatArg::Junit => Format::Junit,
            FormatArg::Gitlab => Format::Gitlab,
            FormatArg::Rdjson => Format::Rdjson,
        }
    }
}
