//! The command, made ready so that nothing has to be allocated between fork and exec.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::process::Rlimit;

/// Where a number as long as any process id stands to be filled in.
const PID_DIGITS: &str = "0000000000";

/// Variables of ours that are not the command's.
const NOT_PASSED_ON: &[&str] = &[
    "ADIEU_REPORT",
    "ADIEU_GRACE",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "EINHORN_FDS",
    "SERVER_STARTER_PORT",
    "SERVER_STARTER_GENERATION",
];

/// What to execute.
pub(super) struct ChildCommand {
    /// Where it may lie, in the order to be tried.
    pub(super) paths: Vec<CString>,
    pub(super) arguments: Vec<CString>,
    pub(super) environment: Vec<Variable>,
    /// Open here, and in the child from 3 on.
    pub(super) sockets: Vec<RawFd>,
    /// How many file descriptors it may have, if not as many as we.
    pub(super) file_limit: Option<Rlimit>,
}

/// One variable, as `NAME=value`.
#[derive(Debug)]
pub(super) struct Variable {
    pub(super) text: CString,
    /// Where the child writes its process id, over as many zeroes as it may need.
    pub(super) pid_at: Option<usize>,
}

/// What the environment says besides what we have ourselves.
#[derive(Default)]
pub(super) struct Environment {
    set: Vec<(OsString, OsString)>,
    pids: Vec<&'static str>,
}

impl Environment {
    pub(super) fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.set.push((name.into(), value.into()));
    }

    /// This variable is to have the process id of the command itself.
    pub(super) fn pid(&mut self, name: &'static str) {
        self.pids.push(name);
    }

    fn build(self) -> io::Result<Vec<Variable>> {
        let is_ours = |name: &OsStr| {
            NOT_PASSED_ON.iter().any(|it| *it == name)
                || name.as_bytes().starts_with(b"EINHORN_FD")
                || self.set.iter().any(|(it, _)| it == name)
        };
        let inherited = std::env::vars_os().filter(|(name, _)| !is_ours(name));
        let plain = inherited.chain(self.set.iter().cloned());
        let mut all = Vec::new();
        for (name, value) in plain {
            all.push(Variable {
                text: joined(&name, &value)?,
                pid_at: None,
            });
        }
        for name in self.pids {
            all.push(Variable {
                text: joined(name.as_ref(), PID_DIGITS.as_ref())?,
                pid_at: Some(name.len() + 1),
            });
        }
        Ok(all)
    }
}

fn joined(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    let mut text = name.to_owned();
    text.push("=");
    text.push(value);
    Ok(CString::new(text.into_vec())?)
}

impl ChildCommand {
    pub(super) fn new(
        words: &[OsString],
        environment: Environment,
        sockets: Vec<RawFd>,
    ) -> io::Result<Self> {
        let program = words.first().ok_or(io::ErrorKind::InvalidInput)?;
        let arguments = words
            .iter()
            .map(|word| CString::new(word.as_bytes()))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            paths: candidates(program)?,
            arguments,
            environment: environment.build()?,
            sockets,
            file_limit: None,
        })
    }
}

/// A name with a slash is a path; any other is looked for on PATH.
fn candidates(program: &OsStr) -> io::Result<Vec<CString>> {
    if program.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![CString::new(program.as_bytes())?]);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    std::env::split_paths(&path)
        .map(|folder| {
            Ok(CString::new(
                folder.join(program).into_os_string().into_vec(),
            )?)
        })
        .collect()
}

/// Writes the number over the zeroes, and ends the text behind it: to libsystemd, as to C, a number that begins
/// with a zero is octal. Allocates nothing.
pub(super) fn fill_in(digits: &mut [u8], number: u32) {
    let count = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for digit in digits.iter_mut().take(count).rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    if let Some(behind) = digits.get_mut(count) {
        *behind = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_process_id_is_filled_in() {
        for (number, text) in [
            (7, "7"),
            (28_192, "28192"),
            (4_194_304, "4194304"),
            (u32::MAX, "4294967295"),
        ] {
            let mut digits = [PID_DIGITS.as_bytes(), &[0]].concat();
            fill_in(&mut digits[..PID_DIGITS.len()], number);
            let filled = CStr::from_bytes_until_nul(&digits).unwrap();
            assert_eq!(filled.to_str(), Ok(text));
        }
    }
}
