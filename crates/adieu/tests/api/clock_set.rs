//! The timer of schedules is the kernel's own for the wall clock, and is cancelled when that clock is set.
//!
//! To set the clock is to set it for every process of the machine, which no test may. What can be looked at is what the
//! kernel is asked for: with these flags it promises the rest, see timerfd_create(2).

use std::process::{Command, Stdio};

use adieu::{App, BoxError};

use crate::clues::secs;

/// Set in the process that is recorded.
const INSIDE: &str = "ADIEU_TEST_CLOCK";

#[test]
fn the_timer_is_asked_to_follow_the_wall_clock() -> Result<(), BoxError> {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let report = runtime.block_on(adieu::scope("clock").run(async |app: &mut App| {
            let handle = app.shutdown_handle();
            app.cron("second", "* * * * * *", "UTC", move |_| {
                let handle = handle.clone();
                async move { handle.stop("it came") }
            });
            app.every("hour", secs(3_600), |_| async {});
            Ok(())
        }));
        assert_eq!(report.exit_code(), 0, "{report}");
        return Ok(());
    }
    let output = tempfile::NamedTempFile::new()?;
    let run = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-e",
            "trace=timerfd_create,timerfd_settime",
            "-o",
        ])
        .arg(output.path())
        .arg(std::env::current_exe()?)
        .args([
            "--exact",
            "clock_set::the_timer_is_asked_to_follow_the_wall_clock",
        ])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output();
    let run = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fixture_skip::missing("strace");
            return Ok(());
        }
        run => run?,
    };
    let complaint = String::from_utf8_lossy(&run.stderr);
    if complaint.contains("Operation not permitted") {
        fixture_skip::not_possible("strace may not trace");
        return Ok(());
    }
    assert!(run.status.success(), "{complaint}");
    let calls = std::fs::read_to_string(output.path())?;
    let (made, set): (Vec<_>, Vec<_>) = calls
        .lines()
        .partition(|line| line.contains("timerfd_create("));
    // One for all schedules.
    assert_eq!(made.len(), 1, "{calls}");
    assert!(made[0].contains("CLOCK_REALTIME"), "{calls}");
    assert!(!set.is_empty(), "{calls}");
    for call in set {
        let flags = "TFD_TIMER_ABSTIME|TFD_TIMER_CANCEL_ON_SET";
        assert!(call.contains(flags), "{call}");
    }
    Ok(())
}
