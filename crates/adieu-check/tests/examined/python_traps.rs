//! Python that is right, though it looks wrong.

use crate::support::Project;

predictions! {
    executor_partial_clean: Project::python(r"import asyncio, functools, time, requests
async def f(loop):
    await loop.run_in_executor(None, functools.partial(requests.get, 'http://x', timeout=3))
    await loop.run_in_executor(None, lambda: time.sleep(1))
    await asyncio.to_thread(lambda: requests.get('x'))
    await asyncio.to_thread(functools.partial(time.sleep, 1))
")
    => [];
    nested_never_called_clean: Project::python(r"import asyncio, time
async def f():
    def work():
        time.sleep(1)
    await asyncio.to_thread(work)
    return work
")
    => [];
    awaited_same_name_clean: Project::python(r"import asyncio
class Q:
    async def get(self): ...
    async def join(self): ...
    async def acquire(self): ...
async def f(q: Q, lock: asyncio.Lock, queue: asyncio.Queue):
    await q.get()
    await q.join()
    await lock.acquire()
    await queue.get()
    await queue.join()
")
    => [];
    shadow_clean: Project::python(r"import asyncio
from asyncio import sleep
from time import time
class requests:
    @staticmethod
    def get(u): return u
async def f(open):
    await sleep(1)
    time()
    requests.get('x')
    open('x')
async def g():
    time = asyncio
    await time.sleep(1)
")
    => [];
    zero_timeouts_clean: Project::python(r"import queue, threading
q = queue.Queue()
lock = threading.Lock()
ev = threading.Event()
async def f(t: threading.Thread):
    q.get_nowait()
    q.get(block=False)
    q.get(False)
    lock.acquire(blocking=False)
    lock.acquire(False)
    lock.acquire(timeout=0)
    ev.wait(0)
    ev.wait(timeout=0)
    t.join(0)
    t.join(timeout=0)
")
    => [];
    startup_clean: Project::python(r"import asyncio, signal, time
settings = open('settings.toml').read()
time.sleep(1)
async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
if __name__ == '__main__':
    open('x').read()
    asyncio.run(main())
")
    => [];
    tests_clean: Project::new()
        .file("tests/test_x.py", r"import time
async def test_a():
    time.sleep(1)
")
        .file("pkg/conftest.py", r"import time
async def fix():
    time.sleep(1)
")
        .file("pkg/x_test.py", r"import time
async def t():
    time.sleep(1)
")
    => [];
    reraise_clean: Project::python(r"import asyncio
async def w():
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        print('bye')
        raise
    try:
        await asyncio.sleep(1)
    except BaseException as e:
        log(e)
        raise
async def stop(task):
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
async def stop2(task):
    import contextlib
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
")
    => [];
    future_done_clean: Project::python(r"import asyncio
async def f(tasks):
    done, pending = await asyncio.wait(tasks)
    for d in done:
        print(d.result())
    t = asyncio.create_task(g())
    await t
    return t.result()
async def g(): ...
")
    => [];
    shielded_clean: Project::python(r"import asyncio
async def worker(conn):
    try:
        while True:
            await conn.step()
    finally:
        await asyncio.shield(conn.flush())
async def main(conn):
    t = asyncio.create_task(worker(conn))
    await t
")
    => [];
    tasks_held_clean: Project::python(r"import asyncio
tasks = set()
async def w(): ...
async def f(self):
    t = asyncio.create_task(w())
    tasks.add(t)
    t.add_done_callback(tasks.discard)
    self.t = asyncio.create_task(w())
    await asyncio.gather(asyncio.create_task(w()))
    return asyncio.create_task(w())
")
    => [];
    type_checking_else_clean: Project::python(r"from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from time import sleep
else:
    from asyncio import sleep
async def f():
    await sleep(1)
")
    => [];
    awaited_attr_property_clean: Project::python(r"import asyncio
class Pool:
    def submit(self, fn): ...
    async def result(self): ...
async def f(pool: Pool, session):
    await pool.result()
    async with session.get('http://x') as r:
        return await r.json()
")
    => [];
    thread_target_clean: Project::python(r"import threading, time
def work():
    time.sleep(1)
async def f():
    threading.Thread(target=work, daemon=True).start()
    threading.Timer(1, work).start()
    t = threading.Thread(target=lambda: time.sleep(1))
    t.start()
")
    => [];
    sync_generator_not_iterated_clean: Project::python(r"import time
def gen():
    time.sleep(1)
    yield 1
async def f():
    return gen()
")
    => [];
    spin_ok_clean: Project::python(r"import asyncio
async def f(q, stop):
    while True:
        await q.get()
async def g(q):
    while True:
        if q.empty():
            break
        q.get_nowait()
def h(stop):
    while not stop.is_set():
        work()
")
    => [];
    decorator_to_thread_clean: Project::python(r"import asyncio, functools, time
from asgiref.sync import sync_to_async
def in_thread(fn):
    @functools.wraps(fn)
    async def inner(*a):
        return await asyncio.to_thread(fn, *a)
    return inner
@in_thread
def work():
    time.sleep(1)
@sync_to_async
def work2():
    time.sleep(1)
async def f():
    await work()
    await work2()
    await sync_to_async(time.sleep)(1)
")
    => [];
    handed_by_helper_clean: Project::python(r"import asyncio, threading, time
from concurrent.futures import ThreadPoolExecutor
def work():
    time.sleep(1)
def start():
    threading.Thread(target=work).start()
def submit(pool: ThreadPoolExecutor):
    return pool.submit(work)
def later(loop):
    return loop.run_in_executor(None, work)
async def f(pool, loop):
    start()
    submit(pool)
    await later(loop)
")
    => [];
    call_instance_async: Project::python(r"import asyncio
class Client:
    async def __call__(self, url):
        await asyncio.sleep(1)
client = Client()
async def f():
    await client('x')
")
    => [];
    callable_in_thread_clean: Project::python(r"import asyncio, time
class Nap:
    def __call__(self):
        time.sleep(1)
async def f():
    await asyncio.to_thread(Nap())
    nap = Nap()
    await asyncio.to_thread(nap)
")
    => [];
    threads_of_starlette_clean: Project::python(r"from starlette.concurrency import run_in_threadpool
import time, requests
async def f():
    await run_in_threadpool(time.sleep, 1)
    await run_in_threadpool(lambda: requests.get('x'))
")
    => [];
    a_wrapped_future_clean: Project::python(r"import asyncio
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()
async def f():
    fut = pool.submit(print)
    return await asyncio.wrap_future(fut)
")
    => [];
    two_that_call_each_other_clean: Project::python(r"def a(n): return b(n)
def b(n): return a(n)
async def f(): a(1)
")
    => [];
}
