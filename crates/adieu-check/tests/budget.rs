//! The worst-case shutdown time: what is added up, what is cut off, what is said to be unknown, and what is advised.

mod support;

use std::fs;
use std::path::Path;

use adieu_check::{Bound, Config, Verdict};
use support::Project;

const MAIN: &str = "import asyncio
from contextlib import asynccontextmanager

import asyncpg
from fastapi import FastAPI

from app.store import close_all

FLUSH = 4


@asynccontextmanager
async def lifespan(app):
    await asyncio.sleep(60)
    pool = await asyncpg.create_pool()
    yield
    async with asyncio.timeout(FLUSH):
        await pool.close()
    await close_all()


app = FastAPI(lifespan=lifespan)
";

const STORE: &str = "import asyncio

from tenacity import retry, stop_after_attempt, wait_fixed


@retry(stop=stop_after_attempt(3), wait=wait_fixed(2))
async def send():
    await asyncio.wait_for(post(), timeout=1.5)


async def post():
    await asyncio.sleep(100)


async def drain():
    for _ in range(5):
        await asyncio.sleep(0.5)


async def close_all():
    await asyncio.gather(send(), drain())
";

fn shop(command: &str, compose: &str) -> Project {
    Project::new()
        .file("app/__init__.py", "")
        .file("app/main.py", MAIN)
        .file("app/store.py", STORE)
        .file(
            "Dockerfile",
            &format!("FROM python:3.13\nCOPY . .\nCMD {command}\n"),
        )
        .file("compose.yaml", compose)
}

const UVICORN: &str = r#"["uvicorn", "app.main:app", "--timeout-graceful-shutdown", "20"]"#;

