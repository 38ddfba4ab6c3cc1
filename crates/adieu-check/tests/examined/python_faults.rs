//! Python that is wrong, though it looks right.

use crate::support::Project;

predictions! {
    async_generator: Project::python(r"import time
async def rows():
    for i in range(3):
        time.sleep(1)
        yield i
async def main():
    async for r in rows():
        print(r)
")
    => ["app.py:4 ADP101"];
    thread_lock_in_async: Project::python(r"import threading
lock = threading.Lock()
async def f():
    with lock:
        pass
    lock.acquire()
")
    => ["app.py:6 ADP108"];
    class_callable: Project::python(r"import time
class Nap:
    def __call__(self):
        time.sleep(1)
nap = Nap()
async def f():
    nap()
    Nap()()
")
    => ["app.py:7 ADP101", "app.py:8 ADP101"];
    decorated_function: Project::python(r"import functools, requests
def logged(fn):
    @functools.wraps(fn)
    def inner(*a, **k):
        print('x')
        return fn(*a, **k)
    return inner
@functools.lru_cache
def get():
    return requests.get('http://x')
async def f():
    return get()
")
    => ["app.py:12 ADP102"];
    partial_called: Project::python(r"import time
from functools import partial
nap = partial(time.sleep, 3)
async def f():
    nap()
")
    => ["app.py:5 ADP101"];
    reexport_init: Project::new()
        .file("pkg/__init__.py", r"from .net import fetch as get_it
__all__ = ['get_it']
")
        .file("pkg/net.py", r"import urllib.request
def fetch(u):
    return urllib.request.urlopen(u)
")
        .file("main.py", r"from pkg import get_it
import pkg
async def f():
    get_it('x')
    pkg.get_it('x')
")
    => ["main.py:4 ADP102", "main.py:5 ADP102"];
    star_import_project: Project::new()
        .file("a.py", r"import subprocess
def build():
    subprocess.run(['make'])
")
        .file("b.py", r"from a import *
")
        .file("c.py", r"from b import *
async def f():
    build()
")
    => ["c.py:3 ADP103"];
    conditional_import: Project::python(r"try:
    import httpx
except ImportError:
    httpx = None
async def f():
    return httpx.get('http://x')
")
    => ["app.py:6 ADP102"];
    type_checking: Project::new()
        .file("model.py", r"import time
class Store:
    def load(self):
        time.sleep(1)
")
        .file("app.py", r"from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from model import Store
async def f(store: Store):
    store.load()
")
    => ["app.py:6 ADP101"];
    async_with_body: Project::python(r"import asyncio, time
lock = asyncio.Lock()
async def f():
    async with lock:
        time.sleep(1)
")
    => ["app.py:5 ADP101"];
    aenter: Project::python(r"import time
class Conn:
    async def __aenter__(self):
        time.sleep(1)
        return self
    async def __aexit__(self, *a):
        pass
")
    => ["app.py:4 ADP101"];
    future_result: Project::python(r"import asyncio
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()
def work(): return 1
async def f():
    fut = pool.submit(work)
    return fut.result()
")
    => ["app.py:7 ADP111"];
    db: Project::python(r"import sqlite3, psycopg2
async def f():
    con = sqlite3.connect('x.db')
    con.execute('select 1')
    pg = psycopg2.connect('x')
")
    => ["app.py:3 ADP106", "app.py:4 ADP106", "app.py:5 ADP106"];
    queue_and_join: Project::python(r"import queue, threading
q = queue.Queue()
async def f():
    item = q.get()
    t = threading.Thread(target=print)
    t.start()
    t.join()
")
    => ["app.py:4 ADP109", "app.py:7 ADP110"];
    exit_in_task: Project::python(r"import sys, asyncio
async def w():
    await asyncio.sleep(1)
    sys.exit(3)
")
    => ["app.py:4 ADP502"];
    loop_stop_then_schedule: Project::python(r"import asyncio
async def late(): ...
def stop(loop):
    loop.stop()
    loop.create_task(late())
")
    => ["app.py:5 ADP301", "app.py:5 ADP504"];
    nest: Project::python(r"import nest_asyncio
nest_asyncio.apply()
")
    => ["app.py:2 ADP203"];
    nested_run: Project::python(r"import asyncio
async def inner(): ...
def sync_wrapper():
    return asyncio.run(inner())
async def f():
    sync_wrapper()
")
    => ["app.py:6 ADP201"];
    finally_await: Project::python(r"import asyncio
async def worker(conn):
    try:
        while True:
            await conn.step()
    finally:
        await conn.flush()
async def main(conn):
    t = asyncio.create_task(worker(conn))
    await t
")
    => ["app.py:7 ADP403"];
    spin: Project::python(r"async def f(flag):
    while True:
        flag.poll()
")
    => ["app.py:2 ADP602"];
    call_instance_chain: Project::python(r"import requests
class Client:
    def __call__(self, url):
        return requests.get(url)
class Api:
    def __init__(self):
        self.client = Client()
    async def get(self):
        return self.client('http://x')
")
    => ["app.py:9 ADP102"];
    polls_only_locks: Project::python(r"import subprocess, requests, time
async def f():
    subprocess.run(['x'], check=False)
    requests.get('x', verify=False)
    open('x', 'rb', 0)
    time.sleep(0)
")
    => ["app.py:3 ADP103", "app.py:4 ADP102", "app.py:5 ADP104"];
    signal_beside: Project::python(r"import asyncio, signal
def stop(*a): ...
async def main():
    signal.signal(signal.SIGTERM, stop)
    while True:
        await asyncio.sleep(1)
asyncio.run(main())
")
    => ["app.py:4 ADP501"];
    wait_closed: Project::python(r"import asyncio
async def stop(server: asyncio.Server, conns):
    server.close()
    await server.wait_closed()
    for c in conns:
        await c.drain()
")
    => ["app.py:4 ADP601"];
    save: Project::python(r"import json, asyncio
class App:
    async def shutdown(self):
        with open('state.json', 'w') as f:
            json.dump(self.state, f)
")
    => ["app.py:4 ADP104", "app.py:4 ADP603"];
    method_via_super: Project::python(r"import time
class A:
    def load(self): time.sleep(1)
class B(A):
    def load(self):
        super().load()
async def f():
    B().load()
")
    => ["app.py:8 ADP101"];
    local_import: Project::python(r"async def f():
    import time as t
    from urllib.request import urlopen
    t.sleep(1)
    urlopen('http://x')
")
    => ["app.py:4 ADP101", "app.py:5 ADP102"];
    path_io: Project::python(r"from pathlib import Path
import os, shutil
async def f(p: Path):
    p.read_text()
    Path('x').write_bytes(b'')
    os.listdir('.')
    shutil.rmtree('x')
    (Path('a') / 'b').exists()
")
    => ["app.py:4 ADP104", "app.py:5 ADP104", "app.py:6 ADP105", "app.py:7 ADP104", "app.py:8 ADP105"];
    input: Project::python(r"async def f():
    return input('> ')
")
    => ["app.py:2 ADP107"];
    except_star_swallow: Project::python(r"import asyncio
async def f():
    while True:
        try:
            await asyncio.sleep(1)
        except:
            pass
")
    => ["app.py:6 ADP402"];
    tuple_swallow: Project::python(r"import asyncio
async def f():
    while True:
        try:
            await asyncio.sleep(1)
        except (ValueError, asyncio.CancelledError):
            continue
")
    => ["app.py:6 ADP401"];
    dropped_ensure_future: Project::python(r"import asyncio
async def w(): ...
async def f(loop):
    asyncio.ensure_future(w())
    loop.create_task(w())
    _ = asyncio.create_task(w())
")
    => ["app.py:4 ADP301", "app.py:5 ADP301", "app.py:6 ADP301"];
    lambda_callback: Project::python(r"import asyncio, time
async def f():
    loop = asyncio.get_running_loop()
    loop.call_later(1, time.sleep, 3)
    loop.call_soon(lambda: time.sleep(1))
")
    => ["app.py:4 ADP101", "app.py:5 ADP101"];
    run_until_complete: Project::python(r"import asyncio
async def f():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(g())
async def g(): ...
")
    => ["app.py:3 ADP201", "app.py:4 ADP201"];
    closed_in_finally: Project::python(r"import asyncio
async def main(db, tasks):
    try:
        await asyncio.gather(*tasks)
    finally:
        await db.close()
        for task in tasks:
            task.cancel()
async def right(db, tasks):
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await db.close()
")
    => ["app.py:6 ADP604"];
    result_of_what_is_done: Project::python(r"from concurrent.futures import Future, ThreadPoolExecutor
pool = ThreadPoolExecutor()
class Job:
    def __init__(self):
        self.future = pool.submit(print)
    async def poll(self):
        if self.future.done():
            return self.future.result()
        return None
    async def wait(self):
        return self.future.result()
async def other(first: Future, second: Future):
    if first.done():
        return second.result()
")
    => ["app.py:11 ADP111", "app.py:14 ADP111"];
    system_exit_raised: Project::python(r"import asyncio
async def f():
    try:
        await asyncio.sleep(1)
    except Exception:
        raise SystemExit(1)
async def main():
    raise SystemExit
")
    => ["app.py:6 ADP502"];
    clients_of_httpx: Project::python(r"import httpx
async def f():
    with httpx.Client() as c:
        c.get('x')
    async with httpx.AsyncClient() as a:
        await a.get('x')
")
    => ["app.py:4 ADP102"];
    sessions_of_requests: Project::python(r"import requests
s = requests.Session()
class A:
    def __init__(self):
        self.s = requests.Session()
    async def f(self):
        self.s.post('x')
        s.get('x')
")
    => ["app.py:7 ADP102", "app.py:8 ADP102"];
    inside_expressions: Project::python(r"import time
async def f(x):
    y = (time.sleep(1) if x else None)
    if (z := time.sleep(2)): pass
    [time.sleep(i) for i in range(3)]
    {k: time.sleep(k) for k in x}
")
    => ["app.py:3 ADP101", "app.py:4 ADP101", "app.py:5 ADP101", "app.py:6 ADP101"];
    inside_statements: Project::python(r"import time
async def f(x):
    match x:
        case 1: time.sleep(1)
        case _: pass
    while x:
        time.sleep(1)
    else:
        time.sleep(2)
")
    => ["app.py:4 ADP101", "app.py:7 ADP101", "app.py:9 ADP101"];
    methods_of_classes: Project::python(r"import time
class A:
    @staticmethod
    def s(): time.sleep(1)
    @classmethod
    def c(cls): cls.s()
async def f():
    A.s()
    A.c()
    A().c()
")
    => ["app.py:8 ADP101", "app.py:9 ADP101", "app.py:10 ADP101"];
}
