//! What was on the books is on the books.

use super::{Spec, Trying};
use crate::context::CheckContext;
use crate::context::missing;
use crate::finding::Finding;
use crate::report::Group;
use crate::stop_log::LoadKind;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "resume",
    group: Group::Data,
    quick: false,
    why: "A restart must go on where the last run ended: what was acknowledged before is still known after.",
    how: "Requests are sent: to the upload path if there is one, or to the slow path if it has a method of its own \
          (`POST /orders?ms={ms}`). An upload has a body of its own each time. With --feed its command is run too. The ledger command prints what the running program has on \
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
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.drill.ledger.is_none() {
        return Ok(Finding::skipped(
            "no ledger to compare; give --ledger COMMAND",
        ));
    }
    let run = cx.start().await?;
    if let Err(finding) = cx.feed(&run).await {
        return Ok(finding);
    }
    for number in 1..=5 {
        cx.give_work(&run, number).await;
    }
    let before = match cx.ledger(&run).await {
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
    if cx.see_end(&run, signal, LoadKind::Idle).await.is_none() {
        return Ok(cx.killed(&run, LoadKind::Idle));
    }
    run.process.kill().await;
    let again = cx.start().await?;
    let after = match cx.ledger(&again).await {
        Ok(after) => after,
        Err(why) => {
            return Ok(Finding::failed(format!(
                "the ledger cannot be read after the restart: {why}"
            )));
        }
    };
    let total: u64 = before.values().sum();
    let gone = missing(&before, &after);
    let lost: u64 = gone.iter().map(|(_, count)| count).sum();
    let measured = format!("{lost} of {total} lost");
    if lost > cx.threshold.count() {
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
