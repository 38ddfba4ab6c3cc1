//! What is stopped: the servers, their settings, and what they serve.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Computed;
use crate::checkout::Checkout;
use crate::command;
use crate::packages::{self, Need};
use crate::step::Failure;

/// Pinned to the versions whose sources the table of servers names.
const PYTHON: &[&str] = &[
    "aiohttp==3.14.5",
    "celery==5.7.0",
    "fastapi==0.163.0",
    "gunicorn==27.0.1",
    "hypercorn==0.18.0",
    "uvicorn==0.54.0",
];

/// What they serve: everything in it hangs.
const ASGI: &str = include_str!("served/asgi.py");
const WSGI: &str = include_str!("served/wsgi.py");
const AIOHTTP: &str = include_str!("served/aiohttp.py");
const JOBS: &str = include_str!("served/jobs.py");

/// A request that is answered in an hour.
const SLOW: &[u8] = b"GET /slow?ms=3600000 HTTP/1.1\r\nHost: x\r\n\r\n";
/// An order whose text never comes.
const HALF: &[u8] = b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{";

const NEEDS: &[Need] = &[Need::debian(
    "python3",
    "python3-venv",
    "the servers are in Python",
)];

pub(super) struct Tools {
    /// Where programs of Python packages are.
    python: PathBuf,
    /// Where those of this project are.
    own: PathBuf,
    /// Where the programs are put together.
    home: PathBuf,
}

/// One program, ready to be started.
pub(super) struct Program {
    pub(super) name: String,
    /// The command as the deployment file has it.
    pub(super) shown: String,
    pub(super) folder: PathBuf,
    pub(super) client: Client,
    pub(super) words: Vec<String>,
    /// What it says when it listens, or begins its work; nothing where it says nothing.
    pub(super) listens: Option<&'static str>,
    /// What it says when the request hangs.
    pub(super) hangs: Option<&'static str>,
}

/// How a program is given what hangs.
pub(super) enum Client {
    /// By itself.
    None,
    /// A request over a socket at a path.
    Path(PathBuf, &'static [u8]),
    /// A request over a port.
    Port(u16, &'static [u8]),
}

/// Installs and builds what is missing.
pub(super) fn tools(checkout: &Checkout) -> Result<Tools, Failure> {
    packages::provide(checkout, NEEDS)?;
    let home = checkout.root().join("target/budgets");
    fs::create_dir_all(&home)?;
    let venv = home.join("venv");
    if !venv.join("bin/pip").exists() {
        command::run(checkout.program("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    let mut pip = checkout.program(venv.join("bin/pip"));
    command::run(
        pip.args(["install", "--quiet", "--disable-pip-version-check"])
            .args(PYTHON),
    )?;
    let words = [
        "build",
        "--package",
        "adieu-cli",
        "--package",
        "example-web",
        "--package",
        "example-orders",
    ];
    command::run(&mut checkout.cargo(words))?;
    // A workspace of its own, in the target directory that the drills build it in too.
    let manifest = checkout.root().join("fixtures/peers/rust/Cargo.toml");
    let peers = home.join("peers");
    let mut peer = checkout.cargo(["build", "--quiet", "--bin", "peer-axum"]);
    peer.arg("--manifest-path")
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&peers);
    command::run(&mut peer)?;
    Ok(Tools {
        python: venv.join("bin"),
        own: checkout.root().join("target/debug"),
        home,
    })
}

/// All programs, in the order of the table.
pub(super) fn all(checkout: &Checkout, tools: &Tools) -> Result<Vec<Program>, Failure> {
    let python = |package: &str, served: &str, words: &[&str], bind: Bind, listens| {
        // One server takes part with several command lines.
        let folder = tools.home.join(format!("{package}-{}", words.len()));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("main.py"), served)?;
        let version = PYTHON.iter().find_map(|it| it.strip_prefix(package));
        let version = version.unwrap_or_default().replace("==", " ");
        program(
            tools,
            &format!("{package}{version}"),
            folder,
            words,
            bind,
            listens,
        )
    };
    let asgi = "main:app";
    let example = |name: &str, words: &[&str], request, more: &[&str]| {
        let folder = tools.home.join(name);
        let from = checkout
            .root()
            .join("examples")
            .join(name.trim_start_matches("example-"));
        copy(&from, &["Cargo.toml", "src/main.rs"], &folder)?;
        let words: Vec<&str> = std::iter::once(name).chain(words.iter().copied()).collect();
        let mut program = program(
            tools,
            name,
            folder,
            &words,
            Bind::Url("--listen"),
            "listening on",
        )?;
        program
            .words
            .extend(more.iter().map(|word| (*word).to_owned()));
        if let Client::Path(_, sent) = &mut program.client {
            *sent = request;
        }
        Ok::<Program, Failure>(program)
    };
    Ok(vec![
        python(
            "uvicorn",
            ASGI,
            &["uvicorn", asgi, "--timeout-graceful-shutdown", "6"],
            Bind::Path("--uds"),
            "running on",
        )?,
        python(
            "uvicorn",
            ASGI,
            &["uvicorn", asgi],
            Bind::Path("--uds"),
            "running on",
        )?,
        python(
            "gunicorn",
            WSGI,
            &["gunicorn", asgi, "--graceful-timeout", "10"],
            Bind::Url("--bind"),
            "istening at",
        )?,
        python(
            "hypercorn",
            ASGI,
            &["hypercorn", asgi, "--graceful-timeout", "6"],
            Bind::Url("--bind"),
            "Running on",
        )?,
        python(
            "aiohttp",
            AIOHTTP,
            &["python", "main.py"],
            Bind::Argument,
            "Running on",
        )?,
        python(
            "celery",
            JOBS,
            &[
                "celery",
                "-A",
                "main",
                "worker",
                "--time-limit",
                "10",
                "--concurrency",
                "1",
            ],
            Bind::Nothing,
            "ready.",
        )?,
        python(
            "celery",
            JOBS,
            &["celery", "-A", "main", "worker", "--concurrency", "1"],
            Bind::Nothing,
            "ready.",
        )?,
        axum(checkout, tools)?,
        example("example-web", &["--grace", "6s"], SLOW, &[])?,
        example(
            "example-orders",
            &["--grace", "6s"],
            HALF,
            &["--admin", "127.0.0.1:0", "--database", "sqlite::memory:"],
        )?,
    ])
}

/// The server that axum's documentation shows.
fn axum(checkout: &Checkout, tools: &Tools) -> Result<Program, Failure> {
    let folder = tools.home.join("axum");
    let from = checkout
        .root()
        .join("fixtures/peers/rust/src/bin/peer-axum.rs");
    fs::create_dir_all(folder.join("src"))?;
    fs::copy(from, folder.join("src/main.rs"))?;
    let package =
        "[package]\nname = \"peer-axum\"\nversion = \"0.1.0\"\n\n[dependencies]\naxum = \"0.8\"\n";
    fs::write(folder.join("Cargo.toml"), package)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut program = program(tools, "axum 0.8", folder, &["peer-axum"], Bind::Nothing, "")?;
    let built = tools.home.join("peers/debug/peer-axum");
    program.words = vec![built.display().to_string(), port.to_string()];
    program.client = Client::Port(port, SLOW);
    program.listens = None;
    program.hangs = None;
    Ok(program)
}

/// The option by which a program listens on a path.
enum Bind {
    /// `--uds PATH`
    Path(&'static str),
    /// `--bind unix:PATH`
    Url(&'static str),
    /// `PATH`
    Argument,
    /// It does not.
    Nothing,
}

fn program(
    tools: &Tools,
    name: &str,
    folder: PathBuf,
    words: &[&str],
    bind: Bind,
    listens: &'static str,
) -> Result<Program, Failure> {
    let image = format!("FROM python\nCMD {}\n", json!(words));
    fs::write(folder.join("Dockerfile"), image)?;
    let is_own = words
        .first()
        .is_some_and(|first| first.starts_with("example-"));
    let programs = if is_own { &tools.own } else { &tools.python };
    let mut started: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(first) = started.first_mut() {
        *first = programs.join(&*first).display().to_string();
    }
    let socket = folder.join("s");
    let path = socket.display().to_string();
    match &bind {
        Bind::Path(flag) => started.extend([(*flag).to_owned(), path]),
        Bind::Url(flag) => started.extend([(*flag).to_owned(), format!("unix:{path}")]),
        Bind::Argument => started.push(path),
        Bind::Nothing => {}
    }
    let client = match bind {
        Bind::Nothing => Client::None,
        _ => Client::Path(socket, SLOW),
    };
    Ok(Program {
        name: name.to_owned(),
        shown: words.join(" "),
        folder,
        client,
        words: started,
        listens: Some(listens),
        // The example serves what waits in its accept queue, and says nothing of requests.
        hangs: (!is_own).then_some("hangs"),
    })
}

fn copy(from: &Path, names: &[&str], to: &Path) -> Result<(), Failure> {
    for name in names {
        let target = to.join(name);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(from.join(name), target)?;
    }
    Ok(())
}

/// What `adieu check --budget` says of it.
pub(super) fn computed(
    checkout: &Checkout,
    tools: &Tools,
    program: &Program,
) -> Result<Computed, Failure> {
    // Not the settings of this project.
    let settings = tools.home.join("none.toml");
    fs::write(&settings, "")?;
    let mut check = checkout.program(tools.own.join("adieu"));
    check
        .args(["check", "--budget", "--format", "json", "--config"])
        .arg(&settings)
        .current_dir(&program.folder);
    // One without a limit is a finding, and so is one that is too long for `docker stop`.
    let output = check.output()?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Failure::new(format!("adieu check gave no JSON: {error}")))?;
    let bound = &report["budgets"][0]["stop"]["bound"];
    match (bound["at-least-ms"].as_u64(), bound["limited"].as_bool()) {
        (Some(at_least), Some(is_limited)) => Ok(Computed {
            at_least,
            is_clear: bound["clear"] == true,
            is_limited,
        }),
        _ => Err(Failure::new(format!(
            "{}: no bound was computed: {bound}",
            program.name
        ))),
    }
}
