//! What a drill leaves behind: the model, which is also the JSON of `adieu drill --json`.
//!
//! The JSON is one object of version 1. Fields may be added under one version; a change of meaning makes a new one.
//! Every name below is the name in the JSON.
//!
//! | field | is |
//! |---|---|
//! | `version` | 1 |
//! | `tool` | who wrote it, `adieu 0.1.0` |
//! | `verdict` | `failed` if any check is, `not-judged` if every check was skipped, else `passed` |
//! | `target` | `name`, `command`, `address` |
//! | `seed`, `level` | what reproduces the run |
//! | `started`, `duration_ms` | when, RFC 3339, and for how long |
//! | `definition` | what *lost* means in this report |
//! | `checks` | see [`Check`] |
//! | `stops` | see [`StopTimeline`] |
//! | `starvation` | see [`Starvation`]; `null` when the client had the processor it needed |
//! | `recommendation` | see [`Recommendation`]; `null` when no stop was measured |
//! | `target_report` | the target's own adieu report, if it wrote one |
//! | `target_report_stop` | which of `stops` that is about, from 0 |
//! | `behind` | see [`BehindReport`]; `null` unless a balancer was simulated |
//! | `jobs` | see [`JobsReport`]; `null` unless workers were drilled |
//! | `rollout` | see [`RolloutReport`]; `null` unless a roll-out was drilled |

mod behind;
mod check;
mod jobs;
mod rollout;
mod summary;
mod timeline;

pub use behind::{BehindAdvice, BehindReport, BehindRun};
pub use check::{Check, Group, Outcome};
pub use jobs::{JobsReport, JobsStop};
pub use rollout::{Interval, Moment, Phase, RolloutReport, RolloutRun, Totals};
pub use summary::{
    DEFINITION, Level, Recommendation, Report, Starvation, Target, Unreadable, VERSION, Verdict,
};
pub use timeline::{Bar, Fate, Mark, MarkKind, StopTimeline};

/// The JSON Schema (draft 2020-12) of what `adieu drill --json` prints.
pub const SCHEMA: &str = include_str!("../../schema/report.schema.json");

/// The page of the guide, so that its code compiles and its list of fields is whole.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/drill-report.md")]
pub struct ReportGuide;
