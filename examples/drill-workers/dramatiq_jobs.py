"""dramatiq on Redis, or on RabbitMQ. It acknowledges after the job by itself; LEASE is the time after which a dead worker's jobs
come back from Redis."""

import os
import sys

import dramatiq

from ledger import work

if os.environ.get("AMQP"):
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    broker = RabbitmqBroker(url=os.environ["AMQP"])
else:
    from dramatiq.brokers.redis import RedisBroker

    lease = int(float(os.environ.get("LEASE", "60")) * 1_000)
    # Maintenance, which looks for dead workers, is done in 1 of 1,000 requests of the broker if nothing else is said.
    broker = RedisBroker(url="unix://" + os.environ["REDIS"], heartbeat_timeout=lease, maintenance_chance=100_000)
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=3)
def job(number):
    work(number)


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        job.send(number)
