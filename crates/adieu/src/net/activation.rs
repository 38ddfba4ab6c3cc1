//! Listeners from the parent process, by systemd's protocol: `LISTEN_FDS`.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::inherited::{InheritedFd, Origin};
use crate::error::Error;
use crate::util::sys;

/// systemd's protocol: descriptors from 3 on, so many, with names between colons, for the process of this number.
const VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID"];
/// The first descriptor of that protocol.
const FIRST: RawFd = 3;
/// No parent process passes more; a larger number is a typing error.
const MOST: u16 = 1_024;

/// Whether the descriptors were taken: the first service of a process has them.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Reads systemd's variables, takes the descriptors, and removes the variables if it may. No child takes them for its
/// own: they name this process.
pub(crate) fn from_environment() -> Result<Vec<InheritedFd>, Error> {
    let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let [count, names, pid] = VARIABLES.map(value);
    let (Some(count), Some(pid)) = (count, pid) else {
        return Ok(Vec::new());
    };
    // Meant for another process, of which we are a child: not ours to touch.
    if pid.parse() != Ok(std::process::id()) {
        return Ok(Vec::new());
    }
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    sys::remove_variables(&VARIABLES);
    let count = count
        .parse::<u16>()
        .ok()
        .filter(|count| *count <= MOST)
        .ok_or_else(|| {
            Error::config(format!(
                "LISTEN_FDS: `{count}` is not a number of descriptors up to {MOST}"
            ))
        })?;
    let names: Option<Vec<&str>> = names.as_deref().map(|names| names.split(':').collect());
    if let Some(names) = names
        .as_ref()
        .filter(|names| names.len() != usize::from(count))
    {
        return Err(Error::config(format!(
            "LISTEN_FDNAMES has {} names for the {count} descriptors of LISTEN_FDS",
            names.len()
        )));
    }
    (0..usize::from(count))
        .zip(FIRST..)
        .map(|(index, descriptor)| {
            let owned = sys::adopt(descriptor).map_err(|error| {
                Error::config(format!(
                    "LISTEN_FDS promises descriptor {descriptor}, but {error}"
                ))
            })?;
            Ok(InheritedFd {
                name: names.as_ref().map_or("", |names| names[index]).to_owned(),
                descriptor: owned,
                origin: Origin::Parent { descriptor },
                file: None,
            })
        })
        .collect()
}
