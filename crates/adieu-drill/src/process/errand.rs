//! A command line of the user's that looks at the program: run to its end, or ended with all it started.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::time::timeout;

use super::kin::Errand;
use super::subject::describe;
use super::system;

/// Whoever looks into a state has looked by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs it, and gives what it prints; or a sentence, if it does not end with 0 in time. Dropped before its end, whatever
/// it started in its group is killed.
pub(crate) async fn run(line: &str) -> Result<String, String> {
    let output = output(line).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("`{line}`: {}: {last}", describe(output.status)))
}

async fn output(line: &str) -> Result<Output, String> {
    let mut command = system::shell(line);
    system::own_group(&mut command);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("no shell: {error}"))?;
    let leader = child.id().and_then(system::pid);
    let _ended_with_us = leader.map(|leader| Errand::new(&child, leader));
    match timeout(PATIENCE, child.wait_with_output()).await {
        Ok(output) => output.map_err(|error| format!("`{line}`: {error}")),
        Err(_) => Err(format!("`{line}` did not end in {} s", PATIENCE.as_secs())),
    }
}
