//! What the new process finds in its environment.

use std::os::fd::RawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The variable with the manifest.
pub(super) const VARIABLE: &str = "ADIEU_HANDOFF";

/// From one process to the next.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HandoffManifest {
    /// The process id of the one that hands over.
    pub(super) from: u32,
    /// The descriptor of the socket to talk over.
    pub(super) channel: RawFd,
    /// The descriptor of the socket over which connections move. A process that cannot move any does not say one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) connections: Option<RawFd>,
    pub(super) listeners: Vec<ListenerEntry>,
}

/// One listener.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ListenerEntry {
    pub(super) name: String,
    pub(super) descriptor: RawFd,
    /// Whether it ends with the service, and is not held by its parent process.
    pub(super) ours: bool,
    /// The file of a Unix socket, to be removed with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    /// The device and the inode of that file. A process of an older version does not say them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<(u64, u64)>,
}
