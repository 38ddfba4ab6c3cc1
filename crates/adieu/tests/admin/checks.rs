//! Checks make the service unready, say why, and are not asked more often than they must.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use adieu::App;

use crate::client::Running;

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_fails_panics_or_hangs_makes_unready_and_says_why() {
    let healthy = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&healthy);
    let service = Running::start(async move |app: &mut App| {
        let check = move |answer: fn() -> io::Result<()>| {
            let healthy = Arc::clone(&switch);
            move || {
                let is_healthy = healthy.load(SeqCst);
                async move { if is_healthy { Ok(()) } else { answer() } }
            }
        };
        let fails = check(|| Err(io::Error::other("the disk is full")));
        app.check("disk", fails).cache(Duration::ZERO);
        // A busy machine takes its time to print where it panicked.
        app.check("queue", check(|| panic!("no queue")))
            .cache(Duration::ZERO)
            .timeout(Duration::from_secs(60));
        let hangs = check(|| Err(io::Error::other("waits")));
        let hanging = move || {
            let answer = hangs();
            async move {
                if answer.await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        app.check("db", hanging)
            .cache(Duration::ZERO)
            .timeout(Duration::from_secs(1));
        Ok(())
    })
    .await;
    assert_eq!(service.get("/readyz").await.status, 200);
    healthy.store(false, SeqCst);
    let ready = service.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(
        ready.body,
        "not ready: check `disk` fails, check `queue` fails, check `db` fails\n"
    );
    let health = service.get("/health").await;
    assert_eq!(health.status, 503);
    let health = health.json();
    let problem = |check: usize| health["checks"][check]["problem"].as_str().unwrap_or("");
    assert_eq!(problem(0), "the disk is full");
    assert!(problem(1).starts_with("panicked: no queue"), "{health:#}");
    assert_eq!(problem(2), "no answer within 1.00 s");
    assert_eq!(service.get("/livez").await.status, 200);
    let metrics = service.get("/metrics").await.body;
    assert!(
        metrics.contains("adieu_check_ok{service=\"orders\",check=\"disk\"} 0"),
        "{metrics}"
    );
    // It is a state, not a verdict: what mends itself is ready again.
    healthy.store(true, SeqCst);
    assert_eq!(service.get("/readyz").await.status, 200);
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_good_for_its_time() {
    let asked = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    let counters = asked.clone();
    let service = Running::start(async move |app: &mut App| {
        let [long, short] = counters;
        let count = |counter: Arc<AtomicU32>| {
            move || {
                counter.fetch_add(1, SeqCst);
                async {}
            }
        };
        app.check("long", count(long))
            .cache(Duration::from_secs(3_600));
        app.check("short", count(short)).cache(Duration::ZERO);
        Ok(())
    })
    .await;
    for _ in 0..3 {
        assert_eq!(service.get("/readyz").await.status, 200);
    }
    let asked = asked.map(|counter| counter.load(SeqCst));
    assert_eq!(asked, [1, 3]);
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// It cannot be cancelled, so it is waited for no longer than any other, and never started twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_blocks_its_thread_costs_one_thread() {
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(std::sync::Mutex::new(released));
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let service = Running::start(async move |app: &mut App| {
        app.check("blocks", move || {
            counter.fetch_add(1, SeqCst);
            let released = Arc::clone(&released);
            async move {
                let _ = released.lock().expect("never poisoned").recv();
            }
        })
        .cache(Duration::ZERO)
        .timeout(Duration::from_millis(20));
        Ok(())
    })
    .await;
    for _ in 0..5 {
        assert_eq!(service.get("/readyz").await.status, 503);
    }
    assert_eq!(asked.load(SeqCst), 1);
    assert_eq!(service.get("/livez").await.status, 200);
    drop(release);
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// A clone of a pool in a check must not keep the pool open when its turn to close comes.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_check_holds_is_dropped_when_the_stop_is_announced() {
    struct Held(mpsc::Sender<()>);
    impl Drop for Held {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (dropped, was_dropped) = mpsc::channel();
    let service = Running::start(async move |app: &mut App| {
        let held = Held(dropped);
        app.check("db", move || {
            let _ = &held;
            async {}
        });
        app.on_cleanup("look", move || async move {
            let gone = was_dropped.recv_timeout(Duration::from_secs(5));
            gone.map_err(|_| io::Error::other("the check still holds it"))
        });
        Ok(())
    })
    .await;
    assert_eq!(service.get("/readyz").await.status, 200);
    let report = service.stop().await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_checks_of_one_name_are_refused() {
    let report = adieu::scope("orders")
        .run(async |app: &mut App| {
            app.resource("db", async { Ok::<_, io::Error>(()) }).await?;
            app.check("db", async || {});
            app.check("db", async || {});
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 2, "{report}");
    let problem = report.problem().expect("a problem").to_string();
    assert!(problem.contains("two checks are named `db`"), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readyz_answers_for_one_check_without_some_and_in_detail() {
    let service = Running::start(async |app: &mut App| {
        app.check("my db", || async { Err(io::Error::other("secret")) });
        app.check("cache", || async {});
        Ok(())
    })
    .await;
    for (path, status, body) in [
        ("/readyz", 503, "not ready: check `my db` fails\n"),
        ("/readyz/cache", 200, "ready\n"),
        ("/readyz/my%20db", 503, "not ready: check `my db` fails\n"),
        ("/readyz/queue", 404, "there is no check of this name\n"),
        ("/readyz?exclude=my+db", 200, "ready\n"),
        ("/readyz?exclude=my%20db&exclude=cache", 200, "ready\n"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        (
            "/readyz?verbose",
            503,
            "[+]service ok\n[-]my db failed: reason withheld\n[+]cache ok\nreadyz check failed\n",
        ),
        (
            "/readyz?verbose&exclude=my+db&exclude=queue",
            200,
            "[+]service ok\n[+]cache ok\n[+]my db excluded: ok\n\
             warn: no check is named queue, so none was excluded\nreadyz check passed\n",
        ),
        (
            "/readyz/cache?verbose",
            200,
            "[+]service ok\n[+]cache ok\nreadyz check passed\n",
        ),
    ] {
        let answer = service.get(path).await;
        assert_eq!((answer.status, &*answer.body), (status, body), "{path}");
    }
    assert_eq!(service.stop().await.exit_code(), 0);
}
