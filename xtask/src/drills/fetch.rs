//! What the drills need, in `target/drills`: a Python environment, the peers in Rust, and the command itself.

use std::fs;
use std::path::PathBuf;

use crate::checkout::Checkout;
use crate::command;
use crate::packages::{self, Need};
use crate::step::Failure;

/// Pinned, so that the table means something tomorrow.
const PYTHON: &[&str] = &[
    "fastapi==0.162.4",
    "uvicorn==0.54.0",
    "websockets==17.4",
    "hypercorn==0.18.0",
    "gunicorn==27.0.0",
    "aiohttp==3.14.5",
    "granian==2.8.7",
];

const NEEDS: &[Need] = &[
    Need::debian("python3", "python3-venv", "four peers are in Python"),
    Need::debian("nginx", "nginx-light", "a peer"),
    Need::debian("node", "nodejs", "a peer"),
];

/// What the peers need that are not drilled with the others.
const MORE_NEEDS: &[Need] = &[
    Need::debian("python3", "python3-venv", "some peers are in Python"),
    Need::debian("nginx", "nginx-light", "a peer"),
    Need::debian("haproxy", "haproxy", "a peer"),
    Need::debian("node", "nodejs", "a peer"),
    Need::debian("go", "golang-go", "a peer"),
    Need::debian("java", "openjdk-17-jdk-headless", "a peer"),
];

pub(crate) struct Tools {
    /// Where programs of Python packages are.
    pub(crate) python: PathBuf,
    /// Where the peers in Rust are.
    pub(crate) rust: PathBuf,
    pub(crate) adieu: PathBuf,
}

/// Installs and builds what is missing.
pub(crate) fn tools(checkout: &Checkout, dev: bool) -> Result<Tools, Failure> {
    packages::provide(checkout, NEEDS)?;
    let (profile, folder) = profile(dev);
    Ok(Tools {
        python: python(checkout)?,
        rust: rust(checkout, profile)?.join(folder),
        adieu: adieu(checkout, dev)?,
    })
}

impl Tools {
    /// The peer in Go.
    pub(super) fn go(&self) -> PathBuf {
        self.rust.with_file_name("go-server")
    }
}

/// As [`tools`], without the peers in Rust and with the one in Go.
pub(super) fn without_rust(checkout: &Checkout, dev: bool) -> Result<Tools, Failure> {
    packages::provide(checkout, MORE_NEEDS)?;
    let tools = Tools {
        python: python(checkout)?,
        rust: home(checkout)?.join("rust"),
        adieu: adieu(checkout, dev)?,
    };
    let source = checkout.root().join("fixtures/peers/go/main.go");
    let mut build = checkout.program("go");
    command::run(build.args(["build", "-o"]).arg(tools.go()).arg(source))?;
    Ok(tools)
}

/// One of our examples, built.
pub(super) fn example(checkout: &Checkout, dev: bool, name: &str) -> Result<String, Failure> {
    let (profile, folder) = profile(dev);
    let words = ["build", "--profile", profile, "--package", name];
    command::run(&mut checkout.cargo(words))?;
    let program = checkout.root().join("target").join(folder).join(name);
    Ok(program.display().to_string())
}

/// The profile of cargo, and the directory of its programs.
const fn profile(dev: bool) -> (&'static str, &'static str) {
    if dev {
        ("dev", "debug")
    } else {
        ("release", "release")
    }
}

/// The command, built.
pub(super) fn adieu(checkout: &Checkout, dev: bool) -> Result<PathBuf, Failure> {
    let (profile, folder) = profile(dev);
    let words = ["build", "--profile", profile, "--package", "adieu-cli"];
    command::run(&mut checkout.cargo(words))?;
    Ok(checkout.root().join("target").join(folder).join("adieu"))
}

fn home(checkout: &Checkout) -> Result<PathBuf, Failure> {
    let home = checkout.root().join("target/drills");
    fs::create_dir_all(&home)?;
    Ok(home)
}

/// Where the programs of the Python packages are.
pub(super) fn python(checkout: &Checkout) -> Result<PathBuf, Failure> {
    let venv = home(checkout)?.join("venv");
    if !venv.join("bin/pip").exists() {
        command::run(checkout.program("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let mut pip = checkout.program(venv.join("bin/pip"));
    command::run(
        pip.args(["install", "--quiet", "--disable-pip-version-check"])
            .args(PYTHON),
    )?;
    Ok(venv.join("bin"))
}

/// Where cargo puts the peers in Rust, a directory for each profile.
pub(super) fn rust(checkout: &Checkout, profile: &str) -> Result<PathBuf, Failure> {
    let target = home(checkout)?.join("rust");
    let words = ["build", "--locked", "--profile", profile];
    let peers = [
        "--manifest-path",
        "fixtures/peers/rust/Cargo.toml",
        "--target-dir",
    ];
    command::run(checkout.cargo(words.into_iter().chain(peers)).arg(&target))?;
    Ok(target)
}
