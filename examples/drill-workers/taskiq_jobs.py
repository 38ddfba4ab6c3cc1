"""taskiq on a Redis list, which forgets what a worker has taken."""

import asyncio
import os
import sys

from taskiq_redis import ListQueueBroker

from ledger import SECONDS, note

broker = ListQueueBroker(url="unix://" + os.environ["REDIS"])


@broker.task(task_name="job")
async def job(number: int) -> None:
    note(number, "start")
    await asyncio.sleep(SECONDS)
    note(number, "done")


async def enqueue(first, last):
    await broker.startup()
    for number in range(first, last + 1):
        await job.kiq(number)
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(enqueue(int(sys.argv[1]), int(sys.argv[2])))
