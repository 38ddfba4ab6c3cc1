//! The examples of the project's guides on event loops and graceful shutdown, in our own words:
//! what they forbid is found, what they recommend is clean. Where a guide's own recommendation
//! breaks one of our rules, both the flawed and the repaired form stand here.

mod support;

use support::Project;

macro_rules! forbidden {
    ($($name:ident $codes:expr => $text:expr;)*) => {$(
        #[test]
        fn $name() {
            let project = Project::python($text);
            assert_eq!(project.codes(), $codes, "\n{}", project.text());
        }
    )*};
}

macro_rules! recommended {
    ($($name:ident => $text:expr;)*) => {$(
        #[test]
        fn $name() {
            let project = Project::python($text);
            assert_eq!(project.text(), "");
        }
    )*};
}

forbidden! {
    an_excerpt_without_its_imports ["ADP201"] => "
async def load(): ...
async def handle():
    asyncio.run(load())
";
    a_new_loop_inside_a_coroutine ["ADP201"] => "
import asyncio
async def load(): ...
async def handle():
    inner = asyncio.new_event_loop()
    return inner.run_until_complete(load())
";
    asyncio_run_inside_a_coroutine ["ADP201"] => "
import asyncio
async def load(): ...
async def handle():
    return asyncio.run(load())
";
    run_until_complete_on_the_current_loop ["ADP201"] => "
import asyncio
async def load(): ...
async def handle():
    current = asyncio.get_event_loop()
    return current.run_until_complete(load())
";
    a_blocking_sleep ["ADP101"] => "
async def handle():
    import time
    time.sleep(5)
";
    a_blocking_request ["ADP102"] => "
async def handle():
    import requests
    return requests.get('http://example.org')
";
    scheduling_after_stop_in_a_signal_handler ["ADP504"] => "
import asyncio
import signal
from functools import partial

async def tidy(): ...

def on_signal(loop):
    loop.stop()
    loop.run_until_complete(tidy())
    loop.create_task(tidy())

loop = asyncio.get_event_loop()
loop.add_signal_handler(signal.SIGINT, partial(on_signal, loop))
loop.run_forever()
loop.close()
";
    no_signals_at_all ["ADP503"] => "
import asyncio
async def work(): ...
async def main():
    while True:
        await work()
        await asyncio.sleep(1)
if __name__ == '__main__':
    asyncio.run(main())
";
    resources_closed_in_the_wrong_order ["ADP604"] => "
async def shutdown(server, db_pool):
    await db_pool.close()
    server.close()
    await server.wait_closed()
";
    tasks_that_nobody_cancels ["ADP301"] => "
import asyncio
class Application:
    async def handle(self, number): ...
    async def run(self, stop):
        number = 0
        while not stop.is_set():
            number += 1
            asyncio.create_task(self.handle(number))
            await asyncio.sleep(2)
";
    a_server_that_waits_before_it_drains ["ADP402", "ADP601"] => "
class Server:
    async def stop(self):
        self.server.close()
        await self.server.wait_closed()
        for writer in list(self.connections):
            try:
                writer.write(b'bye')
                await writer.drain()
            except:
                pass
";
    state_written_over_the_old_one ["ADP104", "ADP603"] => "
import json
from pathlib import Path
class Worker:
    STATE = Path('state.json')
    async def save_state(self):
        self.STATE.write_text(json.dumps(self.state))
    async def run(self, stop):
        try:
            await stop.wait()
        finally:
            await self.save_state()
";
}

recommended! {
    a_main_that_looks_round_before_it_starts => "
import asyncio
import os
import signal
def in_container():
    return os.path.exists('/.dockerenv')
async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    if not in_container():
        loop.add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
";
    a_handler_that_starts_the_shutdown => "
import asyncio
import signal
async def main(shutdown):
    def on_signal():
        asyncio.create_task(shutdown())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await asyncio.Event().wait()
";
    one_loop_owned_by_the_entry_point => "
import asyncio
from aiogram import Bot, Dispatcher
async def main():
    bot = Bot(token='x')
    dispatcher = Dispatcher()
    await dispatcher.start_polling(bot)
if __name__ == '__main__':
    asyncio.run(main())
";
    a_web_framework_owns_the_loop => "
from fastapi import FastAPI
app = FastAPI()
";
    a_worker_that_is_told_to_stop => "
import asyncio
import signal
class Worker:
    def __init__(self):
        self.running = False
    async def step(self): ...
    async def start(self):
        self.running = True
        while self.running:
            await self.step()
            await asyncio.sleep(1)
    async def stop(self):
        self.running = False
async def main():
    worker = Worker()
    loop = asyncio.get_event_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, lambda: asyncio.create_task(worker.stop()))
    await worker.start()
if __name__ == '__main__':
    asyncio.run(main())
";
    awaiting_what_is_asynchronous => "
import asyncio
import httpx
async def load(): ...
async def handle():
    await load()
    await asyncio.sleep(5)
    async with httpx.AsyncClient() as client:
        await client.get('http://example.org')
    first = asyncio.create_task(load())
    second = asyncio.create_task(load())
    return await asyncio.gather(first, second)
";
    blocking_work_in_an_executor => "
import asyncio, time
def slow(a, b):
    time.sleep(a + b)
async def handle():
    loop = asyncio.get_event_loop()
    return await loop.run_in_executor(None, slow, 1, 2)
";
    resources_in_a_lifespan => "
from contextlib import asynccontextmanager
import httpx
from fastapi import FastAPI
async def make_pool(): ...
@asynccontextmanager
async def lifespan(app):
    app.state.client = httpx.AsyncClient()
    app.state.pool = await make_pool()
    yield
    await app.state.client.aclose()
    await app.state.pool.close()
