//! Start scripts: the last command must take the shell's place.

use rustc_hash::FxHashMap;

use super::Reporter;
use super::command;
use super::shell::{self, Line};
use crate::fix::{Applicability, Fix};
use crate::rule;

/// Functions that call functions are followed this far.
const DEEPEST: usize = 8;

/// A shell script, as far as it starts a service.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// Whether the kernel knows which program runs it.
    pub(crate) has_shebang: bool,
    has_trap: bool,
    /// Something runs behind it with `&`.
    has_children: bool,
    /// What it ends in: one command, or one for each branch of its last condition.
    ends: Vec<Command>,
    /// Its functions, and what each ends in.
    functions: FxHashMap<String, Vec<Command>>,
    /// Files that it takes in with `.` or `source`, by their names.
    sources: Vec<String>,
    /// Names may come from elsewhere: a file that is taken in, an `eval`, an alias.
    has_foreign_names: bool,
    /// What it does for long before its end, and where.
    work: Option<(u32, String)>,
    /// A loop is open while the lines are read.
    loops: bool,
    /// `trap` stands somewhere, whether it is certain to run or not.
    mentions_trap: bool,
}

#[derive(Debug, Clone)]
struct Command {
    line: u32,
    /// Offset of its first word.
    start: usize,
    text: String,
    /// The line before ends in `|`, `&&` or `||`.
    is_joined: bool,
}

/// Something with an end of its own that is being read.
#[derive(Debug, Default)]
struct Block {
    /// What takes one of several ways: its ends are those of the ways.
    branches: bool,
    /// Whether one of the ways is taken for sure.
    has_else: bool,
    /// The function whose body it is.
    function: Option<String>,
    /// The ends of the ways before this one.
    ends: Vec<Command>,
    /// What came last on this way.
    last: Vec<Command>,
}

impl Block {
    fn next_way(&mut self) {
        self.ends.append(&mut self.last);
    }
}

pub(crate) fn parse(text: &str) -> Script {
    let mut script = Script {
        has_shebang: text.starts_with("#!"),
        ..Script::default()
    };
    // An end that is missing is a script that does not run.
    let Some(lines) = shell::lines(text) else {
        return script;
    };
    let mut reader = Reader {
        blocks: vec![Block::default()],
        ..Reader::default()
    };
    for line in &lines {
        script.note(&line.text);
        script.note_work(line);
        reader.read(line, &line.text, line.start);
        let ends_in = |mark| line.text.ends_with(mark);
        reader.is_joined = ends_in("|") || ends_in("&&");
    }
    if let [whole] = &mut *reader.blocks {
        script.ends = std::mem::take(&mut whole.last);
    }
    script.functions = reader.functions;
    script
}

/// What is open while the lines are read.
#[derive(Debug, Default)]
struct Reader {
    blocks: Vec<Block>,
    functions: FxHashMap<String, Vec<Command>>,
    /// A function whose body begins on the next line.
    announced: Option<String>,
    is_joined: bool,
}

impl Reader {
    /// The rest of a line, which begins at this offset.
    fn read(&mut self, line: &Line, text: &str, start: usize) {
        let first = text.split_whitespace().next().unwrap_or("");
        let after = |word: &str| {
            let rest = text[word.len()..].trim_start();
            (rest, start + (text.len() - rest.len()))
        };
        let announced = self.announced.take();
        match first.trim_end_matches(';') {
            "{" | "(" if announced.is_some() => self.blocks.push(Block {
                function: announced,
                ..Block::default()
            }),
            "if" | "for" | "while" | "until" | "case" | "{" | "(" => {
                let block = Block {
                    branches: matches!(first, "if" | "case"),
                    // No case may fit, and then nothing is started; but it was meant to be.
                    has_else: first == "case",
                    ..Block::default()
                };
                if is_closed(first, text) {
                    self.forget();
                } else {
                    self.blocks.push(block);
                }
            }
            "elif" => self.with_last(Block::next_way),
            word @ ("else" | "then" | "do") => {
                if word == "else" {
                    self.with_last(|block| {
                        block.next_way();
                        block.has_else = true;
                    });
                }
                let (rest, start) = after(first);
                if !rest.is_empty() {
                    self.read(line, rest, start);
                }
            }
            "fi" | "done" | "esac" | "}" | ")" => self.close(),
            _ => match shell::function(text) {
                Some((name, body)) => self.define(line, name, body),
                None => self.command(line, text, start),
            },
        }
    }

    fn close(&mut self) {
        if self.blocks.len() < 2 {
            return;
        }
        let Some(mut block) = self.blocks.pop() else {
            return;
        };
        block.next_way();
        let is_function = block.function.is_some();
        if let Some(name) = block.function {
            self.functions.insert(name, std::mem::take(&mut block.ends));
        }
        // A condition without an else is a step on the way, not what the script is there for.
        let ends = if block.branches && block.has_else && !is_function {
            block.ends
        } else {
            Vec::new()
        };
        self.with_last(|outer| outer.last = ends);
    }

