//! A reload is no stop.

use std::time::Duration;

use adieu_load::Mode;
use tokio::time::{sleep, timeout};

use super::{Spec, Trying, race};
use crate::finding::Finding;
use crate::process::Signal;
use crate::process::describe;
use crate::report::Group;
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "hup-keeps-serving",
    group: Group::Signals,
    quick: false,
    why: "A reload that drops requests is a small outage at every change of the configuration.",
    how: "SIGHUP is sent three times under load, kept and fresh connections mixed. The program must stay, and every request \
          sent whole must be answered; nobody may be refused.",
    applies: "Only with --reload: for many programs SIGHUP means the end. Needs HTTP, or a server that sends lines back.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "read and check the new configuration first, then swap it; keep the listener",
        ),
        (
            "adieu",
            "`service.on_reload(..)`: the listener stays, and a bad file leaves the old configuration",
        ),
        (
            "nginx / gunicorn",
            "new workers take over the socket before the old ones stop",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const RELOADS: usize = 3;

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if !stage.drill.reload {
        return Ok(Finding::skipped(super::NO_RELOAD));
    }
    let run = stage.start().await?;
    let Some(load) = race::load(stage, &run, Mode::Mixed) else {
        return Ok(Finding::skipped(super::NO_TRAFFIC));
    };
    let running = load.start();
    if let Err(finding) = race::warm(stage, &run, &running).await {
        return Ok(finding);
    }
    for _ in 0..RELOADS {
        run.subject.signal(Signal::HUP);
        sleep(Duration::from_millis(500)).await;
    }
    let gone = run.subject.ended();
    running.end();
    let Ok(tally) = timeout(PATIENCE * 3, running.finish()).await else {
        return Ok(Finding::late("the clients did not come to an end"));
    };
    if let Some(ended) = gone {
        return Ok(
            Finding::failed(format!("it ended at a SIGHUP: {}", describe(ended.status)))
                .shown(run.last_lines(5)),
        );
    }
    let lost = tally.lost() + tally.failed + tally.refused;
    let measured = format!("{lost} of {} lost", tally.sent());
    if lost > stage.threshold.count() {
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
