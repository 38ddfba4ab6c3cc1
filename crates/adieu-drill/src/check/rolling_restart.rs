//! One program after the other behind the same socket.

use std::time::Duration;

use adieu_load::{Load, Mode};
use tokio::time::{sleep, timeout};

use super::{Spec, Trying, race};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::{LaunchMode, held_socket};
use crate::report::Group;
use crate::running;
use crate::stop_log::LoadKind;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "rolling-restart",
    group: Group::Data,
    quick: false,
    why: "With a socket that another process holds, a restart can be invisible: clients that connect meanwhile wait in the accept queue.",
    how: "The drill holds the listening socket and passes it as descriptor 3, as systemd does. The program is stopped and \
          started again several times under constant load. Nothing may be lost, and no connection refused.",
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
        ("gunicorn", "takes LISTEN_FDS by itself, without `--bind`"),
        (
            "nginx",
            "does not read LISTEN_FDS: `env 'NGINX=3;' nginx`, or its own binary upgrade with SIGUSR2",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if !cx.drill.held_socket {
        return Ok(Finding::skipped(
            "the program is not said to take its socket from outside; say it with --held-socket",
        ));
    }
    let placeholders = running::placeholders(cx.scratch)?;
    let endpoint = cx
        .drill
        .endpoint(&placeholders)
        .map_err(crate::DrillError::Usage)?;
    let socket = match held_socket(endpoint.address) {
        Ok(socket) => socket,
        Err(error) => {
            return Ok(Finding::skipped(format!(
                "{} cannot be listened on: {error}",
                endpoint.address
            )));
        }
    };
    let mode = LaunchMode::Held(socket);
    let mut run = running::start_with(cx.drill, cx.scratch, &mode, placeholders.clone()).await?;
    let Some(load) = race::load(cx, &run, Mode::Mixed) else {
        return Ok(Finding::skipped(super::NO_TRAFFIC));
    };
    // A client waits in the queue for as long as a restart takes.
    let patience = cx.drill.grace + cx.drill.ready_within;
    let running = Load::patience(load, patience).start();
    if let Err(finding) = race::warm(cx, &run, &running).await {
        return Ok(finding);
    }
    let restarts = cx.times(2, 4, 10);
    for number in 1..=restarts {
        cx.step(
            u64::from(number - 1),
            &format!("restart {number} of {restarts}"),
        );
        sleep(Duration::from_millis(cx.rng.u64(50..250))).await;
        let signal = run.stop();
        if cx.see_end(&run, signal, LoadKind::Load).await.is_none() {
            return Ok(cx.killed(&run, LoadKind::Load));
        }
        run.process.kill().await;
        run = running::start_with(cx.drill, cx.scratch, &mode, placeholders.clone()).await?;
    }
    running.end();
    let Ok(tally) = timeout(patience, running.finish()).await else {
        return Ok(Finding::late("the clients did not come to an end"));
    };
    let lost = tally.lost() + tally.failed + tally.refused;
    let measured = format!("{lost} of {} lost", tally.sent());
    if lost > cx.threshold.count() {
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
