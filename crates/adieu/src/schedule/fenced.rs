//! State that only the run with the lease can change.
//!
//! Beside the value stands the token of the last run that has looked at it. A run that comes later writes its token
//! when it looks, so from then on a save of an older run fails: its token is lower, and the version it has seen is
//! gone. No clock is part of this.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::lease::ScheduleRecord;
use crate::state::{State, StoreError, Version};

#[derive(Serialize, Deserialize)]
pub(super) struct FencedValue<T> {
    fence: u64,
    value: Option<T>,
}

/// State that only the run with the lease can change. Made by [`Run::state`](crate::schedule::Run::state).
///
/// A run that was paused and whose lease another replica has taken meanwhile gets an error from every call; what the
/// other one has seen and written stays as it is.
pub struct Fenced<T> {
    state: State<FencedValue<T>>,
    lease: Option<State<ScheduleRecord>>,
    token: u64,
}

impl<T> Fenced<T> {
    pub(super) const fn new(
        state: State<FencedValue<T>>,
        lease: Option<State<ScheduleRecord>>,
        token: u64,
    ) -> Self {
        Self {
            state,
            lease,
            token,
        }
    }

    fn overtaken(&self, by: u64) -> StoreError {
        StoreError::refused(
            format!("state `{}` belongs to a later run now", self.state.key()),
            format!(
                "this run has token {}, and token {by} was given since",
                self.token
            ),
        )
    }
}

impl<T: Serialize + DeserializeOwned> Fenced<T> {
    /// The value, if there is one.
    ///
    /// Dropped half-way, it has changed nothing but the token.
    ///
    /// # Errors
    /// The store is not available, what is there cannot be read, or a later run has it.
    pub async fn load(&self) -> Result<Option<T>, StoreError> {
        loop {
            let (version, found) = self.look().await?;
            if found.fence == self.token && version.is_some() {
                return Ok(found.value);
            }
            let stamped = FencedValue {
                fence: self.token,
                value: found.value,
            };
            match self.replace(version, &stamped).await {
                Ok(_) => return Ok(stamped.value),
                Err(error) if error.is_conflict() || error.is_unknown() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Saves the value. It is durable when this returns.
    ///
    /// Dropped half-way, it leaves the old value or the new one.
    ///
    /// # Errors
    /// The store is not available, or a later run has it: nothing was changed.
    pub async fn save(&self, value: T) -> Result<(), StoreError> {
        let stamped = FencedValue {
            fence: self.token,
            value: Some(value),
        };
        loop {
            let (version, _) = self.look().await?;
            match self.replace(version, &stamped).await {
                Err(error) if error.is_conflict() || error.is_unknown() => {}
                other => return other.map(drop),
            }
        }
    }

    /// What is there, if it and the lease are still this run's.
    async fn look(&self) -> Result<(Option<Version>, FencedValue<T>), StoreError> {
        // In this order: a replica that takes the lease after the second look changes the version that was seen in the first
        // before it trusts the value.
        let found = self.state.load_quietly().await?;
        if let Some(lease) = &self.lease {
            let given = lease
                .load_quietly()
                .await?
                .map_or(0, |found| found.value.token);
            if given != self.token {
                return Err(self.overtaken(given));
            }
        }
        Ok(match found {
            Some(found) if found.value.fence > self.token => {
                return Err(self.overtaken(found.value.fence));
            }
            Some(found) => (Some(found.version), found.value),
            None => {
                let (fence, value) = (0, None);
                (None, FencedValue { fence, value })
            }
        })
    }

    async fn replace(
        &self,
        found: Option<Version>,
        stamped: &FencedValue<T>,
    ) -> Result<Version, StoreError> {
        match found {
            Some(version) => self.state.compare_and_swap(version, stamped).await,
            None => self.state.create(stamped).await,
        }
    }
}

impl<T> fmt::Debug for Fenced<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced")
            .field("key", &self.state.key())
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
