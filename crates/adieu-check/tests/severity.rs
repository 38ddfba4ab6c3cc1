//! How much a finding matters: each rule for it beside a case where it does not hold.

mod support;

use adieu_check::Config;
use support::Project;

/// What is said of one file of a service.
fn of_service(text: &str) -> Vec<String> {
    Project::python(&format!("from fastapi import FastAPI\nimport asyncio, os, requests, shutil, subprocess, threading, time\napp = FastAPI()\n{text}"))
        .severities()
}

#[test]
fn a_service_gives_errors_and_what_has_no_role_gives_warnings() {
    let text = "import time\nasync def f():\n    time.sleep(1)\n";
    assert_eq!(
        Project::python(text).severities(),
        ["app.py:3 ADP101 warning"]
    );
    assert_eq!(
        of_service("async def f():\n    time.sleep(1)\n"),
        ["app.py:5 ADP101 error"]
    );
}

#[test]
fn what_stands_aside_gives_notes() {
    let text = "import fastapi, time\nasync def f():\n    time.sleep(1)\n";
    for name in [
        "examples/app.py",
        "scripts/load.py",
        "app/cli.py",
        "setup.py",
        "docs/conf.py",
        "benchmarks_private/a.py",
    ] {
        let told = Project::new().file(name, text).severities();
        assert_eq!(told, [format!("{name}:3 ADP101 note")]);
    }
    let tool = format!("import click\n{text}");
    assert_eq!(
        Project::python(&tool).severities(),
        ["app.py:4 ADP101 note"]
    );
    assert_eq!(
        Project::python(text).severities(),
        ["app.py:3 ADP101 error"]
    );
}

#[test]
fn a_deployment_file_of_a_test_is_left_alone() {
    let shell = "FROM python\nCMD python app.py\n";
    let project = Project::new()
        .file("tests/Dockerfile", shell)
        .file("e2e/web/Dockerfile", shell)
        .file("examples/web/Dockerfile", shell)
        .file("Dockerfile", shell);
    assert_eq!(
        project.severities(),
        [
            "Dockerfile:2 ADD101 error",
            "examples/web/Dockerfile:2 ADD101 note"
        ]
    );
}

#[test]
fn tests_are_looked_into_on_demand() {
    let text = "import pytest, time\nasync def test_it():\n    time.sleep(1)\n";
    let rust = "#[cfg(test)]\nmod tests {\n    async fn f() { std::thread::sleep(d); }\n}\n";
    let project = || {
        Project::rust(rust)
            .file("tests/test_app.py", text)
            .file("helpers.py", text)
    };
    assert!(project().severities().is_empty());
    let config = Config {
        tests: true,
        ..Config::default()
    };
    assert_eq!(
        project().config(config).severities(),
        [
            "helpers.py:3 ADP101 warning",
            "src/lib.rs:3 ADR101 warning",
            "tests/test_app.py:3 ADP101 warning"
        ]
    );
}

#[test]
fn what_a_test_is_given_may_be_broken() {
    let project = Project::new()
        .bytes("tests/data/latin.py", b"x = '\xff'\n")
        .file("tests/data/broken.py", "def f(:\n")
        .bytes("latin.py", b"x = '\xff'\n");
    assert_eq!(project.severities(), ["latin.py:1 ADX002 warning"]);
}

#[test]
fn an_async_block_in_a_closure_of_a_benchmark_is_test_code() {
    let text = "fn each() { go(|| { async { std::thread::sleep(d); } }); }\n";
    let project = |name: &str| Project::rust("").file(name, text).severities();
    assert!(project("benches/bench.rs").is_empty());
    assert_eq!(project("src/each.rs"), ["src/each.rs:1 ADR101 warning"]);
}

#[test]
fn start_up_and_guards_are_notes() {
    for text in [
        "async def setup():\n    time.sleep(1)\n",
        "async def init_models():\n    time.sleep(1)\n",
        "class A:\n    async def f(self):\n        if self.client is None:\n            time.sleep(1)\n",
        "class A:\n    async def f(self):\n        if self.client: return self.client\n        time.sleep(1)\n",
        "async def f():\n    if DEBUG:\n        time.sleep(1)\n",
        "import sys\nasync def f():\n    if sys.platform == 'win32':\n        time.sleep(1)\n",
        "import functools\n@functools.lru_cache\ndef g():\n    time.sleep(1)\nasync def f():\n    g()\n",
    ] {
        let told = of_service(text);
        assert!(
            told.len() == 1 && told[0].ends_with("ADP101 note"),
            "{text}: {told:?}"
        );
    }
    for text in [
        "async def fetch():\n    time.sleep(1)\n",
        "class A:\n    async def f(self, x):\n        if x is None:\n            time.sleep(1)\n",
        "class A:\n    async def f(self):\n        if self.stopped: return\n        time.sleep(1)\n",
    ] {
        let told = of_service(text);
        assert!(
            told.len() == 1 && told[0].ends_with("ADP101 error"),
            "{text}: {told:?}"
        );
    }
}