app = FastAPI(lifespan=lifespan)
";
    an_event_set_by_the_signal => "
import asyncio
import signal
async def serve(): ...
async def close(): ...
async def main():
    loop = asyncio.get_event_loop()
    stop = asyncio.Event()
    def on_signal():
        stop.set()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await serve()
    await stop.wait()
    await close()
if __name__ == '__main__':
    asyncio.run(main())
";
    handlers_removed_at_the_end => "
import asyncio
import signal
async def work(stop):
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), timeout=10.0)
        except asyncio.TimeoutError:
            continue
async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await work(stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
";
    a_stop_with_a_time_limit => "
import asyncio
import signal
class Shutdown:
    def __init__(self, limit=30.0):
        self.limit = limit
        self.stop = asyncio.Event()
        self.tasks = set()
        self.closing = None
    def register(self, task):
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
    def on_signal(self):
        self.closing = asyncio.create_task(self.shutdown())
    async def shutdown(self):
        self.stop.set()
        if not self.tasks:
            return
        done, pending = await asyncio.wait(self.tasks, timeout=self.limit)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
async def work(stop): ...
async def main():
    shutdown = Shutdown()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, shutdown.on_signal)
    task = asyncio.create_task(work(shutdown.stop))
    shutdown.register(task)
    await asyncio.gather(task, return_exceptions=True)
";
    a_context_manager_for_signals => "
import asyncio
import signal
from contextlib import asynccontextmanager
@asynccontextmanager
async def stopping():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
async def main():
    async with stopping() as stop:
        await stop.wait()
";
    only_sigterm_inside_a_container => "
import asyncio
import os
import signal
def in_container():
    return os.path.exists('/.dockerenv')
async def main(inside):
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    if not inside:
        loop.add_signal_handler(signal.SIGINT, stop.set)
    await stop.wait()
if __name__ == '__main__':
    asyncio.run(main(in_container()))
";
    state_replaced_as_a_whole => "
import asyncio, json, os
class Worker:
    def write_state(self):
        with open('state.json.new', 'w') as file:
            json.dump(self.state, file)
        os.replace('state.json.new', 'state.json')
    async def save_state(self):
        await asyncio.to_thread(self.write_state)
    async def run(self, stop):
        try:
            await stop.wait()
        finally:
            await self.save_state()
";
    no_unix_signals_on_windows => "
import asyncio
import sys
async def main():
    stop = asyncio.Event()
    if sys.platform != 'win32':
        import signal
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    try:
        await stop.wait()
    except KeyboardInterrupt:
        pass
";
    a_server_that_drains_before_it_waits => "
import asyncio
class Server:
    def __init__(self):
        self.stop = asyncio.Event()
        self.connections = set()
    async def client(self, reader, writer):
        self.connections.add(writer)
        try:
            while not self.stop.is_set():
                try:
                    line = await asyncio.wait_for(reader.readline(), timeout=1.0)
                except asyncio.TimeoutError:
                    continue
                writer.write(line)
                await writer.drain()
        except ConnectionResetError:
            pass
        finally:
            self.connections.discard(writer)
            writer.close()
            await writer.wait_closed()
    async def shutdown(self):
        self.server.close()
        for writer in list(self.connections):
            try:
                writer.write(b'bye')
                await writer.drain()
            except OSError:
                pass
            writer.close()
        await self.server.wait_closed()
";
    all_tasks_cancelled_and_awaited => "
import asyncio
async def shutdown():
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
";
    a_task_group_that_is_cancelled => "
import asyncio
import signal
async def work(name, stop):
    try:
        while not stop.is_set():
            await asyncio.sleep(1)
    except asyncio.CancelledError:
        print(name, 'cancelled')
        raise
    finally:
        print(name, 'done')
async def main():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(work('one', stop))
            group.create_task(work('two', stop))
            await stop.wait()
            raise asyncio.CancelledError()
    except* asyncio.CancelledError:
        print('stopped')
if __name__ == '__main__':
    asyncio.run(main())
";
    hooks_of_a_web_server => "
import asyncio
from aiohttp import web
async def page(request):
    await asyncio.sleep(1)
    return web.Response(text='hello')
async def on_shutdown(app): ...
def create():
    app = web.Application()
    app.on_shutdown.append(on_shutdown)
    app.router.add_get('/', page)
    return app
if __name__ == '__main__':
    web.run_app(create(), shutdown_timeout=30.0)
";
    closing_in_the_right_order => "
async def wait_for_requests(timeout): ...
async def close_external(): ...
async def shutdown(server, db_pool, save):
    server.close()
    await wait_for_requests(timeout=30)
    await close_external()
    await db_pool.close()
    await save()
";
    cleaning_up_before_the_loop_stops => "
import asyncio
import signal
from functools import partial
async def tidy(): ...
def on_signal(loop):
    task = loop.create_task(tidy())
    task.add_done_callback(lambda _: loop.stop())
loop = asyncio.get_event_loop()
loop.add_signal_handler(signal.SIGINT, partial(on_signal, loop))
loop.run_forever()
loop.close()
";
    an_exception_handler_that_ends_the_loop => "
import asyncio
async def tidy(): ...
def on_exception(loop, context):
    task = loop.create_task(tidy())
    task.add_done_callback(lambda _: loop.stop())
async def job():
    raise RuntimeError
loop = asyncio.get_event_loop()
loop.set_exception_handler(on_exception)
task = loop.create_task(job())
loop.run_forever()
loop.close()
";
}
