//! Who is drilled, and how it is started.

use std::fs;

use super::fetch::Tools;
use crate::checkout::Checkout;
use crate::command;
use crate::step::Failure;

pub(crate) const NAMES: &[&str] = &[
    "uvicorn",
    "hypercorn",
    "gunicorn",
    "aiohttp",
    "axum",
    "actix-web",
    "nginx",
    "node",
];

/// Drilled by a chore of their own, which needs no peers in Rust.
pub(crate) const MORE: &[&str] = &["granian", "go", "java", "node-close-idle"];

pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    /// The options for the drill.
    pub(crate) options: Vec<&'static str>,
    /// The signal that it takes for a graceful stop.
    pub(crate) signal: &'static str,
    /// With `{port}` and `{dir}` in it.
    pub(crate) command: Vec<String>,
}

/// Those of these names.
pub(crate) fn all(
    checkout: &Checkout,
    tools: &Tools,
    names: &[&'static str],
) -> Result<Vec<Peer>, Failure> {
    let folder = checkout.root().join("fixtures/peers");
    let place = |path: &str| folder.join(path).display().to_string();
    let python = |program: &str| tools.python.join(program).display().to_string();
    let rust = |program: &str| tools.rust.join(program).display().to_string();
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<String>>()
    };
    let mut peers = Vec::new();
    for &name in names {
        let command = match name {
            "uvicorn" => words(&[
                &python("uvicorn"),
                "asgi:app",
                "--app-dir",
                &place("python"),
                "--port",
                "{port}",
            ]),
            "hypercorn" => words(&[
                &python("hypercorn"),
                &format!("{}:app", place("python/asgi.py")),
                "--bind",
                "127.0.0.1:{port}",
            ]),
            "gunicorn" => {
                let threads = ["--worker-class", "gthread", "--threads", "64"];
                let mut command = words(&[
                    &python("gunicorn"),
                    "wsgi:app",
                    "--chdir",
                    &place("python"),
                    "--bind",
                    "127.0.0.1:{port}",
                ]);
                command.extend(words(&threads));
                command
            }
            "aiohttp" => words(&[
                &python("python"),
                &place("python/with_aiohttp.py"),
                "{port}",
            ]),
            "axum" => words(&[&rust("peer-axum"), "{port}"]),
            "actix-web" => words(&[&rust("peer-actix"), "{port}"]),
            "nginx" => words(&[&place("nginx/serve.sh"), "{port}", "{dir}"]),
            "haproxy" => words(&[&place("haproxy/serve.sh"), "{port}", "{dir}"]),
            "granian" => words(&[
                &python("granian"),
                "--interface",
                "asgi",
                "--working-dir",
                &place("python"),
                "--port",
                "{port}",
                "asgi:app",
            ]),
            "go" => words(&[&tools.go().display().to_string(), "{port}"]),
            "java" => words(&["java", &place("java/Server.java"), "{port}"]),
            "node-close-idle" => words(&["node", &place("node/server.js"), "{port}", "close-idle"]),
            _ => words(&["node", &place("node/server.js"), "{port}"]),
        };
        let (signal, options): (_, &[&str]) = match name {
            // What its container image asks for; SIGTERM is its quick stop.
            "nginx" => ("QUIT", &["--signal", "QUIT", "--large", "/large"]),
            _ => ("TERM", &[]),
        };
        peers.push(Peer {
            name,
            version: version(checkout, tools, name)?,
            options: options.to_vec(),
            signal,
            command,
        });
    }
    Ok(peers)
}

fn version(checkout: &Checkout, tools: &Tools, name: &str) -> Result<String, Failure> {
    let said = match name {
        "axum" | "actix-web" => return locked(checkout, name),
        "nginx" => {
            // It says so where errors go.
            let output = checkout.program("nginx").arg("-v").output()?;
            String::from_utf8_lossy(&output.stderr).into_owned()
        }
        "node" | "node-close-idle" => {
            text(command::ask(checkout.program("node").arg("--version"))?)
        }
        "go" => {
            let said = text(command::ask(checkout.program("go").arg("version"))?);
            let word = said.split_whitespace().nth(2).unwrap_or_default();
            return Ok(word.trim_start_matches("go").to_owned());
        }
        "java" => {
            let said = text(command::ask(checkout.program("java").arg("--version"))?);
            return Ok(said
                .split_whitespace()
                .nth(1)
                .unwrap_or_default()
                .to_owned());
        }
        "haproxy" => {
            let said = text(command::ask(checkout.program("haproxy").arg("-v"))?);
            let word = said.split_whitespace().nth(2).unwrap_or_default();
            return Ok(word.split('-').next().unwrap_or_default().to_owned());
        }
        package => {
            let code = format!("import importlib.metadata as m; print(m.version('{package}'))");
            text(command::ask(
                checkout
                    .program(tools.python.join("python"))
                    .args(["-c", &code]),
            )?)
        }
    };
    let word = said.split_whitespace().last().unwrap_or_default();
    Ok(word
        .trim_start_matches("nginx/")
        .trim_start_matches('v')
        .to_owned())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// From the lock file of the peers.
fn locked(checkout: &Checkout, name: &str) -> Result<String, Failure> {
    let lock = fs::read_to_string(checkout.root().join("fixtures/peers/rust/Cargo.lock"))?;
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
    let version = entry.and_then(|(_, rest)| rest.split('"').next());
    version
        .map(str::to_owned)
        .ok_or_else(|| Failure::new(format!("{name} is not in the lock file of the peers")))
}
