"""dramatiq on Redis. It acknowledges after the job by itself; LEASE is the time after which a dead worker's jobs come back."""

import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from ledger import work

lease = int(float(os.environ.get("LEASE", "60")) * 1_000)
# Maintenance, which looks for dead workers, is done in 1 of 1,000 requests of the broker if nothing else is said.
dramatiq.set_broker(RedisBroker(url="unix://" + os.environ["REDIS"], heartbeat_timeout=lease, maintenance_chance=100_000))


@dramatiq.actor(max_retries=3)
def job(number):
    work(number)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        job.send(number)