#[test]
fn the_proof_has_the_place_of_every_number() {
    let project = shop(
        UVICORN,
        "services:\n  web:\n    build: .\n    stop_grace_period: 30s\n",
    );
    insta::assert_snapshot!(project.budgets(), @r"
    compose.yaml:2: web: TOO LONG: the stop takes up to 35 s, and docker compose kills after 30 s: 5 s too long
      starts `uvicorn app.main:app --timeout-graceful-shutdown 20`
          35 s  uvicorn
         0.2 s  ├ it looks for the signal every 0.1 s, closes its sockets and waits 0.1 s  [default of uvicorn 0.54.0]
          20 s  ├ requests end and connections close; what is left is then cancelled  [Dockerfile:3]
        14.5 s  ├ the shutdown part of the lifespan
        14.5 s  │ └ `lifespan`  [app/main.py:13]
           4 s  │   ├ `asyncio.timeout(FLUSH)`, which cuts off what is inside  [app/main.py:17]
      no limit  │   │ └ `await pool.close()`, for every connection to be given back  [app/main.py:18]
        10.5 s  │   └ `close_all`  [app/main.py:19]
        10.5 s  │     └ all of these at once, the longest counts
        10.5 s  │       ├ at once
        10.5 s  │       │ └ `send`  [app/store.py:21]
        10.5 s  │       │   └ 3 times: tries  [app/store.py:6]
         1.5 s  │       │     ├ `asyncio.wait_for(post(), timeout=1.5)`, which cuts off what is inside  [app/store.py:8]
         100 s  │       │     │ └ `post`  [app/store.py:8]
         100 s  │       │     │   └ `asyncio.sleep(100)`  [app/store.py:12]
           2 s  │       │     └ pause before the next try  [app/store.py:6]
         2.5 s  │       └ at once
         2.5 s  │         └ `drain`  [app/store.py:21]
         2.5 s  │           └ 5 times: for … in range(5)  [app/store.py:16]
         0.5 s  │             └ `asyncio.sleep(0.5)`  [app/store.py:17]
         0.3 s  └ the event loop and the interpreter end  [default of uvicorn 0.54.0]
          30 s  docker compose waits  [compose.yaml:4]
      change: set `stop_grace_period` to 36s (compose.yaml:4)
    ");
}

/// The guide shows this project. `ADIEU_WRITE_PAGES=1` writes what is printed into it.
#[test]
fn the_guide_shows_what_is_printed() {
    let project = shop(
        UVICORN,
        "services:\n  web:\n    build: .\n    stop_grace_period: 30s\n",
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/check.md");
    let guide = fs::read_to_string(&path).expect("the guide");
    let (before, rest) = guide
        .split_once("$ adieu check --budget\n")
        .expect("the command");
    let (shown, after) = rest.split_once("```").expect("the end of the block");
    let printed = project.budgets();
    if std::env::var_os("ADIEU_WRITE_PAGES").is_some() {
        let text = format!("{before}$ adieu check --budget\n{printed}```{after}");
        fs::write(&path, text).expect("the guide");
    } else {
        assert_eq!(shown, printed);
    }
}

/// The body of a lifespan up to its `yield` runs at the start, and costs the stop nothing.
#[test]
fn what_runs_at_the_start_is_not_counted() {
    let project = shop(
        UVICORN,
        "services:\n  web:\n    build: .\n    stop_grace_period: 60s\n",
    );
    assert_eq!(project.budget().verdict(), Verdict::Fits { spare: 25_000 });
}

fn python(main: &str, command: &str) -> Project {
    Project::new().file("main.py", main).file(
        "Dockerfile",
        &format!("FROM python:3.13\nCOPY . .\nCMD {command}\n"),
    )
}

fn lifespan(stop: &str) -> Project {
    let main = format!(
        "import asyncio, time, threading, anyio, httpx\nfrom concurrent.futures import ThreadPoolExecutor\n\
         from contextlib import asynccontextmanager, suppress\nfrom fastapi import FastAPI\n\n\
         @asynccontextmanager\nasync def lifespan(app):\n    yield\n{}\n\napp = FastAPI(lifespan=lifespan)\n",
        stop.lines()
            .map(|line| format!("    {line}"))
            .collect::<Vec<_>>()
            .join("\n")
    );
    python(
        &main,
        r#"["uvicorn", "main:app", "--timeout-graceful-shutdown", "0"]"#,
    )
}

/// The bound of a clean-up alone.
fn clean_up(stop: &str) -> Bound {
    let bound = lifespan(stop).budget().stop.bound();
    let shared = 500;
    assert!(bound.at_least() >= shared, "{stop}");
    let own = Bound::millis(bound.at_least() - shared);
    let own = if bound.is_clear() {
        own
    } else {
        own.then(Bound::UNCLEAR)
    };
    if bound.is_limited() {
        own
    } else {
        own.then(Bound::UNLIMITED)
    }
}

#[test]
fn every_way_to_wait_has_its_length() {
    let unclear = |seconds| Bound::UNCLEAR.then(Bound::seconds(seconds));
    let unlimited = |seconds| Bound::UNLIMITED.then(Bound::seconds(seconds));
    for (stop, bound) in [
        ("pass", Bound::ZERO),
        ("await asyncio.sleep(2)", Bound::seconds(2)),
        ("time.sleep(0.5)", Bound::millis(500)),
        ("await asyncio.sleep(2 * 60)", Bound::seconds(120)),
        ("await asyncio.sleep(app.delay)", Bound::UNCLEAR),
        // A limit cuts off what is inside, and not what is beside it.
        ("await asyncio.wait_for(app.stop(), 5)", Bound::seconds(5)),
        (
            "await asyncio.wait_for(app.stop(), timeout=None)",
            Bound::UNCLEAR,
        ),
        (
            "await asyncio.wait_for(asyncio.sleep(3), 5)",
            Bound::seconds(3),
        ),
        (
            "async with asyncio.timeout(5):\n    await app.stop()\nawait asyncio.sleep(1)",
            Bound::seconds(6),
        ),
        (
            "with anyio.move_on_after(5):\n    await app.stop()",
            Bound::seconds(5),
        ),
        (
            "async with asyncio.timeout(5), app.lock:\n    await app.stop()",
            Bound::seconds(5),
        ),
        // Rounds.
        (
            "for _ in range(3):\n    await asyncio.sleep(2)",
            Bound::seconds(6),
        ),
        (
            "for _ in range(2, 5):\n    await asyncio.sleep(2)",
            Bound::seconds(6),
        ),
        (
            "for one in [app.a, app.b]:\n    await asyncio.wait_for(one.stop(), 4)",
            Bound::seconds(8),
        ),
        (
            "for one in app.all:\n    await asyncio.wait_for(one.stop(), 4)",
            unclear(4),
        ),
        (
            "while app.busy:\n    await asyncio.sleep(1)",
            Bound::UNLIMITED,
        ),
        ("while True:\n    await asyncio.sleep(1)", Bound::UNLIMITED),
        (
            "while time.monotonic() < app.end:\n    await asyncio.sleep(1)",
            unclear(1),
        ),
        ("for one in app.all:\n    one.close()", Bound::ZERO),
        // Side by side.
        (
            "await asyncio.gather(asyncio.sleep(3), asyncio.sleep(4))",
            Bound::seconds(4),
        ),
        (
            "async with asyncio.TaskGroup() as group:\n    group.create_task(asyncio.sleep(3))\n    group.create_task(asyncio.sleep(4))",
            Bound::seconds(7),
        ),
        ("asyncio.create_task(asyncio.sleep(9))", Bound::ZERO),
        (
            "await asyncio.wait(app.tasks, timeout=3)",
            Bound::seconds(3),
        ),
        ("await asyncio.wait(app.tasks)", Bound::UNLIMITED),
        ("await asyncio.shield(asyncio.sleep(3))", Bound::seconds(3)),
        // Ways.
        (
            "if app.slow:\n    await asyncio.sleep(9)\nelse:\n    await asyncio.sleep(1)",
            Bound::seconds(9),
        ),
        (
            "try:\n    await asyncio.sleep(1)\nexcept OSError:\n    await asyncio.sleep(4)\nfinally:\n    await asyncio.sleep(2)",
            Bound::seconds(7),
        ),
        (
            "match app.kind:\n    case 1:\n        await asyncio.sleep(1)\n    case _:\n        await asyncio.sleep(5)",
            Bound::seconds(5),
        ),
        (
            "with suppress(OSError):\n    await asyncio.sleep(1)",
            Bound::seconds(1),
        ),
        // Libraries.
        ("threading.Thread(target=print).join()", Bound::UNLIMITED),
        (
            "threading.Thread(target=print).join(timeout=2)",
            Bound::seconds(2),
        ),
        (
            "with ThreadPoolExecutor() as pool:\n    await asyncio.sleep(1)",
            unlimited(1),
        ),
        ("await asyncio.Event().wait()", Bound::UNLIMITED),
        (
            "await asyncio.wait_for(asyncio.Event().wait(), 3)",
            Bound::seconds(3),
        ),
        ("await httpx.AsyncClient().aclose()", Bound::ZERO),
        ("await app.store.close()", Bound::UNCLEAR),
        ("app.close()", Bound::ZERO),
    ] {
        assert_eq!(clean_up(stop), bound, "{stop}");
    }
}

/// Names of the grace that a server gives itself, and where they are set.
#[test]
fn the_setting_of_a_server_is_found_where_it_stands() {
    let gunicorn = |words: &str| {
        let project = python("app = None\n", words);
        project.budget().stop.bound()
    };
    // The thread of its control socket has two seconds, and it looks at its workers every tenth of one.
    assert_eq!(
        gunicorn(r#"["gunicorn", "main:app"]"#),
        Bound::millis(32_100)
    );
    assert_eq!(
        gunicorn(r#"["gunicorn", "main:app", "--graceful-timeout=60"]"#),
        Bound::millis(62_100)
    );
    assert_eq!(
        gunicorn(r#"["gunicorn", "main:app", "--graceful-timeout", "$T"]"#).known(),
        None
    );
    let variable = Project::new().file(
        "Dockerfile",
        "FROM python:3.13\nENV UVICORN_TIMEOUT_GRACEFUL_SHUTDOWN=9\nCMD [\"uvicorn\", \"main:app\"]\n",
    );
    assert_eq!(variable.budget().stop.bound(), Bound::millis(9_500));
    let settings = python("app = None\n", r#"["gunicorn", "main:app"]"#)
        .file("gunicorn.conf.py", "graceful_timeout = 50\n");
    assert_eq!(settings.budget().stop.bound(), Bound::millis(52_100));
    let code = python(
        "import uvicorn\nuvicorn.run('x:app', timeout_graceful_shutdown=7)\n",
        r#"["python", "main.py"]"#,
    );
    assert_eq!(code.budget().stop.bound(), Bound::millis(7_500));
    let hidden = python(
        "import uvicorn\nuvicorn.run('x:app', **settings)\n",
        r#"["python", "main.py"]"#,
    );
    assert_eq!(hidden.budget().verdict(), Verdict::NotClear);
    let silent = python(
        "import uvicorn\nuvicorn.run('x:app')\n",
        r#"["python", "main.py"]"#,
    );
    assert_eq!(silent.budget().verdict(), Verdict::NoLimit);
}

/// aiohttp waits twice: for the handlers, and for them to end once they are cancelled. Its hooks come before and after.
#[test]
fn aiohttp_waits_twice_between_its_hooks() {
    let main = "import asyncio\nfrom aiohttp import web\n\nasync def first(app):\n    await asyncio.sleep(3)\n\n\
                async def database(app):\n    await asyncio.sleep(50)\n    yield\n    await asyncio.sleep(2)\n\n\
                app = web.Application()\napp.on_shutdown.append(first)\napp.cleanup_ctx.append(database)\n\
                web.run_app(app, shutdown_timeout=4)\n";
    let budget = python(main, r#"["python", "main.py"]"#).budget();
    assert_eq!(
        budget.stop.bound(),
        Bound::millis(3_000 + 4_000 + 4_000 + 2_000 + 300)
    );
    let plain = python(
        "from aiohttp import web\nweb.run_app(web.Application())\n",
        r#"["python", "main.py"]"#,
    );
    assert_eq!(plain.budget().stop.bound(), Bound::millis(120_300));
}

/// A handler that is not a coroutine runs in a thread, and uvicorn cannot cancel it.
#[test]
fn a_handler_in_a_thread_is_said_to_be_assumed() {
    let main = "from fastapi import FastAPI\n\napp = FastAPI()\n\n@app.get('/')\ndef slow():\n    return 1\n";
    let budget = python(
        main,
        r#"["uvicorn", "main:app", "--timeout-graceful-shutdown", "3"]"#,
    )
    .budget();
    assert_eq!(budget.verdict(), Verdict::NotClear);
    assert_eq!(budget.stop.assumptions().len(), 1);
}

#[test]
fn functions_that_call_each_other_end() {
    let around = "import asyncio\nfrom fastapi import FastAPI\n\nasync def a():\n    await b()\n\n\
                  async def b():\n    await asyncio.sleep(1)\n    await a()\n\napp = FastAPI(on_shutdown=[a])\n";
    let command = r#"["uvicorn", "main:app", "--timeout-graceful-shutdown", "0"]"#;
    let bound = python(around, command).budget().stop.bound();
    assert_eq!(bound, Bound::UNCLEAR.then(Bound::millis(1_500)));
    // Each calls the next twenty times: more ways than anyone could follow.
    let mut wide = "import asyncio\nfrom fastapi import FastAPI\n\nasync def f9():\n    await asyncio.sleep(1)\n".to_owned();
    for at in (0..9).rev() {
        let calls = format!("    await f{}()\n", at + 1).repeat(20);
        wide.push_str(&format!("\nasync def f{at}():\n{calls}"));
    }
    wide.push_str("\napp = FastAPI(on_shutdown=[f0])\n");
    assert!(!python(&wide, command).budget().stop.bound().is_clear());
}

#[test]
fn each_platform_is_named_with_the_number_to_change() {
    let project = shop(
        r#"["gunicorn", "app.main:app", "--graceful-timeout", "100"]"#,
        "services:\n  web:\n    build: .\n    image: shop\n",
    )
    .file(
        "deploy/shop.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: shop\nspec:\n  template:\n    spec:\n      \
         terminationGracePeriodSeconds: 60\n      containers:\n        - name: shop\n          image: shop\n          \
         lifecycle:\n            preStop:\n              sleep:\n                seconds: 5\n",
    )
    .file("shop.service", "[Service]\nExecStart=/usr/bin/gunicorn app.main:app --graceful-timeout 100\n")
    .file("Procfile", "web: gunicorn app.main:app --graceful-timeout 45\n");
    let advice: Vec<String> = project
        .budgeted()
        .budgets
        .iter()
        .filter_map(|budget| budget.advice())
        .map(|advice| advice.replace(&format!("{}/", project.path().display()), ""))
        .collect();
    assert_eq!(
        advice,
        [
            "set `--graceful-timeout` to 27 (Procfile:1), because Heroku waits no longer",
            "set `stop_grace_period` to 103s (compose.yaml:2)",
            "set `terminationGracePeriodSeconds` to 108 (deploy/shop.yaml:8)",
            "set `TimeoutStopSec` to 103 (shop.service:2)",
        ]
    );
}

/// A service of this library bounds itself; its grace is one number, and its own thread ends it if nothing else has.
#[test]
fn a_service_of_adieu_is_bounded_by_its_grace() {
    let service = |main: &str, dockerfile: &str| {
        let project = Project::new()
            .file("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\n[dependencies]\nadieu = \"0.1\"\n")
            .file("src/main.rs", main)
            .file("Dockerfile", dockerfile);
        project.budget()
    };
    let image = "FROM debian:12\nCOPY --from=build /target/release/shop /usr/bin/shop\nENTRYPOINT [\"shop\"]\n";
    let plain = service(
        "fn main() -> adieu::Report { adieu::service(\"shop\").run(setup) }\n",
        image,
    );
    assert_eq!(plain.stop.bound(), Bound::millis(8_500));
    assert!(matches!(plain.verdict(), Verdict::Fits { .. }));
    let long = service(
        "use std::time::Duration;\nfn main() -> adieu::Report { adieu::service(\"shop\").grace(Duration::from_secs(45)).run(setup) }\n",
        image,
    );
    assert_eq!(long.stop.bound(), Bound::millis(45_500));
    assert_eq!(long.verdict(), Verdict::TooLong { by: 35_500 });
}

#[test]
fn axum_without_an_outer_limit_has_none() {
    let budget = Project::new()
        .file("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\n[dependencies]\naxum = \"0.8\"\n")
        .file(
            "src/main.rs",
            "#[tokio::main]\nasync fn main() {\n    axum::serve(listener, app).with_graceful_shutdown(signal()).await.unwrap();\n}\n",
        )
        .file("Dockerfile", "FROM debian:12\nENTRYPOINT [\"/usr/bin/shop\"]\n")
        .budget();
    assert_eq!(budget.verdict(), Verdict::NoLimit);
}

#[test]
fn findings_have_their_codes_and_can_be_ignored() {
    let project = |compose: &str| shop(r#"["gunicorn", "app.main:app"]"#, compose).budgeted();
    let codes = |outcome: adieu_check::Outcome| -> Vec<&'static str> {
        outcome
            .findings
            .iter()
            .map(|finding| finding.code.as_str())
            .collect()
    };
    let long = project("services:\n  web:\n    build: .\n    stop_grace_period: 5s\n");
    assert_eq!(codes(long), ["ADD601"]);
    let ignored = "services:\n  web:\n    build: .\n    stop_grace_period: 5s # adieu: ignore[ADD601] it is a cache\n";
    assert_eq!(codes(project(ignored)), [""; 0]);
    let fits = project("services:\n  web:\n    build: .\n    stop_grace_period: 60s\n");
    assert_eq!(codes(fits), [""; 0]);
    let without = shop(
        r#"["uvicorn", "app.main:app"]"#,
        "services:\n  web:\n    build: .\n",
    )
    .budgeted();
    assert_eq!(codes(without), ["ADD602"]);
}

/// Without `--budget` nothing is added up, and a comment about it is not one for nothing.
#[test]
fn the_plain_check_leaves_the_comment_alone() {
    let compose = "services:\n  web:\n    build: .\n    stop_grace_period: 50s # adieu: ignore[ADD601] it is a cache\n";
    let project = shop(r#"["gunicorn", "app.main:app"]"#, compose);
    assert_eq!(project.codes(), [""; 0]);
}

#[test]
fn a_project_without_deployment_files_is_told_what_it_takes() {
    let project =
        Project::python("import uvicorn\nuvicorn.run('app:app', timeout_graceful_shutdown=7)\n");
    assert_eq!(project.budget().verdict(), Verdict::NotDeployed);
    assert!(
        project
            .budgets()
            .contains("takes 7.5 s at most, and no file says how long it is given")
    );
    assert_eq!(project.budgeted().findings, []);
}

#[test]
fn the_settings_have_the_last_word() {
    let config = Config {
        grace_seconds: Some(12),
        ..Config::default()
    };
    let budget = shop(UVICORN, "services:\n  web:\n    build: .\n")
        .config(config)
        .budget();
    assert_eq!(budget.stop.bound(), Bound::seconds(12));
}

/// Files that are meant to do harm: deep, endless, or of other shapes than expected.
#[test]
fn broken_files_do_not_stop_the_rest() {
    let deep = format!(
        "async def f():\n    {}g(){}\n",
        "await f(".repeat(3_000),
        ")".repeat(3_000)
    );
    let compose = "services:\n  web:\n    build: .\n    stop_grace_period: [1, 2]\n  other: 5\n  third:\n    command: {a: b}\n";
    let project = shop(UVICORN, compose)
        .file("app/deep.py", &deep)
        .file("broken.yaml", "apiVersion: [\nkind:\n");
    assert!(!project.budgeted().budgets.is_empty());
}

#[test]
fn files_of_platforms_say_what_they_start_and_how_long_they_wait() {
    let app = "gunicorn shop:app --graceful-timeout 60";
    for (name, text, said) in [
        (
            "fly.toml",
            format!("kill_signal = 'SIGTERM'\nkill_timeout = 70\n[processes]\nweb = '{app}'\n"),
            "70 s  Fly.io waits",
        ),
        (
            "shop.nomad",
            format!(
                "job \"shop\" {{\n  task \"web\" {{\n    kill_signal = \"SIGTERM\"\n    kill_timeout = \"70s\"\n    config {{\n      args = [{}]\n    }}\n  }}\n}}\n",
                app.split(' ')
                    .map(|word| format!("\"{word}\""))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            "70 s  Nomad waits",
        ),
        (
            "supervisord.conf",
            format!("[program:web]\ncommand={app}\nstopwaitsecs=70\n"),
            "70 s  supervisord waits",
        ),
    ] {
        let told = Project::new().file(name, &text).budgets();
        assert!(told.contains("62.1 s  gunicorn"), "{told}");
        assert!(told.contains(said), "{told}");
    }
}
