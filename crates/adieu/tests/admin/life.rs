//! Readiness and liveness from the first line of `setup` to the last hook.

use std::time::Duration;

use adieu::App;
use adieu::report::{ComponentKind, Notice, Outcome};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::client::{Running, get, within};

/// A pair of channels to hold the service at a point: it says that it is there, and waits to be let on.
struct Halt {
    reached: oneshot::Sender<()>,
    go_on: oneshot::Receiver<()>,
}

struct Guide {
    reached: oneshot::Receiver<()>,
    go_on: oneshot::Sender<()>,
}

fn halt() -> (Halt, Guide) {
    let ((reached, was_reached), (go, go_on)) = (oneshot::channel(), oneshot::channel());
    let guide = Guide {
        reached: was_reached,
        go_on: go,
    };
    (Halt { reached, go_on }, guide)
}

impl Halt {
    async fn here(self) {
        let _ = self.reached.send(());
        let _ = self.go_on.await;
    }
}

impl Guide {
    async fn reached(self, what: &str) -> oneshot::Sender<()> {
        within(what, self.reached).await.expect(what);
        self.go_on
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn not_ready_while_a_server_has_yet_to_accept() {
    let (reached, was_reached) = oneshot::channel();
    let (go, go_on) = std::sync::mpsc::channel::<()>();
    let service = Running::start(async move |app: &mut App| {
        let api = app.listen("api", "127.0.0.1:0").await?;
        let api = api.on_listening(move |address| {
            let _ = reached.send(address.parse().expect("a TCP address"));
            // Holds the server here, on one of two threads, until the test has asked.
            let _ = go_on.recv();
        });
        app.http(api, axum::Router::new());
        Ok(())
    })
    .await;
    let api = within("the socket", was_reached).await.expect("it opens");
    let ready = service.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.body, "not ready: `api` is starting\n");
    drop(go);
    assert_eq!(get(api, "/").await.status, 404, "it accepts");
    assert_eq!(service.get("/readyz").await.status, 200);
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn not_ready_before_setup_has_returned_and_live_all_the_time() {
    let (in_setup, setup) = halt();
    let (say, said) = oneshot::channel();
    let scope = adieu::scope("orders").run(async move |app: &mut App| {
        let _ = say.send(app.admin("0").await?.local_addr());
        app.resource("pool", async { Ok::<_, std::io::Error>(()) })
            .await?;
        in_setup.here().await;
        Ok(())
    });
    let asking = async {
        let go_on = setup.reached("setup").await;
        let admin = said.await.expect("an address").expect("a TCP address");
        assert!(admin.ip().is_loopback(), "a port alone is for this machine");
        let ready = get(admin, "/readyz").await;
        assert_eq!((ready.status, &*ready.body), (503, "not ready: starting\n"));
        assert_eq!(get(admin, "/livez").await.status, 200);
        let health = get(admin, "/health").await;
        assert_eq!(health.status, 503);
        assert_eq!(health.json()["stage"], "starting");
        assert_eq!(health.json()["parts"][0]["state"], "ready");
        drop(go_on);
    };
    tokio::select! {
        report = scope => panic!("it stopped: {report}"),
        () = asking => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_through_the_whole_stop_and_not_a_moment_longer() {
    let ((in_shutdown, shutdown), (in_drain, drain)) = (halt(), halt());
    let ((in_cleanup, cleanup), (in_close, close), (in_exit, exit)) = (halt(), halt(), halt());
    let service = Running::start(async |app: &mut App| {
        app.resource("pool", async { Ok::<_, std::io::Error>(()) })
            .stop(|()| in_close.here())
            .await?;
        app.task("worker", |stop| async move {
            stop.requested().await;
            in_drain.here().await;
        });
        app.on_shutdown("deregister", || in_shutdown.here());
        app.on_cleanup("save", || in_cleanup.here());
        app.on_exit("flush", || in_exit.here());
        Ok(())
    })
    .await;
    assert_eq!(service.get("/readyz").await.status, 200);
    let plan = service.get("/plan").await.body;
    assert!(plan.trim_end().ends_with("  flush  admin"), "{plan}");
    let admin = service.admin;
    service.handle.stop("enough");
    let ready = get(admin, "/readyz").await;
    assert_eq!((ready.status, &*ready.body), (503, "not ready: stopping\n"));

    let stages = [
        (shutdown, "announce", "deregister", "closing"),
        (drain, "drain", "worker", "stopping"),
        (cleanup, "cancel", "save", "closing"),
        (close, "release", "pool", "closing"),
        (exit, "save", "flush", "closing"),
    ];
    for (guide, phase, part, state) in stages {
        let go_on = guide.reached(phase).await;
        assert_eq!(get(admin, "/livez").await.status, 200, "{phase}");
        assert_eq!(get(admin, "/readyz").await.status, 503, "{phase}");
        let health = get(admin, "/health").await.json();
        assert_eq!(
            (&health["phase"], &health["stage"]),
            (&phase.into(), &"stopping".into())
        );
        assert_eq!(health["cause"], "requested: enough");
        let report = get(admin, "/report").await.json();
        assert_eq!(
            (&report["ended"], &report["exit_code"]),
            (&false.into(), &().into_null())
        );
        let ports = report["parts"].as_array().and_then(|parts| parts.last());
        let port = ports.expect("the port itself");
        assert_eq!(
            (&port["kind"], &port["state"]),
            (&"admin".into(), &"ready".into())
        );
        for listed in [&health["parts"], &report["parts"]] {
            let parts = listed.as_array().expect("parts");
            let found = parts.iter().find(|listed| listed["name"] == part);
            assert_eq!(found.expect(part)["state"], state, "{listed:#}");
        }
        let metrics = get(admin, "/metrics").await.body;
        let line = format!("adieu_stop_phase{{service=\"orders\",phase=\"{phase}\"}} 1");
        assert!(metrics.contains(&line), "{metrics}");
        go_on.send(()).expect("it waits");
    }
    let report = service.ended().await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let port = report.part("admin").expect("the port is in the report");
    assert_eq!(
        (port.kind, port.outcome),
        (ComponentKind::Admin, Outcome::Closed)
    );
    assert_eq!(port.notes, [format!("on {admin}, closed last")]);
    // The end of `run` is the end of the port.
    assert!(TcpStream::connect(admin).await.is_err());
}

trait IntoNull {
    fn into_null(self) -> serde_json::Value;
}

impl IntoNull for () {
    fn into_null(self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Readiness is a promise to those who will connect: it comes when the server listens.
#[tokio::test(flavor = "multi_thread")]
async fn ready_means_that_servers_can_be_reached() {
    let (say, said) = oneshot::channel();
    let service = Running::start(async |app: &mut App| {
        let api = app.listen("api", "127.0.0.1:0").await?;
        let _ = say.send(api.local_addr());
        app.tcp(api, async |_conn| {});
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
    TcpStream::connect(api).await.expect("it was ready");
    let _ = service.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_others_can_reach_is_said_unless_it_is_meant() {
    for (meant, warnings) in [(false, 1), (true, 0)] {
        let (warn, warned) = std::sync::mpsc::channel();
        let report = adieu::scope("orders")
            .on_notice(move |notice| {
                if let Notice::AdminExposed { address } = notice {
                    let _ = warn.send(*address);
                }
            })
            .run(async |app: &mut App| {
                let admin = app.admin("0.0.0.0:0");
                if meant { admin.exposed() } else { admin }.await?;
                // Not before: a stop would cut the start short.
                app.shutdown_handle().stop("seen");
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 0, "{report}");
        assert_eq!(warned.try_iter().count(), warnings, "meant: {meant}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_a_clear_error() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = holder.local_addr().expect("an address").to_string();
    let asked = taken.clone();
    let report = adieu::scope("orders")
        .run(async |app: &mut App| app.admin(asked).await.map(drop).map_err(Into::into))
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let problem = report.problem().expect("a problem").to_string();
    assert!(
        problem.contains(&format!("`admin` cannot listen on {taken}")),
        "{problem}"
    );
}

/// The stop does not wait for clients of the admin port. The clock is the test's: it goes on only if
/// the stop waits for something, and then by the seconds that the port gives a connection.
#[tokio::test(start_paused = true)]
async fn connections_to_the_admin_port_hold_up_nothing() {
    use tokio::io::AsyncWriteExt;
    let (say, said) = oneshot::channel();
    let scope =
        adieu::scope("orders")
            .grace(Duration::from_secs(60))
            .run(async move |app: &mut App| {
                let admin = app.admin("0").await?;
                let _ = say.send((admin.local_addr(), app.shutdown_handle()));
                app.task("worker", |stop| async move { stop.requested().await });
                Ok(())
            });
    let holding = async {
        let (address, handle) = said.await.expect("an address");
        let address = address.expect("a TCP address");
        let silent = TcpStream::connect(address).await.expect("it listens");
        let mut half = TcpStream::connect(address).await.expect("it listens");
        half.write_all(b"GET /livez HT").await.expect("it reads");
        // Answered: the port has both of the others by now.
        assert_eq!(get(address, "/livez").await.status, 200);
        handle.stop("enough");
        (silent, half)
    };
    let (report, _held) = tokio::join!(scope, holding);
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(report.took(), Duration::ZERO, "{report}");
}
