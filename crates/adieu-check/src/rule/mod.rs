//! The rules: stable codes, names, and the page behind `--explain`.

mod selection;

use std::fmt;

use serde::{Serialize, Serializer};

use crate::severity::Severity;

pub(crate) use selection::matches as is_meant;
pub use selection::{Selection, UnknownRules};

/// A rule's code. Codes are never reused and never change their meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(&'static str);

impl Code {
    /// The code as written: `ADP101`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The rule behind the code.
    #[must_use]
    pub fn rule(self) -> Option<&'static Rule> {
        Rule::find(self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

/// One rule.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// The stable code.
    pub code: Code,
    /// A name for people.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// How much a finding of it matters where nothing speaks for less.
    pub severity: Severity,
    /// A new rule, which is off where `preview` is.
    pub preview: bool,
    /// Why, a bad and a good example, and the blind spots, in Markdown.
    pub page: &'static str,
}

impl Rule {
    /// All rules, in order of their codes.
    pub const ALL: &'static [Rule] = RULES;

    /// A rule by its code or its name, in any case.
    #[must_use]
    pub fn find(text: &str) -> Option<&'static Rule> {
        RULES.iter().find(|rule| {
            rule.code.0.eq_ignore_ascii_case(text) || rule.name.eq_ignore_ascii_case(text)
        })
    }
}

/// Rules whose precision is not measured yet. They run with `preview`, or where their whole code is selected.
const PREVIEW: &[&str] = &["ADP404"];

