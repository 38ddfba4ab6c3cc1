//! What is stopped: the servers, their settings, and what they serve.

use std::fs;
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
    "fastapi==0.163.0",
    "gunicorn==27.0.1",
    "hypercorn==0.18.0",
    "uvicorn==0.54.0",
];

/// What they serve: everything in it hangs.
const ASGI: &str = include_str!("served/asgi.py");
const WSGI: &str = include_str!("served/wsgi.py");
const AIOHTTP: &str = include_str!("served/aiohttp.py");

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
    pub(super) socket: PathBuf,
    pub(super) words: Vec<String>,
    /// What it says when it listens.
    pub(super) listens: &'static str,
    /// What it says when the request hangs.
    pub(super) hangs: Option<&'static str>,
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
    ];
    command::run(&mut checkout.cargo(words))?;
    Ok(Tools {
        python: venv.join("bin"),
        own: checkout.root().join("target/debug"),
        home,
    })
}

/// All programs, in the order of the table.
pub(super) fn all(checkout: &Checkout, tools: &Tools) -> Result<Vec<Program>, Failure> {
    let python = |package: &str, served: &str, words: &[&str], bind: Bind, listens| {
        let folder = tools.home.join(package);
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
    let web = tools.home.join("example-web");
    let example = checkout.root().join("examples/web");
    copy(&example, &["Cargo.toml", "src/main.rs"], &web)?;
    Ok(vec![
        python(
            "uvicorn",
            ASGI,
            &["uvicorn", asgi, "--timeout-graceful-shutdown", "6"],
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
        program(
            tools,
            "example-web",
            web,
            &["example-web", "--grace", "6s"],
            Bind::Url("--listen"),
            "listening on",
        )?,
    ])
}

/// The option by which a program listens on a path.
enum Bind {
    /// `--uds PATH`
    Path(&'static str),
    /// `--bind unix:PATH`
    Url(&'static str),
    /// `PATH`
    Argument,
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
    let is_own = words.first() == Some(&"example-web");
    let programs = if is_own { &tools.own } else { &tools.python };
    let mut started: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(first) = started.first_mut() {
        *first = programs.join(&*first).display().to_string();
    }
    let socket = folder.join("s");
    let path = socket.display().to_string();
    match bind {
        Bind::Path(flag) => started.extend([flag.to_owned(), path]),
        Bind::Url(flag) => started.extend([flag.to_owned(), format!("unix:{path}")]),
        Bind::Argument => started.push(path),
    }
    Ok(Program {
        name: name.to_owned(),
        shown: words.join(" "),
        folder,
        socket,
        words: started,
        listens,
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
        (Some(at_least), Some(true)) => Ok(Computed {
            at_least,
            is_clear: bound["clear"] == true,
        }),
        _ => Err(Failure::new(format!(
            "{}: no bound was computed: {bound}",
            program.name
        ))),
    }
}
