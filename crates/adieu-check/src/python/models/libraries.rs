//! What else is known of the libraries: loops, tasks, decorators.

use ruff_python_ast::Expr;

use super::clients;

/// Whether a path below `asyncio` is an event loop.
pub(crate) fn is_loop(path: &str) -> bool {
    matches!(
        path,
        "get_event_loop()"
            | "get_running_loop()"
            | "new_event_loop()"
            | "AbstractEventLoop()"
            | "BaseEventLoop()"
            | "SelectorEventLoop()"
            | "ProactorEventLoop()"
    )
}

/// Builtins that matter to some rule; a path for every `len` would only cost.
pub(crate) fn is_builtin(name: &str) -> bool {
    consumes(name)
        || matches!(
            name,
            "open"
                | "input"
                | "exit"
                | "quit"
                | "staticmethod"
                | "classmethod"
                | "property"
                | "print"
                | "map"
                | "filter"
        )
}

/// Builtins that iterate what they are given, on the spot.
pub(crate) fn consumes(builtin: &str) -> bool {
    matches!(
        builtin,
        "list"
            | "tuple"
            | "set"
            | "sum"
            | "any"
            | "all"
            | "next"
            | "sorted"
            | "dict"
            | "max"
            | "min"
    )
}

/// First segments of every path this file knows: other outside calls need not be remembered.
pub(crate) fn is_known_root(root: &str) -> bool {
    matches!(
        root,
        "time"
            | "requests"
            | "urllib"
            | "urllib3"
            | "httpx"
            | "http"
            | "subprocess"
            | "os"
            | "io"
            | "codecs"
            | "gzip"
            | "bz2"
            | "lzma"
            | "tarfile"
            | "zipfile"
            | "shutil"
            | "glob"
            | "pathlib"
            | "sqlite3"
            | "psycopg2"
            | "psycopg"
            | "pymysql"
            | "MySQLdb"
            | "mysql"
            | "cx_Oracle"
            | "oracledb"
            | "pymssql"
            | "pyodbc"
            | "redis"
            | "pymongo"
            | "sqlalchemy"
            | "getpass"
            | "sys"
            | "threading"
            | "multiprocessing"
            | "queue"
            | "concurrent"
            | "asyncio"
            | "nest_asyncio"
            | "socket"
            | "smtplib"
            | "ftplib"
            | "telnetlib"
            | "paramiko"
            | "posixpath"
            | "ntpath"
            | "signal"
            | "contextlib"
            | "functools"
            | "typing"
            | "abc"
    ) || clients::has(root)
}

/// Home Assistant's decorator, from an integration or from inside of the project that defines it.
pub(crate) fn marks_callback(decorator: &str) -> bool {
    let own = decorator
        .strip_prefix('@')
        .and_then(|path| path.split_once('.'));
    decorator == "homeassistant.core.callback" || own.is_some_and(|(_, name)| name == "callback")
}

/// Whether a decorator gives a function to a framework that calls it for a request, a message or a
/// command: `@app.get("/")`, `@bot.event`.
pub(crate) fn marks_handler(decorator: &Expr) -> bool {
    let called = match decorator {
        Expr::Call(call) => &*call.func,
        other => other,
    };
    matches!(called, Expr::Attribute(attribute) if matches!(
        attribute.attr.as_str(),
        "get" | "post" | "put" | "delete" | "patch" | "head" | "options" | "route" | "api_route" | "websocket" | "view"
            | "event" | "listener" | "listen" | "message" | "on_message" | "message_handler" | "callback_query" | "subscriber"
            | "task" | "tool" | "resource" | "on" | "handler" | "middleware"
    ))
}

/// Decorators under which a function still runs where it is called.
pub(crate) fn keeps_body(decorator: &str) -> bool {
    matches!(
        decorator,
        "builtins.staticmethod"
            | "builtins.classmethod"
            | "builtins.property"
            | "functools.wraps()"
            | "functools.cache"
            | "functools.lru_cache"
            | "functools.lru_cache()"
            | "functools.cached_property"
            | "typing.final"
            | "typing.override"
            | "typing_extensions.override"
            | "typing.no_type_check"
            | "typing_extensions.deprecated()"
            | "warnings.deprecated()"
            | "contextlib.contextmanager"
    )
}

/// Calls that await, or run as a task, the coroutines among their arguments.
pub(crate) fn takes_coroutines(path: &str) -> bool {
    path.strip_prefix("asyncio.").is_some_and(|rest| {
        matches!(
            rest,
            "wait_for"
                | "gather"
                | "shield"
                | "create_task"
                | "ensure_future"
                | "wait"
                | "as_completed"
        ) || rest.ends_with(".create_task")
    }) || matches!(path, "anyio.create_task_group().start_soon")
}

/// Of those, the ones that make a task of its own or cancel from outside.
pub(crate) fn spawns(path: &str) -> bool {
    path.ends_with("create_task")
        || matches!(
            path,
            "asyncio.ensure_future" | "asyncio.wait_for" | "asyncio.gather"
        )
}

/// Whether a library answers clients, works through a queue or runs a bot: what imports it is a
/// service, or part of one.
pub(crate) fn serves(root: &str) -> bool {
    matches!(
        root,
        "fastapi"
            | "starlette"
            | "sanic"
            | "quart"
            | "litestar"
            | "tornado"
            | "uvicorn"
            | "hypercorn"
            | "granian"
            | "grpc"
            | "discord"
            | "telegram"
            | "aiogram"
            | "pyrogram"
            | "telethon"
            | "nio"
            | "mautrix"
            | "slack_bolt"
            | "websockets"
            | "aio_pika"
            | "aiokafka"
            | "faststream"
            | "arq"
            | "saq"
            | "taskiq"
            | "celery"
            | "temporalio"
            | "nats"
            | "homeassistant"
            | "mcp"
            | "fastmcp"
            | "gradio"
            | "chainlit"
            | "nicegui"
            | "kopf"
            | "twisted"
            | "livekit"
            | "asyncssh"
            | "aiocoap"
            | "aiosmtpd"
    )
}
