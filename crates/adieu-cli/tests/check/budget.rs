//! `adieu check --budget`: its formats and exit codes, and its sums against real stops in which everything hangs.

use crate::support::Test;

const HANGS: &str =
    "services:\n  web:\n    image: shop\n    command: gunicorn app:app --graceful-timeout 45\n";

#[test]
fn a_stop_that_is_too_long_is_one_and_says_what_to_change() {
    let ran = Test::new().file("compose.yaml", HANGS).run(&["--budget"]);
    assert_eq!(ran.code(), 1);
    insta::assert_snapshot!(ran.out(), @r"
    compose.yaml:2: web: TOO LONG: the stop takes up to 47.1 s, and docker compose kills after 10 s: 37.1 s too long
      starts `gunicorn app:app --graceful-timeout 45`
      47.1 s  gunicorn
         2 s  ├ the thread of the control socket ends  [default of gunicorn 27.0.1]
        45 s  ├ workers end, or are killed  [compose.yaml:4]
       0.1 s  └ it looks at its workers every 0.1 s  [default of gunicorn 27.0.1]
        10 s  docker compose waits  [default of docker compose]
      change: set `stop_grace_period` to 48s (compose.yaml:2)
    ");
    insta::assert_snapshot!(ran.err(), @"note: 1 of 1 program may be killed before they have stopped");
}

#[test]
fn a_stop_that_fits_is_zero() {
    let fits = format!("{HANGS}    stop_grace_period: 60s\n");
    let ran = Test::new().file("compose.yaml", &fits).run(&["--budget"]);
    assert_eq!(ran.code(), 0, "{}", ran.out());
    assert!(ran.out().contains(": fits: "), "{}", ran.out());
}

#[test]
fn json_has_the_tree_and_the_findings() {
    let test = Test::new().file("compose.yaml", HANGS);
    let report = test.run(&["--budget", "--format", "json"]).json();
    let budget = &report["budgets"][0];
    assert_eq!(budget["verdict"]["kind"], "too-long");
    assert_eq!(budget["verdict"]["by-ms"], 37_100);
    assert_eq!(budget["stop"]["parts"][1]["bound"]["at-least-ms"], 45_000);
    assert_eq!(budget["stop"]["parts"][1]["origin"]["line"], 4);
    assert_eq!(budget["platform"]["setting"], "stop_grace_period");
    assert_eq!(report["findings"][0]["code"], "ADD601");
    let sarif = test.run(&["--budget", "--format", "sarif"]).json();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "ADD601");
    assert_eq!(sarif["runs"][0]["results"][0]["level"], "error");
    let github = test.run(&["--budget", "--format", "github"]);
    assert!(
        github.out().starts_with("::error file=compose.yaml,line=2"),
        "{}",
        github.out()
    );
}

