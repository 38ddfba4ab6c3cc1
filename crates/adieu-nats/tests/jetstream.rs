//! What NATS would do if it was let: answer from a replica that is behind, drop a job, take a dead letter for a second one.
#![cfg(unix)]

use std::time::Duration;

use adieu::queue::{NatsQueue, Queue, QueueError};
use adieu::state::{NatsStore, StoreHandle};
use adieu::{BoxError, Stop};
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use async_nats::jetstream::{self, Context};
use fixture_servers::{PASSWORD, Server, USER};
use futures_util::StreamExt;

/// Checks something on a server, if there is one here.
fn on_server(check: impl AsyncFnOnce(Server) -> Result<(), BoxError>) -> Result<(), BoxError> {
    let server = match fixture_servers::nats() {
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

async fn client(server: &Server) -> Result<async_nats::Client, BoxError> {
    let options = async_nats::ConnectOptions::with_user_and_password(USER.into(), PASSWORD.into());
    Ok(options
        .connect(format!("127.0.0.1:{}", server.port()))
        .await?)
}

/// A look that any server of the bucket may answer can be older than an acknowledged save. With one server there is none
/// that is behind, but it shows what it is asked.
#[test]
fn a_state_is_loaded_from_the_server_that_leads() -> Result<(), BoxError> {
    on_server(async |server| {
        let client = client(&server).await?;
        let context = jetstream::new(client.clone());
        // A bucket as `nats kv add` makes it, and earlier versions of this library.
        context
            .create_stream(Config {
                name: "KV_theirs".to_owned(),
                subjects: vec!["$KV.theirs.>".to_owned()],
                max_messages_per_subject: 2,
                allow_rollup: true,
                allow_direct: true,
                ..Config::default()
            })
            .await?;
        for bucket in ["theirs", "ours"] {
            let mut asked = client.subscribe("$JS.API.>").await?;
            let opening = NatsStore::connect(server.url()).bucket(bucket);
            let store = StoreHandle::new(opening.create_bucket(1).await?);
            let state = store.state::<u64>("k.1");
            assert_eq!(state.load().await?, None, "{bucket}");
            let version = state.save(&1).await?;
            state.compare_and_swap(version, &2).await?;
            let found = state.load().await?.expect("it was saved");
            assert_eq!(found.value, 2, "{bucket}");
            let stream = context.get_stream(format!("KV_{bucket}")).await?;
            // A person deletes it.
            let theirs = context.get_key_value(bucket).await?;
            theirs.delete("k=2E1").await?;
            assert_eq!(state.load().await?, None, "{bucket}");
            client.publish("$JS.API.end", "".into()).await?;
            let (mut direct, mut leading, mut ended) = (0, 0, false);
            // The server may answer a request before it passes it on to us.
            while !ended || direct + leading < 3 {
                let next = tokio::time::timeout(Duration::from_secs(30), asked.next()).await;
                let message = next.expect("three requests").expect("a connection");
                match message.subject.as_str() {
                    "$JS.API.end" => ended = true,
                    subject if subject.starts_with("$JS.API.DIRECT.GET.") => direct += 1,
                    subject if subject.starts_with("$JS.API.STREAM.MSG.GET.") => leading += 1,
                    _ => {}
                }
            }
            assert_eq!((direct, leading), (0, 3), "{bucket}");
            let is_direct = stream.cached_info().config.allow_direct;
            assert_eq!(is_direct, bucket == "theirs");
        }
        Ok(())
    })
}

/// Makes the streams of a queue, with this retention and this consumer.
async fn made(
    context: &Context,
    name: &str,
    retention: RetentionPolicy,
    consumer: pull::Config,
) -> Result<(), BoxError> {
    let dead = format!("{name}_dead");
    for (name, subject, retention) in [
        (name, name.to_owned(), retention),
        (&dead, format!("{name}.dead"), RetentionPolicy::Limits),
    ] {
        context
            .create_stream(Config {
                name: name.to_owned(),
                subjects: vec![subject],
                retention,
                ..Config::default()
            })
            .await?;
    }
    context.create_consumer_on_stream(consumer, name).await?;
    Ok(())
}

#[test]
fn a_queue_that_would_lose_jobs_is_not_opened() -> Result<(), BoxError> {
    on_server(async |server| {
        let context = jetstream::new(client(&server).await?);
        let good = || pull::Config {
            durable_name: Some("adieu".to_owned()),
            ack_policy: AckPolicy::Explicit,
            max_deliver: -1,
            ..pull::Config::default()
        };
        let url = server.url();
        let refused = async |name: &'static str, retention, consumer| {
            made(&context, name, retention, consumer).await?;
            let mut all = String::new();
            for opened in [
                NatsQueue::open(&url, name).await,
                NatsQueue::create(&url, name).await,
            ] {
                let error = opened.expect_err("jobs would be lost").to_string();
                assert!(error.contains(&format!("`{name}`")), "{error}");
                assert!(error.contains("run `NatsQueue::create`"), "{error}");
                assert!(!error.contains(PASSWORD), "{error}");
                all += &error;
            }
            Ok::<_, BoxError>(all)
        };
        let work = RetentionPolicy::WorkQueue;
        let five = pull::Config {
            max_deliver: 5,
            ..good()
        };
        let said = refused("five", work, five).await?;
        assert!(said.contains("delivers a job 5 times at most"), "{said}");
        let some = pull::Config {
            filter_subject: "some".to_owned(),
            ..good()
        };
        let said = refused("some", work, some).await?;
        assert!(said.contains("leaves out subjects"), "{said}");
        let none = pull::Config {
            ack_policy: AckPolicy::None,
            ..good()
        };
        let said = refused("kept", RetentionPolicy::Limits, none).await?;
        assert!(said.contains("retention Limits"), "{said}");
        made(&context, "good", work, good()).await?;
        NatsQueue::open(&url, "good").await?.push(b"a").await?;
        Ok(())
    })
}

/// Has one job become a dead letter.
async fn buried(queue: &NatsQueue, stop: &Stop) -> Result<(), QueueError> {
    queue.push(b"poison").await?;
    let jobs = queue.fetch(1, stop).await?;
    queue.bury(&jobs[0].receipt, "no sense").await
}

/// A stream that is made anew counts from 1 again: its first dead letter is not the one of before.
#[test]
fn a_dead_letter_of_a_stream_made_anew_is_another_one() -> Result<(), BoxError> {
    on_server(async |server| {
        let context = jetstream::new(client(&server).await?);
        let url = server.url();
        let report = adieu::scope("letters")
            .grace(Duration::from_secs(10))
            .run(async |app| {
                let stop = app.stop();
                for _ in 0..2 {
                    let queue = NatsQueue::create(&url, "letters").await?;
                    buried(&queue, &stop).await?;
                    context.delete_stream("letters").await?;
                }
                let dead = context.get_stream("letters_dead").await?;
                assert_eq!(dead.cached_info().state.messages, 2);
                app.shutdown_handle().stop("counted");
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 0, "{report}");
        Ok(())
    })
}
