//! Small programs and manifests as people write them, each with what it should be told: where, and by which rule. Written
//! down before they were checked.

use crate::support::Project;

fn image(files: &[(&str, &str)]) -> Project {
    let dockerfile = "FROM debian:12\nCOPY start.sh /start.sh\nENTRYPOINT [\"/start.sh\"]\n";
    let project = Project::new().file("Dockerfile", dockerfile);
    files
        .iter()
        .fold(project, |project, (name, text)| project.file(name, text))
}

predictions! {
    a_property_that_asks_the_network: Project::python("
import requests
class Order:
    @property
    def total(self):
        return requests.get('http://prices').json()
    @property
    def name(self) -> str:
        return 'order'
async def show(order: Order):
    print(order.name)
    return order.total
") => ["app.py:12 ADP102"];
    a_cached_property_of_another_module: Project::new()
        .file("shop/__init__.py", "")
        .file("shop/settings.py", "
from functools import cached_property
class Settings:
    @cached_property
    def rates(self):
        with open('rates.txt') as file:
            return file.read()
settings = Settings()
")
        .file("shop/app.py", "
from shop.settings import settings
async def rate(name):
    return settings.rates[name]
") => ["shop/app.py:4 ADP104"];
    a_property_that_is_only_written_or_handed_on: Project::python("
import asyncio, time
class Lamp:
    @property
    def level(self):
        time.sleep(1)
        return 1
    @level.setter
    def level(self, value):
        self._level = value
async def dim(lamp: Lamp):
    lamp.level = 0
    return await asyncio.to_thread(lambda: lamp.level)
") => [];
    a_property_through_an_ordinary_function: Project::python("
import subprocess
class Repo:
    @property
    def head(self):
        return subprocess.check_output(['git', 'rev-parse', 'HEAD'])
    def describe(self):
        return f'at {self.head}'
async def version(repo: Repo):
    return repo.describe()
") => ["app.py:10 ADP103"];
    a_method_of_the_same_name_that_is_called: Project::python("
import time
class Clock:
    def now(self):
        return time.time()
async def tick(clock: Clock):
    return clock.now()
") => [];
    a_lambda_in_a_map_that_is_used_up: Project::python("
import time
async def wait(times):
    list(map(lambda seconds: time.sleep(seconds), times))
    for _ in map(time.sleep, times):
        pass
    sorted(times, key=lambda it: time.sleep(it) or it)
") => ["app.py:4 ADP101", "app.py:5 ADP101", "app.py:7 ADP101"];
    a_map_that_nobody_uses_up_here: Project::python("
import asyncio, time
async def wait(times, pool):
    later = map(lambda seconds: time.sleep(seconds), times)
    await asyncio.to_thread(list, later)
    await asyncio.gather(*map(asyncio.sleep, times))
    button = lambda: time.sleep(1)
    return button
") => [];
    a_filter_of_ones_own: Project::python("
import time
def filter(work, rows):
    return rows
async def f(rows):
    return list(filter(lambda row: time.sleep(1), rows))
") => [];
    a_sleep_that_was_replaced: Project::python("
import time
time.sleep = print
async def f():
    time.sleep(1)
") => [];
    another_function_of_a_module_that_was_patched: Project::python("
import time, requests
requests.get = print
async def f():
    requests.get('http://x')
    requests.post('http://x')
") => ["app.py:6 ADP102"];
    a_worker_that_is_killed_in_its_work: Project::python("
import asyncio
async def main():
    while True:
        await asyncio.sleep(1)
if __name__ == '__main__':
    asyncio.run(main())
") => ["app.py:7 ADP503"];
    a_worker_that_listens: Project::python("
import asyncio, signal
async def main():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    while not stop.is_set():
        try:
            await asyncio.wait_for(stop.wait(), 1)
        except TimeoutError:
            pass
if __name__ == '__main__':
    asyncio.run(main())
") => [];
    a_cancellation_that_is_swallowed: Project::python("
import asyncio
async def work(queue):
    while True:
        try:
            await queue.get()
        except asyncio.CancelledError:
            print('no')
") => ["app.py:7 ADP401"];
    a_group_holds_its_tasks: Project::python("
import asyncio
async def work(): ...
async def main():
    async with asyncio.TaskGroup() as group:
        group.create_task(work())
    try:
        await work()
    except Exception:
        print('failed')
") => [];
    routes_on_the_loop_and_in_threads: Project::python("
import requests
from fastapi import FastAPI
app = FastAPI()
@app.get('/threads')
def threads():
    return requests.get('http://x').text
@app.get('/loop')
async def loop():
    return requests.get('http://x').text
") => ["app.py:10 ADP102"];
    an_end_from_inside_a_task: Project::python("
import os
async def watch(event):
    await event.wait()
    os._exit(1)
") => ["app.py:5 ADP502"];
    threads_of_anyio: Project::python("
import time
import anyio
from anyio import to_thread
async def f():
    await anyio.to_thread.run_sync(time.sleep, 1)
    await to_thread.run_sync(time.sleep, 1)
") => [];

    lines_of_standard_input: Project::rust("
use std::io::{self, BufRead, BufReader};
async fn ask() {
    let input = BufReader::new(io::stdin());
    for line in input.lines() {
        println!(\"{}\", line.unwrap());
    }
}
async fn locked() {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).unwrap();
}
") => ["src/lib.rs:5 ADR102", "src/lib.rs:11 ADR102"];
    lines_of_a_socket: Project::rust("
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
async fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    for line in BufReader::new(&stream).lines() { drop(line); }
}
") => ["src/lib.rs:7 ADR103", "src/lib.rs:8 ADR103"];
    lines_of_a_child: Project::rust("
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
async fn log() {
    let mut child = Command::new(\"tail\").stdout(Stdio::piped()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    for line in BufReader::new(output).lines() { drop(line); }
}
") => ["src/lib.rs:7 ADR104"];
    lines_as_tokio_reads_them: Project::rust("
use tokio::io::{AsyncBufReadExt, BufReader};
async fn ask() {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() { println!(\"{line}\"); }
}
async fn text(page: String) -> usize {
    page.lines().count()
}
") => [];
    lines_in_a_thread: Project::rust("
use std::io::{BufRead, BufReader};
async fn ask() {
    tokio::task::spawn_blocking(|| {
        for line in BufReader::new(std::io::stdin()).lines() { drop(line); }
    }).await.unwrap();
}
") => [];
    a_lock_over_an_await: Project::rust("
use std::sync::Mutex;
async fn keep(state: &Mutex<u32>) {
    let mut guard = state.lock().unwrap();
    save().await;
    *guard += 1;
}
async fn let_go(state: &Mutex<u32>) {
    let now = *state.lock().unwrap();
    save_value(now).await;
}
") => ["src/lib.rs:4 ADR502"];

    a_script_with_two_ends: image(&[("start.sh", "\
#!/bin/sh
set -e
if [ \"$1\" = worker ]; then
  celery -A shop worker
else
  gunicorn shop:app
fi
")]) => ["start.sh:4 ADD102", "start.sh:6 ADD102"];
    a_script_with_one_bad_end: image(&[("start.sh", "\
#!/bin/sh
case \"$1\" in
  worker)
    exec celery -A shop worker
    ;;
  web) gunicorn shop:app ;;
  *) echo 'worker or web' >&2; exit 2 ;;
esac
")]) => ["start.sh:6 ADD102"];
    a_script_whose_ends_are_all_right: image(&[("start.sh", "\
#!/bin/sh
set -e
if [ \"$MIGRATE\" ]; then python manage.py migrate; fi
cat <<END
python is started now
END
if [ \"$#\" -gt 0 ]
then
  exec \"$@\"
elif [ \"$DEBUG\" ]; then
  exec python -X dev app.py
else
  exec python app.py
fi
")]) => [];
    a_script_that_ends_in_a_text: image(&[("start.sh", "\
#!/bin/sh
exec python - <<'END'
print('started')
END
")]) => [];
    a_script_with_a_step_at_its_end: image(&[("start.sh", "\
#!/bin/sh
run() {
  python app.py
}
if [ -x /hooks/last ]; then
  /hooks/last
fi
")]) => [];
    a_shell_between: Project::new()
        .file("a/Dockerfile", "FROM python:3.13\nCMD [\"sh\", \"-c\", \"python app.py\"]\n")
        .file("b/Dockerfile", "FROM python:3.13\nCMD [\"sh\", \"-c\", \"exec python app.py\"]\n")
        .file("c/Dockerfile", "FROM node:22\nCMD [\"npm\", \"start\"]\n")
        .file("d/Dockerfile", "FROM node:22\nCMD [\"node\", \"server.js\"]\n")
    => ["a/Dockerfile:2 ADD101", "c/Dockerfile:2 ADD105"];
    a_check_without_its_tool: Project::new()
        .file("a/Dockerfile", "FROM python:3.13-slim\nHEALTHCHECK CMD curl -f http://localhost/\nCMD [\"python\", \"app.py\"]\n")
        .file("b/Dockerfile", "FROM python:3.13-slim\nRUN apt-get update && apt-get install -y curl\nHEALTHCHECK CMD curl -f http://localhost/\nCMD [\"python\", \"app.py\"]\n")
        .file("c/Dockerfile", "FROM python:3.13-slim\nHEALTHCHECK CMD [\"adieu\", \"health\", \"http://127.0.0.1/\"]\nCMD [\"python\", \"app.py\"]\n")
    => ["a/Dockerfile:2 ADD104"];
    a_pod_with_too_little_time: Project::new()
        .file("web.yaml", "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  template:
    spec:
      terminationGracePeriodSeconds: 10
      containers:
        - name: web
          image: shop
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /readyz, port: 8000}}
          livenessProbe: {httpGet: {path: /livez, port: 8000}}
          lifecycle: {preStop: {exec: {command: [sleep, \"15\"]}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
") => ["web.yaml:8 ADD301"];
    a_pod_whose_probes_are_one: Project::new()
        .file("web.yaml", "\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 60
      containers:
        - name: web
          image: shop
          ports: [{containerPort: 8000}]
          readinessProbe: {httpGet: {path: /health, port: 8000}}
          livenessProbe: {httpGet: {path: /health, port: 8000}}
") => ["web.yaml:13 ADD303"];
    a_job_needs_no_probe: Project::new()
        .file("job.yaml", "\
apiVersion: batch/v1
kind: Job
metadata: {name: import}
spec:
  template:
    spec:
      containers: [{name: import, image: shop, command: [python, import.py]}]
") => [];
    a_service_of_compose: Project::new()
        .file("compose.yaml", "\
services:
  web:
    build: .
    command: gunicorn shop:app --graceful-timeout 30
    stop_grace_period: 10s
  db:
    image: postgres:17
")
        .file("Dockerfile", "FROM python:3.13\nCMD [\"gunicorn\", \"shop:app\"]\n")
    => ["compose.yaml:5 ADD501"];
    units: Project::new()
        .file("a.service", "[Service]\nType=notify\nExecStart=/usr/bin/gunicorn shop:app\nKillMode=mixed\n")
        .file("b.service", "[Service]\nExecStart=/usr/bin/app\nKillMode=process\n")
        .file("c.service", "[Service]\nExecStart=/usr/bin/gunicorn shop:app --graceful-timeout 120\nTimeoutStopSec=30s\n")
        .file("d.service", "[Service]\nExecStart=/usr/bin/app\nKillSignal=SIGKILL\n")
        .file("e.service", "[Service]\nExecStart=/usr/bin/app\nKillSignal=SIGINT\n")
    => ["b.service:3 ADD401", "c.service:3 ADD501", "d.service:3 ADD103"];
}
