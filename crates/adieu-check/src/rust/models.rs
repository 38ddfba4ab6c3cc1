//! The libraries: what blocks, and what gives what.

use crate::callgraph::Leaf;
use crate::rule::{self, Code};

/// What stops a thread for long is followed far, what asks the disk only near.
const FAR: u32 = 8;
const FILE_HOPS: u32 = 4;
const PATH_HOPS: u32 = 2;

const fn leaf(code: Code, instead: &'static str) -> Leaf {
    Leaf {
        code,
        instead,
        pollable: false,
        hops: FAR,
    }
}

const SLEEP: Leaf = leaf(rule::RUST_SLEEP, "use `tokio::time::sleep(...).await`");
const FILE: Leaf = Leaf {
    hops: FILE_HOPS,
    // What stands on no disk is answered by the kernel at once.
    pollable: true,
    ..leaf(rule::RUST_FILE, "use `tokio::fs` or `spawn_blocking`")
};
/// A question to the file system is short: only near ones are worth a word.
const PATH: Leaf = Leaf {
    hops: PATH_HOPS,
    ..FILE
};
const INPUT: Leaf = leaf(
    rule::RUST_FILE,
    "use `tokio::io::stdin`, or a thread of its own",
);
const NETWORK: Leaf = leaf(rule::RUST_NETWORK, "use `tokio::net`");
const PROCESS: Leaf = leaf(rule::RUST_PROCESS, "use `tokio::process`");
const HTTP: Leaf = leaf(rule::RUST_HTTP, "use an async client or `spawn_blocking`");
const CHANNEL: Leaf = Leaf {
    code: rule::RUST_CHANNEL,
    instead: "use `tokio::sync::mpsc`, `try_recv` or `spawn_blocking`",
    pollable: true,
    hops: FAR,
};
const JOIN: Leaf = leaf(rule::RUST_JOIN, "move the join into `spawn_blocking`");
const CONDVAR: Leaf = leaf(
    rule::RUST_CONDVAR,
    "use `tokio::sync::Notify` or `tokio::sync::Barrier`",
);
const TOKIO_BLOCKING: Leaf = leaf(
    rule::RUST_TOKIO_BLOCKING,
    "await the method without `blocking_` in its name",
);
const BLOCK_ON: Leaf = leaf(rule::BLOCK_ON, "`.await` the future instead");
/// Not a real method: a guard that lives across an await.
const HELD: Leaf = leaf(
    rule::GUARD_ACROSS_AWAIT,
    "drop it before, or use `tokio::sync::Mutex`",
);

/// What is wrong with making this call in async code, if anything.
pub(crate) fn blocking(path: &str) -> Option<Leaf> {
    let (_, method) = path.rsplit_once('.')?;
    match method {
        "blocking_recv"
        | "blocking_send"
        | "blocking_lock"
        | "blocking_read"
        | "blocking_write"
        | "blocking_lock_owned" => {
            return Some(TOKIO_BLOCKING);
        }
        "block_on" => return Some(BLOCK_ON),
        _ => {}
    }
    if let Some(rest) = path.strip_prefix("std.") {
        return standard(rest);
    }
    if let Some(rest) = path.strip_prefix("reqwest.blocking.") {
        return matches!(rest, "get" | "Client().execute" | "RequestBuilder().send")
            .then_some(HTTP);
    }
    if path.starts_with("ureq.") {
        return matches!(
            method,
            "call" | "send_string" | "send_json" | "send_form" | "send"
        )
        .then_some(HTTP);
    }
    match path {
        "crossbeam_channel.Receiver().recv"
        | "crossbeam.channel.Receiver().recv"
        | "flume.Receiver().recv" => Some(CHANNEL),
        "parking_lot.Mutex().__hold__" | "parking_lot.RwLock().__hold__" => Some(HELD),
        _ => None,
    }
}

