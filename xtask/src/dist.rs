//! `cargo xtask dist`: the binaries that people download, linked statically, tried and measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

const HELP: &str = "\
The binaries that people download.

usage: cargo xtask dist [--init]

  --init   only adieu-init: `adieu run` and `adieu health`, in place of tini

Builds them for x86_64 Linux into target/static, linked statically: with musl if rustc has that target, else with glibc,
which is said. Then each one is tried, and adieu-init is held to its limits: 3 MB if linked with musl (glibc adds to that),
2 MB resident, and the start of a command at most 1 ms later than with tini, if tini is installed. The two take turns, and the fastest
tenth of the runs is compared: a busy machine only adds to a run.

exit code: 0 built, tried and within the limits, 1 not, 2 usage
";

const MUSL: &str = "x86_64-unknown-linux-musl";
const GLIBC: &str = "x86_64-unknown-linux-gnu";
/// What an init may weigh, in bytes.
const LARGEST_INIT: u64 = 3_000_000;
/// What an init may keep resident beside its command, in kB.
const MOST_RESIDENT_KB: u64 = 2_000;
/// How much later than with tini a command may start.
const LATER_THAN_TINI: Duration = Duration::from_millis(1);
/// Runs of each, one after the other in turns.
const RUNS: usize = 101;

struct Binary {
    name: &'static str,
    profile: &'static str,
    features: &'static [&'static str],
    /// What tries it, and what it prints then.
    trial: &'static [&'static str],
}

const ADIEU: Binary = Binary {
    name: "adieu",
    profile: "dist",
    features: &[],
    trial: &["run", "--quiet", "--", "echo", "hello"],
};
const INIT: Binary = Binary {
    name: "adieu-init",
    profile: "dist-small",
    features: &["--no-default-features"],
    trial: &["--quiet", "--", "echo", "hello"],
};

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let binaries: &[Binary] = match words {
        [] => &[ADIEU, INIT],
        ["--init"] => &[INIT],
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [unknown, ..] => {
            return crate::usage(&format!("`dist` has no option `{unknown}`"), "dist --help");
        }
    };
    match build_all(&Checkout::here(), binaries) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn build_all(checkout: &Checkout, binaries: &[Binary]) -> Result<(), Failure> {
    let target = if has_musl(checkout)? {
        MUSL
    } else {
        println!("rustc has no {MUSL} (rustup target add {MUSL}): linked with glibc");
        GLIBC
    };
    let into = checkout.root().join("target/static");
    fs::create_dir_all(&into)?;
    for binary in binaries {
        let built = binary.build(checkout, target, &into)?;
        binary.try_out(checkout, &built, target)?;
    }
    Ok(())
}

/// Whether the standard library for musl is installed.
fn has_musl(checkout: &Checkout) -> Result<bool, Failure> {
    let folder = command::ask(checkout.program("rustc").args(["--print", "sysroot"]))?;
    let folder = String::from_utf8_lossy(&folder).trim_end().to_owned();
    let library = Path::new(&folder).join("lib/rustlib").join(MUSL);
    Ok(library.exists())
}

impl Binary {
    fn build(&self, checkout: &Checkout, target: &str, into: &Path) -> Result<PathBuf, Failure> {
        let mut build = checkout.cargo(["build", "--profile", self.profile]);
        build.args(["--package", "adieu-cli", "--bin", self.name]);
        build.args(["--target", target]).args(self.features);
        // For this target alone: procedural macros are built for the machine.
        let flags = format!(
            "CARGO_TARGET_{}_RUSTFLAGS",
            target.replace('-', "_").to_uppercase()
        );
        command::run(build.env(flags, "-C target-feature=+crt-static"))?;
        let built = checkout
            .root()
            .join("target")
            .join(target)
            .join(self.profile)
            .join(self.name);
        let kept = into.join(self.name);
        fs::copy(&built, &kept)?;
        Ok(kept)
    }

