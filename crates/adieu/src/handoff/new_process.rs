//! The side that takes over: holds back until the process before it has let go.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use adieu_lifecycle::Cause;

use super::manifest::{HandoffManifest, VARIABLE};
use crate::error::Error;
use crate::net::{InheritedFd, Origin, SocketFile};
use crate::report::Notice;
use crate::runtime::shared::{DriverMessage, ServiceShared};
use crate::util::sys;

/// The process before this one, as long as it may change its mind.
pub(crate) struct Predecessor {
    pub(crate) pid: u32,
    channel: UnixStream,
    /// Where its connections come from.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "no connections come there")
    )]
    connections: Option<OwnedFd>,
}

/// Whether the manifest was read: it is for the first service of a process.
static READ: AtomicBool = AtomicBool::new(false);

/// Finds out whether another process is about to hand over to this one, and takes what it gives.
pub(crate) fn from_environment() -> Result<Option<(Predecessor, Vec<InheritedFd>)>, Error> {
    let Some(text) = env::var_os(VARIABLE) else {
        return Ok(None);
    };
    if READ.swap(true, Ordering::AcqRel) {
        return Ok(None);
    }
    sys::remove_variables(&[VARIABLE]);
    let broken = |what: String| Error::config(format!("{VARIABLE}: {what}"));
    let manifest: HandoffManifest =
        serde_json::from_str(&text.to_string_lossy()).map_err(|error| {
            broken(format!(
                "it is for adieu to write, and not in its form: {error}"
            ))
        })?;
    let pid = manifest.from;
    if std::os::unix::process::parent_id() != pid {
        // A child of the one it was for: that one has taken the channel and keeps it from its children.
        if !sys::is_open(manifest.channel) {
            return Ok(None);
        }
        return Err(broken(format!(
            "it is for the child of process {pid}, and this is not its child: a script around the program must \
             `exec` it"
        )));
    }
    let adopt = |descriptor| {
        sys::adopt(descriptor).map_err(|error| broken(format!("descriptor {descriptor}: {error}")))
    };
    let channel = UnixStream::from(adopt(manifest.channel)?);
    let connections = manifest.connections.map(adopt).transpose()?;
    let inherited_fds = manifest
        .listeners
        .into_iter()
        .map(|item| {
            Ok(InheritedFd {
                descriptor: adopt(item.descriptor)?,
                name: item.name,
                origin: Origin::Predecessor {
                    pid,
                    ours: item.ours,
                },
                file: item.file.and_then(|path| match item.identity {
                    Some(identity) => Some(SocketFile::known(path, identity)),
                    None => SocketFile::at(&path).ok(),
                }),
            })
        })
        .collect::<Result<_, Error>>()?;
    let predecessor = Predecessor {
        pid,
        channel,
        connections,
    };
    Ok(Some((predecessor, inherited_fds)))
}

impl Predecessor {
    /// Listens to it until it has let go or has given up.
    pub(crate) fn await_release(self, core: &Arc<ServiceShared>) -> std::io::Result<()> {
        let reader = BufReader::new(self.channel.try_clone()?);
        let pid = self.pid;
        core.listeners().await_predecessor(self.channel);
        #[cfg(target_os = "linux")]
        if let Some(connections) = self.connections {
            core.transfer().expect(pid, connections);
        }
        let core = Arc::clone(core);
        thread::Builder::new()
            .name("adieu-takeover".into())
            .spawn(move || {
                let mut was_released = false;
                for line in reader.lines().map_while(Result::ok) {
                    match line.as_str() {
                        "go" => core.mailbox.push(DriverMessage::MayRun),
                        "yours" => {
                            was_released = true;
                            break;
                        }
                        _ => {}
                    }
                }
                if was_released {
                    core.listeners().predecessor_released();
                    core.note(Notice::TookOver { pid });
                } else {
                    core.listeners().predecessor_gave_up();
                    let why = format!("process {pid} gave the hand-off up");
                    core.request_stop(Cause::Requested(why.into()));
                }
            })?;
        Ok(())
    }
}

impl ServiceShared {
    /// Setup is done: the old process is notified once every check passes. It has its own limit for the wait.
    pub(crate) fn announce_ready(self: &Arc<Self>) {
        #[cfg(feature = "admin")]
        if self.admin().has_checks() {
            let core = Arc::clone(self);
            // Ends with the stop, which makes the checks pass for good.
            self.runtime.spawn(async move {
                while !core.admin().all_pass(&core.runtime).await {
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                }
                core.listeners().say_ready();
            });
            return;
        }
        self.listeners().say_ready();
    }
}
