"""Kills a broker, damages its journal, and checks what the next start promises in that case.

Damage may lose confirmed messages, but the loss must be reported: whatever is not reported as lost
is there, at its old position and in order; lost positions are never given to anything else; and
``arneb check`` reports the damage too, before the start and after it. The test suite runs a short
form; by hand, from the repository's root, for as long as you like::

    python -m tests.crash.damaged --kills 200
    python -m tests.crash.damaged --kills 20 --seed 1234
"""

import asyncio
import math
import os
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from conformance.brokers.arneb import Arneb, run_arneb
from conformance.brokers.process import BrokerFailed
from conformance.wire.amqp import AmqpClient, AmqpClosed
from pamqp import commands
from tests.crash.command_line import parser_of, play
from tests.crash.players.bodies import body_of, number_of
from tests.crash.players.clients import Publisher, drained, pause

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.position import Position, render
from arneb_core.store.format.schema import TOPIC_PREFIX, Table, TopicId
from arneb_core.store.journal.writing import JOURNAL_BYTES, JOURNAL_NAME
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

LOAD_S_MIN, LOAD_S_MAX = 0.05, 0.6
QUEUES = ("one", "two")
GENERATION_MESSAGES = 3_000
"""After this many messages the queues are deleted and made again, so that audits stay short."""

SHARED_MEMORY = Path("/dev/shm")

LOG_LINE = "the journal"
"""Words that every report of the broker about the journal contains."""


class PromiseBroken(Exception):
    """Promises were broken; one line for each anomaly."""


class NothingTested(Exception):
    """The journal never contained anything that could be damaged."""


Log = dict[Position, bytes]


@dataclass(slots=True)
class Seen:
    """The contents of a data directory: the logs of its queues, what is reported as lost, and how
    many entries are only in the journal."""

    logs: dict[str, Log] = field(default_factory=dict)
    gaps: dict[str, set[Position]] = field(default_factory=dict)
    journaled: int = 0


def seen_in(data: Path) -> Seen:
    seen = Seen()
    with (
        open_snapshot_environment(data) as environment,
        environment.snapshot(damaged_too=True) as snapshot,
    ):
        blocks = snapshot.journaled_blocks()
        seen.journaled = sum(len(snapshot.decode(block)[1]) for _, _, block in blocks)
        for key, value in snapshot.scan(Table.CATALOG, TOPIC_PREFIX):
            name = key[len(TOPIC_PREFIX) :].decode().rpartition("/")[2]
            topic_id = TopicId(int(re.search(rb'"id":(\d+)', value).group(1)))  # type: ignore[union-attr]
            seen.logs[name] = {
                Position(place + index): entry
                for place, run in snapshot.iter_blocks(topic_id)
                for index, entry in enumerate(run)
            }
            seen.gaps[name] = {
                Position(each)
                for first, last in snapshot.gaps(topic_id)
                for each in range(first, last + 1)
            }
    return seen


# Damage


def _place(data: bytearray, dice: random.Random) -> int:
    """A byte that has been written, mostly near the start, where the newest records are."""
    used = len(data.rstrip(b"\0"))
    return min(int(2 ** dice.uniform(4, math.log2(used + 16))), used - 1)


def _flip(data: bytearray, dice: random.Random) -> str:
    places = sorted(_place(data, dice) for _ in range(dice.choice([1, 1, 2, 5])))
    for place in places:
        data[place] ^= dice.randrange(1, 256)
    return f"bytes {places} flipped"


def _wipe(data: bytearray, dice: random.Random) -> str:
    start = _place(data, dice)
    size = min(dice.choice([16, 512, 4096, JOURNAL_BYTES]), len(data) - start)
    data[start : start + size] = bytes(size)
    return f"{size} bytes from {start} on zeroed"