    fn try_out(&self, checkout: &Checkout, built: &Path, target: &str) -> Result<(), Failure> {
        let bytes = fs::read(built)?;
        if interpreter(&bytes).is_some() {
            return Err(Failure::new(format!(
                "{} needs a dynamic loader: it is not linked statically",
                self.name
            )));
        }
        let said = command::ask(checkout.program(built).args(self.trial))?;
        if said != b"hello\n" {
            return Err(Failure::new(format!(
                "{} {}: `{}` in the place of `hello`",
                self.name,
                self.trial.join(" "),
                String::from_utf8_lossy(&said)
            )));
        }
        let size = bytes.len() as u64;
        println!("{}: {:.2} MB, static", self.name, size as f64 / 1e6);
        if self.name != INIT.name {
            return Ok(());
        }
        if target == MUSL && size > LARGEST_INIT {
            return Err(Failure::new(format!(
                "{} has {size} bytes, at most {LARGEST_INIT} are wanted",
                self.name
            )));
        }
        let resident = resident_kb(built)?;
        println!("{}: {resident} kB resident", self.name);
        if resident > MOST_RESIDENT_KB {
            return Err(Failure::new(format!(
                "{} has {resident} kB resident, at most {MOST_RESIDENT_KB} are wanted",
                self.name
            )));
        }
        compare_with_tini(built)
    }
}

/// The dynamic loader that a 64-bit ELF file asks for, by the number of its header.
fn interpreter(elf: &[u8]) -> Option<usize> {
    const INTERPRETER: u32 = 3;
    let long = |at: usize| Some(u64::from_le_bytes(elf.get(at..at + 8)?.try_into().ok()?));
    let short = |at: usize| Some(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?));
    let headers = usize::try_from(long(0x20)?).ok()?;
    let (size, count) = (usize::from(short(0x36)?), usize::from(short(0x38)?));
    (0..count).find(|number| {
        let at = headers + number * size;
        elf.get(at..at + 4)
            .is_some_and(|kind| kind == INTERPRETER.to_le_bytes())
    })
}

/// What a started command leaves resident: of adieu-init once the command has printed a line and start-up is over.
fn resident_kb(built: &Path) -> Result<u64, Failure> {
    let mut child = Command::new(built)
        .args(["--quiet", "--", "sh", "-c", "echo ready; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut out = std::io::BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
    std::io::BufRead::read_line(&mut out, &mut String::new())?;
    // Start-up lets go of its pages half a second later at most.
    std::thread::sleep(Duration::from_secs(1));
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    drop(child.stdin.take());
    child.wait()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let number = line.and_then(|it| it.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| Failure::new("/proc says nothing of its memory"))
}

fn no_pipe() -> Failure {
    Failure::new("no pipe to the command")
}

fn compare_with_tini(built: &Path) -> Result<(), Failure> {
    if !command::succeeds(Command::new("tini").arg("--version")) {
        println!("tini is not installed: the start was not compared");
        return Ok(());
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ours.push(start(Command::new(built).args(["-q", "--", "echo"]))?);
        theirs.push(start(Command::new("tini").args(["-s", "--", "echo"]))?);
    }
    let (ours, theirs) = (fast(&mut ours), fast(&mut theirs));
    println!(
        "until `echo` has printed, the fastest tenth of {RUNS} runs: adieu-init {ours:.2?}, tini {theirs:.2?} at most"
    );
    if ours > theirs + LATER_THAN_TINI {
        return Err(Failure::new(format!(
            "adieu-init takes {:.2?} longer than tini, at most {LATER_THAN_TINI:?} are wanted",
            ours - theirs
        )));
    }
    Ok(())
}

/// How long it takes until the command that is started has printed.
fn start(command: &mut Command) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut out = child.stdout.take().ok_or_else(no_pipe)?;
    std::io::Read::read_exact(&mut out, &mut [0])?;
    let took = began.elapsed();
    let status = child.wait()?;
    if status.success() {
        Ok(took)
    } else {
        Err(Failure::new(status.to_string()))
    }
}

/// The slowest of the fastest tenth.
fn fast(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 10).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_dynamic_program_asks_for_a_loader() {
        let this = std::env::current_exe().expect("a path");
        let bytes = fs::read(this).expect("readable");
        assert!(interpreter(&bytes).is_some());
        assert_eq!(interpreter(b"\x7fELF"), None);
    }

    #[test]
    fn the_fastest_tenth_counts() {
        let mut times: Vec<Duration> = (0..101).rev().map(Duration::from_secs).collect();
        assert_eq!(fast(&mut times), Duration::from_secs(10));
    }
}
