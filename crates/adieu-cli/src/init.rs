//! `adieu-init`: `adieu run` and `adieu health` alone, for images in which every megabyte counts.

mod health;
mod one_command;
#[allow(dead_code, reason = "the commands that are not in here need the rest")]
mod output;
#[cfg_attr(not(target_os = "linux"), path = "run_unsupported.rs")]
mod run;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

const HELP: &str = "\
The init of a container: `adieu run` and `adieu health` alone

Usage: adieu-init [run] [OPTIONS] [--] COMMAND...
       adieu-init health <URL>

Commands:
  run     Run a command with graceful shutdown; the word `run` may be left out
  health  Ask a health endpoint

`adieu-init run --help` and `adieu-init health --help` list the options. Those of tini and dumb-init are among them:
`tini -g -- server` becomes `adieu-init -g -- server`.
";

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match words.first().map(|word| word.to_string_lossy()).as_deref() {
        None => {
            output::error("no command is given\n");
            print(HELP, output::ExitKind::Usage)
        }
        Some("help" | "--help" | "-h") => print(HELP, output::ExitKind::Clean),
        Some("--version" | "-V") => {
            let version = concat!("adieu-init ", env!("CARGO_PKG_VERSION"), "\n");
            print(version, output::ExitKind::Clean)
        }
        Some("health") => {
            let args = one_command::read("adieu-init", "health", &words);
            health::run(args.unwrap_or_else(|error| error.exit()))
        }
        _ => {
            run::catch_signals_early();
            let args = one_command::read("adieu-init", "run", &words_of_run(words));
            run::run(args.unwrap_or_else(|error| error.exit()))
        }
    }
}

/// With the word `run` before them, whether it was given or not.
fn words_of_run(words: Vec<OsString>) -> Vec<OsString> {
    let is_given = words.first().is_some_and(|word| word == "run");
    let name = (!is_given).then(|| OsStr::new("run").to_owned());
    name.into_iter().chain(words).collect()
}

fn print(text: &str, kind: output::ExitKind) -> ExitCode {
    match output::print(text) {
        Ok(()) => kind.into(),
        Err(problem) => {
            output::error(problem);
            output::ExitKind::Usage.into()
        }
    }
}
