//! Listeners from the parent process, by systemd's protocol: `LISTEN_FDS`.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::inherited::{InheritedFd, Origin};
use crate::error::Error;
use crate::util::{printable, sys};

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
    let Announced { count, names } = announced(&count, names.as_deref())?;
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

/// What the parent process says that it passes.
#[derive(Debug, PartialEq, Eq)]
struct Announced<'a> {
    count: u16,
    /// One for each descriptor, if there are names at all.
    names: Option<Vec<&'a str>>,
}

fn announced<'a>(count: &str, names: Option<&'a str>) -> Result<Announced<'a>, Error> {
    let count = count
        .parse::<u16>()
        .ok()
        .filter(|count| *count <= MOST)
        .ok_or_else(|| {
            Error::config(format!(
                "LISTEN_FDS: `{}` is not a number of descriptors up to {MOST}",
                printable::name(count)
            ))
        })?;
    let names: Option<Vec<&str>> = names.map(|names| names.split(':').collect());
    if let Some(names) = names
        .as_ref()
        .filter(|names| names.len() != usize::from(count))
    {
        return Err(Error::config(format!(
            "LISTEN_FDNAMES has {} names for the {count} descriptors of LISTEN_FDS",
            names.len()
        )));
    }
    Ok(Announced { count, names })
}

/// Reads a text as the values of `LISTEN_FDS` and, on a second line, `LISTEN_FDNAMES`. What is accepted keeps the
/// bounds, and what is refused has a reason that fits on a line.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_announced(text: &str) {
    let (count, names) = match text.split_once('\n') {
        Some((count, names)) => (count, Some(names)),
        None => (text, None),
    };
    match announced(count, names) {
        Ok(Announced { count, names }) => {
            assert!(count <= MOST);
            assert!(names.is_none_or(|names| names.len() == usize::from(count)));
        }
        Err(error) => {
            let words = error.to_string();
            assert!(words.contains("LISTEN_FD"), "{words}");
            assert!(
                words.len() < 4_096 && !words.contains(char::is_control),
                "{words:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_descriptor_has_a_name_or_none_has() {
        let names = |names| announced("2", names).expect("two descriptors").names;
        assert_eq!(names(None), None);
        assert_eq!(names(Some("web:")), Some(vec!["web", ""]));
        assert!(announced("2", Some("web")).is_err());
        assert!(announced("1024", None).is_ok() && announced("1025", None).is_err());
        for nonsense in ["", "-1", "1.0", "0x1", "99999999999999999999", "1 "] {
            assert!(announced(nonsense, None).is_err(), "{nonsense}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_within_bounds_or_refused_with_a_reason(
            text in "[0-9]{0,5}\n?[a-z:]{0,40}|\\PC{0,400}|(\\x00|\\x1b|\n|.){0,80}"
        ) {
            check_announced(&text);
        }
    }
}
