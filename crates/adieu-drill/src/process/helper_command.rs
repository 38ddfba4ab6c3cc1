//! A command line of the user's that looks at the program: run to its end, or ended with all it started.

use std::io;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;

use super::launch;
use super::process_tree::{HelperProcess, MARK};
use super::spawning::spawning;
use super::system;
use super::target_process::describe;

/// A command that looks into the state of the program may take so long.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// So many bytes are read; a command that prints without end does not fill the memory.
const MOST_BYTES: u64 = 64 << 20;

/// Runs it, and gives what it prints; or a sentence, if it does not end with 0 in time. Dropped before its end, what
/// it started is killed.
pub(crate) async fn run(line: &str, cwd: Option<&Path>) -> Result<String, String> {
    run_within(line, cwd, COMMAND_TIMEOUT).await
}

/// As [`run`], with a time of the user's.
pub(crate) async fn run_within(
    line: &str,
    cwd: Option<&Path>,
    patience: Duration,
) -> Result<String, String> {
    let output = output(line, cwd, patience).await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    Err(format!("`{line}`: {}: {last}", describe(output.status)))
}

async fn output(line: &str, cwd: Option<&Path>, patience: Duration) -> Result<Output, String> {
    let mut command = system::shell(line);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    system::own_group(&mut command);
    let mark = launch::mark();
    command
        .env(MARK, &mark)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let (mut child, _ended_with_us) = {
        let _registering = spawning();
        let child = command
            .spawn()
            .map_err(|error| format!("no shell: {error}"))?;
        let leader = child.id().and_then(system::pid);
        let helper = leader.map(|leader| HelperProcess::new(&child, leader, mark));
        (child, helper)
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let whole = async {
        let (stdout, stderr, status) =
            tokio::try_join!(bytes(stdout), bytes(stderr), child.wait())?;
        Ok::<_, io::Error>(Output {
            status,
            stdout,
            stderr,
        })
    };
    match timeout(patience, whole).await {
        Ok(output) => output.map_err(|error| format!("`{line}`: {error}")),
        Err(_) => Err(format!(
            "`{line}` did not end in {}",
            crate::threshold::show(patience)
        )),
    }
}

/// All that comes, or an error if it is more than anyone reads.
async fn bytes(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MOST_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!(
            "it prints more than {} MB",
            MOST_BYTES >> 20
        )));
    }
    Ok(bytes)
}
