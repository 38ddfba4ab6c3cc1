//! Dockerfiles.

use super::Reporter;
use super::command;
use super::image;
use super::shell;
use super::stages::{self, Instruction};
use super::start::{Spot, Variable};
use crate::fix::{Applicability, Fix};
use crate::rule;

/// The instructions of the last stage and of those it goes on from.
#[derive(Debug, Default)]
pub(crate) struct Dockerfile {
    instructions: Vec<Instruction>,
}

/// The words of CMD or ENTRYPOINT.
#[derive(Debug)]
struct Form {
    words: Vec<String>,
    shell: bool,
}

pub(crate) fn parse(text: &str) -> Dockerfile {
    Dockerfile {
        instructions: stages::last(text),
    }
}

impl Dockerfile {
    fn last(&self, name: &str) -> Option<&Instruction> {
        self.instructions
            .iter()
            .rev()
            .find(|instruction| instruction.name == name)
    }

    /// The image below all stages.
    fn base(&self) -> &str {
        self.instructions
            .iter()
            .find(|instruction| instruction.name == "FROM")
            .and_then(|from| {
                from.arguments
                    .split_whitespace()
                    .find(|word| !word.starts_with("--"))
            })
            .unwrap_or("")
    }

    fn installs(&self, tool: &str) -> bool {
        self.instructions.iter().any(|instruction| {
            matches!(instruction.name.as_str(), "RUN" | "COPY" | "ADD")
                && (instruction.arguments.contains(tool) || instruction.document.contains(tool))
        })
    }

    /// What a container of it starts, ENTRYPOINT before CMD.
    pub(crate) fn start_words(&self) -> Vec<String> {
        let mut words = self.entrypoint();
        words.extend(self.cmd());
        words
    }

    pub(crate) fn entrypoint(&self) -> Vec<String> {
        self.last("ENTRYPOINT").map(started).unwrap_or_default()
    }

    /// The CMD, which an ENTRYPOINT in shell form ignores.
    pub(crate) fn cmd(&self) -> Vec<String> {
        if self
            .last("ENTRYPOINT")
            .is_some_and(|entry| form(entry).shell)
        {
            return Vec::new();
        }
        self.last("CMD").map(started).unwrap_or_default()
    }

    /// The line with what it starts.
    pub(crate) fn start_line(&self) -> Option<u32> {
        let of = |name| self.last(name).map(|instruction| instruction.line);
        of("CMD").or_else(|| of("ENTRYPOINT"))
    }

    /// The variables it sets, the last first.
    pub(crate) fn variables(&self, path: &str) -> Vec<Variable> {
        let sets = self.instructions.iter().rev();
        sets.filter(|instruction| instruction.name == "ENV")
            .flat_map(|instruction| {
                let words = command::split(&instruction.arguments);
                let variable = |name: &str, value: &str| Variable {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    at: Some(Spot {
                        path: path.into(),
                        line: instruction.line,
                    }),
                };
                match words.as_slice() {
                    // The old form: `ENV NAME value`.
                    [name, value @ ..] if !name.contains('=') => {
                        vec![variable(name, &value.join(" "))]
                    }
                    words => words
                        .iter()
                        .filter_map(|word| word.split_once('='))
                        .map(|(name, value)| variable(name, value))
                        .collect::<Vec<_>>(),
                }
            })
            .collect()
    }

    /// Files that are copied under another name: the new one, the old one.
    pub(crate) fn copies(&self) -> Vec<(String, String)> {
        let copies = self.instructions.iter();
        copies
            .filter(|instruction| instruction.name == "COPY")
            .filter_map(|instruction| {
                let words = command::split(&instruction.arguments);
                let mut paths = words.iter().filter(|word| !word.starts_with("--"));
                let (from, to) = (paths.next()?, paths.next()?);
                let plain = paths.next().is_none() && !to.ends_with(['/', '.']);
                plain.then(|| {
                    let name = |path: &str| command::program(path).to_owned();
                    (name(to), name(from))
                })
            })
            .collect()
    }

