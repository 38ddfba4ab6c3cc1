//! What must be found, with the way down.

mod support;

use support::Project;

#[test]
fn calls_are_followed_over_modules_and_packages() {
    let project = Project::new()
        .file("app/__init__.py", "")
        .file("app/web.py", "from app.services import profile\n\nasync def handler():\n    return profile.load(1)\n")
        .file("app/services/__init__.py", "from .users import fetch\n")
        .file("app/services/users.py", "import time\n\ndef fetch(key):\n    time.sleep(1)\n    return key\n")
        .file("app/services/profile.py", "from app import services\n\ndef load(key):\n    return services.fetch(key)\n");
    insta::assert_snapshot!(project.text(), @r"
    app/web.py:4:12: ADP101 `load` blocks the event loop: it reaches `time.sleep`
      app/services/profile.py:4:12: fetch
        app/services/users.py:4:5: time.sleep
    ");
}

#[test]
fn methods_attributes_and_constructors_are_followed() {
    let project = Project::python(
        "
import requests

class Base:
    def ask(self, url):
        return self.session.get(url)

class Client(Base):
    def __init__(self):
        self.session = requests.Session()
        self.token = open('token').read()

    @property
    def me(self) -> 'Client':
        return self

    @classmethod
    def make(cls) -> 'Client':
        return cls()

async def handler():
    client = Client()
    client.me.ask('x')
    with requests.Session() as session:
        session.post('y')
",
    );
    insta::assert_snapshot!(project.text());
}

#[test]
fn aliases_star_imports_and_local_imports_are_seen() {
    let project = Project::new()
        .file(
            "helpers.py",
            "from time import sleep as nap\nfrom subprocess import *\n",
        )
        .file(
            "app.py",
            "
from helpers import *
import os.path as where
async def f():
    from urllib import request
    request.urlopen('x')
    where.exists('x')
    nap(1)
",
        );
    insta::assert_snapshot!(project.text());
}

#[test]
fn a_call_among_the_arguments_of_to_thread_runs_here() {
    let project = Project::python(
        "import asyncio, time\nasync def f():\n    await asyncio.to_thread(time.sleep(5))\n",
    );
    assert_eq!(project.codes(), ["ADP101"]);
}

#[test]
fn generators_and_context_managers_run_where_they_are_used() {
    let project = Project::python(
        "
from contextlib import contextmanager
def lines(path):
    with open(path) as file:
        yield from file
@contextmanager
def workdir(path):
    open(path)
    yield
async def f():
    for line in lines('x'):
        print(line)
    with workdir('y'):
        pass
",
    );
    insta::assert_snapshot!(project.text());
}

#[test]
fn what_the_loop_is_told_to_call_runs_on_it() {
    let project = Project::python(
        "
import asyncio, time
def tick():
    time.sleep(1)
async def f():
    loop = asyncio.get_running_loop()
    loop.call_later(5, tick)
",
    );
    insta::assert_snapshot!(project.text(), @r"
    app.py:7:24: ADP101 `tick` blocks the event loop: it reaches `time.sleep`
      app.py:4:5: time.sleep
    ");
}

#[test]
fn the_python_kinds_are_all_known() {
    let project = Project::python(
        "
import asyncio, getpass, glob, os, pathlib, queue, shutil, socket, sqlite3, subprocess, sys, threading, time
import concurrent.futures, http.client, httpx, psycopg2, redis, requests, urllib.request, urllib3

async def f(p: pathlib.Path, q: queue.Queue, t: threading.Thread, e: threading.Event, u: concurrent.futures.Future):
    time.sleep(1)
    requests.request('GET', 'x')
    urllib.request.urlopen('x')
    httpx.get('x')
    httpx.Client().get('x')
    urllib3.PoolManager().request('GET', 'x')
    http.client.HTTPConnection('x').request('GET', '/')
    subprocess.run(['x'], check=False)
    subprocess.Popen(['x']).wait()
    os.system('x')
    open('x')
    (p / 'x').parent.read_text()
    shutil.copy('a', 'b')
    os.path.exists('x')
    p.resolve().exists()
    glob.glob('x')
    sqlite3.connect('x').execute('select 1')
    psycopg2.connect('x').cursor().execute('select 1')
    redis.Redis().get('x')
    input()
    getpass.getpass()
    sys.stdin.readline()
    e.wait()
    q.get()
    t.join()
    u.result()
    asyncio.run_coroutine_threadsafe(g(), 1).result()
    socket.create_connection(('x', 1))
    asyncio.run(g())

async def g():
    pass
",
    );
    insta::assert_snapshot!(project.text());
}

#[test]
fn rust_calls_are_followed_over_modules_and_packages() {
    let project = Project::new()
        .file("Cargo.toml", "[workspace]\nmembers = [\"*\"]\n")
        .file("store/Cargo.toml", "[package]\nname = \"the-store\"\nversion = \"0.1.0\"\n")
        .file("store/src/lib.rs", "mod disk;\npub use disk::load;\n")
        .file("store/src/disk.rs", "pub fn load() { std::fs::read(\"x\"); }\n")
        .file("web/Cargo.toml", "[package]\nname = \"web\"\nversion = \"0.1.0\"\n")
        .file(
            "web/src/main.rs",
            "mod pages;\n#[tokio::main]\nasync fn main() { tokio::task::yield_now().await; pages::Page::new().show(); }\n",
        )
        .file(
            "web/src/pages.rs",
            "use the_store::load;\npub struct Page { rx: std::sync::mpsc::Receiver<u8> }\n\
             impl Page {\n    pub fn new() -> Self { todo!() }\n    pub fn show(&self) { load(); self.next(); }\n\
             \x20   fn next(&self) { self.rx.recv(); }\n}\n",
        );
    insta::assert_snapshot!(project.text());
}

#[test]
fn the_rust_kinds_are_all_known() {
    let project = Project::rust(
        r#"
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, RwLock, mpsc};
use std::{fs, net, thread};

struct State { inner: Arc<Mutex<u8>>, table: RwLock<u8> }

impl State {
    async fn hold(&self) {
        let guard = self.inner.lock().unwrap();
        step().await;
        let other = self.table.write().unwrap();
        step().await;
    }
}

async fn step() {}

async fn f(c: Condvar, g: G, mut s: S, mut stop: T) -> std::io::Result<()> {
    thread::sleep(D);
    fs::File::open("x")?;
    fs::OpenOptions::new().write(true).open("x")?;
    net::TcpStream::connect("x")?;
    Command::new("x").arg("y").output()?;
    let mut child = Command::new("x").spawn()?;
    child.wait()?;
    let (tx, rx) = mpsc::channel::<u8>();
    rx.recv();
    let handle = thread::spawn(|| ());
    handle.join();
    c.wait(g);
    s.blocking_recv();
    futures::executor::block_on(step());
    ureq::get("x").call();
    tokio::spawn(async move { thread::sleep(D) });
    println!("{}", fs::read_to_string("x")?);
    loop {
        tokio::select! {
            _ = s.read_exact(&mut b) => { thread::sleep(D); }
            Some(x) = s.recv() => x,
            _ = &mut stop, if true => std::process::exit(1),
        }
    }
}
"#,
    );
    insta::assert_snapshot!(project.text());
}

#[test]
fn a_syntax_error_in_one_file_leaves_the_rest_checked() {
    let project = Project::new()
        .file("broken.py", "def f(:\n    pass\n")
        .file("broken.rs", "fn f( {\n")
        .file("compose.yaml", "services: [\n")
        .file("app.py", "import time\nasync def f():\n    time.sleep(1)\n");
    insta::assert_snapshot!(project.text());
}

#[test]
fn ignores_are_themselves_looked_at() {
    let project = Project::python(
        "
import time
async def f():
    time.sleep(1)  # adieu: ignore[ADP101]
    await g()  # adieu: ignore[ADP101] gone since
    await g()  # adieu: ignore[ADP999] what
    await g()  # adieu: ignore because
",
    );
    insta::assert_snapshot!(project.text());
}

#[test]
fn partials_overloads_and_contexts_are_looked_through() {
    let project = Project::python(
        "
import functools, time
from typing import overload
nap = functools.partial(time.sleep, 1)
@overload
def wait(x: int) -> int: ...
@overload
def wait(x: str) -> str: ...
def wait(x):
    time.sleep(1)
class Lock:
    def __enter__(self):
        time.sleep(1)
    def __exit__(self, *error):
        pass
class Base:
    def rest(self):
        pass
class Left(Base):
    pass
class Right(Base):
    def rest(self):
        time.sleep(1)
class Both(Left, Right):
    pass
async def f():
    nap()
    wait(1)
    with Lock():
        pass
    Both().rest()
    sum(time.sleep(1) for _ in 'ab')
",
    );
    insta::assert_snapshot!(project.text(), @r"
    app.py:27:5: ADP101 `time.sleep` blocks the event loop; use `await asyncio.sleep(...)`
    app.py:28:5: ADP101 `wait` blocks the event loop: it reaches `time.sleep`
      app.py:10:5: time.sleep
    app.py:29:10: ADP101 `Lock.__enter__` blocks the event loop: it reaches `time.sleep`
      app.py:13:9: time.sleep
    app.py:31:5: ADP101 `Right.rest` blocks the event loop: it reaches `time.sleep`
      app.py:23:9: time.sleep
    app.py:32:9: ADP101 `time.sleep` blocks the event loop; use `await asyncio.sleep(...)`
    ");
}

#[test]
fn second_loops_are_seen_where_a_thread_gets_them() {
    let project = Project::python(
        "
import asyncio, functools, threading
from concurrent.futures import ThreadPoolExecutor
from fastapi import FastAPI
app = FastAPI()
pool = ThreadPoolExecutor()
async def work(): ...
def background():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(work())
class Worker(threading.Thread):
    def run(self):
        asyncio.run(work())
@app.get('/')
def handler():
    return asyncio.run(work())
async def start():
    threading.Thread(target=background).start()
    pool.submit(asyncio.run, work())
    await asyncio.to_thread(lambda: background())
    await asyncio.to_thread(functools.partial(background))
",
    );
    insta::assert_snapshot!(project.text(), @r"
    app.py:13:9: ADP202 `asyncio.run` runs a second event loop in a thread: a stop of the first one does not reach it; use `asyncio.run_coroutine_threadsafe` or a task
    app.py:16:12: ADP202 `asyncio.run` runs a second event loop in a thread: a stop of the first one does not reach it; use `asyncio.run_coroutine_threadsafe` or a task
    app.py:18:29: ADP202 `background` runs a second event loop in a thread: a stop of the first one does not reach it; use `asyncio.run_coroutine_threadsafe` or a task
      app.py:9:12: asyncio.new_event_loop
    app.py:19:17: ADP202 `asyncio.run` runs a second event loop in a thread: a stop of the first one does not reach it; use `asyncio.run_coroutine_threadsafe` or a task
    app.py:20:29: ADP202 `background` runs a second event loop in a thread: a stop of the first one does not reach it; use `asyncio.run_coroutine_threadsafe` or a task
      app.py:9:12: asyncio.new_event_loop
    app.py:21:29: ADP202 `background` runs a second event loop in a thread: a stop of the first one does not reach it; use `asyncio.run_coroutine_threadsafe` or a task
      app.py:9:12: asyncio.new_event_loop
    ");
}

#[test]
fn rust_guards_in_what_is_looked_at_live_as_long_as_the_body() {
    let project = Project::rust(
        "
use std::sync::Mutex;
type Shared = Mutex<Vec<u8>>;
async fn f(m: &Shared) {
    if let Ok(guard) = m.lock() { g().await; }
    let Ok(guard) = m.lock() else { return };
    g().await;
}
async fn h(m: &Shared) {
    while let Some(x) = m.lock().unwrap().pop() { g().await; }
    for x in m.lock().unwrap().iter() { g().await; }
    match m.lock().unwrap().pop() { Some(_) => g().await, None => {} }
}
async fn g() {}
",
    );
    insta::assert_snapshot!(project.text(), @r"
    src/lib.rs:5:24: ADR502 a guard of `std::sync::Mutex` lives across an await; drop it before, or use `tokio::sync::Mutex`
    src/lib.rs:6:21: ADR502 a guard of `std::sync::Mutex` lives across an await; drop it before, or use `tokio::sync::Mutex`
    src/lib.rs:10:25: ADR502 a guard of `std::sync::Mutex` lives across an await; drop it before, or use `tokio::sync::Mutex`
    src/lib.rs:11:14: ADR502 a guard of `std::sync::Mutex` lives across an await; drop it before, or use `tokio::sync::Mutex`
    src/lib.rs:12:11: ADR502 a guard of `std::sync::Mutex` lives across an await; drop it before, or use `tokio::sync::Mutex`
    ");
}

#[test]
fn rust_channels_paths_and_inline_modules_are_followed() {
    let project = Project::rust(
        "
mod a {
    pub mod b { pub fn slow() { std::thread::sleep(D); } }
    pub use self::b::slow as quick;
}
use a::quick;
use std::path::{Path, PathBuf};
async fn f(p: &Path) {
    quick();
    p.exists();
    PathBuf::from(\"x\").is_dir();
    let (tx, rx) = std::sync::mpsc::channel();
    for message in rx {}
    std::io::stdin().read_line(&mut s);
}
",
    );
    insta::assert_snapshot!(project.text(), @r"
    src/lib.rs:9:5: ADR101 `a::b::slow` blocks the runtime's thread: it reaches `std::thread::sleep`
      src/lib.rs:3:33: std::thread::sleep
    src/lib.rs:10:7: ADR102 `std::path::Path::exists` blocks the runtime's thread; use `tokio::fs` or `spawn_blocking`
    src/lib.rs:11:24: ADR102 `std::path::PathBuf::is_dir` blocks the runtime's thread; use `tokio::fs` or `spawn_blocking`
    src/lib.rs:13:20: ADR106 `std::sync::mpsc::Receiver::iter` blocks the runtime's thread; use `tokio::sync::mpsc`, `try_recv` or `spawn_blocking`
    src/lib.rs:14:22: ADR102 `std::io::stdin::read_line` blocks the runtime's thread; use `tokio::io::stdin`, or a thread of its own
    ");
}

#[test]
fn a_shared_way_is_shown_once() {
    let project = Project::python(
        "
import time
def deep():
    time.sleep(1)
def hub():
    deep()
def other():
    hub()
async def f():
    hub()
async def g():
    hub()
    other()
",
    );
    insta::assert_snapshot!(project.text(), @r"
    app.py:10:5: ADP101 `hub` blocks the event loop: it reaches `time.sleep`
      app.py:6:5: deep
        app.py:4:5: time.sleep
    app.py:12:5: ADP101 `hub` blocks the event loop: it reaches `time.sleep`
      and on as from app.py:10:5
    app.py:13:5: ADP101 `other` blocks the event loop: it reaches `time.sleep`
      app.py:8:5: hub
        and on as from app.py:10:5
    ");
}

#[test]
fn rust_methods_are_found_wherever_their_impl_stands() {
    let project = Project::rust("mod store;\nmod disk;\nmod web;\n")
        .file("src/store.rs", "pub struct Store;\nimpl Store {\n    pub fn save(&self) { self.write(); }\n}\n")
        .file(
            "src/disk.rs",
            "use crate::store::Store;\nimpl Store {\n    pub fn write(&self) { std::thread::sleep(d()); }\n}\n",
        )
        .file(
            "src/web.rs",
            "use crate::store::Store;\npub async fn handler(store: &Store) {\n    store.save();\n}\n",
        );
    assert_eq!(
        project.told(),
        ["src/web.rs:3 ADR101"],
        "{}",
        project.text()
    );
}

#[test]
fn rust_default_methods_and_globs_are_followed() {
    let project = Project::rust("mod load;\nmod web;\n")
        .file(
            "src/load.rs",
            "pub trait Load {\n    fn name(&self) -> u8;\n    fn load(&self) { std::thread::sleep(d()); }\n}\npub struct Disk;\n\
             impl Load for Disk {\n    fn name(&self) -> u8 { 1 }\n}\npub fn wait() { std::thread::sleep(d()); }\n",
        )
        .file(
            "src/web.rs",
            "use crate::load::*;\npub async fn a(disk: Disk) {\n    disk.load();\n}\npub async fn b() {\n    wait();\n}\n",
        );
    assert_eq!(
        project.told(),
        ["src/web.rs:3 ADR101", "src/web.rs:6 ADR101"],
        "{}",
        project.text()
    );
}

#[test]
fn rust_closures_that_run_on_the_spot_are_part_of_their_function() {
    let project = Project::rust(
        "pub async fn a(x: Option<u8>) {\n    x.map(|_| std::thread::sleep(d()));\n}\npub async fn b(x: Vec<u8>) {\n    \
         x.par_iter().for_each(|_| std::thread::sleep(d()));\n    tokio::task::spawn_blocking(|| std::thread::sleep(d()));\n}\n",
    );
    assert_eq!(
        project.told(),
        ["src/lib.rs:2 ADR101"],
        "{}",
        project.text()
    );
}

#[test]
fn a_call_three_methods_below_is_found_in_both_languages() {
    let python = Project::python(
        "import time\n\nclass C:\n    def wait(self):\n        time.sleep(1)\n\nclass B:\n    def __init__(self):\n        self.c = \
         C()\n    def b(self):\n        self.c.wait()\n\nclass A:\n    def __init__(self, b: B):\n        self.b = b\n    def a(self):\n\
         \x20       self.b.b()\n\nasync def f(a: A):\n    a.a()\n",
    );
    assert_eq!(python.told(), ["app.py:20 ADP101"], "{}", python.text());
    let rust = Project::rust(
        "struct C;\nimpl C { fn wait(&self) { std::thread::sleep(d()); } }\nstruct B { c: C }\nimpl B { fn b(&self) { self.c.wait(); } \
         }\nstruct A { b: B }\nimpl A { fn a(&self) { self.b.b(); } }\npub async fn f(a: &A) {\n    a.a();\n}\n",
    );
    assert_eq!(rust.told(), ["src/lib.rs:8 ADR101"], "{}", rust.text());
}

#[test]
fn python_template_methods_and_injected_dependencies_are_followed() {
    let template = Project::python(
        "import abc\nimport time\n\nclass Job(abc.ABC):\n    def run(self):\n        self.step()\n    @abc.abstractmethod\n    def \
         step(self): ...\n\nclass Mail(Job):\n    def step(self):\n        time.sleep(1)\n\nasync def f(job: Job):\n    job.run()\n",
    );
    assert_eq!(template.told(), ["app.py:15 ADP101"], "{}", template.text());
    let injected = Project::python(
        "import time\nfrom typing import Annotated\n\nfrom fastapi import Depends, FastAPI\n\nclass Repo:\n    def load(self):\n        \
         time.sleep(1)\n\nDep = Annotated[Repo, Depends()]\napp = FastAPI()\n\n@app.get('/')\nasync def f(repo: Dep):\n    \
         repo.load()\n\n@app.get('/b')\nasync def g(repo: Annotated[Repo, Depends(Repo)]):\n    repo.load()\n",
    );
    assert_eq!(
        injected.told(),
        ["app.py:15 ADP101", "app.py:19 ADP101"],
        "{}",
        injected.text()
    );
}
