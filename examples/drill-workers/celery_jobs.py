"""Celery on Redis, or on RabbitMQ. With SAFE=1 a task is acknowledged after it is done, and given back if its process dies."""

import os
import sys

from celery import Celery

from ledger import work

SAFE = os.environ.get("SAFE") == "1"
RABBIT = os.environ.get("AMQP")

app = Celery("jobs", broker=RABBIT or "redis+socket://" + os.environ["REDIS"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    task_acks_late=SAFE,
    task_reject_on_worker_lost=SAFE,
    broker_connection_retry_on_startup=True,
)
if not RABBIT:
    # The lease. Celery's default is an hour. RabbitMQ needs none: it sees the connection of a dead worker end.
    app.conf.broker_transport_options = {"visibility_timeout": float(os.environ.get("LEASE", "3600"))}


@app.task(name="job")
def job(number):
    work(number)


def serve():
    # Two workers on a machine need names of their own.
    name = os.environ.get("ADIEU_DRILL_WORKER", "w1-1") + "@drill"
    app.worker_main(["worker", "--concurrency=1", "--loglevel=WARNING", "--without-mingle", "--hostname=" + name])


if __name__ == "__main__" and sys.argv[1] == "work":
    serve()
elif __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        job.delay(number)
