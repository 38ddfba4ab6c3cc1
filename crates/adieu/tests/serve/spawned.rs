//! What a scope awaits is `Send` where what it holds is: it can be spawned, boxed, and put behind a trait. And stops that
//! a test or a library holds.

use std::time::Duration;

use adieu::http::Stopping;
use adieu::state::FileStore;
use adieu::{App, scope, testing};
use axum::{Extension, Router, routing::get};
use tonic::codegen::Service;

#[tokio::test]
async fn a_scope_that_opens_everything_can_be_spawned() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_owned();
    let running = scope("spawned")
        .stop_when(async {})
        .run(async move |app: &mut App| {
            app.admin("127.0.0.1:0").await?;
            app.resource("pool", async { std::io::Result::Ok(()) })
                .stop(|()| async {})
                .await?;
            app.store(FileStore::open(path)).await?;
            app.reload("motd", || async { std::io::Result::Ok(1) })
                .await?;
            let listener = app.listen("web", "127.0.0.1:0").await?;
            app.http(listener, Router::new());
            Ok(())
        });
    let report = tokio::spawn(running).await.expect("no panic");
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// What opens a resource need not be `Send` for a scope that stays on its thread.
#[tokio::test]
async fn a_resource_may_be_opened_by_what_is_not_send() {
    let report = scope("local")
        .stop_when(async {})
        .run(async |app: &mut App| {
            let open = async {
                let local = std::rc::Rc::new(7);
                tokio::task::yield_now().await;
                std::io::Result::Ok(*local)
            };
            assert_eq!(app.resource("seven", open).await?, 7);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test]
async fn a_test_stops_a_handler_without_a_server() {
    let (stop, request) = testing::stop();
    let handler = get(async |stop: Stopping| {
        stop.requested().await;
        "going away"
    });
    let mut router = Router::<()>::new()
        .route("/", handler)
        .layer(Extension(Stopping(stop)));
    let asked = axum::http::Request::get("/")
        .body(axum::body::Body::empty())
        .expect("a request");
    let answer = Service::<axum::http::Request<axum::body::Body>>::call(&mut router, asked);
    let (answer, report) = tokio::join!(answer, request.and_wait());
    let body = answer.expect("an answer").into_body();
    let body = axum::body::to_bytes(body, 100).await.expect("a body");
    assert_eq!(body, "going away");
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_a_test_spawns_is_cancelled_when_the_grace_is_over() {
    let (stop, request) = testing::stop();
    let stuck = stop.spawn("stuck", std::future::pending::<()>());
    let report = request.and_wait().await;
    assert_eq!(report.exit_code(), 3, "{report}");
    let stuck = stuck.expect("it was started").await;
    assert_eq!(stuck, Err(adieu::TaskError::Cancelled));
}

#[tokio::test]
async fn a_token_is_cancelled_with_the_stop_and_by_nothing_else() {
    let (stop, request) = testing::stop();
    let (ours, theirs) = (stop.token(), stop.token());
    theirs.cancel();
    assert!(!ours.is_cancelled());
    assert!(!stop.is_requested());
    assert!(!stop.token().is_cancelled());
    let requested = stop.requested_owned();
    request.stop();
    let both = async { tokio::join!(ours.cancelled(), requested) };
    let in_time = tokio::time::timeout(Duration::from_secs(40), both).await;
    assert!(in_time.is_ok());
    assert!(stop.token().is_cancelled());
}
