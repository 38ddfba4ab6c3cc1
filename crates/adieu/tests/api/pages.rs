//! What the pages of the guide show, compared with what the code says.

use std::time::Duration;

use adieu::report::Cause;
use adieu::signal::StopSignal;

use crate::clues::nothing;

/// The row of a table that begins with this cell.
fn row<'page>(page: &'page str, cell: &str) -> &'page str {
    let start = format!("| {cell} |");
    let found = page.lines().find(|line| line.starts_with(&start));
    found.unwrap_or_else(|| panic!("no row for {cell}"))
}

#[test]
fn the_causes_of_a_stop() {
    let row = row(include_str!("../../../../docs/report.md"), "`cause`");
    let signals = [
        StopSignal::Terminate,
        StopSignal::Interrupt,
        StopSignal::Hangup,
        StopSignal::Break,
        StopSignal::Close,
        StopSignal::Logoff,
        StopSignal::Shutdown,
    ];
    let causes = [
        Cause::Setup,
        Cause::Error("NAME".into()),
        Cause::Panic("NAME".into()),
        Cause::AllTasksEnded,
        Cause::Requested("WHY".into()),
    ];
    let signals = signals.into_iter().map(Cause::Signal);
    let shown = signals.chain(causes).map(|cause| cause.to_string());
    let handed_over = Cause::HandedOver(7).to_string().replace('7', "PID");
    for cause in shown.chain([handed_over]) {
        assert!(
            row.contains(&format!("`{cause}`")),
            "{cause} is not in {row}"
        );
    }
}

/// The status that SIGUSR1 prints divides the grace as the plan does.
#[tokio::test(start_paused = true)]
async fn the_budget_of_the_status() {
    let page = include_str!("../../../../docs/reload.md");
    let shown = page
        .lines()
        .find(|line| line.starts_with("  budget  25.0 s:"));
    let mut budget = "  budget  25.0 s:".to_owned();
    let report = adieu::scope("orders")
        .grace(Duration::from_secs(25))
        .run(async |app| {
            // Where nothing is opened, the release has no share.
            app.resource("postgres", nothing()).await?;
            for line in app.plan().to_string().lines().skip(1) {
                let words: Vec<_> = line.split_whitespace().take(3).collect();
                budget = format!("{budget} {}", words.join(" "));
            }
            app.shutdown_handle().stop("seen");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(shown, Some(&*budget));
}
