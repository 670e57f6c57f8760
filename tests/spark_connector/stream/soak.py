"""Kills a streaming query and its broker again and again, and holds both to their promises.

Run by the test suite, or by hand from the repository's root for as long as one likes::

    python -m tests.spark_connector.stream.soak --kills 20
    python -m tests.spark_connector.stream.soak --kills 5 --seed 1234   # the same dice again

The query reads the queue ``in`` and writes the queue ``out``, both through ``service.url``. Its
rows are shuffled by key, into another number of partitions in each of its lives, so a micro-batch
that is run again has other partitions and another order. Some lives end just behind the broker's
commit, in front of Spark's. In the end everything that the log of ``in`` holds is in ``out`` once
and in the order of its key, and the query's cursor has no backlog.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pika
from pika.exceptions import AMQPError
from tests.spark_connector.spark_process import PromiseBroken, SparkProcess
from tests.spark_connector.stream.soak_query import DIES

from arneb.demo.process import BrokerProcess
from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import read_header
from arneb_core.api.entries.position import AFTER_ALL, Position
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.service.connection import Address, ask

PAUSE_S = 0.004
FIRST_BATCH_S_MAX = 240.0
LIVES_S_MAX = 6.0
STARVED = "Python worker failed to connect back"
"""Spark gives a worker ten seconds, which is not enough where others have the processors."""
LOG_END = 4_000
TRIES = 4
KEYS = 7
EXCHANGE = "by-key"
VICTIMS = ("query", "broker", "both", "query between the commits")
QUERY = Path(__file__).with_name("soak_query.py")


class Publisher:
    """Publishes numbers to ``in`` as long as there is a broker; none of them twice."""

    def __init__(self) -> None:
        self.confirmed = 0
        self._number = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, port: int) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, args=(port,))
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, port: int) -> None:
        with suppress(AMQPError, OSError):
            connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
            channel = connection.channel()
            channel.confirm_delivery()
            # Nobody consumes them, so that both logs are whole in the end.
            for queue in ("in", "out"):
                channel.queue_declare(queue, durable=True)
            channel.exchange_declare(EXCHANGE, "topic", durable=True)
            channel.queue_bind("in", EXCHANGE, "#")
            durable = pika.BasicProperties(delivery_mode=2)
            while not self._stopped.is_set():
                self._number += 1
                key, number = self._number * self._number % KEYS, self._number
                channel.basic_publish(EXCHANGE, f"key-{key}", b"%d %d" % (key, number), durable)
                self.confirmed += 1
                self._stopped.wait(PAUSE_S)
            connection.close()


class Query(SparkProcess):
    """The query's process."""

    def __init__(self, url: str, directory: Path, *, now: bool = False) -> None:
        command = [str(QUERY), url, str(directory), *(["now"] if now else [])]
        super().__init__(command, directory / "query.log")


def run(directory: Path, kills: int, seed: int) -> None:
    """Raises :class:`PromiseBroken`."""
    dice = random.Random(seed)
    data = directory / "data"
    publisher = Publisher()
    broker = BrokerProcess(data)
    query: Query | None = None
    between = 0
    try:
        for number in range(1, kills + 1):
            publisher.start(broker.amqp_port)
            query = _begun(broker, directory, waits=dice.random() < 0.8)
            time.sleep(dice.uniform(0, LIVES_S_MAX))
            # Of few kills one is of the kind that does not happen by chance.
            victim = "query between the commits" if number == 1 else dice.choice(VICTIMS)
            if victim == "query between the commits":
                between += _ends_between_the_commits(query, directory)
            elif victim != "query":
                broker.kill()
            if victim == "broker":
                # It has some time to find out, and to do the wrong thing.
                time.sleep(dice.uniform(0, 2))
            query.kill()
            publisher.stop()
            if broker.returncode is not None:
                broker = BrokerProcess(data)
            print(f"kill {number}: {victim}, {publisher.confirmed} confirmed so far", flush=True)
        for _ in range(2):  # the second acknowledges what the first has finished
            _catch_up(broker, directory)
        backlog = _backlog(broker, directory)
        broker.stop()
        counts = judge(data, publisher.confirmed)
        if backlog:
            raise PromiseBroken(f"the cursor's backlog is {backlog} messages, expected none")
        print(f"seed {seed}: {kills} kills, {between} between the broker's commit and Spark's")
        print(f"{counts} messages, each once and in the order of its key; backlog 0", flush=True)
    finally:
        publisher.stop()
        if query is not None:
            query.kill()
        if broker.returncode is None:
            broker.kill()


