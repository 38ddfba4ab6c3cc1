//! Below a shell that does not step aside.

use super::{Spec, Trying, signals};
use crate::process::LaunchMode;
use crate::report::Group;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "under-shell",
    group: Group::Exit,
    quick: false,
    why: "Start scripts keep a shell above the program; it dies of the signal at once, and the program must finish without \
          its parent.",
    how: "The program is started by a shell that stays, and both get the stop signal, as from systemd or \
          a terminal. Requests in flight must be answered, and the program be gone within the grace period, though the \
          shell is gone long before.",
    applies: "Always; without a slow path only the end is judged.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "start scripts",
            "`exec` the program: then there is no shell, and the signal arrives where it should",
        ),
        (
            "docker",
            "the exec form, `CMD [\"server\", \"--port\", \"80\"]`",
        ),
        (
            "any",
            "do not end, and do not refuse to end, because of who the parent is",
        ),
    ],
    run: |cx| {
        Box::pin(signals::stop_as(
            cx,
            &LaunchMode::BelowShell,
            "a shell above it",
            async |run| run.process.signal_both(run.stop_signal()),
        )) as Trying<'_>
    },
};
