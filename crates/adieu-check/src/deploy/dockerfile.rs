//! Dockerfiles.

use super::Desk;
use super::command;
use super::image;
use crate::fix::Fix;
use crate::rule;

/// The instructions of the last stage, which is what runs.
#[derive(Debug, Default)]
pub(crate) struct Dockerfile {
    instructions: Vec<Instruction>,
}

#[derive(Debug, Clone)]
struct Instruction {
    line: u32,
    /// Where its arguments start and end in the file.
    span: (usize, usize),
    name: String,
    arguments: String,
}

/// The words of CMD or ENTRYPOINT.
#[derive(Debug)]
struct Form {
    words: Vec<String>,
    shell: bool,
}

pub(crate) fn parse(text: &str) -> Dockerfile {
    let mut file = Dockerfile::default();
    let mut offset = 0;
    let mut current: Option<Instruction> = None;
    let mut heredoc: Option<String> = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += line.len();
        let trimmed = line.trim();
        if let Some(end) = &heredoc {
            if trimmed == end {
                heredoc = None;
            }
            continue;
        }
        if trimmed.starts_with('#') || trimmed.is_empty() && current.is_none() {
            continue;
        }
        let continues = trimmed.ends_with('\\');
        let body = trimmed.strip_suffix('\\').unwrap_or(trimmed);
        match &mut current {
            Some(instruction) => {
                instruction.arguments.push(' ');
                instruction.arguments.push_str(body);
                instruction.span.1 = start + line.trim_end().len();
            }
            None => {
                let (name, arguments) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
                let from = start + line.find(name).unwrap_or(0) + name.len();
                let lead = line
                    .get(from - start..)
                    .map_or(0, |rest| rest.len() - rest.trim_start().len());
                current = Some(Instruction {
                    line: index as u32 + 1,
                    span: (from + lead, start + line.trim_end().len()),
                    name: name.to_ascii_uppercase(),
                    arguments: arguments.trim().to_owned(),
                });
            }
        }
        if !continues && let Some(instruction) = current.take() {
            if matches!(instruction.name.as_str(), "RUN" | "COPY" | "ADD") {
                heredoc = heredoc_end(&instruction.arguments);
            }
            if instruction.name == "FROM" {
                file.start_stage(&instruction);
            }
            file.instructions.push(instruction);
        }
    }
    file.instructions.extend(current);
    file
}

fn heredoc_end(arguments: &str) -> Option<String> {
    let (_, rest) = arguments.split_once("<<")?;
    let word = rest.trim_start_matches('-').trim_matches(['"', '\'']);
    let end: String = word
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!end.is_empty()).then_some(end)
}

impl Dockerfile {
    /// A new stage starts from an image, or goes on from an earlier stage and all that it set.
    fn start_stage(&mut self, from: &Instruction) {
        let base = from
            .arguments
            .split_whitespace()
            .find(|word| !word.starts_with("--"))
            .unwrap_or("");
        let named = self.instructions.iter().position(|instruction| {
            instruction.name == "FROM"
                && instruction
                    .arguments
                    .split_whitespace()
                    .last()
                    .is_some_and(|name| name.eq_ignore_ascii_case(base))
                && instruction.arguments.to_ascii_lowercase().contains(" as ")
        });
        match named {
            // Kept: what the earlier stage installed and set holds here too.
            Some(start) => {
                let _ = self.instructions.drain(..start);
            }
            None => {
                // Other stages may still be named later; only their FROM and RUN lines matter then.
                self.instructions
                    .retain(|instruction| matches!(instruction.name.as_str(), "FROM" | "RUN"));
                for instruction in &mut self.instructions {
                    if instruction.name == "RUN" {
                        instruction.name = "EARLIER RUN".to_owned();
                    }
                }
            }
        }
    }

    fn last(&self, name: &str) -> Option<&Instruction> {
        self.instructions
            .iter()
            .rev()
            .find(|instruction| instruction.name == name)
    }

