//! The report as one HTML file that needs nothing but a browser.
//!
//! Everything is in it: style, script and data. Its policy allows the page no request to anywhere and no script but
//! the one whose hash it names, so that even a request label that found a way around the escaping could do nothing.
//!
//! `page.rs` writes what is read; `chart.rs` prepares what `timeline.js` draws.

mod chart;
mod jobs;
mod lanes;
mod overlay;
mod page;
mod policy;
mod sections;

pub use page::{html, html_of_all, is_report};
