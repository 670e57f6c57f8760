"""Kills a broker while batches are staged and committed: every row of every batch must be stored
once.

A writer acts like a streaming sink: for each batch several tasks stage rows, sometimes twice by
attempts of which one is lost, and then the batch is committed. Like Spark, it repeats whatever was
not answered. The broker is killed at random instants: while pieces arrive, during the commit,
before its answer, and while it starts. The test suite runs a short form; by hand, from the
repository's root::

    python -m tests.crash.staged --kills 200
"""

import asyncio
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import pack
from typing import Any, Final

from conformance.brokers.arneb import Arneb, run_arneb
from conformance.brokers.process import BrokerFailed, free_port
from tests.crash.command_line import parser_of, play

from arneb_core.api.entries.codec import codecs
from arneb_core.api.entries.entry import Origin
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.service import connection
from pyspark_arneb.service.connection import Address, ask
from pyspark_arneb.service.errors import ServiceError

TOPICS: Final = tuple(f"persistent://public/default/staged-{number}" for number in range(3))
QUERY: Final = "crash"
TASKS: Final = 3
KEYS: Final = 5
ROWS_MAX: Final = 400
LIFE_S_MAX: Final = 0.8
"""The broker is killed at most this long after it became ready, in seconds."""


class PromiseBroken(Exception):
    """A row is missing, stored twice or out of order."""


@dataclass(frozen=True)
class Row:
    """One row, which says where it belongs."""

    batch: int
    task: int
    number: int

    @property
    def key(self) -> bytes:
        return b"%d-%d" % (self.task, self.number % KEYS)

    @property
    def value(self) -> bytes:
        return b"%d:%d:%d" % (self.batch, self.task, self.number)


def body_of(rows: Sequence[Row]) -> bytes:
    """Rows for all topics in turn."""
    head = {
        "rows": len(rows),
        "columns": ["value", "key", "target"],
        "targets": [{"topic": topic} for topic in TOPICS],
    }
    columns = [[row.value for row in rows], [row.key for row in rows]]
    parts = [pack(f"<{len(rows)}i", *map(len, column)) + b"".join(column) for column in columns]
    parts.append(pack(f"<{len(rows)}I", *(row.number % len(TOPICS) for row in rows)))
    encoded = json.dumps(head).encode()
    return b"ARW1" + pack("<I", len(encoded)) + encoded + b"".join(parts)


