//! The recorder of metrics, of which a process has one. One test, in a process of its own.
#![cfg(feature = "admin")]

use adieu::App;

#[tokio::test]
async fn none_is_installed_unasked_and_one_of_the_program_is_respected() {
    let report = adieu::scope("unasked")
        .stop_when(async {})
        .run(async |app: &mut App| {
            app.admin("127.0.0.1:0").await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    metrics::set_global_recorder(metrics::NoopRecorder).expect("the place is free");
    let report = adieu::scope("asked")
        .run(async |app: &mut App| {
            let refused = app.admin_routes().collect_metrics();
            let why = refused.expect_err("it is taken").to_string();
            assert!(why.contains("metrics_from"), "{why}");
            app.admin("127.0.0.1:0").collect_metrics().await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 2, "{report}");
}