def _shuffle(data: bytearray, dice: random.Random) -> str:
    """Put a sector in the place of another one."""
    one, other = (_place(data, dice) // 512 * 512 for _ in range(2))
    data[one : one + 512], data[other : other + 512] = (
        data[other : other + 512],
        data[one : one + 512],
    )
    return f"sectors at {one} and {other} exchanged"


def _cut(data: bytearray, dice: random.Random) -> str:
    del data[_place(data, dice) :]
    return f"cut to {len(data)} bytes"


def _empty(data: bytearray, dice: random.Random) -> str:
    data.clear()
    return "emptied"


DAMAGES: tuple[Callable[[bytearray, random.Random], str], ...] = (
    _flip, _flip, _flip, _wipe, _wipe, _shuffle, _cut, _empty,
)  # fmt: skip
MISSING_PART = 0.08
UNHARMED_PART = 0.1


def damage(data: Path, dice: random.Random) -> str:
    """Damage the journal; the result says how."""
    journal = data / JOURNAL_NAME
    if not journal.exists():
        return "no journal yet"
    if dice.random() < UNHARMED_PART:
        return "unharmed"
    if dice.random() < MISSING_PART:
        journal.unlink()
        return "removed"
    content = bytearray(journal.read_bytes())
    how = dice.choice(DAMAGES)(content, dice)
    journal.write_bytes(content)
    return how


# The verdict


def judge(before: Seen, after: Seen, output: str, checked: str) -> list[str]:
    """Every broken promise. ``output`` is the output of the start, and ``checked`` that of ``arneb
    check`` before it."""
    anomalies: list[str] = []
    for name, log in before.logs.items():
        found = after.logs.get(name, {})
        anomalies += [
            f"{name}: {render(place)} holds something else than before"
            for place, entry in found.items()
            if log.get(place) != entry
        ]
        missing = set(log) - set(found)
        if not missing:
            continue
        if LOG_LINE not in output:
            anomalies.append(f"{name}: {len(missing)} entries are gone without a word of the start")
        if "journal" not in checked:
            anomalies.append(f"{name}: {len(missing)} entries are gone without a word of the check")
        last = max(found, default=Position(0))
        named = _named(output, name)
        anomalies += [
            f"{name}: {render(place)} is gone from between others, and is not said to be lost"
            for place in sorted(missing)
            if place < last and not (place in after.gaps[name] and place in named)
        ]
    return anomalies


def _named(output: str, name: str) -> set[Position]:
    """The positions of a queue that the report names as lost."""
    found: set[Position] = set()
    for match in re.finditer(
        rf"{name}' entr(?:y|ies) (\d+):(\d+)(?: to (\d+):(\d+))? (?:is|are)", output
    ):
        ledger, first, _, last = match.groups()
        entries = range(int(first), int(last or first) + 1)
        found.update(Position(int(ledger) << 32 | entry) for entry in entries)
    return found


class Run:
    """The lives of one broker. The seed repeats a run's plan, but not the machine's timing."""

    def __init__(self, directory: Path, seed: int) -> None:
        self._broker = Arneb(directory, listeners=("amqp",))
        self._dice = random.Random(seed)
        self._generation = 0
        self._number = 0
        self._confirmed: dict[str, set[int]] = {}
        self._given: dict[str, Log] = {}
        """By queue, everything that was ever at each position."""

    async def kill_times(self, kills: int) -> None:
        """Kill the broker that often. Raises :class:`PromiseBroken` or :class:`BrokerFailed`."""
        self._broker.start()
        lost = journaled = 0
        for life in range(1, kills + 1):
            began = time.monotonic()
            await self._make_queues()
            await self._load()
            self._broker.kill()
            before = self._true_state()
            how = damage(self._broker.data, self._dice)
            checked = run_arneb("check", str(self._broker.data))
            printed = len(self._broker.log)
            self._broker.start()
            output = self._broker.log[printed:]
            after = seen_in(self._broker.data)
            anomalies = judge(before, after, output, checked.stdout)
            anomalies += await self._deliveries(after)
            if anomalies:
                raise PromiseBroken("\n".join([how, *anomalies, output, checked.stdout]))
            gone = sum(len(log) - len(after.logs[name]) for name, log in before.logs.items())
            lost += gone
            journaled += before.journaled
            print(
                f"kill {life}: {how}; {gone} of {sum(map(len, before.logs.values()))} lost and "
                f"said; {time.monotonic() - began:.1f} s",
                flush=True,
            )
            for kept in self._broker.data.glob(f"{JOURNAL_NAME}.damaged-*"):
                kept.unlink()
        if not journaled:
            # If writes are slow, the broker commits without the journal.
            raise NothingTested(
                f"nothing was tested: the journal held no entry at any of {kills} kills; is the "
                "disk too slow for it? expected a --directory on a faster one, such as /dev/shm"
            )
        print(
            f"{journaled} messages were in the journals, {lost} are lost, each of them said to be"
        )
        self._broker.stop()

    def end(self) -> None:
        self._broker.kill()

    def _name(self, queue: str) -> str:
        return f"{queue}-{self._generation}"

    async def _make_queues(self) -> None:
        client = await AmqpClient.open(self._broker.address)
        if any(len(log) > GENERATION_MESSAGES for log in self._given.values()):
            for queue in QUEUES:
                delete = commands.Queue.Delete(queue=self._name(queue))
                await client.call(delete, commands.Queue.DeleteOk)
            self._generation += 1
            self._given.clear()
            self._confirmed.clear()
        for queue in QUEUES:
            await client.declare_queue(self._name(queue))
        await client.abort()

    async def _load(self) -> None:
        """One publisher that waits for each confirm, so that its messages go through the
        journal."""
        client = await AmqpClient.open(self._broker.address)
        sent: dict[int, str] = {}

        def note(number: int, acked: bool) -> None:
            if not acked:
                raise PromiseBroken(f"message {number} was refused")
            self._confirmed.setdefault(sent[number], set()).add(number)

        publisher = await Publisher.begin(client, 1, note)
        sizes = self._dice.choice([(20,), (300,), (20, 300, 3_000)])

        async def publish() -> None:
            with suppress(AmqpClosed, OSError):
                while True:
                    self._number += 1
                    queue = self._name(self._dice.choice(QUEUES))
                    sent[self._number] = queue
                    body = body_of(self._number, self._dice.choice(sizes))
                    await publisher.publish(self._number, "", queue, body)

        task = asyncio.create_task(publish())
        await pause(self._dice.uniform(LOAD_S_MIN, LOAD_S_MAX))
        self._broker.kill()
        await task
        await client.abort()

    def _true_state(self) -> Seen:
        """What is on disk before the damage. Checks that everything confirmed is there, and that no
        position was used twice."""
        seen = seen_in(self._broker.data)
        anomalies = []
        for name, log in seen.logs.items():
            numbers = {_number(entry) for entry in log.values()}
            if lost := self._confirmed.get(name, set()) - numbers:
                anomalies.append(f"{name}: confirmed and not there: {sorted(lost)[:5]}")
            given = self._given.setdefault(name, {})
            anomalies += [
                f"{name}: {render(place)} was given out twice"
                for place, entry in log.items()
                if given.get(place, entry) != entry
            ]
            given.update(log)
        if anomalies:
            raise PromiseBroken("\n".join(anomalies))
        return seen

    async def _deliveries(self, after: Seen) -> list[str]:
        """Check that consumers get what is there, in log order, and do not wait for what is not."""
        anomalies = []
        for queue in QUEUES:
            name = self._name(queue)
            client = await AmqpClient.open(self._broker.address)
            expected = [_number(after.logs[name][place]) for place in sorted(after.logs[name])]
            async with asyncio.timeout(30):
                found = [number_of(each.body) for each in await drained(client, name)]
            if found != expected:
                anomalies.append(f"{name}: {len(expected)} in the log, {len(found)} delivered")
            self._confirmed[name] = set(expected)  # what was lost stays lost
            await client.abort()
        return anomalies


def _number(entry: bytes) -> int:
    """A message's number, found in its body at the end of the entry."""
    *_, number = re.findall(rb"(\d+):", entry[HEADER_BYTES:])
    return int(number)


def fast_place() -> str | None:
    """A directory in which writes are fast, so that the broker uses the journal for a publisher
    that is alone."""
    return str(SHARED_MEMORY) if os.access(SHARED_MEMORY, os.W_OK) else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; for the exit status see :func:`.play`."""
    parser = parser_of("damaged", "SIGKILLs, damaged journals, and a verdict after each start.")
    options = parser.parse_args(arguments)
    failures = (PromiseBroken, NothingTested, BrokerFailed, AmqpClosed, OSError, TimeoutError)
    return play(parser, options, Run, failures, fast_place())


if __name__ == "__main__":
    sys.exit(main())
