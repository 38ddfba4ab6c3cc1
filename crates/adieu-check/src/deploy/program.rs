//! A program as the file of a platform has it: what is started, and how long the platform waits.

use std::sync::Arc;

use super::Reporter;
use super::command;
use super::images::Image;
use super::launch::{self, Platform};
use super::programs::joined;
use super::start::{Spot, StopTime, Variable};
use crate::rule;

/// One program of one file.
#[derive(Debug)]
pub(crate) struct HostedProgram {
    pub(crate) platform: &'static Platform,
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) image: ImageOf,
    pub(crate) entrypoint: Option<Vec<String>>,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) variables: Vec<(String, String, u32)>,
    /// How long the platform is to wait, where that can be read, and the line that says it.
    pub(crate) wait: Option<(Option<u64>, u32)>,
    /// The signal it is to send.
    pub(crate) signal: Option<(String, u32)>,
    /// Whether the signal reaches the children of the command too.
    pub(crate) reaches_children: bool,
}

/// Which image a program runs in.
#[derive(Debug, Default)]
pub(crate) enum ImageOf {
    /// None, or one that the file does not name.
    #[default]
    None,
    Named(String),
    /// A Dockerfile, from the directory of the file.
    Built(String),
}

impl HostedProgram {
    pub(crate) fn new(
        platform: &'static Platform,
        name: impl Into<String>,
        line: u32,
    ) -> HostedProgram {
        HostedProgram {
            platform,
            name: name.into(),
            line,
            image: ImageOf::None,
            entrypoint: None,
            command: None,
            variables: Vec::new(),
            wait: None,
            signal: None,
            reaches_children: false,
        }
    }

    fn image<'a>(&self, reporter: &Reporter<'a>) -> Option<Image<'a>> {
        match &self.image {
            ImageOf::None => None,
            ImageOf::Named(name) => reporter.images.named(name),
            ImageOf::Built(file) => {
                let folder = reporter
                    .path
                    .rsplit_once('/')
                    .map_or("", |(folder, _)| folder);
                reporter.images.of_file(&joined(folder, file))
            }
        }
    }

    /// The signal that arrives, as it is said.
    fn arriving(&self) -> String {
        let said = self
            .signal
            .as_ref()
            .map(|(signal, _)| signal.to_ascii_uppercase());
        match said {
            Some(name) if name.starts_with("SIG") || name.chars().all(|c| c.is_ascii_digit()) => {
                name
            }
            Some(name) => format!("SIG{name}"),
            None => self.platform.signal.to_owned(),
        }
    }
}

pub(crate) fn check(programs: &[HostedProgram], reporter: &mut Reporter<'_>) {
    for program in programs {
        check_program(program, reporter);
    }
}

fn check_program(program: &HostedProgram, reporter: &mut Reporter<'_>) {
    let image = program.image(reporter);
    let path = Arc::clone(reporter.path);
    let variables = program
        .variables
        .iter()
        .map(|(name, value, line)| Variable {
            name: name.clone(),
            value: value.clone(),
            at: Some(Spot {
                path: Arc::clone(&path),
                line: *line,
            }),
        });
    let mut start = reporter.images.start(
        image.as_ref(),
        program.entrypoint.clone(),
        program.command.clone(),
        variables.collect(),
    );
    start.at = start.at.or_else(|| Some(reporter.spot(program.line)));
    let own = reporter.own(&start);
    signal(program, &start.words, reporter);
    grace(program, own.as_ref(), reporter);
    if !program.reaches_children {
        children(program, reporter);
    }
    let wait = program
        .wait
        .map(|(seconds, line)| (seconds, reporter.spot(line)));
    let patience = launch::on(program.platform, wait, reporter.spot(program.line));
    reporter.launch(&program.name, program.line, start, patience, None);
}

fn grace(program: &HostedProgram, own: Option<&StopTime>, reporter: &mut Reporter<'_>) {
    let platform = program.platform;
    let line = program.wait.map_or(program.line, |(_, line)| line);
    let (name, setting) = (&program.name, platform.setting);
    let waits = match program.wait {
        Some((Some(seconds), _)) => seconds,
        Some((None, _)) => return,
        None => platform.seconds,
    };
    if let Some(most) = platform.most
        && waits > most
    {
        let message = format!(
            "{} waits {most} s at most: `{setting}` cannot be {waits} s",
            platform.name
        );
        reporter.report(line, rule::PLATFORM_GRACE, message);
        return;
    }
    let Some(own) = own.filter(|own| own.seconds > waits) else {
        return;
    };
    let remedy = match platform.most {
        _ if setting.is_empty() => "make that shorter".to_owned(),
        Some(most) if own.seconds > most => {
            format!("make that shorter than {most} s, the most that it waits")
        }
        _ => format!("raise `{setting}`"),
    };
    let message = format!(
        "{} kills `{name}` {waits} s after {} while {}: {remedy}",
        platform.name,
        program.arriving(),
        own.said()
    );
    reporter.report_grace(line, rule::PLATFORM_GRACE, message, Some(own));
}

/// A signal that cuts the program off.
fn signal(program: &HostedProgram, words: &[String], reporter: &mut Reporter<'_>) {
    let arrives = program.arriving();
    let line = program
        .signal
        .as_ref()
        .map_or(program.line, |(_, line)| *line);
    let message = match (&*arrives, command::server(words)) {
        ("SIGKILL" | "9", _) => {
            "SIGKILL cannot be handled: the program is cut off in the middle".to_owned()
        }
        (_, Some("gunicorn")) if matches!(&*arrives, "SIGINT" | "SIGQUIT" | "2" | "3") => {
            let whose = match program.signal {
                Some(_) => String::new(),
                None => format!(", which {} sends by default,", program.platform.name),
            };
            format!(
                "gunicorn drops its requests on {arrives}{whose} and finishes them on SIGTERM: set `{}`",
                program.platform.signal_setting
            )
        }
        _ => return,
    };
    reporter.report(line, rule::STOP_SIGNAL, message);
}

/// A shell or a wrapper that is signalled alone.
fn children(program: &HostedProgram, reporter: &mut Reporter<'_>) {
    let mut words = program.entrypoint.clone().unwrap_or_default();
    words.extend(program.command.clone().unwrap_or_default());
    let name = &program.name;
    if command::shell_stays(&words) {
        let message = format!(
            "`{name}` runs under a shell that keeps the signal: put `exec` before the program{}",
            program.platform.group_hint
        );
        reporter.report(program.line, rule::SHELL_FORM, message);
    } else if let Some(wrapper) = command::wrapper(&words) {
        reporter.report_wrapper(program.line, &wrapper);
    }
}