#[test]
fn nothing_to_add_up_is_said() {
    let ran = Test::new().file("app.py", "x = 1\n").run(&["--budget"]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
    assert!(
        ran.err().contains("there is no shutdown time to compute"),
        "{}",
        ran.err()
    );
}

#[test]
fn it_does_not_go_with_repairs() {
    let ran = Test::new().run(&["--budget", "--fix"]);
    assert_eq!(ran.code(), 2);
}

/// Real programs in which everything hangs that can.
#[cfg(target_os = "linux")]
mod measured {
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use adieu_testkit::ChildProcess;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use crate::support::Test;

    /// What stands in for a framework: it hands its lifespan to the server, and every request hangs.
    const FRAMEWORK: &str = "import asyncio


class FastAPI:
    def __init__(self, lifespan):
        self.lifespan = lifespan

    async def __call__(self, scope, receive, send):
        if scope['type'] != 'lifespan':
            print('hangs', flush=True)
            await asyncio.Event().wait()
        await receive()
        async with self.lifespan(self):
            await send({'type': 'lifespan.startup.complete'})
            await receive()
        await send({'type': 'lifespan.shutdown.complete'})
";

    const ASGI: &str = "import asyncio
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI


@asynccontextmanager
async def lifespan(app):
    yield
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(flush(), 2)


async def flush():
    while True:
        await asyncio.sleep(3600)


app = FastAPI(lifespan=lifespan)
";

    const WSGI: &str = "import time


def app(environ, start):
    print('hangs', flush=True)
    time.sleep(3600)
";

    /// What a busy machine may add to the end of a process. A stop without an end is far beyond it.
    fn slack() -> Duration {
        match std::env::var_os("ADIEU_PROVE") {
            Some(_) => Duration::from_millis(500),
            None => Duration::from_secs(20),
        }
    }

    fn python_with(module: &str) -> Option<String> {
        let named = std::env::var("ADIEU_PYTHON").ok();
        let mut pythons = named.into_iter().chain(["python3".to_owned()]);
        pythons.find(|python| {
            let import = format!("import {module}");
            let tried = Command::new(python).args(["-c", &import]).output();
            tried.is_ok_and(|it| it.status.success())
        })
    }

    /// What is said of the only program in a project.
    fn computed(test: &Test, folder: &str) -> Duration {
        let report = test.run(&["--budget", "--format", "json", folder]).json();
        let bound = &report["budgets"][0]["stop"]["bound"];
        assert_eq!(
            (&bound["limited"], &bound["clear"]),
            (&true.into(), &true.into()),
            "{report}"
        );
        Duration::from_millis(bound["at-least-ms"].as_u64().expect("a length"))
    }

    /// Starts a program, has a request hang in it, stops it, and says how long that took. One that is still there when its
    /// time is over fails the test.
    async fn stopped(
        command: &[&str],
        listens: Listens,
        socket: &Path,
        given: Duration,
    ) -> Duration {
        let (program, arguments) = command.split_first().expect("a program");
        let mut child = ChildProcess::start(program, arguments).expect("it starts");
        match listens {
            Listens::OnError(words) => child.error_line(words).await.map(drop),
            Listens::OnOutput(words) => child.line(words).await.map(drop),
        }
        .expect("it listens");
        let mut client = UnixStream::connect(socket).await.expect("it accepts");
        let request = b"GET /slow?ms=3600000 HTTP/1.1\r\nHost: x\r\n\r\n";
        client.write_all(request).await.expect("a request");
        if let Listens::OnError(_) = listens {
            child.line("hangs").await.expect("the request hangs");
        }
        child.terminate().expect("it runs");
        let ended = tokio::time::timeout(given + slack(), child.end()).await;
        let end = ended
            .expect("the stop ends within its bound")
            .expect("an end");
        end.took.expect("it was stopped")
    }

    /// How a program says that it listens. One that says so on standard error also prints that a request hangs; the other
    /// serves what waits in its accept queue.
    #[derive(Clone, Copy)]
    enum Listens {
        OnError(&'static str),
        OnOutput(&'static str),
    }

    #[tokio::test]
    async fn uvicorn_stops_within_its_bound() {
        let Some(python) = python_with("uvicorn") else {
            fixture_skip::missing("a Python with uvicorn, named in ADIEU_PYTHON");
            return;
        };
        let flags = ["main:app", "--timeout-graceful-shutdown", "1"];
        let image = format!(
            "FROM python\nCMD {}\n",
            serde_json::json!([&["uvicorn"], &flags[..]].concat())
        );
        let test = Test::new()
            .file("app/main.py", ASGI)
            .file("app/Dockerfile", &image)
            .file("library/fastapi.py", FRAMEWORK);
        let bound = computed(&test, "app");
        assert_eq!(bound, Duration::from_millis(3_500));
        let path = |name: &str| test.path().join(name).display().to_string();
        let (app, library) = (path("app"), format!("PYTHONPATH={}", path("library")));
        let socket = path("s");
        let command = [
            "env",
            &library,
            &python,
            "-m",
            "uvicorn",
            "--app-dir",
            &app,
            "--uds",
            &socket,
        ];
        let words = [&command[..], &flags[..]].concat();
        let took = stopped(
            &words,
            Listens::OnError("running on"),
            Path::new(&socket),
            bound,
        )
        .await;
        // All of it hangs, so that the bound is what it takes, but for the time until it looks for the signal.
        assert!(took * 13 >= bound * 10, "{took:?} of {bound:?}");
    }

    #[tokio::test]
    async fn gunicorn_stops_within_its_bound() {
        let Some(python) = python_with("gunicorn") else {
            fixture_skip::missing("a Python with gunicorn, named in ADIEU_PYTHON");
            return;
        };
        let flags = ["main:app", "--graceful-timeout", "2"];
        let image = format!(
            "FROM python\nCMD {}\n",
            serde_json::json!([&["gunicorn"], &flags[..]].concat())
        );
        let test = Test::new()
            .file("app/main.py", WSGI)
            .file("app/Dockerfile", &image);
        let bound = computed(&test, "app");
        assert_eq!(bound, Duration::from_millis(4_100));
        let app = test.path().join("app").display().to_string();
        let home = format!("HOME={}", test.path().display());
        let socket = test.path().join("s");
        let bind = format!("unix:{}", socket.display());
        let command = [
            "env", &home, &python, "-m", "gunicorn", "--chdir", &app, "-b", &bind,
        ];
        let words = [&command[..], &flags[..]].concat();
        let took = stopped(&words, Listens::OnError("istening at"), &socket, bound).await;
        // The thread of its control socket ends at once, as a rule.
        assert!(took >= Duration::from_secs(2), "{took:?} of {bound:?}");
    }

    #[tokio::test]
    async fn a_service_of_adieu_stops_within_its_bound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("an example");
        let flags = ["--grace", "2s"];
        let image = format!(
            "FROM debian\nENTRYPOINT {}\n",
            serde_json::json!([&["example-web"], &flags[..]].concat())
        );
        let test = Test::new()
            .file("app/Cargo.toml", &read("examples/web/Cargo.toml"))
            .file("app/src/main.rs", &read("examples/web/src/main.rs"))
            .file("app/Dockerfile", &image);
        let bound = computed(&test, "app");
        assert_eq!(bound, Duration::from_millis(2_500));
        let socket = test.path().join("s");
        let listen = format!("unix:{}", socket.display());
        let program = built("example-web");
        let words = [&[&*program, "--listen", &listen], &flags[..]].concat();
        stopped(&words, Listens::OnOutput("listening on"), &socket, bound).await;
    }

    /// The program of another package, built if it is not there.
    fn built(name: &str) -> String {
        let folder = Path::new(env!("CARGO_BIN_EXE_adieu"))
            .parent()
            .expect("a directory");
        let program = folder.join(name);
        if !program.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--package", name]);
            if folder.ends_with("release") {
                build.arg("--release");
            }
            let status = build.status().expect("cargo runs");
            assert!(status.success(), "{name}: {status}");
        }
        program.to_str().expect("a path").to_owned()
    }
}