    fn define(&mut self, line: &Line, name: &str, body: &str) {
        if body.is_empty() {
            self.announced = Some(name.to_owned());
        } else if let Some(inner) = body.strip_prefix('{').and_then(|it| it.strip_suffix('}')) {
            let last = inner.trim().trim_end_matches(';').rsplit(';').next();
            let end = Command {
                line: line.number,
                start: line.start,
                text: last.unwrap_or_default().trim().to_owned(),
                is_joined: true,
            };
            self.functions.insert(name.to_owned(), vec![end]);
        } else {
            self.blocks.push(Block {
                function: Some(name.to_owned()),
                ..Block::default()
            });
        }
    }

    fn command(&mut self, line: &Line, text: &str, start: usize) {
        let in_case = self.blocks.last().is_some_and(|block| block.branches);
        let pattern = text.find(')').filter(|at| {
            in_case && !text[..*at].contains(['(', '$', ' ']) || text.starts_with('(')
        });
        if let Some(at) = pattern {
            let rest = text[at + 1..].trim_start();
            if !rest.is_empty() {
                self.read(line, rest, start + (text.len() - rest.len()));
            }
            return;
        }
        let command = text.trim_end_matches(";;").trim_end();
        let is_joined = self.is_joined;
        self.with_last(|block| {
            if !command.is_empty() {
                block.last = vec![Command {
                    line: line.number,
                    start,
                    text: command.to_owned(),
                    is_joined,
                }];
            }
            if text.ends_with(";;") {
                block.next_way();
            }
        });
    }

    fn with_last(&mut self, change: impl FnOnce(&mut Block)) {
        if let Some(block) = self.blocks.last_mut() {
            change(block);
        }
    }

    /// What ends in this hangs on something that is not looked into.
    fn forget(&mut self) {
        self.with_last(|block| block.last.clear());
    }
}

/// Whether what a line opens is closed at its end.
fn is_closed(opened: &str, line: &str) -> bool {
    let close = match opened {
        "if" => "fi",
        "case" => "esac",
        "{" => "}",
        "(" => ")",
        _ => "done",
    };
    let last = line.split([' ', ';', '\t']).next_back();
    last == Some(close) || close == ")" && line.ends_with(')')
}

impl Script {
    /// Notes what one line says of the script as a whole.
    fn note(&mut self, line: &str) {
        let first = line.split_whitespace().next();
        self.has_trap |= first == Some("trap");
        self.has_children |= line.ends_with('&') && !line.ends_with("&&");
        let mut words = line.split(|c: char| c.is_whitespace() || ";&|(){}".contains(c));
        while let Some(word) = words.next() {
            match word {
                "trap" => self.mentions_trap = true,
                "eval" | "alias" => self.has_foreign_names = true,
                "." | "source" => {
                    self.has_foreign_names = true;
                    let file = words.next().unwrap_or("").trim_matches(['"', '\'']);
                    self.sources.push(command::program(file).to_owned());
                }
                _ => {}
            }
        }
    }

    /// Notes what may last: waiting for others, migrations, installations.
    fn note_work(&mut self, line: &Line) {
        let words = command::split(&line.text);
        let first = words.first().map_or("", |word| command::program(word));
        self.loops |= matches!(first, "until" | "while");
        let sleeps = self.loops
            && words
                .iter()
                .any(|word| word.trim_end_matches(';') == "sleep");
        self.loops &= first != "done" && !line.text.ends_with("done");
        let has = |word: &str| words.iter().any(|it| it == word);
        let is_long = match first.trim_end_matches(".sh").trim_end_matches(".py") {
            "wait-for-it" | "wait-for" | "wait-for-db" | "wait_for_db" | "wait_for_it" => true,
            "dockerize" => has("-wait"),
            "alembic" => has("upgrade"),
            "pip" | "pip3" | "npm" | "yarn" | "pnpm" | "bundle" => has("install") || has("ci"),
            "flask" => has("db") && has("upgrade"),
            "rails" | "rake" | "bundler" => has("db:migrate") || has("db:prepare"),
            "npx" | "prisma" => {
                has("prisma") && has("migrate") || first == "prisma" && has("migrate")
            }
            name if name.starts_with("python")
                || name == "manage"
                || name == "uv"
                || name == "poetry" =>
            {
                has("migrate") || has("alembic") && has("upgrade")
            }
            _ => false,
        };
        let what = match sleeps {
            true => "a loop that sleeps".to_owned(),
            false => format!(
                "`{}`",
                words.iter().take(3).cloned().collect::<Vec<_>>().join(" ")
            ),
        };
        if (is_long || sleeps) && self.work.is_none() {
            self.work = Some((line.number, what));
        }
    }

    /// Whether it makes way for what it starts, on each way that it takes.
    fn makes_way(&self) -> bool {
        !self.ends.is_empty() && self.ends.iter().all(|end| end.text.starts_with("exec "))
    }

    /// Whether it takes in the file of this name.
    pub(crate) fn takes_in(&self, name: &str) -> bool {
        self.sources.iter().any(|source| source == name)
    }

