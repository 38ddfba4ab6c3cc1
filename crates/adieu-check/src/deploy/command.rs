//! Commands: their words, the wrappers among them, and the grace they ask for.

use super::shell;

/// Programs that stay between the signal and what they run.
const WRAPPERS: &[(&str, &[&str])] = &[
    ("npm", &["start", "run", "run-script", "exec", "test"]),
    ("npx", &[]),
    ("yarn", &[]),
    ("pnpm", &[]),
    ("bun", &["run"]),
    ("uv", &["run"]),
    ("hatch", &["run"]),
    ("pdm", &["run"]),
    ("rye", &["run"]),
    ("make", &[]),
    ("nodemon", &[]),
    ("watchmedo", &[]),
    ("cargo", &["run"]),
    ("conda", &["run"]),
    ("deno", &["task"]),
    ("dotnet", &["run", "watch"]),
    ("go", &["run"]),
    ("mvn", &[]),
    ("gradle", &[]),
    ("gradlew", &[]),
];

/// Programs that become, or rightly supervise, what follows.
const RIGHT: &[&str] = &[
    "tini",
    "dumb-init",
    "exec",
    "gosu",
    "su-exec",
    "catatonit",
    "env",
    "adieu",
    "s6-setuidgid",
];

/// Splits a line at blanks, with the simple quotes of a shell.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut any = false;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (None, '"' | '\'') => {
                quote = Some(char);
                any = true;
            }
            (Some('"') | None, '\\') => word.extend(chars.next()),
            (None, char) if char.is_whitespace() => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (_, char) => word.push(char),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

/// The command that a line of shell ends in; none where several run at once.
pub(crate) fn started(line: &str) -> Option<Vec<String>> {
    let mut command: Vec<String> = Vec::new();
    for word in split(line) {
        match word.as_str() {
            "&&" | ";" => command.clear(),
            "|" | "&" | "||" => return None,
            _ if word.ends_with('&') || word.starts_with('|') => return None,
            _ if word.ends_with(';') => command.clear(),
            _ => command.push(word),
        }
    }
    let command = unshelled(command);
    (!command.is_empty()).then_some(command)
}

/// `sh -c "program"` is the program, as far as what it does goes.
pub(crate) fn unshelled(words: Vec<String>) -> Vec<String> {
    match inner(&words) {
        [shell, flag, line, ..]
            if matches!(program(shell), "sh" | "bash" | "dash" | "ash" | "zsh")
                && flag.starts_with('-')
                && flag.ends_with('c') =>
        {
            started(line).unwrap_or_default()
        }
        _ => words,
    }
}

/// Whether a command is a shell that stays above the program in its line, as PID 1, and keeps the signal from it.
///
/// `sh` is dash or busybox. bash makes way for the last command of a line by itself.
pub(crate) fn shell_stays(words: &[String]) -> bool {
    // An init program above the shell is PID 1 and sends the signal on; the shell ends, and everything with it.
    let [shell, flag, line, ..] = words else {
        return false;
    };
    let is_line = matches!(program(shell), "sh" | "dash" | "ash")
        && flag.starts_with('-')
        && flag.ends_with('c');
    let words = split(line);
    let of_shell = |word: &String| {
        let word = word.trim_start_matches(['(', '{']).trim_end_matches(';');
        matches!(word, "exec" | "trap" | "wait")
    };
    let Some(last) = started(line).filter(|_| is_line && !words.iter().any(of_shell)) else {
        return false;
    };
    // What only the shell runs, and what ends by itself.
    let first = last.first().map_or("", String::as_str);
    !shell::is_own_word(first) && !is_short(first) && !first.contains(['$', '=', '('])
}

/// Programs that end before anything has to be stopped.
fn is_short(word: &str) -> bool {
    matches!(
        program(word),
        "cp" | "mv"
            | "rm"
            | "ls"
            | "cat"
            | "chmod"
            | "chown"
            | "curl"
            | "grep"
            | "ln"
            | "mkdir"
            | "sed"
            | "sleep"
            | "tar"
            | "tail"
            | "touch"
            | "wget"
    )
}