    /// Whether a command means the same as a list: plain words, and a program that the kernel can
    /// start.
    fn runs_without_shell(
        &self,
        instruction: &Instruction,
        form: &Form,
        reporter: &Reporter<'_>,
    ) -> bool {
        let plain = instruction
            .arguments
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || " _-./:=@,+".contains(c));
        let first = form.words.first().map(String::as_str).unwrap_or_default();
        let needs_shell = first.contains('=') || shell::is_own_word(first);
        // Another shell may set up what the program needs.
        plain && !needs_shell && self.last("SHELL").is_none() && self.is_startable(first, reporter)
    }

    /// Whether the kernel can start a program: a shell runs a script without `#!` too, the kernel
    /// does not. What the image is given from the project must be a script that has it.
    fn is_startable(&self, program: &str, reporter: &Reporter<'_>) -> bool {
        let name = command::program(program);
        let folder = reporter
            .path
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        if let Some((_, script)) = reporter.images.script(Some(folder), name) {
            return script.has_shebang;
        }
        let is_brought = self.instructions.iter().any(|instruction| {
            matches!(instruction.name.as_str(), "COPY" | "ADD")
                && command::split(&instruction.arguments)
                    .iter()
                    .any(|word| command::program(word) == name)
        });
        let is_script = [".sh", ".bash", ".py", ".rb", ".pl", ".js"]
            .iter()
            .any(|extension| name.ends_with(extension));
        let is_installed = ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/"]
            .iter()
            .any(|folder| program.strip_prefix(folder) == Some(name));
        !is_brought && !is_script && (is_installed || !program.contains('/'))
    }

    /// Scripts that the container starts with, by file name.
    pub(crate) fn scripts(&self) -> Vec<String> {
        let forms = ["ENTRYPOINT", "CMD"]
            .into_iter()
            .filter_map(|name| self.last(name))
            .map(form);
        forms
            .filter_map(|form| script_of(&form.words).map(str::to_owned))
            .collect()
    }
}

/// The name of the script that a command runs, if what it runs is one.
fn script_of(words: &[String]) -> Option<&str> {
    let inner = command::inner(words);
    let word = match inner.first() {
        Some(first) if is_shell(first) => inner.iter().skip(1).find(|word| !word.starts_with('-')),
        first => first,
    };
    word.map(|word| command::program(word))
}

/// The words that end up running.
fn started(instruction: &Instruction) -> Vec<String> {
    match form(instruction) {
        Form { shell: true, .. } => command::started(&instruction.arguments).unwrap_or_default(),
        Form { words, .. } => words,
    }
}

fn form(instruction: &Instruction) -> Form {
    let text = instruction.arguments.trim();
    match serde_json::from_str::<Vec<String>>(text) {
        Ok(words) => Form {
            words,
            shell: false,
        },
        Err(_) => Form {
            words: command::split(text),
            shell: true,
        },
    }
}

pub(crate) fn check(file: &Dockerfile, reporter: &mut Reporter<'_>) {
    let windows = file.base().contains("windows") || file.base().contains("nanoserver");
    if !windows {
        let entry = file.last("ENTRYPOINT").filter(|entry| !is_empty(entry));
        if let Some(entry) = entry {
            // The shell form hides the CMD, which a list would be given.
            let offer = file.last("CMD").is_none();
            start(file, entry, Rank::First, offer, reporter);
        }
        let rank = match entry {
            None => Some(Rank::First),
            Some(entry) => hands_on(entry, reporter).then_some(Rank::HandedOn),
        };
        if let (Some(cmd), Some(rank)) = (file.last("CMD"), rank) {
            // A script may ask what it was given before it hands on.
            let offer = entry.is_none_or(|entry| script_of(&form(entry).words).is_none());
            start(file, cmd, rank, offer, reporter);
        }
    }
    if !windows {
        unhandled(file, reporter);
    }
    if let Some(signal) = file.last("STOPSIGNAL") {
        stop_signal(file, signal, reporter);
    }
    if let Some(check) = file.last("HEALTHCHECK") {
        health(file, check, reporter);
    }
}

