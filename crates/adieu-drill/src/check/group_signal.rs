//! The signal goes to the whole process group at once.

use super::{Spec, Trying, signals};
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "group-signal",
    group: Group::Signals,
    quick: false,
    why: "systemd signals every process of a service, and a terminal the whole group: a parent must cope with workers that \
          stop by themselves.",
    how: "The stop signal is sent to the whole process group, with requests in flight. They must be answered, and the \
          program must end within the grace period without a crash.",
    applies: "Always; without a slow path only the end is judged.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "helpers that answers need must outlive the drain: put them into a group of their own, or let them ignore \
                 the signal and end them last",
        ),
        (
            "systemd",
            "`KillMode=mixed` signals only the main process first",
        ),
        (
            "gunicorn",
            "workers stop gracefully on SIGTERM too; on SIGINT and SIGQUIT they do not",
        ),
        (
            "Celery",
            "the processes of the pool die of it with their tasks: signal the parent only (`KillMode=mixed`), and set \
             `task_acks_late` with `task_reject_on_worker_lost`",
        ),
        (
            "Node cluster",
            "workers need a handler of their own, or the signal ends them at once",
        ),
    ],
    run: |cx| {
        Box::pin(signals::stop_with(
            cx,
            "a signal to the whole group",
            async |run| run.process.signal_group(run.stop_signal()),
        )) as Trying<'_>
    },
};
