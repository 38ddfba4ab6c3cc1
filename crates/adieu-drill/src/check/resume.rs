//! What was on the books is on the books.

use std::collections::BTreeMap;

use super::{Spec, Trying};
use crate::finding::Finding;
use crate::process::errand;
use crate::record::With;
use crate::report::Group;
use crate::stage::{Run, Stage};
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "resume",
    group: Group::Data,
    quick: false,
    why: "A restart must go on where the last run ended: what was acknowledged before is still known after.",
    how: "Requests are sent: to the upload path if there is one, or to the slow path if it has a method of its own \
          (`POST /orders?ms={ms}`). An upload has a body of its own each time. The ledger command prints what the running program has on \
          its books, an entry a line. The program is stopped and started again, and the command run again: every line of \
          before must be there after, as often as before.",
    applies: "Needs --ledger COMMAND; {port} and {dir} are replaced in it.",
    threshold: |_| Threshold::Count(0, "entries lost"),
    hints: &[
        (
            "any",
            "save before the acknowledgement, or at the latest in the stop, and load at the start",
        ),
        (
            "adieu",
            "`app.worker(..)` with a store resumes at the start and saves its last checkpoint in the stop",
        ),
        (
            "queues",
            "acknowledge a message after its effect is durable, not when it is received",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    let Some(command) = &stage.drill.ledger else {
        return Ok(Finding::skipped(
            "no ledger to compare; give --ledger COMMAND",
        ));
    };
    let run = stage.start().await?;
    for number in 1..=5 {
        stage.give_work(&run, number).await;
    }
    let before = match ledger(command, &run).await {
        Ok(before) if before.is_empty() => {
            return Ok(Finding::skipped(
                "the ledger is empty before the stop: nothing could be lost",
            ));
        }
        Ok(before) => before,
        Err(why) => {
            return Ok(Finding::skipped(format!(
                "the ledger cannot be read before the stop: {why}"
            )));
        }
    };
    let signal = run.stop();
    if stage.see_end(&run, signal, With::Nobody).await.is_none() {
        return Ok(stage.killed(&run, With::Nobody));
    }
    run.subject.kill().await;
    let again = stage.start().await?;
    let after = match ledger(command, &again).await {
        Ok(after) => after,
        Err(why) => {
            return Ok(Finding::failed(format!(
                "the ledger cannot be read after the restart: {why}"
            )));
        }
    };
    let total: u64 = before.values().sum();
    let gone = gone(&before, &after);
    let lost: u64 = gone.iter().map(|(_, count)| count).sum();
    let measured = format!("{lost} of {total} lost");
    if lost > stage.threshold.count() {
        let times = |count: u64| match count {
            1 => String::new(),
            more => format!(", {more} times"),
        };
        return Ok(Finding::failed(format!(
            "{lost} of {total} entries are gone after a restart"
        ))
        .shown(
            gone.iter()
                .take(5)
                .map(|(line, count)| format!("gone: {line}{}", times(*count))),
        )
        .shown(after.keys().take(3).map(|line| format!("there: {line}")))
        .measured(measured));
    }
    Ok(
        Finding::passed(format!("all {total} entries are there after a restart"))
            .measured(measured),
    )
}

/// How often each entry stands in it: two alike are two.
type Ledger = BTreeMap<String, u64>;

/// What is missing after, and how often.
fn gone<'a>(before: &'a Ledger, after: &Ledger) -> Vec<(&'a str, u64)> {
    let missing = before.iter().map(|(line, count)| {
        let left = after.get(line).copied().unwrap_or_default();
        (line.as_str(), count.saturating_sub(left))
    });
    missing.filter(|(_, count)| *count > 0).collect()
}

async fn ledger(command: &str, run: &Run) -> Result<Ledger, String> {
    let command = run.subject.blanks.fill(command);
    let printed = errand::run(&command).await?;
    let lines = printed
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    let mut ledger = Ledger::new();
    for line in lines {
        *ledger.entry(line.to_owned()).or_default() += 1;
    }
    Ok(ledger)
}
