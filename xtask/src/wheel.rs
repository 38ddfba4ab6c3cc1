//! `cargo xtask wheel`: the command as a Python wheel, built, installed into a fresh environment, and tried there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

const HELP: &str = "\
The command as a Python wheel.

usage: cargo xtask wheel [--dev] [--sdist]

  --dev     an unoptimised build, to try the way there
  --sdist   also pack the sources, and build a wheel from them as pip does, which takes as long again

Builds the wheel with maturin and has auditwheel compare what it needs with the manylinux tag in its name. Installs it into a
fresh environment, and runs `adieu run`, `adieu health` and `uvx adieu check` from there. maturin, auditwheel and uv are fetched
into an environment under target/wheel if they are not on PATH. Needs python3 with venv and, without those three, a package
index.

exit code: 0 built and tried, 1 not, 2 usage
";

/// A tool with the package that brings it.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const MATURIN: Tool = Tool {
    program: "maturin",
    package: "maturin>=1.9,<2",
};
const AUDITWHEEL: Tool = Tool {
    program: "auditwheel",
    package: "auditwheel>=6,<7",
};
const UV: Tool = Tool {
    program: "uv",
    package: "uv",
};

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let (mut dev, mut sdist) = (false, false);
    for word in words {
        match *word {
            "--dev" => dev = true,
            "--sdist" => sdist = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            unknown => {
                return crate::usage(
                    &format!("`wheel` has no option `{unknown}`"),
                    "wheel --help",
                );
            }
        }
    }
    match build_and_try(&Checkout::here(), dev, sdist) {
        Ok(built) => {
            for file in built {
                println!("{}", file.display());
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn build_and_try(checkout: &Checkout, dev: bool, sdist: bool) -> Result<Vec<PathBuf>, Failure> {
    let folder = checkout.root().join("target/wheel");
    let wheels = folder.join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|error| Failure::new(error.to_string()))?;
    }
    let maturin = MATURIN.provide(checkout, &folder)?;
    let mut build = checkout.program(&maturin);
    build.args(["build", "--locked", "--out"]).arg(&wheels);
    if !dev {
        build.args(["--profile", "dist"]);
    }
    command::run(&mut build)?;
    let wheel = only_file(&wheels, "whl")?;
    audit(checkout, &folder, &wheel)?;
    try_out(checkout, &folder, &wheel)?;
    let mut built = vec![wheel];
    if sdist {
        let mut pack = checkout.program(&maturin);
        command::run(pack.args(["sdist", "--out"]).arg(&wheels))?;
        let sources = only_file(&wheels, "gz")?;
        build_from(checkout, &folder, &maturin, &sources, dev)?;
        built.push(sources);
    }
    Ok(built)
}

/// Installs the wheel where nothing else is, and runs the command from there.
fn try_out(checkout: &Checkout, folder: &Path, wheel: &Path) -> Result<(), Failure> {
    let fresh = folder.join("fresh");
    environment(checkout, &fresh)?;
    let mut install = checkout.program(fresh.join("bin/pip"));
    let flags = ["install", "--quiet", "--no-index", "--no-deps"];
    command::run(install.args(flags).arg(wheel))?;
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
    let version = format!("adieu {version}");
    expect(checkout, &adieu, &["--version"], &version)?;
    let words = ["run", "--quiet", "--", "echo", "hello"];
    expect(checkout, &adieu, &words, "hello")?;
    // By the name that a shell finds in the environment.
    let mut python = checkout.program(fresh.join("bin/python"));
    let code = "import shutil, subprocess, sysconfig; \
                adieu = shutil.which('adieu', path=sysconfig.get_path('scripts')); \
                subprocess.run([adieu, 'health', '--help'], check=True, stdout=subprocess.DEVNULL)";
    command::run(python.args(["-c", code]))?;
    // `uvx adieu check`, with this wheel in the place of the package index.
    let uv = UV.provide(checkout, folder)?;
    let mut check = checkout.program(uv);
    check.args([
        "tool",
        "run",
        "--offline",
        "--no-config",
        "--isolated",
        "--from",
    ]);
    command::run(check.arg(wheel).args(["adieu", "check", "deploy"]))
}

/// What auditwheel finds that the programs of the wheel need is as old as the tag in its name says, or older.
fn audit(checkout: &Checkout, folder: &Path, wheel: &Path) -> Result<(), Failure> {
    let auditwheel = AUDITWHEEL.provide(checkout, folder)?;
    let said = command::ask(checkout.program(auditwheel).arg("show").arg(wheel))?;
    let said = String::from_utf8_lossy(&said);
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    match (manylinux(&name), manylinux(&said)) {
        (Some(promised), Some(needed)) if needed <= promised => {
            let (major, minor) = needed;
            println!("auditwheel: needs glibc {major}.{minor} at least, as the name says");
            Ok(())
        }
        _ => Err(Failure::new(format!(
            "{name} is not what auditwheel says of it:\n{said}"
        ))),
    }
}

/// The version of glibc in the first `manylinux_2_28` of a text.
fn manylinux(text: &str) -> Option<(u32, u32)> {
    let (_, rest) = text.split_once("manylinux_")?;
    let mut numbers = rest.split('_');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

/// Builds a wheel from the packed sources alone.
fn build_from(
    checkout: &Checkout,
    folder: &Path,
    maturin: &Path,
    sources: &Path,
    dev: bool,
) -> Result<(), Failure> {
    let unpacked = folder.join("sdist");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    let mut unpack = checkout.program("tar");
    unpack.args(["--extract", "--strip-components=1", "--directory"]);
    command::run(unpack.arg(&unpacked).arg("--file").arg(sources))?;
    let mut build = checkout.program(maturin);
    build
        .current_dir(&unpacked)
        // Its own: the packed crates have the names and hashes of those here, and older files.
        .env("CARGO_TARGET_DIR", unpacked.join("target"))
        // Not --locked: the packed workspace has fewer members than the lock file.
        .args(["build", "--out", "wheels"]);
    if !dev {
        build.args(["--profile", "dist"]);
    }
    command::run(&mut build)?;
    let wheel = only_file(&unpacked.join("wheels"), "whl")?;
    try_out(checkout, folder, &wheel)
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

impl Tool {
    /// The one on PATH, or one of our own.
    fn provide(&self, checkout: &Checkout, folder: &Path) -> Result<PathBuf, Failure> {
        if command::succeeds(checkout.program(self.program).arg("--version")) {
            return Ok(self.program.into());
        }
        let tools = folder.join("tools");
        let program = tools.join("bin").join(self.program);
        if !command::succeeds(checkout.program(&program).arg("--version")) {
            if !tools.join("bin/pip").exists() {
                environment(checkout, &tools)?;
            }
            let mut install = checkout.program(tools.join("bin/pip"));
            command::run(install.args(["install", "--quiet", self.package]))?;
        }
        Ok(program)
    }
}

fn environment(checkout: &Checkout, folder: &Path) -> Result<(), Failure> {
    let mut make = checkout.program("python3");
    command::run(make.args(["-m", "venv", "--clear"]).arg(folder))
}

fn only_file(folder: &Path, ending: &str) -> Result<PathBuf, Failure> {
    let files = fs::read_dir(folder).map_err(|error| Failure::new(error.to_string()))?;
    files
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|it| it == ending))
        .ok_or_else(|| Failure::new(format!("maturin left no file that ends with .{ending}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_says_which_glibc() {
        let name = "adieu-0.1.0-py3-none-manylinux_2_34_x86_64.whl";
        assert_eq!(manylinux(name), Some((2, 34)));
        assert_eq!(manylinux("adieu-0.1.0-py3-none-linux_x86_64.whl"), None);
    }
}
