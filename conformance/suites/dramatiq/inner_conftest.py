"""The fixtures of the tests, which the source distribution leaves out."""

from collections.abc import Iterator

import dramatiq
import pytest
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from .common import RABBITMQ_CREDENTIALS


@pytest.fixture
def rabbitmq_broker() -> Iterator[RabbitmqBroker]:
    """A broker whose queues are empty afterwards."""
    broker = RabbitmqBroker(
        host="127.0.0.1", max_priority=10, credentials=RABBITMQ_CREDENTIALS, middleware=None
    )
    broker.emit_after("process_boot")
    dramatiq.set_broker(broker)
    yield broker
    broker.flush_all()
    broker.emit_before("process_stop")
    broker.close()


@pytest.fixture
def rabbitmq_worker(rabbitmq_broker: RabbitmqBroker) -> Iterator[dramatiq.Worker]:
    """A worker that has begun."""
    worker = dramatiq.Worker(rabbitmq_broker, worker_timeout=100, worker_threads=32)
    worker.start()
    yield worker
    worker.stop()
