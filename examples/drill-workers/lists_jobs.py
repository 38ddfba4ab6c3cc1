"""A worker of forty lines on Redis lists: BRPOP, as many are written, or with SAFE=1 a list of the jobs that are being done."""

import os
import signal
import sys

import redis

from ledger import work

client = redis.Redis(unix_socket_path=os.environ["REDIS"])
SAFE = os.environ.get("SAFE") == "1"


def serve():
    stopping = []
    if SAFE:
        signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    # Of a worker whose name is given again nothing can be in flight any more. One drill's w1-2 succeeds its w1-1.
    worker = os.environ.get("ADIEU_DRILL_WORKER", "w1-1").split("-")[0]
    doing = "doing:" + worker
    while SAFE and client.lmove(doing, "jobs", "LEFT", "LEFT"):
        pass
    while not stopping:
        if SAFE:
            job = client.blmove("jobs", doing, 0.2, "LEFT", "RIGHT")
        else:
            taken = client.blpop("jobs", 0.2)
            job = taken and taken[1]
        if job:
            work(int(job))
            if SAFE:
                client.lrem(doing, 1, job)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        serve()
    else:
        client.rpush("jobs", *range(int(sys.argv[1]), int(sys.argv[2]) + 1))
