//! The packages and both tools, in `target/corpus`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Failure;

/// What the comparison needs.
pub(crate) struct Corpus {
    pub(crate) folder: PathBuf,
    /// Names of directories below.
    pub(crate) packages: Vec<String>,
    pub(crate) ruff: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) adieu: PathBuf,
}

/// Downloads what is missing and builds the command as it is shipped.
pub(crate) fn corpus(packages: &[&str], ruff: &str) -> Result<Corpus, Failure> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let home = target.join("corpus");
    fs::create_dir_all(home.join("wheels")).map_err(|error| error.to_string())?;
    let venv = home.join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    run(Command::new(&python).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        ruff,
    ]))?;
    let folder = home.join("packages");
    let mut names = Vec::new();
    for package in packages {
        let name = package.split("==").next().unwrap_or(package).to_owned();
        let unpacked = folder.join(&name);
        if !unpacked.exists() {
            download(&python, &home.join("wheels"), package, &unpacked)?;
        }
        names.push(name);
    }
    run(Command::new("cargo").args([
        "build",
        "--quiet",
        "--profile",
        "dist",
        "--package",
        "adieu-cli",
    ]))?;
    Ok(Corpus {
        folder,
        packages: names,
        ruff: venv.join("bin/ruff"),
        python,
        adieu: target.join("dist/adieu"),
    })
}

fn download(python: &Path, wheels: &Path, package: &str, into: &Path) -> Result<(), Failure> {
    let folder = wheels.join(package);
    run(Command::new(python)
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ])
        .args([
            "--only-binary",
            ":all:",
            "--python-version",
            "3.13",
            "--dest",
        ])
        .arg(&folder)
        .arg(package))?;
    let mut wheels = fs::read_dir(&folder).map_err(|error| error.to_string())?;
    let wheel = wheels
        .find_map(|entry| {
            entry
                .ok()
                .map(|entry| entry.path())
                .filter(|path| path.extension().is_some_and(|e| e == "whl"))
        })
        .ok_or_else(|| format!("{package}: no wheel was downloaded"))?;
    fs::create_dir_all(into).map_err(|error| error.to_string())?;
    run(Command::new(python)
        .args(["-m", "zipfile", "-e"])
        .arg(wheel)
        .arg(into))
}

/// Runs a command that has to succeed.
fn run(command: &mut Command) -> Result<(), Failure> {
    let status = command
        .status()
        .map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{:?} failed: {status}", command.get_program()))
    }
}
