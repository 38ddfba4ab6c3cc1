//! What blocks, by its canonical name.

use super::clients::Clients;
use super::libraries::is_loop;
use crate::callgraph::Leaf;
use crate::rule::{self, Code};

/// What stops the loop for long is followed far, what asks the disk only near.
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

const fn wait(code: Code, instead: &'static str) -> Leaf {
    Leaf {
        code,
        instead,
        pollable: true,
        hops: FAR,
    }
}

const SLEEP: Leaf = wait(rule::BLOCKING_SLEEP, "use `await asyncio.sleep(...)`");
const HTTP: Leaf = leaf(
    rule::BLOCKING_HTTP,
    "use an async client (`httpx.AsyncClient`, `aiohttp`) or `asyncio.to_thread`",
);
const PROCESS: Leaf = leaf(
    rule::BLOCKING_SUBPROCESS,
    "use `asyncio.create_subprocess_exec` and await it, or `asyncio.to_thread`",
);
const PROCESS_WAIT: Leaf = wait(rule::BLOCKING_SUBPROCESS, PROCESS.instead);
const FILE: Leaf = Leaf {
    hops: FILE_HOPS,
    ..leaf(
        rule::BLOCKING_FILE,
        "move it into `asyncio.to_thread` or use an async file library",
    )
};
const PATH: Leaf = Leaf {
    hops: PATH_HOPS,
    ..leaf(
        rule::BLOCKING_PATH,
        "move it into `asyncio.to_thread` or use `anyio.Path`",
    )
};
const DATABASE: Leaf = leaf(
    rule::BLOCKING_DATABASE,
    "use the driver's async counterpart or `asyncio.to_thread`",
);
const INPUT: Leaf = leaf(rule::BLOCKING_INPUT, "move it into `asyncio.to_thread`");
const LOCK: Leaf = wait(
    rule::BLOCKING_LOCK,
    "use the asyncio counterpart, or a zero timeout",
);
/// Not a real method: a `with` block that awaits while it holds the lock.
const HELD: Leaf = leaf(
    rule::BLOCKING_LOCK,
    "it is held across an await: use `asyncio.Lock`, or release it before",
);
const QUEUE: Leaf = wait(
    rule::BLOCKING_QUEUE,
    "use `asyncio.Queue`, `get_nowait()` or `asyncio.to_thread`",
);
const JOIN: Leaf = wait(
    rule::BLOCKING_JOIN,
    "await `asyncio.to_thread(thread.join)`",
);
const RESULT: Leaf = wait(
    rule::BLOCKING_RESULT,
    "await `asyncio.wrap_future(future)` instead",
);
/// A lookup of numbers alone asks no server.
const LOOK_UP: Leaf = wait(rule::BLOCKING_NETWORK, NETWORK.instead);
const NETWORK: Leaf = leaf(
    rule::BLOCKING_NETWORK,
    "use asyncio streams, `loop.getaddrinfo` or `asyncio.to_thread`",
);
const LOOP: Leaf = leaf(
    rule::NESTED_LOOP,
    "a loop already runs here: `await` the coroutine instead",
);

