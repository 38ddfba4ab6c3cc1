//! A stop with connections open on which nobody wants anything: they must not hold the exit.

use std::time::Duration;

use crate::finding::Finding;
use crate::stage::{Run, Stage};
use crate::threshold::show;
use crate::wire::{End, Wire};

/// What the kernel has not closed so long after the end of a process is held by another one.
const BEHIND: Duration = Duration::from_secs(2);

/// Stops the program with these connections open, and judges how long they held it.
pub(crate) async fn hold(
    stage: &mut Stage<'_>,
    run: &Run,
    wires: Vec<Wire>,
    what: &str,
) -> Finding {
    if stage.found.idle_stop.is_none() {
        return stage.killed_when_idle();
    }
    let count = wires.len();
    let allowed = stage.idle_stop() + stage.threshold.time();
    let signal = run.stop();
    let closing: Vec<_> = wires
        .into_iter()
        .map(|mut wire| tokio::spawn(async move { wire.end().await }))
        .collect();
    let ended = run
        .subject
        .ended_within(allowed.min(stage.drill.grace))
        .await;
    stage.note_end(signal, ended);
    let took = ended.map(|ended| ended.at.saturating_duration_since(signal));
    let open = closing.iter().filter(|task| !task.is_finished()).count();
    let Some(took) = took else {
        // Who is to blame shows in whether it ends once the clients are gone.
        for task in &closing {
            task.abort();
        }
        let after = run.subject.ended_within(Duration::from_secs(3)).await;
        stage.note_end(signal, after);
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
            format!(
                "without any connection it ends in {}",
                show(stage.idle_stop())
            ),
        ])
        .shown(run.last_lines(3))
        .measured(format!("more than {}", show(allowed)));
    };
    let (mut resets, mut left) = (0, 0);
    let until = tokio::time::Instant::now() + BEHIND;
    for task in closing {
        match tokio::time::timeout_at(until, task).await {
            Ok(Ok(End::Broken(_))) => resets += 1,
            Ok(_) => {}
            Err(_) => left += 1,
        }
    }
    if left > 0 {
        return Finding::late(format!(
            "{left} of {count} {what} were still open {} after its end",
            show(BEHIND)
        ))
        .shown([
            format!("it ended in {}", show(took)),
            "a process that it left behind holds them: their clients wait for somebody who is gone"
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
