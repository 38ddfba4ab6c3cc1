//! One test in a process of its own, with a time limit, and nothing left of it afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::build::Program;
use super::render::Id;
use crate::step::Failure;

/// In the environment of every process of a trial, so that all of them can be ended.
const MARK: &str = "ADIEU_MUTANT_RUN";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    pub(super) package: String,
    pub(super) target: String,
    pub(super) name: String,
    pub(super) executable: PathBuf,
    pub(super) folder: PathBuf,
}

impl Test {
    pub(super) fn shown(&self) -> String {
        format!("{} {} {}", self.package, self.target, self.name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    Failed,
    TimedOut,
}

pub(super) struct Trial {
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

/// Where one of the trials that run side by side keeps its files. The path is short: sockets are made in it.
pub(super) struct Bench {
    folder: PathBuf,
    mark: String,
}

impl Bench {
    pub(super) fn new(number: usize) -> Result<Self, Failure> {
        let mark = format!("{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(format!("mutants-{mark}"));
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, mark })
    }

    /// Runs a test with this mutant, or with none. With a file, the mutants it reaches are appended to that, and what
    /// it says is kept in another beside it.
    pub(super) fn run(
        &self,
        test: &Test,
        mutant: Option<Id>,
        trace: Option<&Path>,
        limit: Duration,
    ) -> Result<Trial, Failure> {
        let scratch = self.folder.join("t");
        fs::create_dir_all(&scratch)?;
        let mut command = Command::new(&test.executable);
        command
            .args([&*test.name, "--exact", "--nocapture"])
            .current_dir(&test.folder)
            .env("CARGO_MANIFEST_DIR", &test.folder)
            .env("TMPDIR", &scratch)
            .env("RUST_BACKTRACE", "0")
            .env("INSTA_UPDATE", "no")
            .env(MARK, &self.mark)
            .env_remove("ADIEU_MUTANT")
            .env_remove("ADIEU_MUTANT_TRACE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(mutant) = mutant {
            command.env("ADIEU_MUTANT", mutant.to_string());
        }
        if let Some(trace) = trace {
            command.env("ADIEU_MUTANT_TRACE", trace);
            let said = fs::File::create(trace.with_extension("log"))?;
            command.stdout(said.try_clone()?).stderr(said);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let begun = Instant::now();
        let mut child = command.spawn()?;
        let (send, ended) = mpsc::channel();
        thread::spawn(move || send.send(child.wait()));
        let verdict = match ended.recv_timeout(limit) {
            Ok(status) => match status?.success() {
                true => Verdict::Passed,
                false => Verdict::Failed,
            },
            Err(_) => Verdict::TimedOut,
        };
        let took = begun.elapsed();
        self.clear_away();
        if verdict == Verdict::TimedOut {
            let _ = ended.recv_timeout(Duration::from_secs(10));
        }
        let _ = fs::remove_dir_all(&scratch);
        Ok(Trial { verdict, took })
    }

    /// Ends every process of the trial that is still there: those of a test that failed or was too slow.
    fn clear_away(&self) {
        let mark = format!("{MARK}={}", self.mark);
        // One that is being started may be missed by the first look.
        for _ in 0..3 {
            let left = marked(&mark);
            if left.is_empty() {
                return;
            }
            let _ = Command::new("kill")
                .arg("-KILL")
                .args(left)
                .stderr(Stdio::null())
                .status();
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.clear_away();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The processes with this in their environment.
fn marked(mark: &str) -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|it| it.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|it| {
                it.split(|byte| *byte == 0)
                    .any(|pair| pair == mark.as_bytes())
            })
        })
        .collect()
}

/// The tests of a program, without the ignored ones.
pub(super) fn list(program: &Program) -> Result<Vec<Test>, Failure> {
    let ask = |words: &[&str]| -> Result<Vec<String>, Failure> {
        let answer = Command::new(&program.executable)
            .args(["--list", "--format", "terse"])
            .args(words)
            .current_dir(&program.folder)
            .stderr(Stdio::null())
            .output()?;
        Ok(String::from_utf8_lossy(&answer.stdout)
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect())
    };
    let ignored = ask(&["--ignored"])?;
    let all = ask(&[])?;
    Ok(all
        .into_iter()
        .filter(|name| !ignored.contains(name))
        .map(|name| Test {
            package: program.package.clone(),
            target: program.target.clone(),
            name,
            executable: program.executable.clone(),
            folder: program.folder.clone(),
        })
        .collect())
}