#[test]
fn a_longer_way_weighs_less() {
    let told = of_service(
        "def a():\n    time.sleep(1)\ndef b():\n    a()\ndef c():\n    b()\ndef d():\n    c()\n\
         def a2():\n    time.sleep(1)\ndef b2():\n    a2()\ndef c2():\n    b2()\n\
         async def one():\n    d()\nasync def two():\n    c2()\n",
    );
    assert_eq!(told, ["app.py:19 ADP101 note", "app.py:21 ADP101 warning"]);
}

#[test]
fn of_many_ways_to_one_call_the_shortest_is_shown() {
    let told = of_service(
        "def nap():\n    time.sleep(1)\ndef far():\n    nap()\n\
         async def one():\n    far()\nasync def two():\n    nap()\nasync def three():\n    nap()\n",
    );
    assert_eq!(
        told,
        [
            "app.py:9 ADP101 note",
            "app.py:11 ADP101 error",
            "app.py:13 ADP101 note"
        ]
    );
}

#[test]
fn files_weigh_where_clients_wait_for_them() {
    let told = of_service(
        "@app.post('/')\nasync def save(path, data):\n    with open(path, 'wb') as f:\n        f.write(data)\n\
         @app.get('/')\nasync def load(path):\n    return open(path).read()\n\
         @app.delete('/')\nasync def drop(path):\n    shutil.rmtree(path)\n\
         async def helper(path):\n    open(path, 'wb').write(b'')\n",
    );
    assert_eq!(
        told,
        [
            "app.py:6 ADP104 warning",
            "app.py:10 ADP104 note",
            "app.py:13 ADP104 error",
            "app.py:15 ADP104 note"
        ]
    );
}

#[test]
fn to_start_a_child_is_short_and_to_wait_for_it_is_not() {
    let told =
        of_service("async def f():\n    child = subprocess.Popen(['a'])\n    child.wait()\n");
    assert_eq!(told, ["app.py:5 ADP103 note", "app.py:6 ADP103 error"]);
}

#[test]
fn a_queue_that_was_asked_and_a_future_that_is_set_do_not_wait() {
    let told = of_service(
        "import queue, concurrent.futures\nasync def f(q: queue.Queue, r: queue.Queue):\n    while not q.empty():\n        q.get()\n    r.get()\n",
    );
    assert_eq!(told, ["app.py:8 ADP109 error"]);
}

#[test]
fn a_swallowed_cancellation_weighs_where_a_loop_goes_on() {
    let handler = |body: &str| {
        of_service(&format!(
            "async def f(work):\n    while True:\n        try:\n            await work()\n        except asyncio.CancelledError:\n            {body}\n"
        ))
    };
    assert_eq!(handler("pass"), ["app.py:8 ADP401 warning"]);
    assert_eq!(handler("return"), ["app.py:8 ADP401 note"]);
    assert_eq!(handler("cancelled = True"), ["app.py:8 ADP401 note"]);
    assert!(handler("raise").is_empty());
}

#[test]
fn a_bare_except_is_a_slip_and_a_base_exception_is_meant() {
    let handler = |kind: &str, call: &str| {
        of_service(&format!(
            "async def f(it):\n    try:\n        await it.{call}()\n    except{kind}:\n        pass\n"
        ))
    };
    assert_eq!(handler("", "work"), ["app.py:7 ADP402 warning"]);
    assert_eq!(handler("", "aclose"), ["app.py:7 ADP402 note"]);
    assert_eq!(handler(" BaseException", "work"), ["app.py:7 ADP402 note"]);
}

#[test]
fn a_macro_is_no_await() {
    let guarded = |line: &str| {
        Project::rust(&format!(
            "use axum::Router;\nasync fn f(m: &std::sync::Mutex<u8>) -> Result<(), E> {{\n    let guard = m.lock().unwrap();\n    {line}\n    drop(guard);\n    Ok(())\n}}\n"
        ))
        .severities()
    };
    for line in [
        "bail!(\"no\");",
        "let e = anyhow!(\"{guard:?}\");",
        "my_macro!(guard);",
    ] {
        assert!(guarded(line).is_empty(), "{line}: {:?}", guarded(line));
    }
    for line in [
        "tokio::join!(a(), b());",
        "a().await;",
        "info!(\"{}\", a().await);",
    ] {
        assert_eq!(guarded(line), ["src/lib.rs:3 ADR502 error"], "{line}");
    }
}

