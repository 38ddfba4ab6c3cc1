//! The way to a server with TLS: a server with the right certificate is believed, and no other.

use std::sync::Arc;
use std::sync::Mutex;

use adieu::BoxError;
use adieu::queue::{Job, Queue, QueueError};
use adieu::state::StoreHandle;
use fixture_servers::{Absent, PASSWORD, Server};

use crate::conformance::{Cursor, cursor};
use crate::servers::{Kind, on, said};

/// What every engine has to stand. The server takes no connection that is not encrypted.
pub(crate) fn holds<K: Kind, Q: Queue + Clone>(
    server: Result<Server, Absent>,
    queue: impl AsyncFn(&str) -> Result<Q, QueueError>,
    push: impl AsyncFn(&Q) -> Result<(), QueueError>,
) -> Result<(), BoxError> {
    on(server, async |mut server| {
        let right = server.tls_url("localhost", true);
        let jobs = queue(&right).await?;
        push(&jobs).await?;
        assert_eq!(one_job(jobs).await, "one");
        let store = StoreHandle::new(K::open(&right).await?);
        let state = store.state::<Cursor>("secret");
        state.save(&cursor(1)).await?;
        // Also when the connection is made anew.
        server.stop();
        server.start();
        state.save(&cursor(2)).await?;
        assert_eq!(state.load().await?.expect("it was saved").value, cursor(2));
        let wrong_name = server.tls_url("127.0.0.1", true);
        let nobody_known = server.tls_url("localhost", false);
        let signed_nothing = right.replace("authority.pem", "certificate.pem");
        for url in [&wrong_name, &nobody_known, &signed_nothing] {
            for text in [
                said(K::open(url).await),
                said(queue(url).await.map_err(BoxError::from)),
            ] {
                assert!(text.contains("TLS handshake with"), "{text}");
                assert!(text.contains("certificate"), "{text}");
                assert!(!text.contains(PASSWORD), "{text}");
            }
        }
        let missing = right.replace("authority.pem", "no-such.pem");
        for text in [
            said(K::open(&missing).await),
            said(queue(&missing).await.map_err(BoxError::from)),
        ] {
            assert!(text.contains("no-such.pem` cannot be used"), "{text}");
            assert!(!text.contains(PASSWORD), "{text}");
        }
        Ok(())
    })
}

/// Takes one job, and stops.
async fn one_job(queue: impl Queue) -> String {
    let seen = Arc::new(Mutex::new(String::new()));
    let report = adieu::scope("encrypted")
        .run(async |app| {
            let (handle, seen) = (app.shutdown_handle(), Arc::clone(&seen));
            app.consume("jobs", queue, move |job: Job| {
                *seen.lock().expect("no panic") = job.text().into_owned();
                handle.stop("seen");
                async {}
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    seen.lock().expect("no panic").clone()
}
