"""Backups of a working broker: they contain what was confirmed, whoever is killed meanwhile."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Final

import pika
import pika.exceptions
import pytest

from arneb.demo.process import BrokerProcess

SIZES: Final = (10, 10, 10, 3_000, 40_000)
"""Sizes of bodies: small ones go to the journal if they come alone, and large ones never do."""

PUBLISHERS: Final = 3
FIRST: Final = 200
"""How many messages each publisher has confirmed before the first backup, so that the copy takes a
while."""


class Publisher(Thread):
    """Publishes numbered messages to a queue of its own, each confirmed before the next."""

    def __init__(self, port: int, queue: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.queue = queue
        self.confirmed = 0
        self.warm = Event()
        self.stopping = False
        self._random = Random(seed)
        self._port = port
        self.start()

    def run(self) -> None:
        try:
            connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port))
            channel = connection.channel()
            channel.queue_declare(self.queue, durable=True)
            channel.confirm_delivery()
            while not self.stopping:
                body = b"%d " % self.confirmed + b"x" * self._random.choice(SIZES)
                channel.basic_publish("", self.queue, body)
                self.confirmed += 1
                if self.confirmed == FIRST:
                    self.warm.set()
            connection.close()
        except pika.exceptions.AMQPError:
            pass  # the broker was killed


@contextmanager
def publishing(broker: BrokerProcess) -> Iterator[list[Publisher]]:
    publishers = [Publisher(broker.amqp_port, f"q{each}", each) for each in range(PUBLISHERS)]
    try:
        assert all(each.warm.wait(60) for each in publishers)
        yield publishers
    finally:
        for each in publishers:
            each.stopping = True
        for each in publishers:
            each.join(30)
            assert not each.is_alive()


def backup(data: Path, target: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "arneb", "backup", str(data), str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_it_copies(process: "subprocess.Popen[str]", making: Path, bytes_min: int) -> None:
    """Wait until that many bytes of the copy are there."""
    while True:
        try:
            if (making / "data.mdb").stat().st_size > bytes_min:
                return
        except FileNotFoundError:
            pass
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)


def restored(copy: Path, elsewhere: Path) -> dict[str, int]:
    """How many messages each queue has when a broker starts on a backup. Checks that they are the
    first ones published, none missing and none twice."""
    checked = subprocess.run(
        [sys.executable, "-m", "arneb", "check", copy], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    shutil.copytree(copy, elsewhere)
    found = {}
    with BrokerProcess(elsewhere, listeners=("amqp",)) as broker:
        connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
        )
        channel = connection.channel()
        for queue in (f"q{each}" for each in range(PUBLISHERS)):
            numbers = []
            while (got := channel.basic_get(queue, auto_ack=True))[2] is not None:
                numbers.append(int(got[2].split()[0]))
            assert numbers == list(range(len(numbers)))
            found[queue] = len(numbers)
        connection.close()
    shutil.rmtree(elsewhere)
    return found


def test_a_backup_has_what_was_confirmed_and_a_broker_starts_on_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data, listeners=("amqp",)) as broker, publishing(broker) as publishers:
        bounds = []
        for number in range(3):
            before = {each.queue: each.confirmed for each in publishers}
            process = backup(data, tmp_path / f"backup{number}")
            out, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
            assert out.endswith("bytes, no findings\n")
            bounds.append((before, {each.queue: each.confirmed + 1 for each in publishers}))
        assert bounds[0][0]["q0"] < bounds[2][0]["q0"], "nothing was published meanwhile"
    for number, (before, after) in enumerate(bounds):
        found = restored(tmp_path / f"backup{number}", tmp_path / "elsewhere")
        for queue, messages in found.items():
            assert before[queue] <= messages <= after[queue]


def test_a_broker_that_is_killed_meanwhile_leaves_a_whole_backup(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "backup"
    with BrokerProcess(data, listeners=("amqp",)) as broker, publishing(broker) as publishers:
        before = {each.queue: each.confirmed for each in publishers}
        process = backup(data, target)
        until_it_copies(process, tmp_path / "backup.copying", 0)
        broker.kill()
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    found = restored(target, tmp_path / "elsewhere")
    assert all(before[queue] <= messages for queue, messages in found.items())


def test_a_backup_that_is_killed_disturbs_nobody(tmp_path: Path) -> None:
    data, target = tmp_path / "data", tmp_path / "backup"
    with BrokerProcess(data, listeners=("amqp",)) as broker, publishing(broker) as publishers:
        for bytes_min in (0, 0, 1 << 20, 1 << 22):
            process = backup(data, target)
            until_it_copies(process, tmp_path / "backup.copying", bytes_min)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
            assert not target.exists()
            reached = [each.confirmed for each in publishers]
            for publisher, count in zip(publishers, reached, strict=True):
                while publisher.confirmed == count:
                    assert publisher.is_alive(), "the broker confirms nothing any more"
                    publisher.join(0.01)
        before = {each.queue: each.confirmed for each in publishers}
        process = backup(data, target)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert not (tmp_path / "backup.copying").exists()
    found = restored(target, tmp_path / "elsewhere")
    assert all(before[queue] <= messages for queue, messages in found.items())