def _begun(broker: BrokerProcess, directory: Path, *, waits: bool) -> Query:
    """A query that runs; with ``waits`` one that has done its first micro-batch."""
    for _ in range(TRIES):
        query = Query(_url(broker), directory)
        if not waits or query.wait_for("batch", FIRST_BATCH_S_MAX):
            return query
        query.kill()
        if not _has_starved(directory):
            break
    raise PromiseBroken(f"the query ended by itself: see {directory / 'query.log'}")


def _catch_up(broker: BrokerProcess, directory: Path) -> None:
    """Have a query take everything that there is."""
    for number in range(TRIES):
        query = Query(_url(broker), directory, now=True)
        try:
            query.join(300)
            return
        except PromiseBroken:
            if number == TRIES - 1 or not _has_starved(directory):
                raise


def _has_starved(directory: Path) -> bool:
    """Whether Spark has given a query up because a Python worker was not there in time."""
    end = (directory / "query.log").read_text(errors="replace")[-LOG_END:]
    return STARVED in end


def _ends_between_the_commits(query: Query, directory: Path) -> bool:
    """Have a query end behind the broker's next commit and in front of Spark's; whether the batch
    is to be run again, which is not so if the query ended before."""
    (directory / DIES).touch()
    query.wait_for("\0", FIRST_BATCH_S_MAX)
    if (directory / DIES).exists():
        (directory / DIES).unlink()
        return False
    checkpoint = directory / "checkpoint"
    planned, done = (
        max(int(path.name) for path in (checkpoint / kind).glob("*") if path.name.isdecimal())
        for kind in ("offsets", "commits")
    )
    if planned != done + 1:
        raise PromiseBroken(f"batch {planned} was to be run again, and {done} is done")
    return True


def judge(data: Path, confirmed: int) -> int:
    """Compare the two logs; how many messages there are. Raises :class:`PromiseBroken`."""
    came = list(bodies_in(data, "in"))
    went = list(bodies_in(data, "out"))
    if len(came) < confirmed:
        raise PromiseBroken(f"{confirmed} messages were confirmed, and {len(came)} are there")
    lost, more = Counter(came) - Counter(went), Counter(went) - Counter(came)
    if lost or more:
        raise PromiseBroken(
            f"{sum(lost.values())} lost, {sum(more.values())} doubled: "
            f"{[*lost][:5]} and {[*more][:5]}"
        )
    for key in range(KEYS):
        was, now = ([each for each in log if each.startswith(b"%d " % key)] for log in (came, went))
        if was != now:
            at = next(i for i, pair in enumerate(zip(was, now, strict=True)) if len({*pair}) > 1)
            raise PromiseBroken(f"message {at} of key {key} is the first in another order")
    return len(went)


def bodies_in(data: Path, queue: str) -> Iterator[bytes]:
    """What a queue's log holds."""
    source = Directory(str(data)).open()
    (extent,) = source.extents([full_name(queue)])
    place = extent.floor
    while True:
        blocks = source.read(extent.topic_id, place, AFTER_ALL, 1 << 20)
        if not blocks:
            return
        for block in blocks:
            _, entries = block.decode()
            for entry in entries:
                origin = read_header(entry).origin
                yield from (message.value for message in codecs()[origin].decode(entry))
        place = Position(blocks[-1].last + 1)


def _backlog(broker: BrokerProcess, directory: Path) -> int:
    """Of the cursor whose name the checkpoint has."""
    offsets = directory / "checkpoint" / "offsets"
    last = max((path for path in offsets.iterdir() if path.name.isdecimal()), key=_number)
    offset: dict[str, Any] = json.loads(last.read_text().splitlines()[-1])
    topics = {name: {"id": place["id"]} for name, place in offset["topics"].items()}
    holder = {"subscription": offset["cursor"], "owner": offset["cursor"], "topics": topics}
    found = ask(Address(_url(broker)), "POST", "/cursors/renew", body=holder)
    return sum(each["backlog"]["messages"] for each in found["cursors"].values())


def _number(path: Path) -> int:
    return int(path.name)


def _url(broker: BrokerProcess) -> str:
    return f"http://{broker.addresses['http']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--directory", type=Path, default=None)
    given = parser.parse_args()
    seed = random.randrange(1 << 31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="soak-spark-"))
    try:
        run(directory, given.kills, seed)
    except PromiseBroken as broken:
        print(f"BROKEN (seed {seed}, {directory}): {broken}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
