//! What the log says of state: which, which version, how large; never what is in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use adieu::BoxError;
use adieu::state::{FileStore, StoreHandle};
use tempfile::TempDir;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::conformance::Cursor;

type Fields = BTreeMap<String, String>;

/// Keeps the events of this library.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<(Level, Fields)>>>);

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("adieu")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let mut kept = self.0.lock().expect("no panic");
        kept.push((*event.metadata().level(), fields));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn fields(of: &[(&str, &str)]) -> Fields {
    of.iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

#[tokio::test]
async fn loaded_and_saved_is_logged_without_the_content() -> Result<(), BoxError> {
    let log = Kept::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let folder = TempDir::new()?;
    let store = StoreHandle::new(FileStore::open(folder.path()).await?);
    let state = store.state::<Cursor>("importer").format(2);
    assert_eq!(state.load().await?, None);
    let secret = Cursor {
        last_id: 7,
        note: "tell-nobody".to_owned(),
    };
    let version = state.save(&secret).await?;
    state.compare_and_swap(version, &secret).await?;
    assert!(state.load().await?.is_some());
    let bytes = serde_json::to_string(&secret)?.len().to_string();
    let expected = |message: &str, version: &str| {
        fields(&[
            ("bytes", &bytes),
            ("format", "2"),
            ("key", "\"importer\""),
            ("message", message),
            ("version", version),
        ])
    };
    let nothing = fields(&[
        ("key", "\"importer\""),
        ("message", "no state was saved yet"),
    ]);
    let kept = log.0.lock().expect("no panic").clone();
    assert_eq!(
        kept,
        [
            (Level::INFO, nothing),
            (Level::DEBUG, expected("state saved", "1")),
            (Level::DEBUG, expected("state saved", "2")),
            (Level::INFO, expected("state loaded", "2")),
        ]
    );
    assert!(!format!("{kept:?}").contains("tell-nobody"));
    Ok(())
}