const fn is_preview(code: &str) -> bool {
    let mut at = 0;
    while at < PREVIEW.len() {
        if same(PREVIEW[at].as_bytes(), code.as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    a.len() == b.len()
}

macro_rules! rules {
    ($($constant:ident $code:literal $name:literal $severity:ident $summary:literal)*) => {
        $(pub(crate) const $constant: Code = Code($code);)*
        const RULES: &[Rule] = &[$(Rule {
            code: $constant,
            name: $name,
            summary: $summary,
            severity: Severity::$severity,
            preview: is_preview($code),
            page: include_str!(concat!("docs/", $code, ".md")),
        }),*];
    };
}

rules! {
    SHELL_FORM "ADD101" "shell-form" Error "the command of a container runs under a shell that keeps the signal"
    SCRIPT_WITHOUT_EXEC "ADD102" "script-without-exec" Error "a start script runs the service as its child instead of becoming it"
    STOP_SIGNAL "ADD103" "stop-signal" Error "STOPSIGNAL names a signal the program does not stop on"
    HEALTHCHECK_TOOL "ADD104" "healthcheck-tool" Warning "HEALTHCHECK needs a tool the image does not have"
    SWALLOWING_WRAPPER "ADD105" "swallowing-wrapper" Warning "a wrapper command stands between the signal and the program"
    UNHANDLED_PID_1 "ADD106" "pid-1-without-handler" Warning "the program is PID 1 and has no handler for SIGTERM"
    WORK_BEFORE_EXEC "ADD107" "work-before-exec" Note "a start script works before its exec, and SIGTERM is lost meanwhile"
    COMPOSE_GRACE "ADD201" "compose-grace" Note "compose service without a stop_grace_period, or with one too short"
    COMPOSE_INIT "ADD202" "compose-init" Warning "compose service without init whose command starts children"
    POD_GRACE "ADD301" "pod-grace" Error "grace period shorter than preStop plus the program's own grace"
    NO_READINESS "ADD302" "no-readiness" Note "container with ports but no readiness probe"
    SAME_PROBES "ADD303" "same-probes" Note "liveness asks the same question as readiness"
    DROPS_ALL "ADD304" "drops-all" Warning "a roll-out may take all replicas away at once"
    BLOCKS_DRAIN "ADD305" "blocks-drain" Warning "a disruption budget refuses every eviction, so no node can be drained"
    KILL_MODE "ADD401" "kill-mode" Error "KillMode leaves processes behind"
    UNIT_TIMEOUT "ADD402" "unit-timeout" Error "TimeoutStopSec is shorter than the program's own grace"
    UNIT_NOTIFY "ADD403" "unit-notify" Warning "Type=notify for a program that never notifies"
    SERVER_GRACE "ADD501" "server-grace" Error "the server's own timeout contradicts the one around it"
    BUDGET_EXCEEDED "ADD601" "budget-exceeded" Error "the stop takes longer in the worst case than the platform waits"
    BUDGET_WITHOUT_LIMIT "ADD602" "budget-without-limit" Warning "something in the stop has no limit, so the platform may kill it"
    PLATFORM_GRACE "ADD701" "platform-grace" Error "the platform kills sooner than the program stops"
    PROXY_WITHOUT_LIMIT "ADD702" "proxy-without-limit" Note "old workers of a proxy live as long as their connections"
    GO_NO_SHUTDOWN "ADG101" "go-server-without-shutdown" Warning "a Go program serves, and no signal shuts its server down"
    GO_SHUTDOWN_NOT_AWAITED "ADG102" "go-shutdown-not-awaited" Error "main returns while Shutdown still drains"
    GO_SHUTDOWN_WITHOUT_DEADLINE "ADG103" "go-shutdown-without-deadline" Warning "Shutdown with a context that never ends"
    GO_SHUTDOWN_CANCELLED "ADG104" "go-shutdown-cancelled" Error "Shutdown with a context that is cancelled already"
    GO_UNBUFFERED_NOTIFY "ADG201" "go-unbuffered-notify" Warning "signal.Notify on a channel without a buffer"
    GO_UNCATCHABLE_SIGNAL "ADG202" "go-uncatchable-signal" Warning "signal.Notify for a signal that cannot be caught"
    GO_INTERRUPT_ALONE "ADG203" "go-interrupt-alone" Warning "a service waits for SIGINT and not for SIGTERM"
    GO_NOTIFY_IN_LIBRARY "ADG204" "go-notify-in-library" Note "a library takes the signals of the process"
    GO_EXIT_ON_SERVER_CLOSED "ADG301" "go-exit-on-server-closed" Error "ErrServerClosed ends the process in the middle of Shutdown"
    GO_EXIT_IN_GOROUTINE "ADG302" "go-exit-in-goroutine" Note "the process is ended from inside a goroutine"
    GO_EXIT_SKIPS_DEFERS "ADG303" "go-exit-skips-defers" Warning "the end of main skips what it defers"
    BLOCKING_SLEEP "ADP101" "blocking-sleep" Error "blocking sleep on the event loop"
    BLOCKING_HTTP "ADP102" "blocking-http" Error "blocking HTTP request on the event loop"
    BLOCKING_SUBPROCESS "ADP103" "blocking-subprocess" Error "blocking child process on the event loop"
    BLOCKING_FILE "ADP104" "blocking-file" Warning "blocking file access on the event loop"
    BLOCKING_PATH "ADP105" "blocking-path" Note "file system question on the event loop"
    BLOCKING_DATABASE "ADP106" "blocking-database" Error "synchronous database driver on the event loop"
    BLOCKING_INPUT "ADP107" "blocking-input" Note "waiting for a person on the event loop"
    BLOCKING_LOCK "ADP108" "blocking-lock" Error "waiting for a thread's lock or event on the event loop"
    BLOCKING_QUEUE "ADP109" "blocking-queue" Error "waiting on a thread queue on the event loop"
    BLOCKING_JOIN "ADP110" "blocking-join" Error "joining a thread or process on the event loop"
    BLOCKING_RESULT "ADP111" "blocking-result" Error "waiting for a thread's future on the event loop"
    BLOCKING_NETWORK "ADP112" "blocking-network" Error "blocking socket or name lookup on the event loop"
    NESTED_LOOP "ADP201" "nested-loop" Error "a second event loop started inside the running one"
    SECOND_LOOP "ADP202" "second-loop" Note "an event loop started outside the entry point of a service"
    NEST_ASYNCIO "ADP203" "nest-asyncio" Note "nest_asyncio makes the loop re-entrant"
    DROPPED_TASK "ADP301" "dropped-task" Error "a task that is not kept can vanish and is never awaited"
    SWALLOWED_CANCEL "ADP401" "swallowed-cancel" Warning "CancelledError is caught and not raised again"
    BARE_EXCEPT "ADP402" "bare-except-await" Warning "a bare except round an await catches the cancellation"
    UNSHIELDED_CLEANUP "ADP403" "unshielded-cleanup" Note "a task's clean-up awaits in finally without a shield"
    YIELD_IN_CONTEXT "ADP404" "yield-in-context" Note "an async generator yields inside a context manager"
    SIGNAL_BESIDE_LOOP "ADP501" "signal-beside-loop" Note "signal.signal in a program that runs an event loop"
    EXIT_IN_TASK "ADP502" "exit-in-task" Note "the process is ended from inside a task"
    NO_SIGTERM "ADP503" "no-sigterm" Warning "a worker that runs forever and does not handle SIGTERM"
    SCHEDULE_AFTER_STOP "ADP504" "schedule-after-stop" Error "work scheduled after loop.stop() never runs"
    HANDLER_ON_WINDOWS "ADP505" "handler-on-windows" Warning "add_signal_handler without a fallback in a program that also runs on Windows"
    UVICORN_GRACE "ADP506" "uvicorn-without-grace" Note "uvicorn is started without timeout_graceful_shutdown"
    WAIT_CLOSED_FIRST "ADP601" "wait-closed-first" Warning "Server.wait_closed() before the connections are drained"
    LOOP_WITHOUT_AWAIT "ADP602" "loop-without-await" Warning "an endless loop without an await"
    NON_ATOMIC_SAVE "ADP603" "non-atomic-save" Note "state is saved in place while stopping"
    CLOSED_BEFORE_USERS "ADP604" "closed-before-users" Note "a resource is closed before those who use it"
    CELERY_ACKS_LATE "ADP701" "celery-acks-late" Warning "a task of Celery is lost when its worker is killed"
    CELERY_VISIBILITY "ADP702" "celery-visibility" Warning "a task of Celery may run longer than the broker waits for it"
    TEMPORAL_GRACE "ADP703" "temporal-without-grace" Warning "a worker of Temporal cancels its activities at once when it stops"
    RUST_SLEEP "ADR101" "rust-blocking-sleep" Error "thread::sleep in async code"
    RUST_FILE "ADR102" "rust-blocking-file" Warning "std::fs in async code"
    RUST_NETWORK "ADR103" "rust-blocking-network" Error "std::net in async code"
    RUST_PROCESS "ADR104" "rust-blocking-process" Warning "waiting for a child process in async code"
    RUST_HTTP "ADR105" "rust-blocking-http" Error "blocking HTTP client in async code"
    RUST_CHANNEL "ADR106" "rust-blocking-channel" Error "waiting on a std channel in async code"
    RUST_JOIN "ADR107" "rust-blocking-join" Error "joining a thread in async code"
    RUST_CONDVAR "ADR108" "rust-blocking-condvar" Error "waiting on a Condvar or Barrier in async code"
    RUST_TOKIO_BLOCKING "ADR109" "tokio-blocking-method" Error "a blocking_* method of tokio in async code"
    BLOCK_ON "ADR201" "block-on-in-async" Error "block_on inside async code"
    SECOND_RUNTIME "ADR202" "second-runtime" Note "a second runtime in a service that has one"
    RUNTIME_DROPPED "ADR203" "runtime-dropped-in-async" Warning "a Runtime is dropped inside async code"
    UNTRACKED_SPAWN "ADR301" "untracked-spawn" Warning "a spawned task that no stop will wait for"
    NOT_GRACEFUL "ADR302" "server-without-graceful-shutdown" Warning "a server is awaited that no signal shuts down"
    CTRL_C_ALONE "ADR303" "ctrl-c-alone" Warning "a service waits for ctrl_c and not for SIGTERM"
    RUST_EXIT "ADR401" "exit-in-async" Note "process::exit inside async code"
    RUST_LOOP "ADR501" "rust-loop-without-await" Warning "an endless loop without an await"
    GUARD_ACROSS_AWAIT "ADR502" "guard-across-await" Error "a std lock guard lives across an await"
    SELECT_NOT_SAFE "ADR503" "select-not-cancel-safe" Warning "select! drops a future that loses data when cancelled"
    NODE_NO_HANDLER "ADT101" "node-server-without-handler" Warning "a Node.js program listens, and no signal closes its server"
    NODE_EXIT_BEFORE_CLOSE "ADT102" "node-exit-before-close" Error "process.exit before close has called back"
    NODE_EXIT_WITHOUT_CLOSE "ADT103" "node-exit-without-close" Warning "a handler of SIGTERM exits and closes nothing"
    NODE_CLOSE_WITHOUT_LIMIT "ADT104" "node-close-without-limit" Warning "close waits for open connections without a limit"
    NEST_WITHOUT_HOOKS "ADT105" "nest-without-shutdown-hooks" Warning "a Nest application without enableShutdownHooks"
    NODE_UNCATCHABLE_SIGNAL "ADT201" "node-uncatchable-signal" Error "a handler for a signal that cannot be handled"
    NODE_SIGINT_ALONE "ADT202" "node-sigint-alone" Warning "a server handles SIGINT and not SIGTERM"
    NODE_HANDLER_WITHOUT_STOP "ADT203" "node-handler-without-stop" Warning "a handler of SIGTERM that stops nothing"
    SYNTAX "ADX001" "syntax-error" Warning "the file cannot be parsed"
    UNREADABLE "ADX002" "unreadable" Warning "the file cannot be read"
    UNUSED_IGNORE "ADX101" "unused-ignore" Warning "an ignore comment that ignores nothing"
    IGNORE_WITHOUT_REASON "ADX102" "ignore-without-reason" Warning "an ignore comment that does not say why"
    UNKNOWN_IGNORE "ADX103" "unknown-ignore" Warning "an ignore comment for a rule that does not exist"
}

#[cfg(test)]
mod tests {
    use super::Rule;

    #[test]
    fn codes_are_sorted_and_unique() {
        for pair in Rule::ALL.windows(2) {
            assert!(
                pair[0].code < pair[1].code,
                "{} {}",
                pair[0].code,
                pair[1].code
            );
        }
    }

    #[test]
    fn every_page_has_all_its_parts() {
        for rule in Rule::ALL {
            let page = rule.page;
            assert!(
                page.starts_with(&format!("# {} {}\n", rule.code, rule.name)),
                "{}",
                rule.code
            );
            for part in ["## Why", "## Bad", "## Good", "## Blind spots"] {
                assert!(page.contains(part), "{} lacks {part}", rule.code);
            }
        }
    }
}
