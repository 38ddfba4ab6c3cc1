//! A reload on SIGHUP must not stop the program.

use std::time::Duration;

use adieu_load::{Mode, Tally};
use tokio::time::timeout;

use super::restart::restart;
use super::{Spec, Trying, race};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::Signal;
use crate::process::describe;
use crate::raw::ANSWER_TIMEOUT;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "hup-keeps-serving",
    group: Group::Signals,
    quick: false,
    why: "A reload that drops requests is a small outage at every change of the configuration.",
    how: "SIGHUP is sent three times under load. Half of the clients keep their connections for as long as the server \
          does, the others make one for each request. If the program starts new processes, the end of an old one is \
          waited for. The program must stay, and every request \
          sent whole must be answered; no connection may be refused.",
    applies: "Only with --reload: for many programs SIGHUP means the end. Needs HTTP, or a server that sends lines back.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "read and check the new configuration first, then swap it; keep the listener",
        ),
        (
            "adieu",
            "`app.reload(..)`: the listener stays, and a bad file leaves the old configuration",
        ),
        (
            "nginx / gunicorn",
            "new workers take over the socket before the old ones stop",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

const RELOADS: u64 = 3;
/// How long a program that starts new processes for a reload is given to end an old one.
const OLD_PROCESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Half of the clients keep their connections for as long as the server does: those meet the end of an old process. The
/// others make one for each request.
fn modes(cx: &CheckContext<'_>) -> Vec<Mode> {
    match race::never_keeps(cx) {
        true => vec![Mode::Fresh],
        false => vec![Mode::KeepAlive, Mode::Fresh],
    }
}

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if !cx.drill.reload {
        return Ok(Finding::skipped(super::NO_RELOAD));
    }
    let run = cx.start().await?;
    let mut running = Vec::new();
    for mode in modes(cx) {
        let Some(load) = race::load(cx, &run, mode) else {
            return Ok(Finding::skipped(super::NO_TRAFFIC));
        };
        let load = load.clients((cx.drill.clients / 2).max(1)).start();
        if let Err(finding) = race::warm(cx, &run, &load).await {
            return Ok(finding);
        }
        running.push(load);
    }
    for number in 1..=RELOADS {
        cx.step(number - 1, &format!("reload {number} of {RELOADS}"));
        restart(&run, Signal::HUP, OLD_PROCESS_TIMEOUT).await;
    }
    let gone = run.process.ended();
    let mut tally = Tally::default();
    for load in running {
        load.end();
        let Ok(one) = timeout(ANSWER_TIMEOUT * 3, load.finish()).await else {
            return Ok(Finding::late("the clients did not come to an end"));
        };
        tally += one;
    }
    if let Some(ended) = gone {
        return Ok(
            Finding::failed(format!("it ended at a SIGHUP: {}", describe(ended.status)))
                .shown(run.last_lines(5)),
        );
    }
    let lost = tally.lost() + tally.failed + tally.refused;
    let measured = format!("{lost} of {} lost", tally.sent());
    if lost > cx.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{lost} of {} requests were lost in {RELOADS} reloads: {}",
            tally.sent(),
            race::classes(&tally)
        ));
        finding.by_time = tally.timed_out == lost;
        return Ok(finding.shown(tally.evidence).measured(measured));
    }
    Ok(Finding::passed(format!(
        "{} requests crossed {RELOADS} reloads and none was lost",
        tally.sent()
    ))
    .measured(measured))
}
