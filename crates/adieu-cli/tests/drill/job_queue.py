"""A queue in SQLite with leases, and a worker that does one thing wrong if an argument says so.

job_queue.py enqueue DB FROM TO    puts jobs into the queue
job_queue.py done DB [numbers]     prints the ledger
job_queue.py work DB MANNER FIRST STOPS

Workers that do something wrong hold each job after the FIRST ones until they are stopped, in their first STOPS starts. So a
job is in flight at the stop, whatever else the machine does.
"""

import os
import signal
import sqlite3
import sys
import time

COMMAND, DB = sys.argv[1], sys.argv[2]
db = sqlite3.connect(DB, timeout=60, isolation_level=None)
# What is tested is the end of a process, not of the machine.
db.execute("pragma synchronous = off")
db.execute("create table if not exists queue (job integer, until real, owner text)")
db.execute("create table if not exists ledger (job integer, step text, at real, worker text)")


def begin():
    db.execute("begin immediate")


def note(job, step):
    worker = os.environ["ADIEU_DRILL_WORKER"]
    db.execute("insert into ledger values (?, ?, ?, ?)", (job, step, time.time(), worker))


def owner():
    """The same for each start of a worker."""
    return os.environ["ADIEU_DRILL_WORKER"].split("-")[0]


def take(manner, lease):
    """The first job without a lease, leased; or taken out, by one that will forget it."""
    begin()
    row = db.execute("select rowid, job from queue where until < ? order by job limit 1", (time.time(),)).fetchone()
    if row:
        if manner == "forgets":
            db.execute("delete from queue where rowid = ?", row[:1])
        else:
            db.execute("update queue set until = ?, owner = ? where rowid = ?", (time.time() + lease, owner(), row[0]))
        note(row[1], "start")
    db.execute("commit")
    return row


def finish(row, remove):
    begin()
    note(row[1], "done")
    if remove:
        db.execute("delete from queue where rowid = ?", row[:1])
    db.execute("commit")


def wait(seconds, until=lambda: False):
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not until():
        time.sleep(min(left, 0.02))


def work(manner, first, stops):
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: None if manner == "deaf" else stopping.append(1))
    start = int(os.environ["ADIEU_DRILL_WORKER"].rsplit("-", 1)[1])
    holds = manner != "careful" and start <= stops
    # A careful one takes back what it had when it was killed. So no time decides what becomes of a job.
    lease = {"careful": 600, "short-lease": 0.2}.get(manner, 0.5)
    if manner == "careful":
        db.execute("update queue set until = 0 where owner = ?", (owner(),))
    # The second one is ready when it holds a job that is left from before.
    if not holds or start == 1:
        print("ready", flush=True)
    while not stopping:
        row = take(manner, lease)
        if row is None:
            wait(0.02)
            continue
        held = holds and row[1] > first
        if held and manner == "doubles":
            finish(row, False)
        if held:
            print("ready", flush=True)
            wait(600, lambda: stopping)
            if manner in ("forgets", "doubles", "gives-up"):
                sys.exit(0)
        elif manner == "short-lease" and row[1] > first:
            # Out of step, so that one looks for a job while the other is at one.
            wait(0.9 if owner() == "w1" else 0.5)
        else:
            wait(0.01)
        finish(row, True)


if COMMAND == "enqueue":
    begin()
    jobs = range(int(sys.argv[3]), int(sys.argv[4]) + 1)
    db.executemany("insert into queue values (?, 0, null)", [(job,) for job in jobs])
    db.execute("commit")
elif COMMAND == "done":
    for line in db.execute("select * from ledger order by rowid"):
        if len(sys.argv) == 3:
            print(*line)
        elif line[1] == "done":
            print(line[0])
else:
    work(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