/// Python as PID 1, running code that never ends and handles no signal.
fn unhandled(file: &Dockerfile, reporter: &mut Reporter<'_>) {
    let image = reporter.images.of_file(reporter.path);
    let (Some(image), Some(line)) = (image, file.start_line()) else {
        return;
    };
    let has_shell = ["ENTRYPOINT", "CMD"]
        .iter()
        .filter_map(|name| file.last(name))
        .any(|instruction| form(instruction).shell);
    let start = reporter.images.start(Some(&image), None, None, Vec::new());
    let words = match start.words.split_first() {
        Some((first, rest)) if first == "exec" => rest,
        _ => &*start.words,
    };
    // An init program above it is ended by the signal, and a script without `exec` is said elsewhere.
    let is_first = words
        .first()
        .is_some_and(|word| command::program(word).starts_with("python"));
    let is_first =
        is_first && (start.words.len() > words.len() || file.start_words() == start.words);
    if has_shell || !is_first || reporter.images.has_init(reporter.path) {
        return;
    }
    let programs = reporter.project.programs;
    if let Some(code) = programs.code(&start)
        && code.facts.is_endless
        && !programs.handle_signals()
    {
        let name = &code.path;
        let message = format!(
            "Python is PID 1 here and `{name}` has no handler for SIGTERM, so the kernel drops it and `docker stop` ends in \
             SIGKILL: handle it, or start under `adieu run` or `tini`"
        );
        reporter.report(line, rule::UNHANDLED_PID_1, message);
    }
}

/// `ENTRYPOINT []` takes away what the base image set.
fn is_empty(instruction: &Instruction) -> bool {
    form(instruction).words.is_empty()
}

/// Who starts a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// The container itself: it is PID 1.
    First,
    /// An ENTRYPOINT that puts it in its own place, or right below itself.
    HandedOn,
}

/// Whether an ENTRYPOINT runs the CMD as a command, rather than take it for arguments: an init
/// program alone, or a script of the project that ends in `exec "$@"`. What others do with it is
/// not known.
fn hands_on(entry: &Instruction, reporter: &Reporter<'_>) -> bool {
    let form = form(entry);
    if form.shell {
        return false;
    }
    let Some(name) = script_of(&form.words) else {
        return true;
    };
    let folder = reporter
        .path
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    let script = reporter.images.script(Some(folder), name);
    script.is_some_and(|(_, script)| script.hands_on())
}

fn start(
    file: &Dockerfile,
    instruction: &Instruction,
    rank: Rank,
    offer: bool,
    reporter: &mut Reporter<'_>,
) {
    let form = form(instruction);
    // `["sh", "-c", "program"]` is the shell form in other clothes.
    let line = match command::inner(&form.words) {
        _ if form.shell => Some(instruction.arguments.as_str()),
        [shell, flag, line, ..]
            if is_shell(shell) && flag.starts_with('-') && flag.ends_with('c') =>
        {
            Some(line.as_str())
        }
        _ => None,
    };
    if let Some(line) = line
        && !form.words.is_empty()
        && !command::split(line).starts_with(&["exec".to_owned()])
        && !line.contains("exec ")
    {
        shelled(instruction, &form, rank, reporter);
        if offer
            && form.shell
            && file.runs_without_shell(instruction, &form, reporter)
            && let Some(finding) = reporter.last_mut()
        {
            let (start, end) = instruction.span;
            finding.fix = Some(Fix {
                start,
                end,
                text: list(&form.words),
                applicability: Applicability::Safe,
                import: None,
            });
        }
    }
    let wrapper = match line {
        Some(line) => command::started(line).and_then(|words| command::wrapper(&words)),
        None => command::wrapper(&form.words),
    };
    if let Some(wrapper) = wrapper {
        reporter.report_wrapper(instruction.line, &wrapper);
    }
}

