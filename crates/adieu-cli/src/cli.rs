//! The command line.

use std::ffi::OsString;

use clap::{Args, FromArgMatches, Parser, Subcommand};

use crate::check::CheckArgs;
use crate::demo::DemoArgs;
use crate::drill::DrillArgs;
use crate::health::HealthArgs;

/// Services that end well.
#[derive(Debug, Parser)]
#[command(name = "adieu", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find what breaks a graceful stop, in Python, Rust and deployment files.
    Check(CheckArgs),
    Demo(DemoArgs),
    Drill(Box<DrillArgs>),
    Health(HealthArgs),
    Run(Box<crate::run::RunArgs>),
}

impl Cli {
    /// Reads what was asked for, or says what is wrong with it and exits.
    pub(crate) fn read() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        if words.get(1).is_some_and(|word| word == "run") {
            // Whoever starts a command waits for it, and the options of all others take half a millisecond to lay out.
            let args = Box::new(read_alone("run", &words[1..]).unwrap_or_else(|it| it.exit()));
            let command = Command::Run(args);
            return Self { command };
        }
        Self::parse_from(words)
    }
}

/// One command, with nothing else laid out. The first word is its name.
fn read_alone<T: Args + FromArgMatches>(
    name: &'static str,
    words: &[OsString],
) -> Result<T, clap::Error> {
    let command = clap::Command::new(name).bin_name(format!("adieu {name}"));
    let mut command = T::augment_args(command);
    let matches = command.try_get_matches_from_mut(words)?;
    T::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::run::RunArgs;

    /// Whichever way the words are read, a person sees the same.
    #[test]
    fn a_command_alone_says_what_it_says_among_the_others() {
        for words in [
            &["run"][..],
            &["run", "--help"],
            &["run", "-h"],
            &["run", "--version"],
            &["run", "--grac", "5s", "--", "true"],
            &["run", "--grace", "soon", "--", "true"],
            &["run", "--restart", "sometimes", "--", "true"],
            &["run", "--grace"],
            &["run", "--quiet", "--quiet", "--", "true"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let alone = read_alone::<RunArgs>("run", &words).expect_err("no such wish");
            let all = [OsString::from("adieu")].into_iter().chain(words.clone());
            let among = Cli::try_parse_from(all).expect_err("no such wish");
            assert_eq!(alone.to_string(), among.to_string(), "{words:?}");
            assert_eq!(alone.exit_code(), among.exit_code(), "{words:?}");
        }
        let words = ["run", "--grace", "5s", "--", "sh", "-c", "--help"].map(OsString::from);
        let alone = read_alone::<RunArgs>("run", &words).expect("a wish");
        let all = [OsString::from("adieu")].into_iter().chain(words);
        let Command::Run(among) = Cli::try_parse_from(all).expect("a wish").command else {
            panic!("something else than `run`");
        };
        assert_eq!(format!("{alone:?}"), format!("{among:?}"));
    }
}
