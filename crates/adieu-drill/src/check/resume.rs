//! What was on the books is on the books.

use std::collections::BTreeSet;

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
          (`POST /orders?ms={ms}`). The ledger command prints what the running program has on \
          its books, an entry a line. The program is stopped and started again, and the command run again: every line of \
          before must be there after.",
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
    for _ in 0..5 {
        stage.give_work(&run).await;
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
    let lost: Vec<&String> = before.difference(&after).collect();
    let measured = format!("{} of {} lost", lost.len(), before.len());
    if lost.len() as u64 > stage.threshold.count() {
        return Ok(Finding::failed(format!(
            "{} of {} entries are gone after a restart",
            lost.len(),
            before.len()
        ))
        .shown(lost.iter().take(5).map(|line| format!("gone: {line}")))
        .shown(after.iter().take(3).map(|line| format!("there: {line}")))
        .measured(measured));
    }
    Ok(Finding::passed(format!(
        "all {} entries are there after a restart",
        before.len()
    ))
    .measured(measured))
}

async fn ledger(command: &str, run: &Run) -> Result<BTreeSet<String>, String> {
    let command = run.subject.blanks.fill(command);
    let printed = errand::run(&command).await?;
    let lines = printed
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}
