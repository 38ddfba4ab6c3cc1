//! Our own examples, which have to pass what they drill others for.

use std::env;
use std::path::PathBuf;

use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

const EXAMPLES: &[&str] = &["example-web", "example-echo", "example-orders"];
/// How often each check is repeated.
const REPEAT: &str = "20";

/// Builds them and drills them as `drill.toml` says.
pub(crate) fn drill(checkout: &Checkout, dev: bool, quick: bool) -> Result<(), Failure> {
    let (profile, folder) = if dev {
        ("dev", "debug")
    } else {
        ("release", "release")
    };
    let mut build = checkout.cargo(["build", "--profile", profile, "--package", "adieu-cli"]);
    for example in EXAMPLES {
        build.args(["--package", example]);
    }
    command::run(&mut build)?;
    let programs = checkout.root().join("target").join(folder);
    let mut drill = checkout.program(programs.join("adieu"));
    drill.args(["drill", "--file", "drill.toml"]);
    if quick {
        drill.arg("--quick");
    } else {
        drill.args(["--full", "--repeat", REPEAT]);
    }
    // The file names them without a directory.
    drill.env("PATH", first(programs)?);
    command::run(&mut drill)
}

/// The path to look for programs on, with this directory first.
fn first(folder: PathBuf) -> Result<std::ffi::OsString, Failure> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [folder].into_iter().chain(env::split_paths(&path));
    env::join_paths(folders).map_err(|error| Failure::new(error.to_string()))
}