/// The last part of a program's path.
pub(crate) fn program(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The words behind init programs and settings of variables.
pub(crate) fn inner(words: &[String]) -> &[String] {
    let mut rest = words;
    while let Some((first, others)) = rest.split_first() {
        let name = program(first);
        let skip = RIGHT.contains(&name) && name != "adieu"
            || first == "--"
            || first.contains('=') && !first.starts_with('-')
            || first.starts_with('-') && rest.len() < words.len();
        if !skip {
            break;
        }
        // `gosu user program`
        rest = if matches!(name, "gosu" | "su-exec") && others.len() > 1 {
            &others[1..]
        } else {
            others
        };
    }
    rest
}

/// The wrapper that a command runs under, as one would say it.
pub(crate) fn wrapper(words: &[String]) -> Option<String> {
    let (first, rest) = inner(words).split_first()?;
    let name = program(first);
    let (_, verbs) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name)?;
    let verb = rest
        .iter()
        .find(|word| !word.starts_with('-'))
        .map(String::as_str)
        .unwrap_or_default();
    match verbs {
        // The runtime itself, with a file.
        _ if name == "bun" && rest.iter().any(|word| is_module(word)) => None,
        [] => Some(name.to_owned()),
        _ if verbs.contains(&verb) => Some(format!("{name} {verb}")),
        _ => None,
    }
}

/// A file that a JavaScript runtime runs itself.
fn is_module(word: &str) -> bool {
    [".js", ".ts", ".mjs", ".mts", ".cjs", ".tsx", ".jsx"]
        .iter()
        .any(|end| word.ends_with(end))
}

/// Flags of known programs that set how long their stop may take.
const GRACE_FLAGS: &[&str] = &[
    "--grace",
    "--grace-period",
    "--graceful-timeout",
    "--timeout-graceful-shutdown",
    "--shutdown-timeout",
    "--shutdown-grace-period",
    "--drain-timeout",
    "--workers-kill-timeout",
];

/// Variables of the environment that say the same.
const GRACE_VARIABLES: &[&str] = &[
    "ADIEU_GRACE",
    "GRACE_PERIOD",
    "SHUTDOWN_TIMEOUT",
    "GRACEFUL_TIMEOUT",
    "GRACEFUL_SHUTDOWN_TIMEOUT",
    "SHUTDOWN_GRACE",
];

/// What a flag or a variable says of the grace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    /// Something that only a shell, a template or the program itself can read.
    Unclear,
    Seconds(u64),
}

impl Told {
    fn by(value: Option<&str>) -> Told {
        match value.and_then(seconds) {
            // A bare number this large counts milliseconds, as in most programs for Node.
            Some(seconds) if seconds >= 1_000 && value.is_some_and(is_bare) => Told::Unclear,
            Some(seconds) => Told::Seconds(seconds),
            None => Told::Unclear,
        }
    }
}

fn is_bare(value: &str) -> bool {
    value.trim().ends_with(|c: char| c.is_ascii_digit())
}

/// The grace that a command line asks for.
pub(crate) fn grace(words: &[String]) -> Told {
    match value_of(words, GRACE_FLAGS) {
        Some(value) => Told::by(value),
        None => Told::Nothing,
    }
}

/// How long a task may take in a worker of celery, which waits for its tasks.
pub(crate) fn time_limit(words: &[String]) -> Told {
    let is_worker = words.iter().any(|word| word == "worker");
    match value_of(words, &["--time-limit"]).filter(|_| is_worker) {
        // Always seconds: hours are usual.
        Some(value) => value.and_then(seconds).map_or(Told::Unclear, Told::Seconds),
        None => Told::Nothing,
    }
}

/// What stands behind the first of some flags, if it is there.
pub(crate) fn value_of<'w>(words: &'w [String], flags: &[&str]) -> Option<Option<&'w str>> {
    words.iter().enumerate().find_map(|(at, word)| {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word.as_str(), None),
        };
        flags
            .contains(&flag)
            .then(|| value.or_else(|| words.get(at + 1).map(String::as_str)))
    })
}

