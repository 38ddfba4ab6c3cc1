//! How much a blocking call in async Rust matters: where it stands, how it is reached, and what it
//! waits for.

use crate::callgraph::{Call, CallFlags, FileSummary, FnFlags, Function, Hop};
use crate::rule::{self, Code};
use crate::severity::Severity;

/// Words of functions that run while a program starts.
const STARTS: &[&str] = &[
    "setup",
    "startup",
    "init",
    "initialize",
    "bootstrap",
    "configure",
    "install",
    "migrate",
    "migrations",
    "prepare",
    "main",
    "preload",
    "boot",
    "launch",
    "new",
    "build",
    "open",
    "create",
    "load",
    "config",
    "spawn_server",
    "builder",
    "try_new",
];

/// Functions that start a service, by their whole name.
const STARTERS: &[&str] = &[
    "start",
    "run",
    "serve",
    "listen",
    "bind",
    "from_config",
    "execute",
    "start_server",
    "run_server",
];

/// The calls on files that take long enough to be felt.
const LONG: &[&str] = &[
    "std::fs::read",
    "std::fs::read_to_string",
    "std::fs::write",
    "std::fs::copy",
    "std::fs::read_dir",
    "std::fs::remove_dir_all",
    "std::fs::File::sync_all",
    "std::fs::File::sync_data",
    "std::fs::File::read_to_string",
    "std::fs::File::read_to_end",
    "std::fs::File::write_all",
];

/// Where a way that blocks a thread of the runtime begins and how it goes on.
pub(crate) struct Way<'w> {
    pub(crate) caller: &'w Function,
    pub(crate) file: &'w FileSummary,
    pub(crate) call: &'w Call,
    pub(crate) through: Vec<Hop<'w>>,
    /// What blocks, by its name.
    pub(crate) blocks: &'w str,
    /// Whether any part of the package serves clients or works through a queue.
    pub(crate) in_service: bool,
}

impl Way<'_> {
    /// How much a finding of this rule matters here.
    pub(crate) fn severity(&self, code: Code) -> Severity {
        let base = code.rule().map_or(Severity::Warning, |rule| rule.severity);
        let is_aside =
            self.file.facts.is_aside || self.through.iter().any(|hop| hop.file.facts.is_aside);
        if self.is_rare() || is_aside {
            return Severity::Note;
        }
        let is_short = code == rule::RUST_FILE && !LONG.contains(&self.blocks);
        // Who reads a file without a service around it is most likely a tool.
        let is_tool = (!self.in_service || !self.through.is_empty()) && code == rule::RUST_PROCESS
            || code == rule::RUST_FILE && (!self.file.facts.is_service || self.through.len() > 1);
        if is_short || is_tool {
            return Severity::Note;
        }
        let base = if self.in_service {
            base
        } else {
            base.min(Severity::Warning)
        };
        match self.through.len() {
            0 | 1 => base,
            2 => base.min(Severity::Warning),
            _ => base.lowered().min(Severity::Warning),
        }
    }

    fn is_rare(&self) -> bool {
        let calls = self.through.iter().map(|hop| hop.call);
        let functions = self.through.iter().map(|hop| hop.function);
        std::iter::once(self.call)
            .chain(calls)
            .any(|call| call.flags.has(CallFlags::AT_START))
            || std::iter::once(self.caller)
                .chain(functions)
                .any(|function| function.flags.has(FnFlags::ENTRY) || starts_up(&function.name))
    }
}

/// Whether a function of this name runs while the program starts.
fn starts_up(name: &str) -> bool {
    let last = name.rsplit("::").next().unwrap_or(name);
    STARTERS.contains(&last) || last.split('_').any(|word| STARTS.contains(&word))
}

/// Whether a library answers clients or works through a queue.
pub(crate) fn serves(root: &str) -> bool {
    matches!(
        root,
        "axum"
            | "hyper"
            | "hyper_util"
            | "tonic"
            | "warp"
            | "actix_web"
            | "actix"
            | "rocket"
            | "poem"
            | "salvo"
            | "tower_http"
            | "jsonrpsee"
            | "tarpc"
            | "lapin"
            | "rdkafka"
            | "async_nats"
            | "quinn"
            | "pingora"
            | "pingora_core"
            | "russh"
            | "libp2p"
            | "serenity"
            | "teloxide"
            | "apalis"
            | "tokio_tungstenite"
            | "tungstenite"
            | "h2"
            | "h3"
            | "iroh"
            | "rumqttc"
            | "rumqttd"
            | "ntex"
            | "volo"
            | "adieu"
    )
}