    fn base(&self) -> &str {
        self.last("FROM")
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
                && instruction.arguments.contains(tool)
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

    /// The CMD, which an ENTRYPOINT in shell form does not hear of.
    pub(crate) fn cmd(&self) -> Vec<String> {
        if self
            .last("ENTRYPOINT")
            .is_some_and(|entry| form(entry).shell)
        {
            return Vec::new();
        }
        self.last("CMD").map(started).unwrap_or_default()
    }

    /// The variables it sets, the last first.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let sets = self.instructions.iter().rev();
        sets.filter(|instruction| instruction.name == "ENV")
            .flat_map(|instruction| {
                let words = command::split(&instruction.arguments);
                match words.as_slice() {
                    // The old form: `ENV NAME value`.
                    [name, value @ ..] if !name.contains('=') => {
                        vec![(name.clone(), value.join(" "))]
                    }
                    words => words
                        .iter()
                        .filter_map(|word| word.split_once('='))
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .collect(),
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

    /// Scripts that the container starts with, by file name.
    pub(crate) fn scripts(&self) -> Vec<String> {
        let forms = ["ENTRYPOINT", "CMD"]
            .into_iter()
            .filter_map(|name| self.last(name))
            .map(form);
        forms
            .filter_map(|form| {
                let inner = command::inner(&form.words);
                let word = match inner.first().map(|first| command::program(first)) {
                    Some("sh" | "bash" | "dash" | "ash") => {
                        inner.iter().skip(1).find(|word| !word.starts_with('-'))
                    }
                    _ => inner.first(),
                };
                word.map(|word| command::program(word).to_owned())
            })
            .collect()
    }
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

pub(crate) fn check(file: &Dockerfile, desk: &mut Desk<'_>) {
    let windows = file.base().contains("windows") || file.base().contains("nanoserver");
    for name in ["ENTRYPOINT", "CMD"] {
        if let Some(instruction) = file.last(name)
            && !windows
        {
            // With an exec-form ENTRYPOINT, CMD is only its arguments.
            let is_arguments = name == "CMD" && file.last("ENTRYPOINT").is_some();
            start(instruction, is_arguments, desk);
        }
    }
    if let Some(signal) = file.last("STOPSIGNAL") {
        stop_signal(file, signal, desk);
    }
    if let Some(check) = file.last("HEALTHCHECK") {
        health(file, check, desk);
    }
}

fn start(instruction: &Instruction, is_arguments: bool, desk: &mut Desk<'_>) {
    let form = form(instruction);
    let words: &[String] = match form.words.as_slice() {
        // `["sh", "-c", "program"]` is the shell form in other clothes.
        [shell, flag, line]
            if !form.shell && is_shell(shell) && flag.starts_with('-') && flag.ends_with('c') =>
        {
            let inner = command::split(line);
            let execs =
                inner.first().is_some_and(|first| first == "exec") || line.contains("exec ");
            if !execs {
                desk.report(
                    instruction.line,
                    rule::SHELL_FORM,
                    format!("{} runs under a shell that keeps the signal: put `exec` before the program", instruction.name),
                );
            }
            if let Some(wrapper) = command::wrapper(&inner) {
                swallowed(instruction.line, &wrapper, desk);
            }
            return;
        }
        words => words,
    };
    if form.shell && !is_arguments && !words.is_empty() {
        let execs = words.first().is_some_and(|first| first == "exec")
            || instruction.arguments.contains("exec ");
        if !execs {
            let message = format!(
                "{} in shell form: the shell is process 1 and keeps the signal; write it as a list, {}",
                instruction.name,
                list(words)
            );
            desk.report(instruction.line, rule::SHELL_FORM, message);
            // Only plain words mean the same without a shell.
            let plain = instruction
                .arguments
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || " _-./:=@,+".contains(c));
            let assigns = words.first().is_some_and(|first| first.contains('='));
            let builtin = words
                .first()
                .is_some_and(|first| matches!(first.as_str(), "cd" | "source" | "." | "set"));
            if plain
                && !assigns
                && !builtin
                && let Some(finding) = desk.last_mut()
            {
                let (start, end) = instruction.span;
                finding.fix = Some(Fix {
                    start,
                    end,
                    text: list(words),
                });
            }
        }
    }
    if !is_arguments && let Some(wrapper) = command::wrapper(words) {
        swallowed(instruction.line, &wrapper, desk);
    }
}

fn swallowed(line: u32, wrapper: &str, desk: &mut Desk<'_>) {
    let message =
        format!("`{wrapper}` stands between the signal and the program: start the program itself");
    desk.report(line, rule::SWALLOWING_WRAPPER, message);
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

fn stop_signal(file: &Dockerfile, instruction: &Instruction, desk: &mut Desk<'_>) {
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
        _ => format!("{text} is no signal: use SIGTERM"),
    };
    desk.report(instruction.line, rule::STOP_SIGNAL, message);
}

fn health(file: &Dockerfile, instruction: &Instruction, desk: &mut Desk<'_>) {
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
            desk.report(instruction.line, rule::HEALTHCHECK_TOOL, message);
            return;
        }
    }
}
