//! The file is the last one or the one before, never half of one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use adieu_load::Mode;
use tokio::time::sleep;

use super::{Spec, Trying, race};
use crate::context::CheckContext;
use crate::finding::Finding;
use crate::process::helper_command;
use crate::report::Group;
use crate::running::RunningTarget;
use crate::stop_log::LoadKind;
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "state-intact",
    group: Group::Data,
    quick: false,
    why: "Power fails and processes are killed in the middle of a write; a state file that is half written is worse than an \
          old one.",
    how: "Under load the program is ended again and again, by the stop signal and by SIGKILL, at random instants. Each time \
          the state must be whole: a .json or .toml file parses, and so does every line of an .ndjson or .jsonl file; of any \
          other it is only seen that it is there and not empty, so --state-command should look into it. The command ends \
          with 0 within half a minute.",
    applies: "Needs --state-file FILE or --state-command COMMAND; {dir} in them is a directory of the drill's.",
    threshold: |_| Threshold::Count(0, "broken states"),
    hints: &[
        (
            "any",
            "write a new file beside the old one, sync it, and rename it over the old one",
        ),
        (
            "adieu",
            "`app.store(FileStore::open(dir))` does it, keeps the generation before, and sets a corrupt file aside",
        ),
        (
            "Python",
            "`tempfile` in the same directory, `os.fsync`, `os.replace`",
        ),
        (
            "SQLite",
            "already does; check with `PRAGMA integrity_check` as --state-command",
        ),
    ],
    run: |cx| Box::pin(check(cx)) as Trying<'_>,
};

async fn check(cx: &mut CheckContext<'_>) -> Result<Finding, crate::DrillError> {
    if cx.drill.state_file.is_none() && cx.drill.state_command.is_none() {
        return Ok(Finding::skipped(
            "no state to look at; give --state-file FILE or --state-command COMMAND",
        ));
    }
    let times = cx.times(4, 8, 24);
    let mut broken = Vec::new();
    let mut existed = false;
    for number in 0..times {
        let killed = number % 4 != 0;
        cx.step(
            u64::from(number),
            if killed { "SIGKILL" } else { "the stop signal" },
        );
        let run = cx.start().await?;
        let load = race::load(cx, &run, Mode::Mixed).map(|load| load.clients(4).start());
        cx.give_work(&run, number).await;
        sleep(Duration::from_millis(cx.rng.u64(0..200))).await;
        let how = if killed {
            "SIGKILL"
        } else {
            let signal = run.stop();
            if cx.see_end(&run, signal, LoadKind::Load).await.is_none() {
                return Ok(cx.killed(&run, LoadKind::Load));
            }
            cx.drill.signal.name()
        };
        run.process.kill().await;
        drop(load);
        match look(cx, &run, existed || !killed).await {
            Ok(there) => existed |= there,
            Err(why) => broken.push(format!("end {} by {how}: {why}", number + 1)),
        }
    }
    let measured = format!("{} of {times} broken", broken.len());
    if broken.len() as u64 > cx.threshold.count() {
        return Ok(Finding::failed(format!(
            "the state was broken after {} of {times} ends",
            broken.len()
        ))
        .shown(broken.into_iter().take(5))
        .measured(measured));
    }
    let words = match &cx.drill.state_file {
        Some(path) if cx.drill.state_command.is_none() && Format::of(path).is_none() => {
            "there and not empty (nothing here can parse it: look into it with --state-command)"
        }
        _ => "whole",
    };
    Ok(Finding::passed(format!(
        "the state was {words} after {times} ends, most of them by SIGKILL"
    ))
    .measured(measured))
}

/// Whether there is a state, or what is wrong with it.
async fn look(
    cx: &CheckContext<'_>,
    run: &RunningTarget,
    must_exist: bool,
) -> Result<bool, String> {
    if let Some(command) = &cx.drill.state_command {
        helper_command::run(&run.process.placeholders.fill(command), cx.cwd()).await?;
    }
    let Some(path) = &cx.drill.state_file else {
        return Ok(true);
    };
    let path = PathBuf::from(run.process.placeholders.fill(&path.to_string_lossy()));
    let path = cx.cwd().map_or_else(|| path.clone(), |cwd| cwd.join(&path));
    match tokio::fs::read(&path).await {
        Ok(bytes) => whole(&path, &bytes).map(|()| true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// What can be said of a file by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    /// A value a line.
    Lines,
    Toml,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "json" => Some(Self::Json),
            "ndjson" | "jsonl" => Some(Self::Lines),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }

    fn parse(self, bytes: &[u8]) -> Result<(), String> {
        let json = |bytes: &[u8]| {
            let value = serde_json::from_slice::<serde_json::Value>(bytes);
            value.map(drop).map_err(|error| error.to_string())
        };
        match self {
            Self::Json => json(bytes),
            Self::Lines => bytes
                .split(|byte| *byte == b'\n')
                .zip(1..)
                .filter(|(line, _)| !line.trim_ascii().is_empty())
                .try_for_each(|(line, number)| {
                    json(line).map_err(|error| format!("line {number}: {error}"))
                }),
            Self::Toml => {
                let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
                let table = text.parse::<toml::Table>();
                table.map(drop).map_err(|error| error.message().to_owned())
            }
        }
    }
}

fn whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        return Err(format!("{} is empty", path.display()));
    }
    let parsed = Format::of(path).map_or(Ok(()), |format| format.parse(bytes));
    parsed.map_err(|error| format!("{} ({} bytes): {error}", path.display(), bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_file_is_none() {
        assert!(whole(Path::new("a.json"), b"{\"a\": 1}\n").is_ok());
        assert!(whole(Path::new("a.json"), b"{\"a\": ").is_err());
        assert!(whole(Path::new("a.db"), b"").is_err());
        assert!(whole(Path::new("a.db"), b"{").is_ok());
        assert!(whole(Path::new("a.JSONL"), b"{\"a\": 1}\n\n{}\n").is_ok());
        let torn = whole(Path::new("a.ndjson"), b"{\"a\": 1}\n{\"a\": ");
        assert!(torn.is_err_and(|why| why.contains("line 2")));
        assert!(whole(Path::new("a.toml"), b"[a]\nb = 1\n").is_ok());
        assert!(whole(Path::new("a.toml"), b"[a]\nb = ").is_err());
    }
}
