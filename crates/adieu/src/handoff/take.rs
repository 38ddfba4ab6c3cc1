//! The side that takes over: holds back until the process before it has let go.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use super::letter::{Letter, VARIABLE};
use crate::core::{Core, Message};
use crate::error::Error;
use crate::lifecycle::Cause;
use crate::net::{Heirloom, Origin};
use crate::sys;

/// The process before this one, as long as it may change its mind.
pub(crate) struct Predecessor {
    pub(crate) pid: u32,
    channel: UnixStream,
}

/// Finds out whether another process is about to hand over to this one, and takes what it gives.
pub(crate) fn from_environment() -> Result<Option<(Predecessor, Vec<Heirloom>)>, Error> {
    let Some(text) = env::var_os(VARIABLE) else {
        return Ok(None);
    };
    sys::remove_variables(&[VARIABLE]);
    let broken = |what: String| Error::config(format!("{VARIABLE}: {what}"));
    let letter: Letter = serde_json::from_str(&text.to_string_lossy()).map_err(|error| {
        broken(format!(
            "it is for adieu to write, and not in its form: {error}"
        ))
    })?;
    let pid = letter.from;
    if std::os::unix::process::parent_id() != pid {
        return Err(broken(format!(
            "it is for the child of process {pid}, and this is not its child: a script around the program must \
             `exec` it"
        )));
    }
    let adopt = |descriptor| {
        sys::adopt(descriptor).map_err(|error| broken(format!("descriptor {descriptor}: {error}")))
    };
    let channel = UnixStream::from(adopt(letter.channel)?);
    let heirlooms = letter
        .listeners
        .into_iter()
        .map(|item| {
            Ok(Heirloom {
                descriptor: adopt(item.descriptor)?,
                name: item.name,
                origin: Origin::Predecessor {
                    pid,
                    ours: item.ours,
                },
                file: item.file,
            })
        })
        .collect::<Result<_, Error>>()?;
    Ok(Some((Predecessor { pid, channel }, heirlooms)))
}

impl Predecessor {
    /// Listens to it until it has let go or has given up.
    pub(crate) fn attend(self, core: &Arc<Core>) -> std::io::Result<()> {
        let hearing = BufReader::new(self.channel.try_clone()?);
        let pid = self.pid;
        core.estate.await_predecessor(self.channel);
        let core = Arc::clone(core);
        thread::Builder::new()
            .name("adieu-takeover".into())
            .spawn(move || {
                let mut has_let_go = false;
                for line in hearing.lines().map_while(Result::ok) {
                    match line.as_str() {
                        "go" => core.inbox.push(Message::MayServe),
                        "yours" => {
                            has_let_go = true;
                            break;
                        }
                        _ => {}
                    }
                }
                if has_let_go {
                    core.estate.let_go();
                    core.inbox.push(Message::TookOver(pid));
                } else {
                    core.estate.given_up();
                    let why = format!("process {pid} gave the hand-off up");
                    core.request_stop(Cause::Requested(why.into()));
                }
            })?;
        Ok(())
    }
}

impl Core {
    /// Set-up is done: the predecessor hears of it once every check passes. It knows how long it will wait.
    pub(crate) fn prepare(self: &Arc<Self>) {
        #[cfg(feature = "admin")]
        if self.office.has_checks() {
            let core = Arc::clone(self);
            // Ends with the stop, which makes the checks pass for good.
            self.runtime.spawn(async move {
                while !core.office.all_pass(&core.runtime).await {
                    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
                }
                core.estate.say_ready();
            });
            return;
        }
        self.estate.say_ready();
    }
}
