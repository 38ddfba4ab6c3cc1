//! What goes wrong with typed values, whatever store they are in.

use std::fmt::Display;

use adieu_core::{StoreError, Version};

pub(crate) fn newer_format(key: impl Display, found: u32, known: u32) -> StoreError {
    StoreError::newer(format!(
        "state `{key}` is from a newer version of this program: its format is {found}, and only formats up \
         to {known} are known here; run that version again, or restore an older state"
    ))
}

pub(crate) fn unreadable(
    key: impl Display,
    version: Version,
    cause: serde_json::Error,
) -> StoreError {
    let what = format!(
        "state `{key}` (version {version}) is not what this program expects; it was left as it is"
    );
    StoreError::refused(what, cause)
}

pub(crate) fn not_json(key: impl Display, cause: serde_json::Error) -> StoreError {
    let what = format!("state `{key}` was not saved: it cannot be written as JSON");
    StoreError::refused(what, cause)
}

pub(crate) fn closed() -> StoreError {
    StoreError::unusable(
        "the store is closed already: save before the release of resources, in the task itself or in an \
         `on_cleanup` hook",
    )
}