const VERBS: &[&str] = &[
    "get", "post", "put", "delete", "head", "options", "patch", "request",
];
const PATH_READS: &[&str] = &[
    "open",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
];
const PATH_STATS: &[&str] = &[
    "chmod",
    "exists",
    "expanduser",
    "glob",
    "group",
    "hardlink_to",
    "is_block_device",
    "is_char_device",
    "is_dir",
    "is_fifo",
    "is_file",
    "is_mount",
    "is_socket",
    "is_symlink",
    "iterdir",
    "lchmod",
    "link_to",
    "lstat",
    "mkdir",
    "owner",
    "readlink",
    "rename",
    "replace",
    "resolve",
    "rglob",
    "rmdir",
    "samefile",
    "stat",
    "symlink_to",
    "touch",
    "unlink",
    "walk",
];
const OS_STATS: &[&str] = &[
    "access",
    "chdir",
    "chmod",
    "chown",
    "link",
    "listdir",
    "lstat",
    "makedirs",
    "mkdir",
    "readlink",
    "remove",
    "removedirs",
    "rename",
    "renames",
    "replace",
    "rmdir",
    "scandir",
    "stat",
    "statvfs",
    "symlink",
    "sync",
    "truncate",
    "unlink",
    "utime",
    "walk",
    "fsync",
    "fdatasync",
];
const OS_PATH_STATS: &[&str] = &[
    "exists",
    "lexists",
    "getatime",
    "getmtime",
    "getctime",
    "getsize",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "realpath",
    "samefile",
    "expanduser",
    "isjunction",
];
const REDIS_WAITS: &[&str] = &[
    "get",
    "set",
    "setex",
    "delete",
    "exists",
    "expire",
    "hget",
    "hset",
    "hgetall",
    "incr",
    "decr",
    "lpush",
    "rpush",
    "lpop",
    "rpop",
    "blpop",
    "brpop",
    "publish",
    "ping",
    "keys",
    "scan",
    "sadd",
    "smembers",
    "zadd",
    "zrange",
    "xadd",
    "xread",
    "execute_command",
    "mget",
    "mset",
    "ttl",
];
const MONGO_WAITS: &[&str] = &[
    "find_one",
    "insert_one",
    "insert_many",
    "update_one",
    "update_many",
    "delete_one",
    "delete_many",
    "replace_one",
    "aggregate",
    "count_documents",
    "find_one_and_update",
    "find_one_and_delete",
    "command",
    "create_index",
    "bulk_write",
    "server_info",
    "list_database_names",
    "list_collection_names",
];

/// What is wrong with making this call on the event loop, if anything.
pub(crate) fn blocking(path: &str, clients: &Clients) -> Option<Leaf> {
    clients.blocking(path).or_else(|| of_root(path))
}