    /// Whether a function ends in commands that keep no signal, whichever way it takes.
    fn is_quiet(&self, function: &str, depth: usize) -> bool {
        let ends = self.functions.get(function).map_or(&[][..], Vec::as_slice);
        !ends.is_empty()
            && ends.iter().all(|end| {
                let words = command::split(&end.text);
                words.first().is_some_and(|first| {
                    shell::is_harmless(first) || depth < DEEPEST && self.is_quiet(first, depth + 1)
                })
            })
    }

    /// Whether `exec` before this command changes nothing but the shell's place: a program alone,
    /// not a word of the shell or a function of the script, with nothing left to do behind it.
    fn takes_exec(&self, end: &Command, first: &str) -> bool {
        let whole = !end.is_joined && !self.mentions_trap && !self.has_children;
        let simple = !end.text.contains(['|', '&', ';', '<', '>', '(', '`', '\n']);
        // What is in a variable may name a function too.
        let is_program = match first.chars().next() {
            Some('/' | '.') => first.contains('/'),
            Some('$') => self.functions.is_empty() && !self.has_foreign_names,
            Some('-') | None => false,
            Some(_) => {
                !shell::is_own_word(first)
                    && !first.contains('=')
                    && !self.functions.contains_key(first)
                    && (!self.has_foreign_names || first.contains('/'))
            }
        };
        whole && simple && is_program
    }

    /// Whether one of its ends makes way for the command it was given.
    pub(crate) fn hands_on(&self) -> bool {
        self.ends.iter().any(|end| {
            let words = command::split(&end.text);
            words.first().is_some_and(|first| first == "exec")
                && command::inner(&words)
                    .first()
                    .is_some_and(|first| first == "$@" || first == "$*")
        })
    }

    /// The line of the command it ends in.
    pub(crate) fn start_line(&self) -> Option<u32> {
        match &*self.ends {
            [last] => Some(last.line),
            _ => None,
        }
    }

    /// The command it ends in, with the arguments it was given; nothing where that hangs on a
    /// condition.
    pub(crate) fn starts(&self, arguments: &[String]) -> Vec<String> {
        let [last] = &*self.ends else {
            return Vec::new();
        };
        let mut words = Vec::new();
        for word in command::started(&last.text).unwrap_or_default() {
            match word.as_str() {
                "$@" | "$*" => words.extend_from_slice(arguments),
                _ => words.push(word),
            }
        }
        words
    }
}

/// What runs a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunBy {
    /// A container, as its PID 1.
    Container,
    /// s6, which signals the script alone.
    S6,
}

pub(crate) fn check(script: &Script, by: RunBy, reporter: &mut Reporter<'_>) {
    if let (Some((line, what)), RunBy::Container, false) = (&script.work, by, script.mentions_trap)
        && script.makes_way()
    {
        let message = format!(
            "until its `exec` the script is PID 1 without a handler, and SIGTERM during {what} is lost: `trap 'exit 143' TERM` before"
        );
        reporter.report(*line, rule::WORK_BEFORE_EXEC, message);
    }
    if script.has_trap {
        return;
    }
    for end in &script.ends {
        check_end(script, end, by, reporter);
        let started = command::started(&end.text);
        if let Some(wrapper) = started.and_then(|words| command::wrapper(&words)) {
            reporter.report_wrapper(end.line, &wrapper);
        }
    }
}

fn check_end(script: &Script, last: &Command, by: RunBy, reporter: &mut Reporter<'_>) {
    let words = command::split(&last.text);
    let Some(first) = words.first() else { return };
    if first == "wait" && script.has_children {
        reporter.report(
            last.line,
            rule::SCRIPT_WITHOUT_EXEC,
            "the script is PID 1 above its children and keeps the signal from them: `trap` it and pass it on, or \
             give each its own container",
        );
        return;
    }
    let is_assignment = first.contains('=');
    if shell::is_harmless(first) || is_assignment && words.len() == 1 || script.is_quiet(first, 0) {
        return;
    }
    if script.functions.contains_key(first) {
        // `exec` finds only programs, and this name is not one.
        let message = format!(
            "the script stays PID 1 above what its function `{first}` runs and keeps the signal: put `exec` before \
             the last command of that function"
        );
        reporter.report(last.line, rule::SCRIPT_WITHOUT_EXEC, message);
        return;
    }
    // As it is written, with its quotes.
    let written = last.text.split_whitespace().next().unwrap_or(first);
    let program = command::program(first);
    let message = match by {
        RunBy::Container => {
            format!(
                "the script stays PID 1 above `{program}` and keeps the signal: write `exec {written}`"
            )
        }
        RunBy::S6 => format!(
            "s6 signals this script alone and leaves `{program}` running: write `exec {written}`"
        ),
    };
    reporter.report(last.line, rule::SCRIPT_WITHOUT_EXEC, message);
    // Another script that takes this one in would be replaced with it.
    let is_taken_in = reporter.images.is_taken_in(command::program(reporter.path));
    if script.takes_exec(last, first)
        && !is_taken_in
        && let Some(finding) = reporter.last_mut()
    {
        finding.fix = Some(Fix {
            start: last.start,
            end: last.start,
            text: "exec ".to_owned(),
            applicability: Applicability::Safe,
            import: None,
        });
    }
}
