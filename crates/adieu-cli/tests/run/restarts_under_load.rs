//! Restarts under constant load: no request fails.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use adieu_load::{Load, Mode, Running, Target};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::restart::SERVER;
use crate::support::{PATIENCE, Wrapper, state, times};

/// Clients, as many as the issue of a busy evening.
const CLIENTS: usize = 32;

async fn load(address: &str, mode: Mode) -> Running {
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
async fn nothing_failed(load: Running) {
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
async fn restart(wrapper: &mut Wrapper, mut serving: i32, count: u32) {
    for _ in 0..count {
        wrapper.signal(Signal::HUP);
        let next = pid_of(&wrapper.line("pid ").await);
        let old = std::mem::replace(&mut serving, next);
        // Gone, and seen off: the next restart begins with one generation.
        let gone = async {
            while state(old).is_some() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("the old one goes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_activated_server() {
    let options = ["--listen", "web=tcp:127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    let line = wrapper.line("pid ").await;
    let address = line.split(' ').nth(1).expect("an address").to_owned();
    let load = load(&address, Mode::Fresh).await;
    restart(&mut wrapper, pid_of(&line), times(3, 100)).await;
    nothing_failed(load).await;
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// A new version that dies, hangs or never listens: the old one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_new_version() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let program = folder.path().join("server.py");
    let write = |text: &str| std::fs::write(&program, text).expect("a file");
    write(SERVER);
    let options = ["--listen", "web=tcp:127.0.0.1:0", "--ready-timeout", "1s"];
    let mut wrapper = Wrapper::start(
        &options,
        &["/usr/bin/python3", program.to_str().expect("a path")],
    );
    let line = wrapper.line("pid ").await;
    let address = line.split(' ').nth(1).expect("an address").to_owned();
    let load = load(&address, Mode::Fresh).await;
    let broken = [
        "print('broken', flush=True)\nraise SystemExit(3)",
        "import time\nprint('broken', flush=True)\ntime.sleep(1000)",
        "import os\nprint('broken', flush=True)\nos.kill(os.getpid(), 11)",
    ];
    for (number, text) in broken
        .iter()
        .cycle()
        .take(times(3, 20) as usize)
        .enumerate()
    {
        write(text);
        wrapper.signal(Signal::HUP);
        wrapper.line("broken").await;
        let one = |pid: i32| crate::support::children(pid).len() == 1;
        let pid = wrapper.subject.pid();
        crate::support::until(&format!("{number}: one is left"), || one(pid));
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
    assert!(said.contains("is not ready after 1s"), "{said}");
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

#[tokio::test(flavor = "multi_thread")]
async fn uvicorn() {
    let Some(python) = python_with("uvicorn") else {
        return;
    };
    let folder = tempfile::TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("shop.py"), ASGI).expect("a file");
    let options = ["--listen", "web=tcp:127.0.0.1:0"];
    let path = folder.path().to_str().expect("a path");
    let command = [
        python.as_str(),
        "-m",
        "uvicorn",
        "shop:app",
        "--fd",
        "3",
        "--app-dir",
        path,
        "--log-level",
        "warning",
    ];
    let mut wrapper = Wrapper::start(&options, &command);
    let line = wrapper.line("pid ").await;
    let address = line.split(' ').nth(1).expect("an address").to_owned();
    let load = load(&address, Mode::Fresh).await;
    restart(&mut wrapper, pid_of(&line), times(2, 100)).await;
    nothing_failed(load).await;
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// A Python that has this module: one that is named in `ADIEU_PYTHON`, or the system's.
pub(crate) fn python_with(module: &str) -> Option<String> {
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
        println!("skipped: no Python here has {module}");
    }
    found
}