#[test]
fn compose_weighs_where_the_stop_is_known_to_be_longer() {
    let image = "services:\n  web:\n    image: example.org/web\n";
    assert_eq!(
        Project::new().file("compose.yaml", image).severities(),
        ["compose.yaml:2 ADD201 note"]
    );
    let told = Project::new()
        .file("compose.yaml", "services:\n  web:\n    image: example.org/web\n    command: gunicorn app --graceful-timeout 60\n")
        .severities();
    assert_eq!(told, ["compose.yaml:2 ADD201 error"]);
}

#[test]
fn a_runtime_with_a_file_and_a_wrapper_that_becomes_the_program_are_right() {
    let started = |words: &str| {
        Project::new()
            .file("Dockerfile", &format!("FROM debian\nCMD {words}\n"))
            .severities()
    };
    for words in [
        "[\"bun\", \"run\", \"server.ts\"]",
        "[\"poetry\", \"run\", \"app\"]",
    ] {
        assert!(started(words).is_empty(), "{words}");
    }
    assert_eq!(
        started("[\"bun\", \"run\", \"start\"]"),
        ["Dockerfile:2 ADD105 warning"]
    );
    assert_eq!(
        started("[\"uv\", \"run\", \"app\"]"),
        ["Dockerfile:2 ADD105 note"]
    );
}

#[test]
fn the_main_of_an_example_or_a_test_makes_no_service_of_its_package() {
    let library = "fn apart() { let runtime = tokio::runtime::Runtime::new(); }\n";
    let main = "#[tokio::main]\nasync fn main() {}\n";
    let project = |name: &str| Project::rust(library).file(name, main).severities();
    assert!(project("examples/serve.rs").is_empty());
    assert!(project("tests/serve.rs").is_empty());
    assert_eq!(project("src/main.rs"), ["src/lib.rs:1 ADR202 note"]);
}

#[test]
fn a_task_that_nothing_could_keep_is_a_note() {
    let of = |name: &str| {
        of_service(&format!(
            "class A:\n    def {name}(self, *_):\n        asyncio.create_task(g())\n"
        ))
    };
    for name in ["__del__", "on_sigterm", "handle_signal"] {
        assert_eq!(of(name), ["app.py:6 ADP301 note"], "{name}");
    }
    assert_eq!(of("handle"), ["app.py:6 ADP301 error"]);
}

#[test]
fn a_loop_that_an_error_ends_is_left_alone() {
    let text = "async def f(x):\n    try:\n        while True:\n            x = x.next()\n    except StopIteration:\n        pass\n";
    assert!(Project::python(text).severities().is_empty());
    let text = "async def f(x):\n    while True:\n        x = x.next()\n";
    assert_eq!(
        Project::python(text).severities(),
        ["app.py:2 ADP602 warning"]
    );
}

#[test]
fn a_main_that_asks_a_person_needs_no_handler() {
    let of = |line: &str| {
        Project::python(&format!(
            "import asyncio\nasync def main():\n    while True:\n        {line}\n        await asyncio.sleep(1)\nasyncio.run(main())\n"
        ))
        .codes()
    };
    assert!(of("x = 1").contains(&"ADP503"));
    assert!(!of("x = input()").contains(&"ADP503"));
}

#[test]
fn a_handler_for_ctrl_c_is_asked_for_once_in_a_package() {
    let text =
        "use tokio::net::TcpListener;\npub async fn f() { tokio::signal::ctrl_c().await; }\n";
    let project = Project::rust("mod a;\nmod b;\n")
        .file("src/a.rs", text)
        .file("src/b.rs", text);
    assert_eq!(project.severities(), ["src/a.rs:2 ADR303 warning"]);
}

#[test]
fn what_the_kernel_answers_is_no_disk() {
    let of = |path: &str| {
        Project::rust(&format!(
            "use axum::Router;\npub async fn handler(r: Router) {{ let _ = std::fs::read_to_string({path}); }}\n"
        ))
        .severities()
    };
    assert_eq!(of("\"/srv/data\""), ["src/lib.rs:2 ADR102 warning"]);
    assert!(of("\"/proc/self/status\"").is_empty());
    assert!(of("\"/dev/fd\"").is_empty());
}
