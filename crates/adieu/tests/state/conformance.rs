//! What every store has to do, whatever it is made of: one suite for all of them.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use adieu::BoxError;
use adieu::state::{Entry, Expected, Store, StoreHandle, Version};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    pub(crate) last_id: u64,
    #[serde(default)]
    pub(crate) note: String,
}

pub(crate) fn cursor(last_id: u64) -> Cursor {
    Cursor {
        last_id,
        note: String::new(),
    }
}

/// Runs all of it. `open` opens the same store each time; keys are the suite's own.
pub(crate) async fn holds<S: Store + Clone>(
    open: impl AsyncFn() -> Result<S, BoxError>,
) -> Result<(), BoxError> {
    let store = open().await?;
    let handle = StoreHandle::new(store.clone());
    what_is_saved_is_loaded(&handle).await?;
    keys_are_apart(&handle).await?;
    a_stale_version_is_refused(&handle).await?;
    creating_happens_once(&handle).await?;
    one_of_many_writers_wins(&handle).await?;
    no_increment_is_lost(&handle).await?;
    a_newer_format_is_an_error(&handle).await?;
    what_is_not_a_t_is_an_error(&handle).await?;
    large_and_odd_values_survive(&handle).await?;
    a_dropped_save_leaves_old_or_new(&store).await?;
    handle.close().await?;
    let closed = handle.state::<Cursor>("saved").load().await;
    assert!(closed.is_err(), "closed is closed");
    drop((handle, store));
    it_is_there_when_opened_again(open().await?).await
}

async fn what_is_saved_is_loaded(store: &StoreHandle) -> Result<(), BoxError> {
    let state = store.state::<Cursor>("saved");
    assert_eq!(state.load().await?, None);
    let first = state.save(&cursor(1)).await?;
    let second = state.save(&cursor(2)).await?;
    assert!(second > first, "versions grow");
    let found = state.load().await?.expect("it was saved");
    assert_eq!((found.version, found.value), (second, cursor(2)));
    Ok(())
}

async fn keys_are_apart(store: &StoreHandle) -> Result<(), BoxError> {
    let long = "k".repeat(60);
    let keys = [
        "schedule/digest",
        "schedule.digest",
        "..",
        "a b",
        "ünï",
        "A",
        "B.previous",
        "B",
        "%41",
        "*",
        ">",
        &long,
    ];
    for (number, key) in (0..).zip(keys) {
        let version = store.state(key).save(&cursor(number)).await;
        version.map_err(|error| format!("{key}: {error}"))?;
    }
    for (number, key) in (0..).zip(keys) {
        let found = store.state::<Cursor>(key).load().await?;
        assert_eq!(found.expect("it was saved").value, cursor(number), "{key}");
    }
    Ok(())
}

async fn a_stale_version_is_refused(store: &StoreHandle) -> Result<(), BoxError> {
    let state = store.state::<Cursor>("stale");
    let absent = state.compare_and_swap(Version(1), &cursor(0)).await;
    assert!(
        absent.is_err_and(|error| error.is_conflict()),
        "there is nothing to swap"
    );
    let first = state.save(&cursor(1)).await?;
    let second = state.compare_and_swap(first, &cursor(2)).await?;
    let late = state.compare_and_swap(first, &cursor(3)).await;
    let error = late.expect_err("another save was faster");
    assert!(error.is_conflict(), "{error}");
    assert!(error.to_string().contains("`stale`"), "{error}");
    assert_eq!(state.load().await?.map(|found| found.version), Some(second));
    Ok(())
}

async fn creating_happens_once(store: &StoreHandle) -> Result<(), BoxError> {
    let state = store.state::<Cursor>("created");
    state.create(&cursor(1)).await?;
    let again = state.create(&cursor(2)).await.expect_err("it is there");
    assert!(again.is_conflict(), "{again}");
    assert_eq!(
        state.load().await?.map(|found| found.value),
        Some(cursor(1))
    );
    Ok(())
}

