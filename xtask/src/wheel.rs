//! `cargo xtask wheel`: the command as a Python wheel, built, installed into a fresh environment, and tried there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

const HELP: &str = "\
The command as a Python wheel.

usage: cargo xtask wheel [--dev]

  --dev   an unoptimised build, to try the way there

Builds the wheel with maturin, which is fetched into an environment under target/wheel if it is not on PATH, installs
it into a fresh one, and runs `adieu run` and `adieu health` from there. Needs python3 with venv and, without maturin,
a package index.

exit code: 0 built and tried, 1 not, 2 usage
";

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let dev = match words {
        [] => false,
        ["--dev"] => true,
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [unknown, ..] => {
            return crate::usage(
                &format!("`wheel` has no option `{unknown}`"),
                "wheel --help",
            );
        }
    };
    match build_and_try(&Checkout::here(), dev) {
        Ok(wheel) => {
            println!("{}", wheel.display());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn build_and_try(checkout: &Checkout, dev: bool) -> Result<PathBuf, Failure> {
    let folder = checkout.root().join("target/wheel");
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|error| Failure::new(error.to_string()))?;
    }
    let maturin = maturin(checkout, &folder)?;
    let mut build = checkout.program(maturin);
    build.args(["build", "--locked", "--out"]).arg(&wheels);
    if !dev {
        build.args(["--profile", "dist"]);
    }
    command::run(&mut build)?;
    let wheel = only_wheel(&wheels)?;
    let fresh = folder.join("fresh");
    environment(checkout, &fresh)?;
    let mut install = checkout.program(fresh.join("bin/pip"));
    let flags = ["install", "--quiet", "--no-index", "--no-deps"];
    command::run(install.args(flags).arg(&wheel))?;
    let adieu = fresh.join("bin/adieu");
    // Its version is the one that pip believes it has.
    let listed = command::ask(
        checkout
            .program(fresh.join("bin/pip"))
            .args(["show", "adieu"]),
    )?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let version = listed.lines().find_map(|it| it.strip_prefix("Version: "));
    let version = version.ok_or_else(|| Failure::new("pip has not installed it"))?;
    expect(
        checkout,
        &adieu,
        &["--version"],
        &format!("adieu {version}"),
    )?;
    expect(
        checkout,
        &adieu,
        &["run", "--quiet", "--", "echo", "hello"],
        "hello",
    )?;
    // By the name that a shell finds in the environment.
    let mut python = checkout.program(fresh.join("bin/python"));
    let code = "import shutil, subprocess, sysconfig; \
                adieu = shutil.which('adieu', path=sysconfig.get_path('scripts')); \
                subprocess.run([adieu, 'health', '--help'], check=True, stdout=subprocess.DEVNULL)";
    command::run(python.args(["-c", code]))?;
    Ok(wheel)
}

fn expect(
    checkout: &Checkout,
    adieu: &Path,
    words: &[&str],
    expected: &str,
) -> Result<(), Failure> {
    let said = command::ask(checkout.program(adieu).args(words))?;
    let said = String::from_utf8_lossy(&said);
    if said.trim_end() == expected {
        return Ok(());
    }
    let words = words.join(" ");
    Err(Failure::new(format!(
        "`adieu {words}` from the wheel says `{said}` in the place of `{expected}`"
    )))
}

/// The one on PATH, or one of our own.
fn maturin(checkout: &Checkout, folder: &Path) -> Result<PathBuf, Failure> {
    if command::succeeds(checkout.program("maturin").arg("--version")) {
        return Ok("maturin".into());
    }
    let tools = folder.join("tools");
    let program = tools.join("bin/maturin");
    if !command::succeeds(checkout.program(&program).arg("--version")) {
        environment(checkout, &tools)?;
        let mut install = checkout.program(tools.join("bin/pip"));
        command::run(install.args(["install", "--quiet", "maturin>=1.9,<2"]))?;
    }
    Ok(program)
}

fn environment(checkout: &Checkout, folder: &Path) -> Result<(), Failure> {
    let mut make = checkout.program("python3");
    command::run(make.args(["-m", "venv", "--clear"]).arg(folder))
}

fn only_wheel(folder: &Path) -> Result<PathBuf, Failure> {
    let wheels = fs::read_dir(folder).map_err(|error| Failure::new(error.to_string()))?;
    wheels
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|it| it == "whl"))
        .ok_or_else(|| Failure::new("maturin left no wheel"))
}