class Writer:
    """Writes batch after batch, whatever happens to the broker."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.address: Address | None = None
        self.batches: list[int] = []
        """How many rows each task of each batch has."""
        self.repeated = 0
        """How many commits were answered as already done."""
        self.stopped = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Write until stopped; runs in a thread."""
        try:
            while not self.stopped.is_set():
                self.batches.append(self._dice.randrange(ROWS_MAX))
                self._write(len(self.batches) - 1)
        except BaseException as error:  # re-raised by the thread that started this one
            self.error = error
        finally:
            connection.close_connections()

    def _write(self, batch: int) -> None:
        """Stage and commit one batch, until it is committed."""
        attempt = 0
        while not self.stopped.is_set():
            attempt += 1
            try:
                stages = [self._task(batch, task, attempt) for task in range(TASKS)]
                document = {"query": QUERY, "batch": batch, "stages": stages}
                answer = self._ask("POST", "/commits", body=document)
                if answer["already"]:
                    self.repeated += 1
                return
            except ServiceError as error:
                # The stages are gone with a commit whose answer was lost, or with a broker that was
                # killed.
                if error.status and error.code not in ("stage_not_found", "busy"):
                    raise
                time.sleep(0.005)

    def _task(self, batch: int, task: int, attempt: int) -> dict[str, object]:
        """Stage the rows of one task, sometimes with a second attempt that is lost."""
        rows = [Row(batch, task, number) for number in range(self.batches[batch])]
        if self._dice.random() < 0.3:
            self._stage(batch, f"t{task}-lost-{attempt}", rows[: len(rows) // 2])
        # Another attempt of a task stages the same rows under another name, as Spark's attempts do.
        name = f"t{task}-a{attempt}"
        pieces = self._stage(batch, name, rows)
        return {"stage": name, "pieces": pieces, "rows": len(rows)}

    def _stage(self, batch: int, name: str, rows: Sequence[Row]) -> int:
        size = self._dice.randrange(20, 300)
        starts = range(0, len(rows), size)
        for piece, start in enumerate(starts):
            where = {"query": QUERY, "batch": batch, "stage": name, "piece": piece}
            body = body_of(rows[start : start + size])
            self._ask("POST", "/stages", parameters=where, rows=body)
        return len(starts)

    def _ask(self, *args: Any, **kwargs: Any) -> Any:
        if self.address is None or self.stopped.is_set():
            raise ServiceError("unreachable", "no broker now")
        return ask(self.address, *args, **kwargs)


class Run:
    """The lives of one broker."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._broker = Arneb(
            directory,
            listeners=("pulsar", "http"),
            ports={"http": free_port()},
        )
        self._dice = random.Random(seed)
        self._writer = Writer(random.Random(seed + 1))

    async def kill_times(self, kills: int) -> None:
        """Kill the broker that often. Raises :class:`PromiseBroken` or :class:`BrokerFailed`."""
        thread = threading.Thread(target=self._writer.run, daemon=True)
        self._start()
        self._make_topics()
        thread.start()
        for kill in range(1, kills + 1):
            await asyncio.sleep(self._dice.uniform(0.01, LIFE_S_MAX))
            self._broker.kill()
            self._expect_writer()
            if self._dice.random() < 0.15:
                self._broker.spawn()
                await asyncio.sleep(self._dice.uniform(0, 0.8))
                self._broker.kill()
            self._start()
            print(f"kill {kill}: {len(self._writer.batches)} batches", flush=True)
        await asyncio.sleep(LIFE_S_MAX)
        self._writer.stopped.set()
        thread.join(120)
        self._expect_writer()
        self._judge()
        self._broker.stop()
        checked = run_arneb("check", str(self._broker.data))
        if checked.returncode:
            raise PromiseBroken(checked.stdout)

    def end(self) -> None:
        self._writer.stopped.set()
        self._broker.kill()

    def _make_topics(self) -> None:
        """Create the topics, with a cursor on each, which keeps what is written."""
        assert self._writer.address is not None, "the broker must be running"
        ask(self._writer.address, "POST", "/publish", rows=body_of([]))
        document = {"subscription": "kept", "owner": "run", "topics": {each: {} for each in TOPICS}}
        ask(self._writer.address, "POST", "/cursors/open", body={**document, "lease_s": None})

    def _start(self) -> None:
        self._broker.start()
        self._writer.address = Address(f"http://{self._broker.http_address}")

    def _expect_writer(self) -> None:
        error = self._writer.error
        if error is not None and not isinstance(error, ServiceError):
            raise error
        if isinstance(error, ServiceError) and error.status:
            raise PromiseBroken(f"the writer was refused: {error}")

    def _judge(self) -> None:
        """Check that every batch up to the mark is stored row for row and once, and nothing of
        later batches."""
        assert self._writer.address is not None, "the broker must be running"
        asked = {"query": QUERY}
        mark = ask(self._writer.address, "GET", "/commits", parameters=asked)["batch"]
        last = -1 if mark is None else mark
        found = self._read()
        expected = Counter(
            Row(batch, task, number).value
            for batch, count in enumerate(self._writer.batches[: last + 1])
            for task in range(TASKS)
            for number in range(count)
        )
        seen = Counter(value for values in found.values() for _, value in values)
        if seen != expected:
            lost, doubled = list(expected - seen)[:5], list(seen - expected)[:5]
            raise PromiseBroken(f"up to batch {last}: lost {lost}, doubled or not due {doubled}")
        for topic, values in found.items():
            places: dict[bytes, tuple[int, ...]] = {}
            for key, value in values:
                place = tuple(map(int, value.split(b":")))
                if places.get(key, ()) >= place:
                    raise PromiseBroken(f"{topic}: {value!r} of key {key!r} is out of order")
                places[key] = place
        print(f"{last + 1} batches, {len(seen)} rows, {self._writer.repeated} commits repeated")
        if not seen:
            raise PromiseBroken("nothing was tested: no batch was committed")

    def _read(self) -> dict[str, list[tuple[bytes, bytes]]]:
        assert self._writer.address is not None, "the broker must be running"
        source = Remote(self._writer.address).open()
        found: dict[str, list[tuple[bytes, bytes]]] = {}
        for extent in source.extents(TOPICS):
            rows = found[extent.topic] = []
            for ledger in extent.ledgers:
                place = ledger.first
                while place <= ledger.last:
                    for block in source.read(extent.topic_id, place, ledger.last, 1 << 20):
                        _, entries = block.decode()
                        for entry in entries:
                            made = codecs()[Origin(entry[1])].decode(entry)
                            rows += [(each.key or b"", each.value) for each in made]
                        place = type(place)(block.last + 1)
        connection.close_connections()
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit status is 0 if every promise was kept."""
    parser = parser_of("python -m tests.crash.staged", __doc__ or "")
    options = parser.parse_args(arguments)
    return play(parser, options, Run, (PromiseBroken, BrokerFailed))


if __name__ == "__main__":
    sys.exit(main())