fn standard(rest: &str) -> Option<Leaf> {
    if let Some(call) = rest.strip_prefix("fs.") {
        let blocks = matches!(
            call,
            "read"
                | "read_to_string"
                | "write"
                | "copy"
                | "rename"
                | "remove_file"
                | "remove_dir"
                | "remove_dir_all"
                | "create_dir"
                | "create_dir_all"
                | "metadata"
                | "symlink_metadata"
                | "read_dir"
                | "read_link"
                | "canonicalize"
                | "hard_link"
                | "exists"
                | "set_permissions"
                | "File.open"
                | "File.create"
                | "File.create_new"
                | "OpenOptions().open"
                | "File().sync_all"
                | "File().sync_data"
                | "File().read_to_string"
                | "File().read_to_end"
                | "File().write_all"
                | "File().read_line"
                | "File().read_until"
                | "File().lines"
                | "File().split"
                | "DirBuilder().create"
        );
        return blocks.then_some(FILE);
    }
    let of_path = rest
        .strip_prefix("path.PathBuf().")
        .or_else(|| rest.strip_prefix("path.Path()."));
    if let Some(method) = of_path {
        let asks = matches!(
            method,
            "exists"
                | "try_exists"
                | "is_file"
                | "is_dir"
                | "is_symlink"
                | "metadata"
                | "symlink_metadata"
                | "canonicalize"
                | "read_dir"
                | "read_link"
        );
        return asks.then_some(PATH);
    }
    match rest {
        "io.stdin().read_line"
        | "io.stdin().lines"
        | "io.stdin().read"
        | "io.stdin().read_exact"
        | "io.stdin().read_until"
        | "io.stdin().read_to_end"
        | "io.stdin().read_to_string"
        | "io.stdin().split"
        | "io.stdin().bytes" => Some(INPUT),
        "thread.sleep" | "thread.sleep_until" => Some(SLEEP),
        "net.TcpStream.connect"
        | "net.TcpStream.connect_timeout"
        | "net.TcpListener().accept"
        | "net.TcpListener().incoming"
        | "net.TcpStream().read_to_end"
        | "net.TcpStream().read_to_string"
        | "net.TcpStream().read"
        | "net.TcpStream().read_exact"
        | "net.TcpStream().read_line"
        | "net.TcpStream().read_until"
        | "net.TcpStream().lines"
        | "net.TcpStream().split"
        | "net.TcpStream().bytes"
        | "net.TcpStream().write_all"
        | "net.UdpSocket().recv"
        | "net.UdpSocket().recv_from" => Some(NETWORK),
        "process.Child().stdout.lines"
        | "process.Child().stdout.read_line"
        | "process.Child().stdout.read_to_string"
        | "process.Child().stdout.read_to_end"
        | "process.Child().stderr.lines"
        | "process.Child().stderr.read_line"
        | "process.Child().stderr.read_to_string"
        | "process.Child().stderr.read_to_end"
        | "process.Command().output"
        | "process.Command().status"
        | "process.Child().wait"
        | "process.Child().wait_with_output" => Some(PROCESS),
        "sync.mpsc.Receiver().recv"
        | "sync.mpsc.Receiver().recv_timeout"
        | "sync.mpsc.Receiver().iter"
        | "sync.mpsc.SyncSender().send" => Some(CHANNEL),
        "thread.JoinHandle().join" | "thread.ScopedJoinHandle().join" => Some(JOIN),
        "sync.Condvar().wait"
        | "sync.Condvar().wait_timeout"
        | "sync.Condvar().wait_while"
        | "sync.Barrier().wait" => Some(CONDVAR),
        "sync.Mutex().__hold__" | "sync.RwLock().__hold__" => Some(HELD),
        _ => None,
    }
}

/// Methods that give their receiver back, or something that stands for it.
const TRANSPARENT: &[&str] = &[
    "unwrap()",
    "expect()",
    "clone()",
    "as_ref()",
    "as_mut()",
    "unwrap_or_default()",
    "to_owned()",
    "borrow()",
    "borrow_mut()",
    "by_ref()",
    "as_deref()",
    "as_deref_mut()",
    "get_mut()",
    "take()",
    "map_err()",
    "context()",
    "with_context()",
    "ok()",
    "deref()",
    "try_clone()",
];

/// Constructors: what they give is an instance of what they are called on.
const CONSTRUCTORS: &[&str] = &[
    "new()",
    "default()",
    "open()",
    "create()",
    "connect()",
    "bind()",
    "current()",
    "new_multi_thread()",
    "new_current_thread()",
    "builder()",
    "try_clone()",
    "connect_timeout()",
    "options()",
    "create_new()",
];

/// The canonical name of an outside path.
pub(crate) fn canonicalize(path: &str) -> Option<String> {
    if path.len() > 160 {
        return None;
    }
    // The functions of `std::fs` with better messages. Its half for tokio does not block.
    if let Some(rest) = path.strip_prefix("fs_err.") {
        return match rest.strip_prefix("tokio.") {
            Some(rest) => Some(format!("tokio.fs.{rest}")),
            None => canonicalize(&format!("std.fs.{rest}")),
        };
    }
    for (from, to) in RENAMED {
        if let Some(rest) = path.strip_prefix(from)
            && (rest.is_empty() || rest.starts_with(['.', '(']))
        {
            return Some(format!("{to}{rest}"));
        }
    }
    if let Some((owner, last)) = path.rsplit_once('.') {
        if TRANSPARENT.contains(&last) {
            return Some(owner.to_owned());
        }
        let of_type = owner
            .rsplit('.')
            .next()
            .is_some_and(|name| name.starts_with(char::is_uppercase));
        if of_type && !owner.ends_with(')') && CONSTRUCTORS.contains(&last) {
            return Some(format!("{owner}()"));
        }
        let builder = matches!(
            owner,
            "std.process.Command()"
                | "std.fs.OpenOptions()"
                | "tokio.runtime.Builder()"
                | "reqwest.blocking.RequestBuilder()"
        );
        if builder
            && last.ends_with("()")
            && !matches!(
                last,
                "spawn()" | "open()" | "build()" | "output()" | "status()" | "send()"
            )
        {
            return Some(owner.to_owned());
        }
    }
    Some(path.to_owned())
}