/// The grace that a variable asks for. A known server reads none of the usual names.
pub(crate) fn grace_variable(name: &str, value: &str, server: Option<&str>) -> Told {
    match server {
        Some("gunicorn") if name == "GUNICORN_CMD_ARGS" => return grace(&split(value)),
        Some(_) => return Told::Nothing,
        None => {}
    }
    let name = name.to_ascii_uppercase();
    if GRACE_VARIABLES.iter().any(|known| name.ends_with(known)) {
        Told::by(Some(value))
    } else {
        Told::Nothing
    }
}

/// The name of a server whose grace a flag sets.
pub(crate) fn server(words: &[String]) -> Option<&'static str> {
    let known = [
        "gunicorn",
        "uvicorn",
        "hypercorn",
        "celery",
        "daphne",
        "granian",
    ];
    let names: Vec<&str> = inner(words)
        .iter()
        .take(4)
        .map(|word| program(word))
        .collect();
    known.into_iter().find(|server| names.contains(server))
}

/// `30`, `30s`, `1m30s`, `500ms`, `1min`: whole seconds, rounded up.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let text = text.trim().trim_matches(['"', '\'']);
    let mut millis: u64 = 0;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" | "s" | "sec" | "second" | "seconds" => 1_000.0,
            "ms" | "msec" => 1.0,
            "us" | "usec" => 0.001,
            "m" | "min" | "minute" | "minutes" => 60_000.0,
            "h" | "hr" | "hour" | "hours" => 3_600_000.0,
            "d" | "day" | "days" => 86_400_000.0,
            _ => return None,
        };
        // A float becomes the nearest whole number it can; no timeout comes near the limit.
        millis = millis.saturating_add((number * unit) as u64);
        rest = rest[letters..].trim_start();
    }
    Some(millis.div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::{Told, grace, grace_variable, seconds, split, started, wrapper};

    #[test]
    fn times_are_read_as_written() {
        assert_eq!(seconds("30"), Some(30));
        assert_eq!(seconds("1m30s"), Some(90));
        assert_eq!(seconds("1min 30s"), Some(90));
        assert_eq!(seconds("500ms"), Some(1));
        assert_eq!(seconds("infinity"), None);
    }

    #[test]
    fn wrappers_are_seen_behind_an_init() {
        assert_eq!(
            wrapper(&split("tini -- npm start")),
            Some("npm start".into())
        );
        assert_eq!(wrapper(&split("uv run app")), Some("uv run".into()));
        assert_eq!(wrapper(&split("uv sync")), None);
        assert_eq!(wrapper(&split("python -m app")), None);
    }

    #[test]
    fn flags_give_their_grace() {
        let of = |line| grace(&split(line));
        assert_eq!(of("gunicorn app --graceful-timeout 60"), Told::Seconds(60));
        assert_eq!(of("app --grace=1m"), Told::Seconds(60));
        assert_eq!(of("app --grace"), Told::Unclear);
        assert_eq!(of("app --grace $GRACE"), Told::Unclear);
        assert_eq!(of("app --shutdown-timeout 30000"), Told::Unclear);
        assert_eq!(of("app --port 80"), Told::Nothing);
    }

    #[test]
    fn variables_give_their_grace_to_who_reads_them() {
        let of = |name, value, server| grace_variable(name, value, server);
        assert_eq!(of("ADIEU_GRACE", "40s", None), Told::Seconds(40));
        assert_eq!(of("SHUTDOWN_TIMEOUT", "30000", None), Told::Unclear);
        assert_eq!(of("SHUTDOWN_TIMEOUT", "40", Some("uvicorn")), Told::Nothing);
        let arguments = of(
            "GUNICORN_CMD_ARGS",
            "--graceful-timeout 50",
            Some("gunicorn"),
        );
        assert_eq!(arguments, Told::Seconds(50));
    }

    #[test]
    fn a_line_of_shell_ends_in_a_command() {
        let of = |line| started(line).map(|words| words.join(" "));
        assert_eq!(
            of("cd app && exec python main.py").as_deref(),
            Some("exec python main.py")
        );
        assert_eq!(
            of("migrate; bash -c 'gunicorn app'").as_deref(),
            Some("gunicorn app")
        );
        assert_eq!(of("worker & web"), None);
        assert_eq!(of("web | tee log"), None);
    }
}
