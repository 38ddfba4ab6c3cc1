//! The command line.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::check::CheckArgs;
use crate::demo::DemoArgs;
use crate::drill::DrillArgs;
use crate::health::HealthArgs;
use crate::one_command;

/// Graceful shutdown: test it, add it, lint for it.
#[derive(Debug, Parser)]
#[command(
    name = "adieu",
    version,
    arg_required_else_help = true,
    after_help = "\
examples:
  adieu drill --http http://127.0.0.1:{port}/ -- uvicorn shop:app --port {port}
  adieu run -- uvicorn shop:app
  adieu check .

pages: https://github.com/adieu-rs/adieu/blob/main/docs/README.md"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lint Python, Rust, Go, TypeScript and deployment files for code that breaks graceful shutdown.
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
            let args = one_command::read("adieu", "run", &words[1..]);
            let args = Box::new(args.unwrap_or_else(|error| error.exit()));
            let command = Command::Run(args);
            return Self { command };
        }
        Self::parse_from(words)
    }
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
            let alone =
                one_command::read::<RunArgs>("adieu", "run", &words).expect_err("no such wish");
            let all = [OsString::from("adieu")].into_iter().chain(words.clone());
            let among = Cli::try_parse_from(all).expect_err("no such wish");
            assert_eq!(alone.to_string(), among.to_string(), "{words:?}");
            assert_eq!(alone.exit_code(), among.exit_code(), "{words:?}");
        }
        let words = ["run", "--grace", "5s", "--", "sh", "-c", "--help"].map(OsString::from);
        let alone = one_command::read::<RunArgs>("adieu", "run", &words).expect("a wish");
        let all = [OsString::from("adieu")].into_iter().chain(words);
        let Command::Run(among) = Cli::try_parse_from(all).expect("a wish").command else {
            panic!("something else than `run`");
        };
        assert_eq!(format!("{alone:?}"), format!("{among:?}"));
    }
}
