//! Restarts under constant load: no request fails.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use adieu_load::{Load, Mode, Running, Target};
use adieu_testkit::iterations;
use rustix::process::Signal;
use tokio::time::timeout;

use crate::restart::SERVER;
use crate::support::{PATIENCE, Wrapper, built, is_reaped, state};

/// Clients, as many as the issue of a busy evening.
const CLIENTS: usize = 32;

pub(crate) async fn load(address: &str, mode: Mode) -> Running {
    let address: SocketAddr = address.parse().expect("an address");
    let target = Target::tcp(address);
    target.reachable(PATIENCE).await.expect("it answers");
    let load = Load::http1(target, "/").clients(CLIENTS).mode(mode).start();
    timeout(PATIENCE, load.answered(200))
        .await
        .expect("answers");
    load
}

/// The load goes on all the while; at its end nothing was lost, refused or failed.
pub(crate) async fn nothing_failed(load: Running) {
    load.end();
    let tally = timeout(PATIENCE, load.finish()).await.expect("in time");
    println!("{tally}");
    let bad = (tally.lost(), tally.refused, tally.failed, tally.unsent);
    assert_eq!(bad, (0, 0, 0, 0), "{tally}");
}

fn pid_of(line: &str) -> i32 {
    line.split(' ')
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a process id")
}

/// Restarts again and again; each generation prints a line that begins with `pid`.
async fn restart(wrapper: &mut Wrapper, mut serving: i32, count: usize) {
    for _ in 0..count {
        wrapper.signal(Signal::HUP);
        let next = pid_of(&wrapper.line("pid ").await);
        let old = std::mem::replace(&mut serving, next);
        // Gone, and seen off: the next restart begins with one generation.
        wrapper.says(&format!("the old process (pid {old})")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_activated_server() {
    let options = ["--listen", "web=tcp:127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    let line = wrapper.line("pid ").await;
    let address = line.split(' ').nth(1).expect("an address").to_owned();
    let load = load(&address, Mode::Fresh).await;
    restart(&mut wrapper, pid_of(&line), iterations(3, 100)).await;
    nothing_failed(load).await;
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// A new version that dies, hangs or never listens: the old one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_new_version() {
    let folder = tempfile::TempDir::new().expect("a directory");
    let program = folder.path().join("server.py");
    let write = |text: &str| std::fs::write(&program, text).expect("a file");
    write(SERVER);
    // Long enough for a Python to say that it is broken, on a busy machine.
    let options = ["--listen", "web=tcp:127.0.0.1:0", "--ready-timeout", "5s"];
    let mut wrapper = Wrapper::start(
        &options,
        &["/usr/bin/python3", program.to_str().expect("a path")],
    );
    let line = wrapper.line("pid ").await;
    let address = line.split(' ').nth(1).expect("an address").to_owned();
    let load = load(&address, Mode::Fresh).await;
    let broken = [
        "raise SystemExit(3)",
        "import time\ntime.sleep(1000)",
        "os.kill(os.getpid(), 11)",
    ];
    for text in broken.iter().cycle().take(iterations(3, 20)) {
        write(&format!(
            "import os\nprint('broken', os.getpid(), flush=True)\n{text}"
        ));
        wrapper.signal(Signal::HUP);
        let pid: i32 = wrapper.line("broken ").await.parse().expect("a number");
        wrapper.says("; the old one stays").await;
        assert!(is_reaped(pid, PATIENCE), "{text}");
    }
    assert!(state(pid_of(&line)).is_some(), "the old one stays");
    write(SERVER);
    restart(&mut wrapper, pid_of(&line), 1).await;
    nothing_failed(load).await;
    wrapper.signal(Signal::TERM);
    let (_, said) = wrapper.code().await;
    assert!(
        said.contains("ended with exit code 3; the old one stays"),
        "{said}"
    );
    assert!(said.contains("is not ready after 5s"), "{said}");
    assert!(
        said.contains("was ended by SIGSEGV; the old one stays"),
        "{said}"
    );
}

const ASGI: &str = r#"
import os
print("pid", os.getpid(), os.environ["SERVER_STARTER_PORT"].rsplit("=")[0], flush=True)
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})
"#;

/// A server for Python takes over again and again, under load; `command` comes after the Python.
async fn takes_over_from_itself(module: &str, program: &str, command: &[&str]) {
    let Some(python) = python_with(module) else {
        return;
    };
    let folder = tempfile::TempDir::new().expect("a directory");
    std::fs::write(folder.path().join("shop.py"), program).expect("a file");
    let options = ["--listen", "web=tcp:127.0.0.1:0"];
    let path = folder.path().to_str().expect("a path");
    let words = command
        .iter()
        .map(|it| if *it == "FOLDER" { path } else { it });
    let command: Vec<&str> = [python.as_str(), "-m", module]
        .into_iter()
        .chain(words)
        .collect();
    let mut wrapper = Wrapper::start(&options, &command);
    let line = wrapper.line("pid ").await;
    let address = line.split(' ').nth(1).expect("an address").to_owned();
    let load = load(&address, Mode::Fresh).await;
    restart(&mut wrapper, pid_of(&line), iterations(2, 100)).await;
    nothing_failed(load).await;
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uvicorn() {
    let command = [
        "shop:app",
        "--fd",
        "3",
        "--app-dir",
        "FOLDER",
        "--log-level",
        "warning",
    ];
    takes_over_from_itself("uvicorn", ASGI, &command).await;
}

/// Said by a worker of the process that is the command.
const WSGI: &str = r#"
import os
print("pid", os.getppid(), os.environ["SERVER_STARTER_PORT"].rsplit("=")[0], flush=True)
def app(environment, begin):
    begin("200 OK", [("content-length", "2")])
    return [b"ok"]
"#;

/// It takes the socket by LISTEN_FDS itself, and must be given no address.
#[tokio::test(flavor = "multi_thread")]
async fn gunicorn() {
    let command = [
        "shop:app",
        "--threads",
        "8",
        "--chdir",
        "FOLDER",
        "--log-level",
        "warning",
    ];
    takes_over_from_itself("gunicorn", WSGI, &command).await;
}

/// A service of the library, in the place of one that knows nothing of us. It closes keep-alive connections in good order,
/// so all kinds of clients come through.
#[tokio::test(flavor = "multi_thread")]
async fn example_web() {
    let options = ["--listen", "web=tcp:127.0.0.1:0"];
    let command = [
        built("example-web"),
        "--listen".to_owned(),
        "127.0.0.1:0".to_owned(),
    ];
    let mut wrapper = Wrapper::start(&options, &command);
    let address = wrapper.line("listening on ").await;
    let load = load(&address, Mode::Mixed).await;
    for _ in 0..iterations(3, 100) {
        wrapper.signal(Signal::HUP);
        assert_eq!(wrapper.line("listening on ").await, address);
        wrapper.says("the old process (pid ").await;
    }
    nothing_failed(load).await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
}

/// A Python that has this module: one that is named in `ADIEU_PYTHON`, or the system's.
fn python_with(module: &str) -> Option<String> {
    let named = std::env::var("ADIEU_PYTHON").ok();
    let all = named.into_iter().chain(["/usr/bin/python3".to_owned()]);
    let has = |python: &String| {
        let tried = Command::new(python)
            .args(["-c", &format!("import {module}")])
            .output();
        tried.is_ok_and(|output| output.status.success())
    };
    let found = all
        .into_iter()
        .find(|python| Path::new(python).exists() && has(python));
    if found.is_none() {
        fixture_skip::missing(format!("a Python with {module}, named in ADIEU_PYTHON"));
    }
    found
}
