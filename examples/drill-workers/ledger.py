"""What a job does here: it takes a while, and writes its start and its end into the ledger of `adieu drill --jobs`."""

import os
import time

SECONDS = float(os.environ.get("JOB_SECONDS", "0.05"))
# One write a line, at the end of the file: workers do not tear each other's lines.
LEDGER = os.open(os.environ["LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def note(job, step):
    worker = os.environ.get("ADIEU_DRILL_WORKER", "none")
    os.write(LEDGER, f"{job} {step} {time.time()} {worker}\n".encode())


def work(job):
    note(job, "start")
    time.sleep(SECONDS)
    note(job, "done")