fn of_root(path: &str) -> Option<Leaf> {
    // `json`, `re` and most other calls leave here at once.
    let (root, rest) = path.split_once('.')?;
    let owner_method = || rest.rsplit_once('.');
    match root {
        "builtins" => match rest {
            "open" => Some(FILE),
            "input" => Some(INPUT),
            _ => None,
        },
        "time" => (rest == "sleep").then_some(SLEEP),
        "requests" => {
            let rest = rest.strip_prefix("api.").unwrap_or(rest);
            let method = rest.strip_prefix("Session().").unwrap_or(rest);
            (VERBS.contains(&method) || method == "send" && rest != method).then_some(HTTP)
        }
        "urllib" => matches!(rest, "request.urlopen" | "request.urlretrieve").then_some(HTTP),
        "urllib3" => match rest {
            "request" => Some(HTTP),
            _ => owner_method()
                .filter(|(owner, method)| {
                    matches!(
                        *owner,
                        "PoolManager()"
                            | "HTTPConnectionPool()"
                            | "HTTPSConnectionPool()"
                            | "ProxyManager()"
                    ) && matches!(
                        *method,
                        "request" | "urlopen" | "request_encode_url" | "request_encode_body"
                    )
                })
                .map(|_| HTTP),
        },
        "httpx" => {
            let method = rest.strip_prefix("Client().").unwrap_or(rest);
            let of_client = rest != method;
            (VERBS.contains(&method) || method == "stream" || of_client && method == "send")
                .then_some(HTTP)
        }
        "http" => owner_method()
            .filter(|(owner, method)| {
                matches!(
                    *owner,
                    "client.HTTPConnection()" | "client.HTTPSConnection()"
                ) && matches!(*method, "request" | "getresponse" | "connect")
            })
            .map(|_| HTTP),
        "subprocess" => match rest {
            "run"
            | "call"
            | "check_call"
            | "check_output"
            | "getoutput"
            | "getstatusoutput"
            | "Popen"
            | "Popen().communicate" => Some(PROCESS),
            "Popen().wait" => Some(PROCESS_WAIT),
            _ => None,
        },
        "os" => os(rest),
        "io" | "codecs" | "gzip" | "bz2" | "lzma" | "tarfile" => (rest == "open").then_some(FILE),
        "zipfile" => (rest == "ZipFile").then_some(FILE),
        "shutil" => matches!(
            rest,
            "copy"
                | "copy2"
                | "copyfile"
                | "copyfileobj"
                | "copytree"
                | "move"
                | "rmtree"
                | "make_archive"
                | "unpack_archive"
                | "disk_usage"
        )
        .then_some(FILE),
        "glob" => matches!(rest, "glob" | "iglob").then_some(PATH),
        "pathlib" => match rest.strip_prefix("Path().") {
            Some(method) if PATH_READS.contains(&method) => Some(FILE),
            Some(method) if PATH_STATS.contains(&method) => Some(PATH),
            _ => None,
        },
        "sqlite3" | "psycopg2" | "psycopg" | "pymysql" | "MySQLdb" | "mysql" | "cx_Oracle"
        | "oracledb" | "pymssql" | "pyodbc" | "redis" | "pymongo" | "sqlalchemy" => {
            database(root, rest)
        }
        "getpass" => (rest == "getpass").then_some(INPUT),
        "sys" => {
            matches!(rest, "stdin.read" | "stdin.readline" | "stdin.readlines").then_some(INPUT)
        }
        "threading" | "multiprocessing" => threads(rest),
        "queue" => owner_method()
            .filter(|(owner, method)| {
                matches!(
                    *owner,
                    "Queue()" | "LifoQueue()" | "PriorityQueue()" | "SimpleQueue()"
                ) && matches!(*method, "get" | "join")
            })
            .map(|_| QUEUE),
        "concurrent" => futures(rest),
        "asyncio" => match rest {
            "run_coroutine_threadsafe().result" | "run_coroutine_threadsafe().exception" => {
                Some(RESULT)
            }
            "run" | "new_event_loop" | "Runner().run" => Some(LOOP),
            _ => {
                loop_method(rest, "run_until_complete").or_else(|| loop_method(rest, "run_forever"))
            }
        },
        "socket" if matches!(rest, "getaddrinfo" | "getnameinfo") => Some(LOOK_UP),
        "socket" => matches!(
            rest,
            "create_connection"
                | "gethostbyname"
                | "gethostbyname_ex"
                | "gethostbyaddr"
                | "getfqdn"
        )
        .then_some(NETWORK),
        "smtplib" => matches!(
            rest,
            "SMTP().sendmail"
                | "SMTP().send_message"
                | "SMTP().connect"
                | "SMTP_SSL().sendmail"
                | "SMTP_SSL().send_message"
                | "SMTP().login"
                | "SMTP_SSL().login"
        )
        .then_some(NETWORK),
        "ftplib" | "telnetlib" | "paramiko" => matches!(
            rest,
            "FTP().connect"
                | "FTP().login"
                | "FTP().retrbinary"
                | "SSHClient().connect"
                | "SSHClient().exec_command"
        )
        .then_some(NETWORK),
        _ => None,
    }
}

/// The leaf of the rules that a table may name.
pub(crate) fn by_code(code: &str) -> Option<Leaf> {
    Some(match code {
        "ADP102" => HTTP,
        "ADP103" => PROCESS,
        "ADP104" => FILE,
        "ADP105" => PATH,
        "ADP106" => DATABASE,
        "ADP108" => LOCK,
        "ADP109" => QUEUE,
        "ADP110" => JOIN,
        "ADP111" => RESULT,
        "ADP112" => NETWORK,
        _ => return None,
    })
}

/// What goes through a whole tree, by the name that is shown.
pub(crate) fn is_long_walk(shown: &str) -> bool {
    matches!(
        shown,
        "os.walk"
            | "os.sync"
            | "os.fsync"
            | "pathlib.Path.rglob"
            | "pathlib.Path.walk"
            | "shutil.copytree"
            | "shutil.rmtree"
            | "shutil.make_archive"
            | "shutil.unpack_archive"
    )
}

