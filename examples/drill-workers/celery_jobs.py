"""Celery on Redis. With SAFE=1 a task is acknowledged after it is done, and given back if its process dies."""

import os
import sys

from celery import Celery

from ledger import work

SAFE = os.environ.get("SAFE") == "1"

app = Celery("jobs", broker="redis+socket://" + os.environ["REDIS"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    task_acks_late=SAFE,
    task_reject_on_worker_lost=SAFE,
    # The lease. Celery's default is an hour.
    broker_transport_options={"visibility_timeout": float(os.environ.get("LEASE", "3600"))},
    broker_connection_retry_on_startup=True,
)


@app.task(name="job")
def job(number):
    work(number)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        job.delay(number)
