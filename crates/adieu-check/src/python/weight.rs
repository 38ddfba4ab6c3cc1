//! How much a blocking call matters: where it stands, how it is reached, and what it waits for.

use super::models::blocking::is_long_walk;
use crate::callgraph::{Call, CallFlags, FileSummary, FnFlags, Function, Hop};
use crate::rule::{self, Code};
use crate::severity::Severity;

/// Words of functions that run while a program starts.
const STARTS: &[&str] = &[
    "setup",
    "startup",
    "init",
    "initialize",
    "initialise",
    "initialization",
    "lifespan",
    "bootstrap",
    "configure",
    "install",
    "migrate",
    "migrations",
    "prepare",
    "main",
    "amain",
    "preload",
    "warmup",
    "upgrade",
    "migration",
    "boot",
    "launch",
];

/// Functions that start a service, by their whole name.
const STARTERS: &[&str] = &[
    "start",
    "astart",
    "async_start",
    "_start",
    "on_start",
    "start_server",
    "run_server",
    "serve",
    "run",
    "create_app",
    "make_app",
    "load_config",
    "from_config",
    "on_load",
    "load_plugins",
    "__aenter__",
    "run_app",
    "cli",
    "load_extensions",
];

/// Where a way that blocks the event loop begins and how it goes on.
pub(crate) struct Way<'w> {
    /// The coroutine that holds up the loop.
    pub(crate) caller: &'w Function,
    pub(crate) file: &'w FileSummary,
    pub(crate) call: &'w Call,
    /// The functions between the coroutine and the call that blocks, with the calls they make on the way.
    pub(crate) through: Vec<Hop<'w>>,
    /// What blocks, by its name.
    pub(crate) blocks: &'w str,
    /// Whether any part of the project serves clients or works through a queue.
    pub(crate) in_service: bool,
}

impl Way<'_> {
    /// How much a finding of this rule matters here.
    pub(crate) fn severity(&self, code: Code) -> Severity {
        let base = code.rule().map_or(Severity::Warning, |rule| rule.severity);
        let base = match code {
            rule::BLOCKING_PATH if is_long_walk(self.blocks) => Severity::Warning,
            // The opening of one small file is over in no time on most machines; a tree is not.
            rule::BLOCKING_FILE if is_long_walk(self.blocks) => Severity::Error,
            _ => base,
        };
        if self.is_rare() || self.passes_an_aside() {
            return Severity::Note;
        }
        // What is awaited gave a coroutine back: it did not take the way that starts a loop.
        let only_makes = self.blocks.ends_with("new_event_loop");
        if code == rule::NESTED_LOOP && (only_makes || self.call.flags.has(CallFlags::AWAITED)) {
            return Severity::Note;
        }
        // A file is opened and read in no time on most machines. It counts where clients wait for it.
        let is_disk = matches!(code, rule::BLOCKING_FILE | rule::BLOCKING_PATH);
        let reads = self.blocks.ends_with(".read_text")
            || self.blocks.ends_with(".read_bytes")
            || self.call.flags.has(CallFlags::READS);
        if code == rule::BLOCKING_FILE && reads && !is_long_walk(self.blocks) {
            return Severity::Note;
        }
        // The own name and what is in the cache of the resolver come at once.
        let looks_up = self.blocks.starts_with("socket.get") && !self.through.is_empty();
        if looks_up {
            return Severity::Note;
        }
        let starts = || {
            let name = self
                .caller
                .name
                .rsplit('.')
                .next()
                .unwrap_or(&self.caller.name);
            name.split('_').any(|word| word == "start")
        };
        // To start a child process is short; to wait for its end is not.
        if matches!(self.blocks, "subprocess.Popen") || self.blocks.starts_with("os.spawn") {
            return Severity::Note;
        }
        if is_disk && (!self.answers_clients() || starts() || self.blocks.starts_with("zipfile.")) {
            return Severity::Note;
        }
        if is_disk && !self.through.is_empty() && !is_long_walk(self.blocks) {
            return Severity::Note;
        }
        let base = if self.in_service {
            base
        } else {
            base.min(Severity::Warning)
        };
        // With each step it is less likely that the way is taken at all. What is only a wait inside
        // of the process is mostly over at once.
        let is_inner = matches!(
            code,
            rule::BLOCKING_LOCK
                | rule::BLOCKING_QUEUE
                | rule::BLOCKING_JOIN
                | rule::BLOCKING_RESULT
                | rule::NESTED_LOOP
        );
        match self.through.len() {
            0 => base,
            1 if is_inner => base.min(Severity::Warning),
            1 => base,
            2 if !is_inner => base.min(Severity::Warning),
            3 if !is_inner => base.lowered(),
            _ => Severity::Note,
        }
    }

    /// A coroutine that a framework calls for a request, a message or a command.
    fn answers_clients(&self) -> bool {
        let name = self
            .caller
            .name
            .rsplit('.')
            .next()
            .unwrap_or(&self.caller.name);
        let is_verb = matches!(name, "get" | "post" | "put" | "delete" | "patch")
            && self.caller.name.contains('.');
        self.caller.flags.has(FnFlags::HANDLER) || is_verb && self.file.facts.is_service
    }

    /// Taken once, while the program starts, or behind a guard.
    fn is_rare(&self) -> bool {
        let calls = self.through.iter().map(|hop| hop.call);
        let functions = self.through.iter().map(|hop| hop.function);
        let starting = CallFlags::AT_START;
        std::iter::once(self.call)
            .chain(calls)
            .any(|call| call.flags.has(CallFlags::GUARDED) || call.flags.has(starting))
            || functions
                .clone()
                .any(|function| function.flags.has(FnFlags::CACHED))
            || std::iter::once(self.caller)
                .chain(functions)
                .any(|function| starts_up(&function.name) || is_settled(&function.name))
    }

    fn passes_an_aside(&self) -> bool {
        self.file.facts.is_aside || self.through.iter().any(|hop| hop.file.facts.is_aside)
    }
}

/// Whether a function of this name is for a developer, or reads what is kept from then on.
fn is_settled(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.split('_').any(|word| {
        matches!(
            word,
            "debug" | "config" | "settings" | "option" | "options" | "cached" | "version"
        )
    })
}

/// Whether a function of this name runs while the program starts.
pub(crate) fn starts_up(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    STARTERS.contains(&last) || last.split('_').any(|word| STARTS.contains(&word))
        // A function inside of one that starts the program may run at any time.
        || name.rsplit('.').nth(1).is_some_and(|outer| outer == "lifespan")
}
