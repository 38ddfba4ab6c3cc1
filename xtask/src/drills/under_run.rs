//! Some of the peers under `adieu run`, for the benchmark that stops them with and without the cloak.

use super::{fetch, peers};
use crate::checkout::Checkout;
use crate::step::Failure;

const SHOWN: &[&str] = &["uvicorn", "gunicorn", "axum", "nginx"];

/// Words for `bench-cloak`: the command, and for each peer its name, the options of `adieu run`, and its own command.
pub(crate) fn under_run(checkout: &Checkout) -> Result<Vec<String>, Failure> {
    let tools = fetch::tools(checkout, false)?;
    let mut words = vec!["--adieu".to_owned(), tools.adieu.display().to_string()];
    for peer in peers::all(checkout, &tools, peers::NAMES)? {
        if !SHOWN.contains(&peer.name) {
            continue;
        }
        let options = match peer.signal {
            "TERM" => String::new(),
            other => format!("--signal term={}", other.to_ascii_lowercase()),
        };
        let quiet = match peer.name {
            // A line for each request is more than a pipe holds.
            "uvicorn" => " --no-access-log",
            _ => "",
        };
        words.extend([
            "--server".to_owned(),
            format!("{} {}", peer.name, peer.version),
            options,
            peer.command.join(" ") + quiet,
        ]);
    }
    Ok(words)
}
