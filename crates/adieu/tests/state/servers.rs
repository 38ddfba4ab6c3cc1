//! The stores on servers: the same suite on each, servers that go away and come back, and what is said when they
//! cannot be used at all.
//!
//! One server for all checks of its kind: starting it is what takes the time.

use std::error::Error;
use std::time::Duration;

use adieu::report::Outcome;
use adieu::state::{FileStore, Store, StoreHandle, Worker};
use adieu::{App, BoxError};
use fixture_servers::{Absent, PASSWORD, Server};
use tempfile::TempDir;

use crate::conformance::{self, Cursor, cursor};

/// How one kind of store is opened.
pub(crate) trait Kind: Send + Sync + 'static {
    type Store: Store + Clone;

    /// Makes its table or bucket if there is none.
    async fn open(url: &str) -> Result<Self::Store, BoxError>;

    /// As [`Kind::open`], but what it needs is expected to be there, under a name that is not.
    async fn open_without(_url: &str) -> Option<Result<Self::Store, BoxError>> {
        None
    }
}

/// Checks something on a server, if there is one here.
pub(crate) fn on(
    server: Result<Server, Absent>,
    check: impl AsyncFnOnce(Server) -> Result<(), BoxError>,
) -> Result<(), BoxError> {
    let server = match server {
        Ok(server) => server,
        Err(absent) => {
            fixture_skip::missing(absent);
            return Ok(());
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(check(server))
}

/// Everything that such a store has to stand.
fn stands<K: Kind>(server: Result<Server, Absent>) -> Result<(), BoxError> {
    on(server, async |mut server| {
        let url = server.url();
        conformance::holds(async || K::open(&url).await).await?;
        one_of_two_processes_wins::<K>(&url).await?;
        it_comes_back::<K>(&mut server).await?;
        gone_at_the_stop_it_is_named::<K>(&mut server).await?;
        gone_at_the_stop_nothing_is_lost::<K>(&mut server).await?;
        a_silent_server_does_not_hold_up_the_stop::<K>(&server).await?;
        what_cannot_be_used_is_said::<K>(&mut server).await
    })
}

/// Two connections, as two processes have them.
async fn one_of_two_processes_wins<K: Kind>(url: &str) -> Result<(), BoxError> {
    let (one, other) = (
        StoreHandle::new(K::open(url).await?),
        StoreHandle::new(K::open(url).await?),
    );
    let (one, other) = (one.state::<Cursor>("two"), other.state::<Cursor>("two"));
    for round in 0..20 {
        let (left, right) = match one.load().await? {
            None => {
                let (left, right) = (cursor(1), cursor(2));
                tokio::join!(one.create(&left), other.create(&right))
            }
            Some(found) => {
                let (left, right) = (cursor(round), cursor(round + 1000));
                tokio::join!(
                    one.compare_and_swap(found.version, &left),
                    other.compare_and_swap(found.version, &right)
                )
            }
        };
        let loser = match (left, right) {
            (Ok(_), Err(error)) | (Err(error), Ok(_)) => error,
            (left, right) => panic!("exactly one wins: {left:?}, {right:?}"),
        };
        assert!(loser.is_conflict(), "{loser}");
    }
    Ok(())
}

/// A save that was begun while the server was away is done when it is back.
async fn it_comes_back<K: Kind>(server: &mut Server) -> Result<(), BoxError> {
    let store = StoreHandle::new(K::open(&server.url()).await?);
    let state = store.state::<Cursor>("back");
    let version = state.save(&cursor(1)).await?;
    server.stop();
    let saving = tokio::spawn({
        let state = state.clone();
        async move { state.compare_and_swap(version, &cursor(2)).await }
    });
    // At least one try has failed when another call has.
    let loading = tokio::spawn({
        let state = state.clone();
        async move { state.load().await }
    });
    tokio::task::yield_now().await;
    server.start();
    saving.await??;
    assert!(loading.await??.is_some());
    let found = state.load().await?.expect("it was saved");
    assert_eq!(found.value, cursor(2), "and what it had kept is there");
    Ok(())
}

/// A service whose worker checkpoints once, and again when the stop is requested, when the server is gone.
async fn lives<K: Kind>(
    server: &mut Server,
    key: &'static str,
    fallback: Option<&TempDir>,
) -> Result<adieu::Report, BoxError> {
    let url = server.url();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (gone, is_gone) = tokio::sync::oneshot::channel::<()>();
    let folder = fallback.map(|folder| folder.path().to_owned());
    let mut is_gone = Some(is_gone);
    let life = adieu::scope("remote")
        .grace(Duration::from_secs(2))
        .run(async |app: &mut App| {
            let mut opening = app.store(async { K::open(&url).await });
            if let Some(folder) = folder {
                opening = opening.fallback(folder);
            }
            let store = opening.await?;
            let shutdown = app.shutdown_handle();
            app.worker(key, store, move |mut worker: Worker<Cursor>| {
                let (tell, shutdown, is_gone) = (tell.clone(), shutdown.clone(), is_gone.take());
                async move {
                    let last = worker.resume().await?.map_or(0, |found| found.last_id);
                    let _ = worker.checkpoint(&cursor(last + 1)).await?;
                    tell.send(last)?;
                    if let Some(is_gone) = is_gone {
                        is_gone.await?;
                    }
                    shutdown.stop("enough");
                    assert!(
                        worker
                            .until_stop(std::future::pending::<()>())
                            .await
                            .is_none()
                    );
                    let _ = worker.checkpoint(&cursor(last + 2)).await?;
                    Ok::<(), BoxError>(())
                }
            });
            Ok(())
        });
    let world = async {
        told.recv().await;
        server.stop();
        let _ = gone.send(());
    };
    Ok(tokio::join!(life, world).0)
}

async fn gone_at_the_stop_it_is_named<K: Kind>(server: &mut Server) -> Result<(), BoxError> {
    let report = lives::<K>(server, "named", None).await?;
    server.start();
    assert_eq!(report.exit_code(), 1, "{report}");
    let worker = report.part("named").expect("a part");
    // Said in time: at the end of the drain it would have been cut.
    assert_eq!(worker.outcome, Outcome::Failed, "{report}");
    let failure = worker.failure.as_ref().expect("why").to_string();
    assert!(failure.contains("state `named` was not saved"), "{failure}");
    assert!(!report.to_json().contains(PASSWORD), "{report}");
    let store = StoreHandle::new(K::open(&server.url()).await?);
    let found = store
        .state::<Cursor>("named")
        .load()
        .await?
        .expect("the one before");
    assert_eq!(found.value, cursor(1));
    Ok(())
}

async fn gone_at_the_stop_nothing_is_lost<K: Kind>(server: &mut Server) -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let report = lives::<K>(server, "kept", Some(&folder)).await?;
    server.start();
    assert_eq!(report.exit_code(), 0, "{report}");
    // The next life finds it, and the store has it from then on.
    let report = lives::<K>(server, "kept", Some(&folder)).await?;
    server.start();
    assert_eq!(report.exit_code(), 0, "{report}");
    let url = server.url();
    let open = async |fallback: bool| -> Result<Option<Cursor>, BoxError> {
        let path = folder.path().to_owned();
        let mut found = None;
        let report = adieu::scope("look")
            .run(async |app: &mut App| {
                let mut opening = app.store(async { K::open(&url).await });
                if fallback {
                    opening = opening.fallback(path);
                }
                let store = opening.await?;
                found = store
                    .state::<Cursor>("kept")
                    .load()
                    .await?
                    .map(|found| found.value);
                app.shutdown_handle().stop("seen");
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 0, "{report}");
        Ok(found)
    };
    assert_eq!(
        open(false).await?,
        Some(cursor(3)),
        "the fourth is in the file still"
    );
    assert_eq!(open(true).await?, Some(cursor(4)));
    assert_eq!(open(false).await?, Some(cursor(4)));
    // Another process went on from there: what is kept then is not used.
    let report = lives::<K>(server, "kept", Some(&folder)).await?;
    server.start();
    assert_eq!(report.exit_code(), 0, "{report}");
    let other = StoreHandle::new(K::open(&server.url()).await?);
    other.state("kept").save(&cursor(100)).await?;
    assert_eq!(open(true).await?, Some(cursor(100)));
    assert_eq!(open(true).await?, Some(cursor(100)));
    Ok(())
}

/// Its connections stay open, and nothing comes: the time is up all the same.
async fn a_silent_server_does_not_hold_up_the_stop<K: Kind>(
    server: &Server,
) -> Result<(), BoxError> {
    let store = StoreHandle::new(K::open(&server.url()).await?);
    let state = store.state::<Cursor>("silent");
    state.save(&cursor(1)).await?;
    let url = server.url();
    let (tell, told) = tokio::sync::oneshot::channel();
    let (frozen, is_frozen) = tokio::sync::oneshot::channel::<()>();
    let life = adieu::scope("silent")
        .grace(Duration::from_secs(2))
        .run(async |app: &mut App| {
            let store = app.store(async { K::open(&url).await }).await?;
            let shutdown = app.shutdown_handle();
            app.task("saver", move |_| async move {
                let state = store.state::<Cursor>("silent");
                let _ = tell.send(());
                is_frozen.await?;
                shutdown.stop("enough");
                state.save(&cursor(2)).await?;
                Ok::<(), BoxError>(())
            });
            Ok(())
        });
    let world = async {
        let _ = told.await;
        server.freeze();
        let _ = frozen.send(());
    };
    let report = tokio::join!(life, world).0;
    server.thaw();
    // Said in time: at the end of the drain it would have been cut.
    let saver = report.part("saver").expect("a part");
    assert_eq!(saver.outcome, Outcome::Failed, "{report}");
    assert!(
        report.to_string().contains("state `silent` was not saved"),
        "{report}"
    );
    Ok(())
}

async fn what_cannot_be_used_is_said<K: Kind>(server: &mut Server) -> Result<(), BoxError> {
    let wrong = "tell-nobody-of-this";
    let here = format!("127.0.0.1:{}", server.port());
    let refused = said(K::open(&server.url_with(wrong)).await);
    assert!(
        refused.contains(&here) && refused.contains("says no"),
        "{refused}"
    );
    if let Some(opened) = K::open_without(&server.url()).await {
        let missing = said(opened);
        assert!(missing.contains("no_such_place"), "{missing}");
        assert!(missing.contains("make it with: "), "{missing}");
    }
    let unread = said(K::open(&format!("no address: {wrong}")).await);
    assert!(
        unread.contains("cannot be read: it should look like"),
        "{unread}"
    );
    // A plain server that is asked for TLS: Redis says nothing to that, and is waited for in vain.
    let plain = said(K::open(&server.tls_url("127.0.0.1", false)).await);
    assert!(
        plain.contains("TLS") || plain.contains("timed out"),
        "{plain}"
    );
    assert!(!plain.contains(PASSWORD), "{plain}");
    server.stop();
    let unreachable = said(K::open(&server.url_with(wrong)).await);
    assert!(
        unreachable.contains(&format!("{here} is not available")),
        "{unreachable}"
    );
    for text in [refused, unread, unreachable] {
        assert!(!text.contains(wrong), "the password is not shown: {text}");
    }
    Ok(())
}

/// The error with all its causes, in both ways of writing it.
pub(crate) fn said<S>(opened: Result<S, BoxError>) -> String {
    let Err(error) = opened else {
        panic!("it cannot be used")
    };
    let mut text = format!("{error:?}\n{error}");
    let mut cause: Option<&dyn Error> = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    #[cfg(feature = "tls")]
    use adieu::queue::PostgresQueue;
    use adieu::state::PostgresStore;

    struct Postgres;

    impl Kind for Postgres {
        type Store = PostgresStore;

        async fn open(url: &str) -> Result<Self::Store, BoxError> {
            Ok(PostgresStore::connect(url).create_table().await?)
        }

        async fn open_without(url: &str) -> Option<Result<Self::Store, BoxError>> {
            let opened = PostgresStore::connect(url).table("no_such_place").await;
            Some(opened.map_err(Into::into))
        }
    }

    #[test]
    fn postgresql_stands_it_all() -> Result<(), BoxError> {
        stands::<Postgres>(fixture_servers::postgres())
    }

    #[cfg(feature = "tls")]
    #[test]
    fn postgresql_is_reached_in_secret() -> Result<(), BoxError> {
        crate::encrypted::holds::<Postgres, _>(
            fixture_servers::postgres_with_tls(),
            async |url| PostgresQueue::create(url, "jobs").await,
            async |queue| queue.push(b"one").await,
        )
    }

    /// `require` believes any server that answers, unless a setting says which CA may sign.
    #[cfg(feature = "tls")]
    #[tokio::test(flavor = "multi_thread")]
    async fn postgresql_knows_the_modes_that_others_know() -> Result<(), BoxError> {
        let server = match fixture_servers::postgres_with_tls() {
            Ok(server) => server,
            Err(absent) => {
                fixture_skip::missing(absent);
                return Ok(());
            }
        };
        let url = |mode: &str, name: &str, authority: bool| {
            let url = server.tls_url(name, authority);
            url.replace("sslmode=verify-full", &format!("sslmode={mode}"))
        };
        for (mode, name, authority, opens) in [
            ("disable", "localhost", false, false),
            ("require", "127.0.0.1", false, true),
            ("require", "127.0.0.1", true, true),
            ("verify-ca", "127.0.0.1", true, true),
            ("verify-ca", "localhost", false, false),
            ("verify-full", "127.0.0.1", true, false),
            ("verify-full", "localhost", true, true),
        ] {
            let opened = Postgres::open(&url(mode, name, authority)).await;
            assert_eq!(opened.is_ok(), opens, "{mode} {name} {authority}");
        }
        let other = url("require", "localhost", true).replace("authority.pem", "certificate.pem");
        let text = said(Postgres::open(&other).await);
        assert!(text.contains("TLS handshake with"), "{text}");
        Ok(())
    }

    #[tokio::test]
    async fn a_table_is_a_name_and_nothing_else() {
        for table in ["", "a b", "1a", "a.b.c", "a\"; DROP TABLE b; --"] {
            let opened = PostgresStore::connect("postgres://localhost")
                .table(table)
                .await;
            let error = opened.expect_err("no name").to_string();
            assert!(error.contains("cannot be a table"), "{error}");
        }
    }
}

#[cfg(feature = "redis")]
mod redis {
    use super::*;
    #[cfg(feature = "tls")]
    use adieu::queue::RedisQueue;
    use adieu::state::RedisStore;

    struct Redis;

    impl Kind for Redis {
        type Store = RedisStore;

        async fn open(url: &str) -> Result<Self::Store, BoxError> {
            Ok(RedisStore::connect(url).await?)
        }
    }

    #[test]
    fn redis_stands_it_all() -> Result<(), BoxError> {
        stands::<Redis>(fixture_servers::redis())
    }

    #[cfg(feature = "tls")]
    #[test]
    fn redis_is_reached_in_secret() -> Result<(), BoxError> {
        crate::encrypted::holds::<Redis, _>(
            fixture_servers::redis_with_tls(),
            async |url| RedisQueue::create(url, "jobs").await,
            async |queue| queue.push(b"one").await,
        )
    }
}

#[cfg(feature = "nats")]
mod nats {
    use super::*;
    #[cfg(feature = "tls")]
    use adieu::queue::NatsQueue;
    use adieu::state::NatsStore;

    struct Nats;

    impl Kind for Nats {
        type Store = NatsStore;

        async fn open(url: &str) -> Result<Self::Store, BoxError> {
            Ok(NatsStore::connect(url).create_bucket(1).await?)
        }

        async fn open_without(url: &str) -> Option<Result<Self::Store, BoxError>> {
            let opened = NatsStore::connect(url).bucket("no_such_place").await;
            Some(opened.map_err(Into::into))
        }
    }

    #[test]
    fn nats_stands_it_all() -> Result<(), BoxError> {
        stands::<Nats>(fixture_servers::nats())
    }

    #[cfg(feature = "tls")]
    #[test]
    fn nats_is_reached_in_secret() -> Result<(), BoxError> {
        crate::encrypted::holds::<Nats, _>(
            fixture_servers::nats_with_tls(),
            async |url| NatsQueue::create(url, "jobs").await,
            async |queue| queue.push(b"one").await,
        )
    }
}

/// The fallback is for the stop alone, and a compare-and-swap is never answered by it.
#[tokio::test]
async fn files_beside_files_are_apart() -> Result<(), BoxError> {
    let (folder, beside) = (TempDir::new()?, TempDir::new()?);
    let (path, aside) = (folder.path().to_owned(), beside.path().to_owned());
    let report = adieu::scope("files")
        .run(async |app: &mut App| {
            let store = app.store(FileStore::open(path)).fallback(aside).await?;
            store.state("k").save(&cursor(1)).await?;
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(!beside.path().join("k.json").exists());
    Ok(())
}
