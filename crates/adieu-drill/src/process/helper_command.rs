//! A command line of the user's that looks at the program: run to its end, or ended with all it started.

use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::time::timeout;

use super::launch;
use super::process_tree::{HelperProcess, MARK};
use super::system;
use super::target_process::describe;

/// Whoever looks into a state has looked by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs it, and gives what it prints; or a sentence, if it does not end with 0 in time. Dropped before its end, what
/// it started is killed.
pub(crate) async fn run(line: &str, cwd: Option<&Path>) -> Result<String, String> {
    let output = output(line, cwd).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("`{line}`: {}: {last}", describe(output.status)))
}

async fn output(line: &str, cwd: Option<&Path>) -> Result<Output, String> {
    let mut command = system::shell(line);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    system::own_group(&mut command);
    let mark = launch::mark();
    let child = command
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("no shell: {error}"))?;
    let leader = child.id().and_then(system::pid);
    let _ended_with_us = leader.map(|leader| HelperProcess::new(&child, leader, mark));
    match timeout(PATIENCE, child.wait_with_output()).await {
        Ok(output) => output.map_err(|error| format!("`{line}`: {error}")),
        Err(_) => Err(format!("`{line}` did not end in {} s", PATIENCE.as_secs())),
    }
}
