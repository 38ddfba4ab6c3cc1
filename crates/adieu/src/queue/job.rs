//! A job, as its handler has it.

use serde::de::DeserializeOwned;

use crate::util::retry::Permanent;

/// A job to do.
///
/// The handler says how it went by what it returns: `Ok` and the job is done; an error and it is tried again later;
/// [`RetryAfter`](crate::retry::RetryAfter) and it is tried again without counting; [`Permanent`] and it becomes a dead letter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Job {
    /// Its name in logs, unique within the queue.
    pub id: String,
    /// What is to be done.
    pub payload: Vec<u8>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
}

impl Job {
    /// The payload, read as JSON.
    ///
    /// # Errors
    /// It is something else. That is a [`Permanent`]: passed on with `?`, it makes the job a dead letter.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Permanent> {
        serde_json::from_slice(&self.payload).map_err(Permanent::new)
    }

    /// The payload as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.payload)
    }
}
