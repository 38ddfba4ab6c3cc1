//! A stop with connections open on which nobody wants anything: they must not hold the exit.

use std::time::Duration;

use crate::finding::Finding;
use crate::stage::{Run, Stage};
use crate::threshold::show;
use crate::wire::{End, Wire};

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
        .map(|mut wire| {
            tokio::spawn(async move {
                let end = wire.end().await;
                (std::time::Instant::now(), end)
            })
        })
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
    let mut resets = 0;
    for task in closing {
        if let Ok(Ok((_, End::Broken(_)))) =
            tokio::time::timeout(Duration::from_secs(2), task).await
        {
            resets += 1;
        }
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
