//! One program after the other behind the same socket.

use std::time::Duration;

use adieu_load::{Load, Mode};
use tokio::time::{sleep, timeout};

use super::{Spec, Trying, race};
use crate::finding::Finding;
use crate::process::{Form, held_socket};
use crate::record::With;
use crate::report::Group;
use crate::stage::{self, Stage};
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "rolling-restart",
    group: Group::Data,
    quick: false,
    why: "With the socket in somebody else's hands a restart can be invisible: whoever comes meanwhile waits in the queue.",
    how: "The drill holds the listening socket and passes it as descriptor 3, as systemd does. The program is stopped and \
          started again several times under constant load. Nothing may be lost, and nobody refused.",
    applies: "Only with --held-socket, for programs that take their socket from LISTEN_FDS.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "adieu",
            "`app.listen` takes the socket from systemd when there is one",
        ),
        (
            "systemd",
            "a `.socket` unit beside the service; the program must not call shutdown() on the socket",
        ),
        ("uvicorn", "`--fd 3`"),
        (
            "gunicorn / nginx",
            "take LISTEN_FDS by themselves, or hand over with SIGUSR2",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if !stage.drill.held_socket {
        return Ok(Finding::skipped(
            "the program is not said to take its socket from outside; say it with --held-socket",
        ));
    }
    let blanks = stage::blanks(stage.scratch)?;
    let place = stage::place(stage.drill, &blanks).map_err(crate::CannotDrill::Usage)?;
    let socket = match held_socket(place.address) {
        Ok(socket) => socket,
        Err(error) => {
            return Ok(Finding::skipped(format!(
                "{} cannot be listened on: {error}",
                place.address
            )));
        }
    };
    let form = Form::Held(socket);
    let mut run = stage::start_with(stage.drill, stage.scratch, &form, blanks.clone()).await?;
    let Some(load) = race::load(stage, &run, Mode::Mixed) else {
        return Ok(Finding::skipped(super::NO_TRAFFIC));
    };
    // A client waits in the queue for as long as a restart takes.
    let patience = stage.drill.grace + stage.drill.ready_within;
    let running = Load::patience(load, patience).start();
    if let Err(finding) = race::warm(stage, &run, &running).await {
        return Ok(finding);
    }
    let restarts = stage.times(2, 4, 10);
    for number in 1..=restarts {
        stage.step(
            u64::from(number - 1),
            &format!("restart {number} of {restarts}"),
        );
        sleep(Duration::from_millis(stage.dice.u64(50..250))).await;
        let signal = run.stop();
        if stage.see_end(&run, signal, With::Load).await.is_none() {
            return Ok(stage.killed(&run, With::Load));
        }
        run.subject.kill().await;
        run = stage::start_with(stage.drill, stage.scratch, &form, blanks.clone()).await?;
    }
    running.end();
    let Ok(tally) = timeout(patience, running.finish()).await else {
        return Ok(Finding::late("the clients did not come to an end"));
    };
    let lost = tally.lost() + tally.failed + tally.refused;
    let measured = format!("{lost} of {} lost", tally.sent());
    if lost > stage.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{lost} of {} requests were lost in {restarts} restarts: {}",
            tally.sent(),
            race::classes(&tally)
        ));
        finding.by_time = tally.timed_out == lost;
        return Ok(finding.shown(tally.evidence).measured(measured));
    }
    Ok(Finding::passed(format!(
        "{} requests crossed {restarts} restarts and none was lost or refused",
        tally.sent()
    ))
    .measured(measured))
}