fn os(rest: &str) -> Option<Leaf> {
    match rest {
        "wait" | "wait3" | "wait4" | "waitid" | "waitpid" => Some(PROCESS_WAIT),
        "system" | "popen" | "spawnl" | "spawnle" | "spawnlp" | "spawnlpe" | "spawnv"
        | "spawnve" | "spawnvp" | "spawnvpe" | "posix_spawn" | "posix_spawnp" => Some(PROCESS),
        "fdopen" => Some(FILE),
        _ => match rest.strip_prefix("path.") {
            Some(method) => OS_PATH_STATS.contains(&method).then_some(PATH),
            None => OS_STATS.contains(&rest).then_some(PATH),
        },
    }
}

fn database(root: &str, rest: &str) -> Option<Leaf> {
    if rest == "connect" || rest == "connector.connect" {
        return Some(DATABASE);
    }
    let (owner, method) = rest.rsplit_once('.')?;
    let waits = match root {
        "redis" => owner == "Redis()" && REDIS_WAITS.contains(&method),
        "pymongo" => owner.starts_with("MongoClient()") && MONGO_WAITS.contains(&method),
        "sqlalchemy" => {
            matches!(owner, "create_engine()") && matches!(method, "connect" | "begin" | "execute")
                || owner.starts_with("create_engine().")
                    && matches!(method, "execute" | "commit" | "scalar")
                || owner == "orm.Session()"
                    && matches!(
                        method,
                        "execute" | "commit" | "query" | "scalar" | "scalars" | "flush" | "refresh"
                    )
        }
        _ => {
            owner.contains("connect()")
                && matches!(
                    method,
                    "execute"
                        | "executemany"
                        | "executescript"
                        | "commit"
                        | "rollback"
                        | "fetchone"
                        | "fetchall"
                        | "fetchmany"
                        | "callproc"
                )
        }
    };
    waits.then_some(DATABASE)
}

fn threads(rest: &str) -> Option<Leaf> {
    let (owner, method) = rest.rsplit_once('.')?;
    match (owner, method) {
        (
            "Lock()" | "RLock()" | "Semaphore()" | "BoundedSemaphore()" | "Condition()",
            "__hold__",
        ) => Some(HELD),
        (
            "Lock()" | "RLock()" | "Semaphore()" | "BoundedSemaphore()" | "Condition()",
            "acquire",
        )
        | ("Event()" | "Condition()" | "Barrier()", "wait")
        | ("Condition()", "wait_for") => Some(LOCK),
        ("Thread()" | "Process()" | "Timer()" | "Pool()", "join") => Some(JOIN),
        ("Queue()" | "JoinableQueue()" | "SimpleQueue()", "get" | "join") => Some(QUEUE),
        _ => None,
    }
}

fn futures(rest: &str) -> Option<Leaf> {
    match rest {
        "futures.wait" | "futures.as_completed" => return Some(RESULT),
        _ => {}
    }
    let (owner, method) = rest.rsplit_once('.')?;
    match (owner, method) {
        (
            "futures.Future()"
            | "futures.ThreadPoolExecutor().submit()"
            | "futures.ProcessPoolExecutor().submit()"
            | "futures.Executor().submit()",
            "result" | "exception",
        ) => Some(RESULT),
        (
            "futures.ThreadPoolExecutor()" | "futures.ProcessPoolExecutor()" | "futures.Executor()",
            "shutdown",
        ) => Some(JOIN),
        _ => None,
    }
}

/// `asyncio.<something that gives a loop>().<method>`.
fn loop_method(rest: &str, method: &str) -> Option<Leaf> {
    let owner = rest.strip_suffix(method)?.strip_suffix('.')?;
    is_loop(owner).then_some(LOOP)
}