/// A shell stands in the program's place.
fn shelled(instruction: &Instruction, form: &Form, rank: Rank, reporter: &mut Reporter<'_>) {
    let name = &instruction.name;
    if !form.shell {
        let message = format!(
            "{name} runs under a shell that keeps the signal: put `exec` before the program"
        );
        reporter.report(instruction.line, rule::SHELL_FORM, message);
        return;
    }
    let shell = match rank {
        Rank::First => "the shell is PID 1 and keeps the signal",
        Rank::HandedOn => "a shell is started in the program's place and keeps the signal",
    };
    let message = format!(
        "{name} in shell form: {shell}; write it as a list, {}",
        list(&form.words)
    );
    reporter.report(instruction.line, rule::SHELL_FORM, message);
}

fn is_shell(word: &str) -> bool {
    matches!(
        command::program(word),
        "sh" | "bash" | "dash" | "ash" | "zsh"
    )
}

fn list(words: &[String]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| serde_json::Value::from(word.as_str()).to_string())
        .collect();
    format!("[{}]", words.join(", "))
}

fn stop_signal(file: &Dockerfile, instruction: &Instruction, reporter: &mut Reporter<'_>) {
    let text = instruction
        .arguments
        .trim()
        .trim_matches('"')
        .to_ascii_uppercase();
    if text.contains('$') {
        return;
    }
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let starts: Vec<String> = ["ENTRYPOINT", "CMD"]
        .iter()
        .filter_map(|n| file.last(n))
        .flat_map(|i| form(i).words)
        .collect();
    let program = starts
        .first()
        .map(|word| command::program(word).to_owned())
        .unwrap_or_default();
    let message = match name {
        "KILL" | "9" | "STOP" | "19" => {
            format!("{text} cannot be handled: the program is cut off in the middle")
        }
        "TERM" | "15" | "INT" | "2" if program == "nginx" => {
            format!("{text} makes nginx drop its connections; it stops gracefully on SIGQUIT")
        }
        "TERM" | "15" | "INT" | "2" => return,
        "QUIT" | "3"
            if program.is_empty()
                || matches!(
                    program.as_str(),
                    "nginx" | "php-fpm" | "uwsgi" | "docker-entrypoint.sh" | "unitd"
                ) =>
        {
            return;
        }
        "WINCH" | "28"
            if program.is_empty()
                || matches!(
                    program.as_str(),
                    "httpd" | "apache2" | "apache2-foreground" | "httpd-foreground"
                ) =>
        {
            return;
        }
        "HUP" | "1" if program == "uwsgi" => return,
        _ if name.starts_with("RTMIN") || name == "37" => return,
        "HUP" | "1" | "USR1" | "10" | "USR2" | "12" | "QUIT" | "3" | "WINCH" | "28" | "PIPE"
        | "13" | "CHLD" | "17" => {
            format!("most programs do not stop gracefully on {text}: use SIGTERM")
        }
        _ => format!("{text} is not a signal: use SIGTERM"),
    };
    reporter.report(instruction.line, rule::STOP_SIGNAL, message);
}

fn health(file: &Dockerfile, instruction: &Instruction, reporter: &mut Reporter<'_>) {
    let text = &instruction.arguments;
    for tool in ["curl", "wget"] {
        let uses = text
            .split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
            .any(|word| word == tool);
        if uses && image::lacks(file.base(), tool) && !file.installs(tool) {
            let message = format!(
                "`{}` has no {tool}: this check always fails; install it or ask without it",
                file.base()
            );
            reporter.report(instruction.line, rule::HEALTHCHECK_TOOL, message);
            return;
        }
    }
}