/// Other spellings, and what well-known functions give.
const RENAMED: &[(&str, &str)] = &[
    ("std.io.stdin().lock()", "std.io.stdin()"),
    ("std.thread.spawn()", "std.thread.JoinHandle()"),
    ("std.thread.Builder().spawn()", "std.thread.JoinHandle()"),
    ("std.process.Command().spawn()", "std.process.Child()"),
    ("std.sync.mpsc.channel().1", "std.sync.mpsc.Receiver()"),
    (
        "std.sync.mpsc.sync_channel().0",
        "std.sync.mpsc.SyncSender()",
    ),
    ("std.sync.mpsc.sync_channel().1", "std.sync.mpsc.Receiver()"),
    (
        "crossbeam_channel.unbounded().1",
        "crossbeam_channel.Receiver()",
    ),
    (
        "crossbeam_channel.bounded().1",
        "crossbeam_channel.Receiver()",
    ),
    ("tokio.runtime.Builder().build()", "tokio.runtime.Runtime()"),
    ("std.fs.OpenOptions().open()", "std.fs.File()"),
    (
        "reqwest.blocking.Client().get()",
        "reqwest.blocking.RequestBuilder()",
    ),
    (
        "reqwest.blocking.Client().post()",
        "reqwest.blocking.RequestBuilder()",
    ),
    (
        "reqwest.blocking.Client().put()",
        "reqwest.blocking.RequestBuilder()",
    ),
    (
        "reqwest.blocking.Client().delete()",
        "reqwest.blocking.RequestBuilder()",
    ),
    ("core.time", "std.time"),
    ("std.path.PathBuf.from()", "std.path.PathBuf()"),
    ("std.path.Path().join()", "std.path.PathBuf()"),
    ("std.path.PathBuf().join()", "std.path.PathBuf()"),
];

/// Whether an outside path can matter at all.
pub(crate) fn is_known_root(root: &str) -> bool {
    matches!(
        root,
        "std"
            | "tokio"
            | "fs_err"
            | "reqwest"
            | "ureq"
            | "crossbeam_channel"
            | "crossbeam"
            | "flume"
            | "parking_lot"
            | "futures"
            | "pollster"
            | "async_std"
            | "smol"
    )
}

/// A server that is awaited and that no signal ends, and what ends it.
pub(crate) fn never_shut_down(path: &str) -> Option<(&'static str, &'static str)> {
    let rest = |prefix: &str| path.strip_prefix(prefix);
    if let Some(rest) = rest("axum.serve()") {
        return matches!(rest, "" | ".tcp_nodelay()" | ".into_future()")
            .then_some(("axum::serve", "with_graceful_shutdown"));
    }
    if let Some(rest) = rest("warp.serve()") {
        return matches!(rest, ".run()").then_some(("warp::serve", "graceful"));
    }
    if let Some(rest) = rest("tonic.transport.Server()") {
        return rest
            .ends_with(".serve()")
            .then_some(("tonic::transport::Server", "serve_with_shutdown"));
    }
    None
}

/// Futures that lose data when they are dropped half-way.
pub(crate) const NOT_CANCEL_SAFE: &[&str] = &[
    "read_exact",
    "read_to_end",
    "read_to_string",
    "read_line",
    "write_all",
    "write_all_buf",
];

/// Macros that await what they are given.
pub(crate) fn is_awaiting_macro(name: &str) -> bool {
    matches!(name, "select" | "select_biased" | "join" | "try_join")
}

/// Macros that neither await nor leave.
pub(crate) fn is_plain_macro(name: &str) -> bool {
    matches!(
        name,
        "println"
            | "print"
            | "eprintln"
            | "eprint"
            | "format"
            | "write"
            | "writeln"
            | "vec"
            | "assert"
            | "assert_eq"
            | "assert_ne"
            | "debug_assert"
            | "dbg"
            | "trace"
            | "debug"
            | "info"
            | "warn"
            | "error"
            | "matches"
            | "json"
    )
}
