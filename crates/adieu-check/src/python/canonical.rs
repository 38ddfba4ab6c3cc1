//! One name for each outside thing, and what its attributes and calls give.

/// Values with attributes that are again the same kind of value.
const PATH_TO_PATH: &[&str] = &[
    "parent",
    "absolute()",
    "resolve()",
    "expanduser()",
    "joinpath()",
    "with_name()",
    "with_suffix()",
    "with_stem()",
    "relative_to()",
    "__truediv__()",
    "readlink()",
    "rename()",
    "replace()",
    "with_segments()",
];

/// The canonical name of an outside path; nothing for what leads nowhere.
pub(crate) fn canonicalize(path: &str) -> Option<String> {
    if path.len() > 160 {
        return None;
    }
    if let Some(base) = path
        .strip_suffix(".__enter__()")
        .or_else(|| path.strip_suffix(".__aenter__()"))
    {
        return Some(base.to_owned());
    }
    if path.ends_with(".__truediv__()") && !path.starts_with("pathlib.") {
        return None;
    }
    let root = path.split(['.', '(']).next().unwrap_or(path);
    for (from, to) in RENAMED.iter().filter(|_| is_renamed(root)) {
        if let Some(rest) = path.strip_prefix(from)
            && (rest.is_empty() || rest.starts_with(['.', '(']))
        {
            return canonical_path(format!("{to}{rest}"));
        }
    }
    canonical_path(path.to_owned())
}

/// First segments of what has another name: most paths have none.
fn is_renamed(root: &str) -> bool {
    matches!(
        root,
        "pathlib"
            | "requests"
            | "concurrent"
            | "asyncio"
            | "posixpath"
            | "ntpath"
            | "redis"
            | "pymongo"
            | "sqlalchemy"
            | "multiprocessing"
            | "httpx"
    )
}

fn canonical_path(path: String) -> Option<String> {
    match path.strip_prefix("pathlib.Path()") {
        Some(rest) if PATH_TO_PATH.contains(&rest.strip_prefix('.').unwrap_or(rest)) => {
            Some("pathlib.Path()".to_owned())
        }
        Some(".open()") => Some("builtins.open()".to_owned()),
        _ => Some(path),
    }
}

/// Other spellings of one thing.
const RENAMED: &[(&str, &str)] = &[
    ("pathlib.PosixPath", "pathlib.Path"),
    ("pathlib.WindowsPath", "pathlib.Path"),
    ("pathlib.Path.cwd()", "pathlib.Path()"),
    ("pathlib.Path.home()", "pathlib.Path()"),
    ("requests.session()", "requests.Session()"),
    ("requests.sessions", "requests"),
    ("requests.Session().request()", "requests.Response()"),
    ("concurrent.futures.thread", "concurrent.futures"),
    ("concurrent.futures.process", "concurrent.futures"),
    ("concurrent.futures._base", "concurrent.futures"),
    ("asyncio.events", "asyncio"),
    ("asyncio.tasks", "asyncio"),
    ("asyncio.runners", "asyncio"),
    (
        "asyncio.get_event_loop_policy().get_event_loop()",
        "asyncio.get_event_loop()",
    ),
    ("posixpath", "os.path"),
    ("ntpath", "os.path"),
    ("redis.StrictRedis", "redis.Redis"),
    ("redis.from_url()", "redis.Redis()"),
    ("redis.Redis.from_url()", "redis.Redis()"),
    ("redis.client.Redis", "redis.Redis"),
    ("pymongo.mongo_client.MongoClient", "pymongo.MongoClient"),
    (
        "sqlalchemy.engine.create_engine",
        "sqlalchemy.create_engine",
    ),
    (
        "sqlalchemy.orm.sessionmaker()()",
        "sqlalchemy.orm.Session()",
    ),
    ("sqlalchemy.orm.session.Session", "sqlalchemy.orm.Session"),
    ("multiprocessing.pool.ThreadPool", "multiprocessing.Pool"),
    ("httpx._client", "httpx"),
    ("httpx._api", "httpx"),
];
