"""A real Celery application: a worker process, its remote control and its results.

It runs with classic queues, where the worker holds delayed tasks, and with quorum queues, where the
broker does: a delayed task passes through up to 28 queues with TTLs, by dead letters and topic
exchanges.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from conformance.brokers.process import Broker
from conformance.conftest import Target
from conformance.toolbox import finished, python_with

HERE: Final = Path(__file__).parent
RUN_WITHIN_S: Final = 900.0
POLL_S: Final = 0.05


def play(part: str, address: object, queue_type: str, directory: Path) -> str:
    """Run a part of the scenarios; the result is what it printed."""
    diary = directory / f"diary-{queue_type}"
    environment = {
        "CELERY_BROKER": f"amqp://guest:guest@{address}//",
        "CELERY_DIARY": str(diary),
        "CELERY_QUEUE_TYPE": queue_type,
    }
    python = python_with(HERE / "requirements.txt")
    try:
        return finished([str(python), "scenarios.py", part], HERE, RUN_WITHIN_S, environment)
    except AssertionError as error:
        log = diary.with_suffix(".log")
        error.add_note(log.read_text()[-6000:] if log.exists() else "no worker was started")
        raise


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_worker_at_its_everyday_work(broker: Target, queue_type: str, tmp_path: Path) -> None:
    print(play("everyday", broker.address, queue_type, tmp_path))


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_nothing_is_lost_when_worker_and_broker_are_killed(
    own_broker: Broker, queue_type: str, tmp_path: Path
) -> None:
    print(play("begin", own_broker.address, queue_type, tmp_path))
    own_broker.kill()
    own_broker.start()
    print(play("finish", own_broker.address, queue_type, tmp_path))


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_worker_outlives_the_broker(own_broker: Broker, queue_type: str, tmp_path: Path) -> None:
    diary = tmp_path / f"diary-{queue_type}"
    with ThreadPoolExecutor() as beside:
        played = beside.submit(play, "outlive", own_broker.address, queue_type, tmp_path)
        while not (diary.with_suffix(".begun").exists() or played.done()):
            time.sleep(POLL_S)
        if not played.done():
            own_broker.kill()
            own_broker.start()
            diary.with_suffix(".restarted").touch()
        print(played.result())
