"""Races on one log topic: the leader writes as fast as it can while another node fences it.

The rule: the topic itself decides. An independent reader reads it at the end, and the result is
compared with what the leaders received and what they confirmed.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Final

import trio
from tests.cluster.fencing.contender import SHARD, Contender

from arneb_cluster.protocol.entries import EntryCorrupt, Record, parse_entry
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.reader import LogReader, Verdict
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied, Link, Place, Take
from arneb_cluster.pulsar.log_topic import LogTopic
from arneb_pulsar.client import Client

NODES: Final = 3
UNDER_WAY_MAX: Final = 24
BODY_BYTES_MAX: Final = 9_000
"""At most three parts."""
WRITING_S_MAX: Final = 0.06
CUT_PART: Final = 0.25
"""Part of the races in which the leader's connection ends, so that it reconnects with a stale
epoch."""
TWO_PART: Final = 0.15
"""Part of the races with two candidates at a time."""
TRYING: Final = (State.FENCING, State.TAKING)
STUCK_S: Final = 5.0
"""A leader that has had no receipt for this long is fenced all the same."""
POLL_S: Final = 0.005
WITHIN_S: Final = 60.0
"""If nobody leads after this time, the run has failed."""


class RaceLost(Exception):
    """A promise was broken."""


@dataclass
class Figures:
    """What was observed."""

    races: int = 0
    """Take-overs from leaders that had records in flight when fencing began."""
    under_way: int = 0
    """Records in flight at those instants."""
    stored: int = 0
    """Records in the topics."""
    receipts: int = 0
    confirmed: int = 0
    passed_over: Counter[Verdict] = field(default_factory=Counter)
    """Entries that do not count, and why."""
    reattached: int = 0
    read_back: int = 0
    behind: int = 0
    """Receipts behind a higher TAKE, which Pulsar should not give but does."""
    beside: int = 0
    """Leaders that received some of these."""
    waits_s: list[float] = field(default_factory=list)
    """Times between receipt and reading, of confirmed records."""

    def add(self, other: "Figures") -> None:
        self.races += other.races
        self.under_way += other.under_way
        self.stored += other.stored
        self.receipts += other.receipts
        self.confirmed += other.confirmed
        self.passed_over += other.passed_over
        self.reattached += other.reattached
        self.read_back += other.read_back
        self.behind += other.behind
        self.beside += other.beside
        self.waits_s += other.waits_s

    def __str__(self) -> str:
        passed_over = ", ".join(f"{n} {why.name}" for why, n in sorted_by_name(self.passed_over))
        return (
            f"{self.races} races, {self.under_way} records under way when fencing began; "
            f"{self.stored} records stored, {self.receipts} receipts, {self.confirmed} confirmed; "
            f"passed over: {passed_over or 'nothing'}; {self.reattached} producers came back, "
            f"{self.read_back} readings back; {self.behind} receipts behind a higher TAKE, on "
            f"{self.beside} occasions, and nothing of that was confirmed; read {self._waits()}"
        )

    def _waits(self) -> str:
        if not self.waits_s:
            return "nothing"
        ordered = sorted(self.waits_s)
        middle, late = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        return f"{middle * 1e3:.1f} ms after the receipt in the median, {late * 1e3:.0f} ms at p99"


def sorted_by_name(counts: Counter[Verdict]) -> Iterator[tuple[Verdict, int]]:
    yield from sorted(counts.items(), key=lambda each: each[0].name)


class Course:
    """Nodes of one topic that fence one another."""

    def __init__(
        self, client: Client, topic: str, chance: Random, unload: Callable[[str], Awaitable[None]],
        unload_part: float,
    ) -> None:  # fmt: skip
        """``unload`` makes the topic's broker close it; ``unload_part`` is the part of the races in
        which that happens."""
        self.figures = Figures()
        self._client = client
        self._topic = topic
        self._chance = chance
        self._unload = unload
        self._unload_part = unload_part
        self._nodes: list[Contender] = []
        self._is_quiet = False

    def __repr__(self) -> str:
        return f"<Course on {self._topic}, {self.figures.races} races>"

    async def run(self, races: int, seconds: float) -> None:
        """Run so many races, or for so long, and judge. Raises :class:`RaceLost`."""
        await LogTopic(self._client, self._topic).hold()
        async with trio.open_nursery() as nursery:
            self._nodes = [
                Contender(self._client, self._topic, f"n{number}", nursery)
                for number in range(NODES)
            ]
            for each in self._nodes:
                nursery.start_soon(self._write, each)
            end = trio.current_time() + seconds
            while self.figures.races < races and trio.current_time() < end:
                await self._race()
            leader = await self._leader()
            self._is_quiet = True
            with self._within("all that was written to be confirmed"):
                await leader.until(
                    lambda: leader.node.window is None or leader.node.window.is_empty
                )
            nursery.cancel_scope.cancel()
        await self._judge()

    async def _leader(self) -> Contender:
        """The node that can have records stored now. If nobody leads, one is told to."""
        with self._within("a leader"):
            while True:
                for each in self._nodes:
                    if each.leads and each.node.window is not None:
                        return each
                self._chance.choice(self._nodes).try_now()
                await trio.sleep(0.05)

    async def _race(self) -> None:
        """The race counts if another node takes over from a leader that had records in flight."""
        leader = await self._leader()
        before = len(leader.receipts)
        with trio.move_on_after(STUCK_S):
            await leader.until(lambda: len(leader.receipts) > before or not leader.leads)
        others = [each for each in self._nodes if each is not leader]
        self._chance.shuffle(others)
        tries = others[: 2 if self._chance.random() < TWO_PART else 1]
        found: list[int] = []
        async with trio.open_nursery() as nursery:
            if self._chance.random() < CUT_PART:
                nursery.start_soon(self._soon, leader.cut)
            if self._chance.random() < self._unload_part:
                nursery.start_soon(self._unload, self._topic)
            for each in tries:
                nursery.start_soon(self._soon, lambda each=each: found.append(fence(leader, each)))
        with self._within("an end of a race"):
            while any(each.node.state in TRYING for each in tries):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
        if any(each.leads for each in tries) and any(found):
            self.figures.races += 1
            self.figures.under_way += max(found)

    async def _soon(self, do: Callable[[], object]) -> None:
        await trio.sleep(self._chance.uniform(0, WRITING_S_MAX))
        do()

    async def _write(self, node: Contender) -> None:
        """Keep a random number of records in flight for as long as it leads."""
        while True:
            await node.until(lambda: node.leads and not self._is_quiet)
            depth = self._chance.randint(1, UNDER_WAY_MAX)
            window = node.node.window
            while window is not None and node.leads and not self._is_quiet:
                while window.under_way < depth:
                    if not node.commit(self._chance.randbytes(self._size())):
                        break
                await node.changed.wait()
                window = node.node.window

    def _size(self) -> int:
        """Mostly small."""
        return int(self._chance.random() ** 4 * BODY_BYTES_MAX) + 1

    def _within(self, what: str) -> AbstractContextManager[None]:
        return within(f"{what} of {self._topic}")

    # Judging

    async def _judge(self) -> None:
        reader = LogReader(SHARD, Applied("", FOUNDATION, NOWHERE, FOUNDATION))
        counted: set[Link] = set()
        takes: list[tuple[Place, int]] = []
        async for place, data in LogTopic(self._client, self._topic).up_to_the_end(NOWHERE):
            verdict, _ = reader.read(place, data)
            if verdict is Verdict.SEEN:
                continue
            try:
                entry = parse_entry(data)
            except EntryCorrupt as error:
                raise RaceLost(f"{self._topic} at {place}: {error}") from None
            if isinstance(entry, Take):
                takes.append((place, entry.epoch))
            else:
                self.figures.stored += 1
            if isinstance(entry, Record) and verdict is Verdict.COUNTED:
                counted.add(entry.link)
            elif verdict is not Verdict.TAKEN:
                self.figures.passed_over[verdict] += 1
        figures = self.figures
        for each in self._nodes:
            figures.receipts += len(each.receipts)
            figures.confirmed += len(each.confirmed)
            figures.reattached += each.reattached
            figures.read_back += each.read_back
            figures.waits_s += each.waits_s
            if behind := receipts_behind_takes(each.receipts, takes):
                figures.beside += 1
                figures.behind += len(behind)
            if lost := set(each.confirmed) - counted:
                raise RaceLost(
                    f"{self._topic}: {each.name} has confirmed what does not count: {len(lost)}, "
                    f"first {min(lost)}"
                )


def fence(leader: Contender, candidate: Contender) -> int:
    """Make the node fence the leader; return how many of the leader's records were in flight."""
    window = leader.node.window
    under_way = window.under_way if window is not None and leader.leads else 0
    return under_way if candidate.try_now() else 0


def receipts_behind_takes(
    receipts: list[tuple[int, Place]], takes: list[tuple[Place, int]]
) -> list[tuple[int, Place]]:
    """The records of an epoch that are behind the TAKE of a higher one."""
    ordered = sorted(takes)
    found = []
    index, highest = 0, -1
    for epoch, place in sorted(receipts, key=lambda each: each[1]):
        while index < len(ordered) and ordered[index][0] < place:
            highest = max(highest, ordered[index][1])
            index += 1
        if highest > epoch:
            found.append((epoch, place))
    return found


@contextmanager
def within(what: str) -> Iterator[None]:
    """After the time limit, raises :class:`RaceLost` with what was expected."""
    try:
        with trio.fail_after(WITHIN_S):
            yield
    except trio.TooSlowError:
        raise RaceLost(f"expected {what} within {WITHIN_S:.0f} s") from None
