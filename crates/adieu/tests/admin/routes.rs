//! What each route answers, and that it answers nothing else.

use std::time::Duration;

use adieu::App;
use axum::Router;
use axum::routing::get;
use tokio::sync::oneshot;

use crate::client::{self, Running, send, within};

async fn service() -> Running {
    Running::start(async |app: &mut App| {
        app.resource("pool", async { Ok::<_, std::io::Error>(()) })
            .await?;
        app.task("worker", |stop| async move { stop.requested().await });
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_there_is_and_only_reading() {
    let service = service().await;
    assert_eq!(service.get("/").await.status, 404);
    assert_eq!(service.get("/livez/").await.status, 404);
    let ask = |method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let admin = service.admin;
        async move { send(admin, &request).await }
    };
    for path in [
        "/livez", "/readyz", "/health", "/metrics", "/plan", "/report",
    ] {
        let whole = service.get(path).await;
        assert_eq!(whole.status, 200, "{path}");
        let head = ask("HEAD", path).await;
        assert_eq!((head.status, &*head.body), (200, ""), "{path}");
        assert!(head.head.contains("content-length: "), "{head:?}");
        assert!(!head.head.contains("content-length: 0"), "{head:?}");
        for method in ["POST", "DELETE", "PUT"] {
            let refused = ask(method, path).await;
            assert_eq!(refused.status, 405, "{method} {path}");
            assert!(refused.head.contains("allow: GET, HEAD"), "{refused:?}");
        }
    }
    assert_eq!(ask("POST", "/orders").await.status, 404);
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_for_people_and_for_machines() {
    let service = service().await;
    let text = service.get("/plan").await.body;
    assert!(text.starts_with("plan of the stop, "), "{text}");
    let request = "GET /plan HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n";
    let plan = send(service.admin, request).await.json();
    assert_eq!(plan["grace_ms"], 60_000.0);
    assert_eq!(plan["phases"][1]["phase"], "drain");
    assert_eq!(plan["phases"][1]["parts"][0], "worker");
    assert_eq!(plan["phases"][3]["parts"][0], "pool");
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_s_metrics_and_the_service_s_own() {
    let service = service().await;
    metrics::counter!("orders_created_total").increment(3);
    let text = service.get("/metrics").await.body;
    for line in [
        "orders_created_total 3",
        "# TYPE adieu_parts gauge",
        "adieu_parts{service=\"orders\",state=\"ready\"} 2",
        "adieu_parts{service=\"orders\",state=\"failed\"} 0",
        "adieu_work_alive{service=\"orders\"} 1",
        "adieu_running{service=\"orders\"} 1",
        "adieu_stopping{service=\"orders\"} 0",
        "adieu_blocked_total{service=\"orders\"} 0",
        "adieu_restarts_total{service=\"orders\",part=\"worker\"} 0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line} is missing:\n{text}"
        );
    }
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// Names, units and the end are as OpenMetrics has them, if the client accepts it.
#[tokio::test(flavor = "multi_thread")]
async fn a_scraper_that_accepts_openmetrics_gets_it() {
    let service = service().await;
    metrics::counter!("orders_created_total").increment(3);
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                   Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n\r\n";
    let answer = client::send(service.admin, request).await;
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(answer.head.contains(kind), "{}", answer.head);
    for line in [
        "# TYPE orders_created counter",
        "orders_created_total 3",
        "# TYPE adieu_uptime_seconds gauge",
        "# UNIT adieu_uptime_seconds seconds",
        "# TYPE adieu_blocked counter",
        "adieu_blocked_total{service=\"orders\"} 0",
    ] {
        let found = answer.body.lines().any(|found| found == line);
        assert!(found, "{line} is missing:\n{}", answer.body);
    }
    assert!(answer.body.ends_with("\n# EOF\n"), "{}", answer.body);
    assert!(!answer.body.contains("\n\n"), "{}", answer.body);
    let plain = service.get("/metrics").await;
    assert!(
        plain
            .head
            .contains("content-type: text/plain; version=0.0.4")
    );
    assert!(!plain.body.contains("# EOF"));
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// While the last hook runs, the times of the phases before and the outcome of each part can be read.
#[tokio::test(flavor = "multi_thread")]
async fn the_stop_is_in_the_metrics_while_it_lasts() {
    let (reached, at_exit) = oneshot::channel();
    let (go_on, wait) = oneshot::channel::<()>();
    let service = Running::start(async move |app: &mut App| {
        app.task("worker", |stop| async move { stop.requested().await });
        let deaf = |_stop| std::future::pending::<()>();
        app.task("deaf", deaf).limit(Duration::from_millis(1));
        app.on_exit("last", move || async move {
            let _ = reached.send(());
            let _ = wait.await;
        });
        Ok(())
    })
    .await;
    service.handle.stop("enough");
    within("the end", at_exit).await.expect("the hook runs");
    let text = service.get("/metrics").await.body;
    let has = |start: &str| text.lines().any(|line| line.starts_with(start));
    for start in [
        "adieu_stop_duration_seconds{service=\"orders\"} ",
        "adieu_stop_phase_duration_seconds{service=\"orders\",phase=\"drain\"} ",
        "adieu_part_stop_duration_seconds{service=\"orders\",part=\"worker\",kind=\"task\",outcome=\"finished\"} ",
        "adieu_part_stop_duration_seconds{service=\"orders\",part=\"deaf\",kind=\"task\",outcome=\"cancelled\"} ",
        "adieu_forced_total{service=\"orders\",part=\"deaf\"} 1",
    ] {
        assert!(has(start), "{start} is missing:\n{text}");
    }
    assert!(!has(
        "adieu_forced_total{service=\"orders\",part=\"worker\"}"
    ));
    go_on.send(()).expect("it waits");
    assert_eq!(service.ended().await.exit_code(), 3);
}

/// Connections and requests are counted by the server they came to, while they are there.
#[tokio::test(flavor = "multi_thread")]
async fn requests_in_flight_are_counted() {
    let (arrive, mut arrived) = tokio::sync::mpsc::unbounded_channel();
    let (say, said) = oneshot::channel();
    let service = Running::start(async move |app: &mut App| {
        let api = app.listen("api", "127.0.0.1:0").await?;
        let _ = say.send(api.local_addr());
        let slow = async move || {
            let (go_on, wait) = oneshot::channel::<()>();
            let _ = arrive.send(go_on);
            let _ = wait.await;
            "done"
        };
        app.http(api, Router::new().route("/slow", get(slow)));
        Ok(())
    })
    .await;
    let api = said.await.expect("an address").expect("a TCP address");
    within("readiness", async {
        while service.get("/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let asking = tokio::spawn(async move { client::get(api, "/slow").await });
    let go_on = within("the request", arrived.recv())
        .await
        .expect("the handler");
    let text = service.get("/metrics").await.body;
    for name in ["adieu_connections", "adieu_requests_in_flight"] {
        let line = format!("{name}{{service=\"orders\",part=\"api\"}} 1");
        assert!(text.contains(&line), "{line} is missing:\n{text}");
    }
    go_on.send(()).expect("it waits");
    assert_eq!(asking.await.expect("no panic").body, "done");
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_routes_in_a_router_of_one_s_own() {
    let (say, said) = oneshot::channel();
    let service = Running::start(async |app: &mut App| {
        let api = app.listen("api", "127.0.0.1:0").await?;
        let _ = say.send(api.local_addr());
        let probes = app.admin_routes().probes_only();
        let router = Router::new()
            .route("/", get(async || "hello"))
            .nest_service("/internal", app.admin_routes())
            .fallback_service(probes);
        app.http(api, router);
        Ok(())
    })
    .await;
    let api = said.await.expect("an address").expect("a TCP address");
    within("readiness", async {
        while service.get("/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let statuses = [
        ("/", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/report", 404),
        ("/metrics", 404),
        ("/nothing", 404),
        ("/internal/report", 200),
        ("/internal/metrics", 200),
    ];
    for (path, status) in statuses {
        assert_eq!(client::get(api, path).await.status, status, "{path}");
    }
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// Text of a recorder that the program has already, after ours.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_from_elsewhere_are_added() {
    let (say, said) = oneshot::channel();
    let (done, wait) = oneshot::channel::<()>();
    let scope = adieu::scope("orders")
        .grace(Duration::from_secs(5))
        .stop_when(async { drop(wait.await) })
        .run(async move |app: &mut App| {
            let admin = app
                .admin("127.0.0.1:0")
                .metrics_from(|| "mine 7\n".to_owned())
                .await?;
            let _ = say.send(admin.local_addr());
            Ok(())
        });
    let asking = async {
        let admin = said.await.expect("an address").expect("a TCP address");
        let text = client::get(admin, "/metrics").await.body;
        assert!(text.ends_with("mine 7\n"), "{text}");
        drop(done);
    };
    let (report, ()) = tokio::join!(scope, asking);
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// A web page whose name leads to this machine reads nothing; probes say no more than names, and are often sent with
/// the name of a load balancer.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_another_host_are_refused_but_for_probes() {
    let service = service().await;
    let ask = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let admin = service.admin;
        async move { send(admin, &request).await }
    };
    for path in ["/health", "/metrics", "/plan", "/report", "/nothing"] {
        let refused = ask("evil.example", path).await;
        assert_eq!(refused.status, 421, "{path}");
        assert!(refused.body.contains("\"evil.example\""), "{refused:?}");
        assert!(refused.body.contains("ADIEU_ADMIN_HOSTS"), "{refused:?}");
    }
    let own = service.admin.to_string();
    for host in ["localhost:1", &own, "[::1]"] {
        assert_eq!(ask(host, "/report").await.status, 200, "{host}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(ask("balancer.example", path).await.status, 200, "{path}");
    }
    let old = send(service.admin, "GET /report HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.status, 200);
    assert_eq!(service.stop().await.exit_code(), 0);
}
