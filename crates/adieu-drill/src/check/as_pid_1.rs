//! As a container starts it.

use std::process::Stdio;

use tokio::process::Command;

use super::{Spec, Trying, signals};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::LaunchMode;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "as-pid-1",
    group: Group::Exit,
    quick: false,
    why: "In a container the program is PID 1, for which the kernel drops every signal that has no handler: without one \
          `docker stop` takes ten seconds and ends with SIGKILL.",
    how: "The program is started as PID 1 of a PID namespace of its own, and stopped with requests in flight. They must \
          be answered, and it must end within the grace period without a crash.",
    applies: "Where the system lets us make a PID namespace (`unshare --pid`); skipped elsewhere.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "install a handler for SIGTERM; what kills other processes by default does nothing to PID 1",
        ),
        (
            "docker",
            "`docker run --init`, or `ENTRYPOINT [\"tini\", \"--\", ...]`",
        ),
        (
            "Node",
            "has no default handler as PID 1: `process.on('SIGTERM', ...)`",
        ),
        (
            "Python",
            "the same: `signal.signal(SIGTERM, ...)` or a server that does it",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    let words = LaunchMode::PidOne.wrap(vec!["true".to_owned()]);
    let tried = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await;
    if !tried.is_ok_and(|status| status.success()) {
        return Ok(Finding::skipped(
            "the system does not let us make a PID namespace (unshare --pid)",
        ));
    }
    signals::stop_as(cx, &LaunchMode::PidOne, "it as PID 1", async |run| {
        run.stop()
    })
    .await
}
