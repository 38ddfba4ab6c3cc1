//! Other programs: run one in plain sight, listen to what it says meanwhile, or ask it for an
//! answer.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::step::Failure;

/// Runs the command with our own input and output.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    println!("$ {}", shown(command));
    let status = command
        .status()
        .map_err(|error| not_started(command, &error))?;
    judge(status)
}

/// The stream of a command to listen to.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// What was said on the stream, and how the command ended.
pub(crate) struct Overheard {
    pub(crate) text: String,
    pub(crate) end: Result<(), Failure>,
}

/// Runs the command in plain sight and keeps a copy of what it says on one stream.
pub(crate) fn overhear(command: &mut Command, stream: Stream) -> Result<Overheard, Failure> {
    // A test may leave a process behind that holds our pipe open: wait for the end of the command,
    // and for the end of the stream only this long after it.
    const LINGER: Duration = Duration::from_secs(2);

    println!("$ {}", shown(command));
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command
        .spawn()
        .map_err(|error| not_started(command, &error))?;
    let (send, heard) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || pass_on(stdout, io::stdout(), &send));
    } else if let Some(stderr) = child.stderr.take() {
        thread::spawn(move || pass_on(stderr, io::stderr(), &send));
    }
    let status = child.wait()?;

    let mut bytes = Vec::new();
    let until = Instant::now() + LINGER;
    while let Ok(chunk) = heard.recv_timeout(until.saturating_duration_since(Instant::now())) {
        bytes.extend(chunk);
    }
    Ok(Overheard {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        end: judge(status),
    })
}

/// In chunks as they come, not in lines: the last output of a test that hangs must be seen.
fn pass_on(mut from: impl Read, mut to: impl Write, copy: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; 8192];
    loop {
        let chunk = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
            Ok(length) => &buffer[..length],
        };
        // When our output is closed, the command still has to be able to finish.
        let _ = to.write_all(chunk).and_then(|()| to.flush());
        let _ = copy.send(chunk.to_vec());
    }
}

/// What the command says on its standard output; its errors are passed through.
pub(crate) fn ask(command: &mut Command) -> Result<Vec<u8>, Failure> {
    let answer = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| not_started(command, &error))?;
    judge(answer.status)
        .map_err(|end| Failure::new(format!("{}: {}", shown(command), end.why())))?;
    Ok(answer.stdout)
}

/// Whether the command can be run and succeeds; nothing it says is shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn judge(status: ExitStatus) -> Result<(), Failure> {
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(status.to_string()))
    }
}

fn not_started(command: &Command, error: &io::Error) -> Failure {
    Failure::new(format!("cannot run {}: {error}", shown(command)))
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!(
                "{}={:?}",
                name.to_string_lossy(),
                value.to_string_lossy()
            ));
        }
    }
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    words.push(program.to_string_lossy().into_owned());
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("some/where/cargo");
        command
            .args(["doc", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .env_remove("CARGO_X");
        assert_eq!(
            shown(&command),
            "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_copy_is_kept_and_the_end_is_told() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exit 3"]);
        let overheard = overhear(&mut command, Stream::Stdout).expect("sh runs");
        assert_eq!(overheard.text, "one\ntwo\n");
        assert_eq!(overheard.end.expect_err("it fails").why(), "exit status: 3");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let failure = run(&mut Command::new("no-such-program")).expect_err("cannot be run");
        assert!(
            failure.why().starts_with("cannot run no-such-program: "),
            "{}",
            failure.why()
        );
    }
}
