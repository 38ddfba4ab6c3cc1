"""A worker whose only task hangs. It delivers the task to itself, through files."""

import time
from pathlib import Path

from celery import Celery
from celery.signals import worker_ready

queue = Path(__file__).with_name("queue")
queue.mkdir(exist_ok=True)
for old in queue.iterdir():
    old.unlink()

app = Celery("main", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": str(queue),
    "data_folder_out": str(queue),
    "control_folder": str(queue.with_name("control")),
}


@app.task
def hang():
    print("hangs", flush=True)
    while True:
        time.sleep(1)


@worker_ready.connect
def deliver(**_):
    hang.delay()