async fn one_of_many_writers_wins(store: &StoreHandle) -> Result<(), BoxError> {
    let state = store.state::<Cursor>("raced");
    let mut version = state.create(&cursor(0)).await?;
    for round in 1..=10 {
        let writers = (0..8).map(|writer| {
            let state = state.clone();
            tokio::spawn(async move {
                let value = cursor(round * 100 + writer);
                state
                    .compare_and_swap(version, &value)
                    .await
                    .map(|won| (won, value))
            })
        });
        let mut winner = None;
        for writer in writers.collect::<Vec<_>>() {
            match writer.await? {
                Ok(won) => assert!(winner.replace(won).is_none(), "two have won"),
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        }
        let (won, value) = winner.expect("one wins");
        let found = state.load().await?.expect("it is there");
        assert_eq!((found.version, found.value), (won, value));
        version = won;
    }
    Ok(())
}

async fn no_increment_is_lost(store: &StoreHandle) -> Result<(), BoxError> {
    let state = store.state::<Cursor>("counted");
    state.create(&cursor(0)).await?;
    let writers = (0..4).map(|_| {
        let state = state.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let found = state.load().await?.expect("it is there");
                    let next = cursor(found.value.last_id + 1);
                    match state.compare_and_swap(found.version, &next).await {
                        Ok(_) => break,
                        Err(error) if error.is_conflict() => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(())
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await??;
    }
    assert_eq!(
        state.load().await?.map(|found| found.value),
        Some(cursor(40))
    );
    Ok(())
}

async fn a_newer_format_is_an_error(store: &StoreHandle) -> Result<(), BoxError> {
    let new = store.state::<Cursor>("format").format(3);
    new.save(&cursor(7)).await?;
    let old = store.state::<Cursor>("format").format(2);
    let error = old.load().await.expect_err("it is from the future");
    assert!(error.is_newer(), "{error}");
    assert_eq!(
        error.to_string(),
        "state `format` is from a newer version of this program: its format is 3, and only formats up to 2 are \
         known here; run that version again, or restore an older state"
    );
    assert_eq!(new.load().await?.map(|found| found.value), Some(cursor(7)));
    let newer = store.state::<Cursor>("format").format(4);
    assert_eq!(
        newer.load().await?.map(|found| found.value),
        Some(cursor(7))
    );
    Ok(())
}

async fn what_is_not_a_t_is_an_error(store: &StoreHandle) -> Result<(), BoxError> {
    let version = store.state("typed").save(&"text".to_owned()).await?;
    let error = store
        .state::<Cursor>("typed")
        .load()
        .await
        .expect_err("no cursor");
    assert!(error.to_string().contains("`typed`"), "{error}");
    let found = store
        .state::<String>("typed")
        .load()
        .await?
        .expect("still there");
    assert_eq!((found.version, &*found.value), (version, "text"));
    Ok(())
}

async fn large_and_odd_values_survive(store: &StoreHandle) -> Result<(), BoxError> {
    let state = store.state::<String>("large");
    for value in ["", "\u{0}\n\t\"\\ü\u{1F600}", &"x".repeat(512 << 10)] {
        state.save(&value.to_owned()).await?;
        let found = state.load().await?.expect("it was saved");
        assert!(found.value == value, "{} bytes", value.len());
    }
    Ok(())
}

/// Polled so many times and then dropped: there is the old entry or the new one, and nothing arrives later than
/// something else.
async fn a_dropped_save_leaves_old_or_new(store: &impl Store) -> Result<(), BoxError> {
    let entry = |number: u64| Entry::new(1, number, format!("{{\"last_id\":{number}}}"));
    store.save("dropped", Expected::Absent, &entry(0)).await?;
    for number in 1..=20 {
        let found = store.load("dropped").await?.expect("it is there");
        let next = entry(number);
        {
            let mut saving = pin!(store.save("dropped", Expected::Version(found.version), &next));
            for _ in 0..number / 2 {
                if saving
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()))
                    .is_ready()
                {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // What was dropped arrives before this or never.
        let settled = loop {
            let before = store.load("dropped").await?.expect("it is there");
            assert!([&found.entry.value, &next.value].contains(&&before.entry.value));
            match store
                .save(
                    "dropped",
                    Expected::Version(before.version),
                    &entry(100 + number),
                )
                .await
            {
                Ok(version) => break version,
                Err(error) => assert!(error.is_conflict(), "{error}"),
            }
        };
        let last = store.load("dropped").await?.expect("it is there");
        assert_eq!(
            (last.version, last.entry.value),
            (settled, entry(100 + number).value)
        );
    }
    Ok(())
}

async fn it_is_there_when_opened_again(store: impl Store) -> Result<(), BoxError> {
    let store = StoreHandle::new(store);
    let state = store.state::<Cursor>("saved");
    let found = state.load().await?.expect("it was saved");
    assert_eq!(found.value, cursor(2));
    assert!(
        state.save(&cursor(3)).await? > found.version,
        "versions still grow"
    );
    store.close().await?;
    Ok(())
}
