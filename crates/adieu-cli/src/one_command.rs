//! The options of one command, with nothing else laid out.

use std::ffi::OsString;

use clap::{Args, FromArgMatches};

/// Reads the words of a command; the first one is its name. A parent process waits for a command that is started, and the
/// options of all commands take half a millisecond to lay out.
pub(crate) fn read<T: Args + FromArgMatches>(
    program: &str,
    name: &'static str,
    words: &[OsString],
) -> Result<T, clap::Error> {
    let command = clap::Command::new(name).bin_name(format!("{program} {name}"));
    let mut command = T::augment_args(command);
    let matches = command.try_get_matches_from_mut(words)?;
    T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}
