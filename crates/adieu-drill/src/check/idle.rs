//! A stop with idle connections: they must not hold the exit.

use std::time::Duration;

use crate::context::CheckContext;
use crate::finding::Finding;
use crate::raw::{End, RawConn};
use crate::running::RunningTarget;
use crate::threshold::show;

/// What the kernel has not closed so long after the end of a process is held by another one.
const KERNEL_CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Stops the program with these connections open, and judges how long they held it.
pub(crate) async fn hold(
    cx: &mut CheckContext<'_>,
    run: &RunningTarget,
    conns: Vec<RawConn>,
    what: &str,
) -> Finding {
    if cx.capabilities.idle_stop.is_none() {
        return cx.killed_when_idle();
    }
    let count = conns.len();
    let allowed = cx.idle_stop() + cx.threshold.time();
    let signal = run.stop();
    let closing: Vec<_> = conns
        .into_iter()
        .map(|mut conn| tokio::spawn(async move { conn.end().await }))
        .collect();
    let ended = run.process.ended_within(allowed.min(cx.drill.grace)).await;
    cx.note_end(signal, ended);
    let took = ended.map(|ended| ended.at.saturating_duration_since(signal));
    let open = closing.iter().filter(|task| !task.is_finished()).count();
    let Some(took) = took else {
        // Who is to blame shows in whether it ends once the clients are gone.
        for task in &closing {
            task.abort();
        }
        let after = run.process.ended_within(Duration::from_secs(3)).await;
        cx.note_end(signal, after);
        let then = match after {
            Some(_) => "it ended as soon as the client closed them",
            None => "it did not end either when the client closed them",
        };
        return Finding::late(format!(
            "{count} {what} held the exit for more than {}",
            show(allowed)
        ))
        .shown([
            format!(
                "{open} of {count} were still open {} after the signal; {then}",
                show(allowed)
            ),
            format!("without any connection it ends in {}", show(cx.idle_stop())),
        ])
        .shown(run.last_lines(3))
        .measured(format!("more than {}", show(allowed)));
    };
    let (mut resets, mut left) = (0, 0);
    let until = tokio::time::Instant::now() + KERNEL_CLOSE_WAIT;
    for task in closing {
        match tokio::time::timeout_at(until, task).await {
            Ok(Ok(End::WireError(_))) => resets += 1,
            Ok(_) => {}
            Err(_) => left += 1,
        }
    }
    if left > 0 {
        return Finding::late(format!(
            "{left} of {count} {what} were still open {} after its end",
            show(KERNEL_CLOSE_WAIT)
        ))
        .shown([
            format!("it ended in {}", show(took)),
            "a process that it left behind holds them: their clients wait for a program that is gone"
                .to_owned(),
        ])
        .shown(run.last_lines(3))
        .measured(format!("{left} left open"));
    }
    let manner = match resets {
        0 => String::new(),
        some => format!(", {some} by a reset"),
    };
    Finding::passed(format!(
        "{count} {what} were closed{manner} and it ended in {}",
        show(took)
    ))
    .measured(show(took))
}
