//! Traps: code that looks wrong to a shallow eye and is right. Nothing here may be a finding.

mod support;

use support::Project;

macro_rules! traps {
    ($($name:ident: $project:expr;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!($project.text(), @"");
        }
    )*};
}

traps! {
    given_to_to_thread: Project::python("
import asyncio, time, requests
async def f(url):
    await asyncio.to_thread(time.sleep, 1)
    await asyncio.to_thread(lambda: requests.get(url))
");
    given_to_an_executor: Project::python("
import asyncio, functools, subprocess
def work(a, b):
    subprocess.run([a, b])
async def f():
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, work, 1, 2)
    await loop.run_in_executor(None, functools.partial(work, 1, b=2))
    await loop.run_in_executor(None, lambda: work(1, 2))
");
    given_to_a_pool: Project::python("
from concurrent.futures import ThreadPoolExecutor
import asyncio, time
pool = ThreadPoolExecutor()
async def f():
    future = pool.submit(time.sleep, 1)
    await asyncio.wrap_future(future)
");
    nested_function_never_called_here: Project::python("
import asyncio, time
async def f():
    def work():
        time.sleep(1)
    await asyncio.to_thread(work)
");
    awaited_methods_of_the_same_name: Project::python("
import asyncio, queue, threading
async def f(jobs, client, lock, task, other: queue.Queue):
    await jobs.get()
    await client.get('/')
    await lock.acquire()
    await task.join()
    await other.get()
    return await asyncio.wait_for(jobs.get(), 1)
");
    async_types_of_the_same_name: Project::python("
import asyncio
class Worker:
    def __init__(self):
        self.jobs = asyncio.Queue()
        self.gate = asyncio.Lock()
    async def run(self):
        job = await self.jobs.get()
        async with self.gate:
            await job()
        done = asyncio.create_task(job())
        await done
        return done.result()
");
    shadowed_by_a_parameter: Project::python("
import time, requests
async def f(time, requests):
    time.sleep(1)
    requests.get('x')
");
    shadowed_by_an_assignment_below: Project::python("
import time
async def f(clock):
    time = clock
    time.sleep(1)
");
    shadowed_in_a_comprehension: Project::python("
import time
async def f(clocks):
    return [time.sleep(1) for time in clocks]
");
    an_import_of_another_thing: Project::python("
from aiofiles import open
from anyio import Path, sleep
async def f():
    async with open('x') as file:
        await file.read()
    await Path('x').read_text()
    await sleep(1)
");
    a_project_module_named_like_a_library: Project::new()
        .file("requests.py", "async def get(url):\n    return url\n")
        .file("app.py", "import requests\nasync def f():\n    return await requests.get('x')\n");
    two_imports_that_disagree: Project::python("
try:
    from asyncio import Queue
except ImportError:
    from queue import Queue
async def f():
    return Queue().get()
");
    branches_that_disagree: Project::python("
import asyncio, queue
async def f(threads):
    if threads:
        jobs = queue.Queue()
    else:
        jobs = asyncio.Queue()
    return jobs.get()
");
    zero_time_outs_and_tries: Project::python("
import os, queue, threading, time
async def f(jobs: queue.Queue, lock: threading.Lock, thread: threading.Thread, pid):
    jobs.get(block=False)
    jobs.get(False)
    jobs.get(timeout=0)
    jobs.get_nowait()
    lock.acquire(blocking=False)
    lock.acquire(timeout=0)
    thread.join(0)
    time.sleep(0)
    os.waitpid(pid, os.WNOHANG)
");
    start_up_before_the_loop: Project::python("
import asyncio, json, time
CONFIG = json.load(open('config.json'))
async def main():
    await asyncio.sleep(1)
if __name__ == '__main__':
    time.sleep(1)
    print(open('banner').read())
    asyncio.run(main())
");
    code_in_tests: Project::new()
        .file("tests/test_app.py", "import time\nasync def test_it():\n    time.sleep(1)\n")
        .file("test_other.py", "import time\nasync def test_it():\n    time.sleep(1)\n")
        .file("conftest.py", "import asyncio\nasync def fixture():\n    asyncio.run(x())\n");
    a_generator_that_is_only_made: Project::python("
def lines(path):
    with open(path) as file:
        yield from file
async def f(respond):
    return respond(lines('x'))
");
    an_unknown_decorator_takes_over: Project::python("
import time
from somewhere import in_thread
@in_thread
def work():
    time.sleep(1)
async def f():
    await work()
");
    a_function_that_asks_for_the_loop: Project::python("
import asyncio
def run(coroutine):
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return coroutine
async def f(coroutine):
    return await run(coroutine)
");
    a_short_lock_without_an_await: Project::python("
import threading
lock = threading.Lock()
counter = 0
async def f():
    global counter
    with lock:
        counter += 1
");
    a_task_that_was_cancelled_here: Project::python("
import asyncio, contextlib
async def stop(task, others):
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*others)
");
    a_cancellation_raised_again: Project::python("
import asyncio
async def f(job, log):
    try:
        await job()
    except asyncio.CancelledError:
        log('stopping')
        raise
    except BaseException as error:
        log(error)
        raise
");
    an_exception_handler_after_a_cancel_handler: Project::python("
import asyncio
async def f(job):
    try:
        await job()
    except asyncio.CancelledError:
        raise
    except:
        pass
");
    a_kept_task: Project::python("
import asyncio
async def f(job, tasks, group):
    task = asyncio.create_task(job())
    tasks.append(asyncio.create_task(job()))
    group.create_task(job())
    await asyncio.create_task(job())
    await task
");
    a_bounded_loop: Project::python("
async def f(reader):
    while True:
        line = reader.next()
        if not line:
            break
");
    a_fall_back_for_windows: Project::python("
import asyncio, signal
async def main(stop):
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    except NotImplementedError:
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(stop.set))
");
    an_unrelated_object_with_a_stop: Project::python("
import asyncio
async def f(player):
    player.stop()
    asyncio.create_task(player.say()).add_done_callback(print)
");
    an_ignore_with_its_reason: Project::python("
import time
async def f():
    time.sleep(1)  # adieu: ignore[ADP101] the loop has nothing else to do yet
    # adieu: ignore[blocking-sleep] nor here
    time.sleep(2)
");
    shadowed_by_a_walrus: Project::python("
import time
async def f(clock):
    if (time := clock):
        time.sleep(1)
");
    shadowed_by_a_pattern: Project::python("
import time
async def f(x):
    match x:
        case {'t': time}:
            time.sleep(1)
");
    an_import_that_hangs_on_the_platform: Project::python("
import sys
if sys.platform == 'win32':
    from somewhere import sleep
else:
    from time import sleep
async def f():
    sleep(1)
");
    a_generator_expression_that_is_only_made: Project::python("
import requests
async def f(urls, run):
    pages = (requests.get(url) for url in urls)
    await run(pages)
");
    a_thread_of_its_own_class: Project::python("
import threading, time
class Worker(threading.Thread):
    def run(self):
        time.sleep(1)
async def f():
    Worker().start()
");
    a_loop_in_a_thread_of_a_program_without_one: Project::python("
import asyncio, threading
async def work(): ...
def background():
    asyncio.run(work())
def window():
    threading.Thread(target=background).start()
");
    a_mixin_that_hides_the_blocking_method: Project::python("
import time
class Base:
    def nap(self):
        time.sleep(1)
class Left(Base):
    pass
class Right(Base):
    def nap(self):
        pass
class Both(Left, Right):
    async def f(self):
        self.nap()
");
    given_on_as_a_partial: Project::python("
import asyncio, functools, time
nap = functools.partial(time.sleep, 1)
async def f():
    await asyncio.to_thread(nap)
");
    asgi_threads: Project::python("
import time
from asgiref.sync import sync_to_async
from starlette.concurrency import run_in_threadpool
@sync_to_async
def work():
    time.sleep(1)
def other():
    time.sleep(1)
async def f():
    await work()
    await sync_to_async(other)()
    await run_in_threadpool(lambda: time.sleep(1))
");
    rust_given_to_a_thread: Project::rust("
async fn f() {
    tokio::task::spawn_blocking(|| std::thread::sleep(D)).await;
    tokio::task::spawn_blocking(move || { std::fs::read(\"x\") }).await;
    std::thread::spawn(|| std::fs::read(\"x\"));
    tokio::task::block_in_place(|| std::thread::sleep(D));
}
");
    rust_async_namesakes: Project::rust("
use tokio::{fs, net::TcpStream, sync::mpsc, time::sleep};
async fn f(mut rx: mpsc::Receiver<u8>) {
    sleep(D).await;
    fs::read(\"x\").await;
    TcpStream::connect(\"x\").await;
    rx.recv().await;
}
");
    rust_tries: Project::rust("
use std::sync::mpsc::Receiver;
use std::time::Duration;
async fn f(rx: Receiver<u8>, m: std::sync::Mutex<u8>) {
    rx.try_recv();
    rx.recv_timeout(Duration::ZERO);
    *m.lock().unwrap() += 1;
    g().await;
}
async fn g() {}
");
    rust_guard_dropped_first: Project::rust("
use std::sync::Mutex;
async fn f(m: &Mutex<u8>) {
    let guard = m.lock().unwrap();
    drop(guard);
    g().await;
}
async fn g() {}
");
    rust_start_up_before_the_first_await: Project::rust("
#[tokio::main]
async fn main() {
    let settings = std::fs::read_to_string(\"app.toml\");
    serve(settings).await;
}
async fn serve(settings: S) {}
");
    rust_guard_that_is_gone_in_time: Project::rust("
use std::sync::Mutex;
async fn f(m: &Mutex<u8>, x: bool) {
    let guard = m.lock().unwrap();
    if x {
        drop(guard);
        g().await;
    }
}
async fn h(m: &Mutex<u8>) {
    let guard = m.lock().unwrap();
    consume(guard);
    g().await;
}
async fn i(m: &Mutex<u8>) {
    let copied = match *m.lock().unwrap() { 0 => 1, x => x };
    let length = m.lock().unwrap().len();
    if let Some(last) = m.lock().unwrap().pop() { print(last); }
    g().await;
}
async fn j(m: &Mutex<u8>) {
    { let guard = m.lock().unwrap(); }
    let guard = m.lock().unwrap();
    tokio::spawn(async { g().await });
}
async fn g() {}
");
    rust_try_iter: Project::rust("
async fn f(rx: std::sync::mpsc::Receiver<u8>) {
    for message in rx.try_iter() {}
}
");
    rust_tests: Project::rust("
#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn sleeps() { std::thread::sleep(D); }
}
#[tokio::test]
async fn sleeps() { std::thread::sleep(D); }
");
    rust_shadowed_names: Project::rust("
mod thread { pub async fn sleep() {} }
async fn f() { thread::sleep().await; }
fn fs() {}
async fn g(fs: Other) { fs.read(); }
");
    rust_sync_function_never_called_from_async: Project::rust("
fn work() { std::thread::sleep(D); }
pub fn main_loop() { work(); }
async fn f() { tokio::task::spawn_blocking(work).await; }
");
    rust_select_outside_a_loop: Project::rust("
async fn f(mut s: S, mut stop: T) {
    tokio::select! {
        _ = s.read_exact(&mut b) => {}
        _ = &mut stop => {}
    }
}
");
    exec_form_and_exec: Project::new()
        .file("Dockerfile", "FROM python:3.13\nENTRYPOINT [\"tini\", \"--\"]\nCMD [\"python\", \"app.py\"]\n")
        .file("Dockerfile.shell", "FROM python:3.13\nCMD exec python app.py --port $PORT\n")
        .file("Dockerfile.stages", "FROM node AS build\nCMD npm start\nFROM gcr.io/distroless/nodejs\nCMD [\"server.js\"]\n");
    a_script_with_exec_or_trap: Project::new()
        .file("Dockerfile", "FROM debian:12\nENTRYPOINT [\"/start.sh\"]\n")
        .file("start.sh", "#!/bin/sh\nset -e\nif [ -n \"$X\" ]; then\n  migrate\nfi\nexec \"$@\"\n")
        .file("other.sh", "#!/bin/sh\npython app.py\n");
    two_services_with_a_script_of_one_name: Project::new()
        .file("a/Dockerfile", "FROM debian:12\nENTRYPOINT [\"/start.sh\"]\n")
        .file("a/start.sh", "#!/bin/sh\nexec python a.py\n")
        .file("b/Dockerfile", "FROM debian:12\nENTRYPOINT [\"/start.sh\"]\n")
        .file("b/start.sh", "#!/bin/sh\nexec python b.py\n");
    a_database_in_compose: Project::new()
        .file("compose.yaml", "services:\n  db:\n    image: postgres:17\n  cache:\n    image: redis\n");
    yaml_that_is_no_manifest: Project::new()
        .file("ci.yml", "a: [1\n")
        .file("values.yaml", "x: {{ .Values.x }}\n");
    a_helm_template_is_a_notice_and_no_finding: Project::new()
        .file("chart/templates/web.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: {{ .Values.replicas }}\n");
    a_quiet_unit: Project::new()
        .file("app.service", "[Unit]\nDescription=x\n[Service]\nType=exec\nExecStart=/usr/bin/app\nTimeoutStopSec=90\n");
}
