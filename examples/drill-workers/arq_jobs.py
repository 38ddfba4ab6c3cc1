"""arq. With SAFE=1 a stop waits for the job in flight; without, arq cancels it and runs it again later."""

import asyncio
import os
import sys

from arq import create_pool
from arq.connections import RedisSettings

from ledger import SECONDS, note

REDIS = RedisSettings(unix_socket_path=os.environ["REDIS"])
SAFE = os.environ.get("SAFE") == "1"


async def job(_, number):
    note(number, "start")
    await asyncio.sleep(SECONDS)
    note(number, "done")


class WorkerSettings:
    functions = [job]
    redis_settings = REDIS
    max_jobs = 1
    poll_delay = 0.05
    keep_result = 0
    # arq's lease: the job belongs to a dead worker for this long and 10 s.
    job_timeout = float(os.environ.get("LEASE", "300"))
    job_completion_wait = 30 if SAFE else 0


async def enqueue(first, last):
    pool = await create_pool(REDIS)
    for number in range(first, last + 1):
        await pool.enqueue_job("job", number)
    await pool.aclose()


if __name__ == "__main__":
    asyncio.run(enqueue(int(sys.argv[1]), int(sys.argv[2])))
