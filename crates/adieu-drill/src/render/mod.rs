//! The report for eyes and for other programs.
//!
//! | for | call |
//! |---|---|
//! | a terminal | [`text`], or its pieces [`table`] and [`timeline`] |
//! | a browser, a printer, a screen reader | [`html`] |
//! | a build server | [`junit`] |
//! | a comment, or the summary of a build | [`markdown`] |
//! | a badge in a README | [`badge`] |
//! | any other program | [`Report::to_json`](crate::report::Report::to_json) |
//!
//! All of them are functions of the report alone, without a look at the terminal or the clock.

mod badge;
mod behind;
mod comparison;
mod html;
mod jobs;
mod junit;
mod markdown;
mod rollout;
mod sparkline;
mod style;
mod table;
mod text;
mod timeline;
pub(crate) mod words;

pub use badge::badge;
pub(crate) use comparison::comparison;
pub use html::{html, html_of_all, is_report};
pub use junit::junit;
pub use markdown::markdown;
pub use style::Style;
pub use table::table;
pub use text::text;
pub use timeline::timeline;
