"""Deduplication: what a producer sends again after a failure is stored once.

The rule: how far a producer has got is committed together with the messages that took it there, so
no crash can separate them and nothing has to be replayed. A topic has one batch under way at a
time: until it is known whether it is stored, nobody can say what is a duplicate.
"""

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import trio

from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.entry import HEADER_BYTES, messages_in
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.callbacks import call
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.producers.sequences import Reach, Sequences
from arneb_pulsar.services.clients.producers import (
    ProducerOwner,
    ProducerRegistry,
    metadata_key,
    stored,
)
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.transactions.coordinator import TransactionCoordinator
from arneb_pulsar.services.transactions.open_transaction import OpenTransaction
from arneb_pulsar.session.errors import Failure, RequestRefused
from arneb_pulsar.session.interface.effects import AppendRun, ProducerKey
from arneb_pulsar.session.interface.pending_sends import PendingSends
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SEQUENCE: Final = "sequence/"

HELD_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes that may wait for batches before publishers are paused: one full commit."""

BATCHES_PER_TURN: Final = 64
"""Batches of duplicates answered before others have their turn: some 2 ms."""

ENTRIES_PER_TURN: Final = 1_024
"""Entries sorted, or answered as duplicates, before others have their turn: some 2 ms. A batch
with this many takes no further run, and a run is at most what one read brought."""

GONE: Final = Failure(pb.PersistenceError, "The producer is gone")


@dataclass(frozen=True, slots=True)
class _Held:
    """A run that waits for its turn."""

    owner: ProducerOwner
    run: AppendRun
    expected: OpenTransaction | None
    """The transaction that it is sent in, which waits until it is stored or has failed."""

    def __repr__(self) -> str:
        return f"<_Held of {len(self.run.entries)} entries>"


@dataclass(slots=True)
class _Batch:
    """What goes into one commit."""

    transaction: TransactionId | None = None
    """The transaction that all of it is part of, if any."""
    caller: Caller = NOBODY
    """The sender, in a transaction."""
    expected: OpenTransaction | None = None
    """The transaction, if it was open when all of these came."""
    entries: list[bytes] = field(default_factory=list)
    messages: int = 0
    sorted: int = 0
    """Entries of its runs, duplicates included."""
    reaches: dict[str, int] = field(default_factory=dict)
    """The highest number by producer."""
    runs: list[tuple[_Held, int]] = field(default_factory=list)
    """Each run, with the index of its first entry in the batch."""
    forgotten: frozenset[str] = frozenset()
    """Producers whose numbers it removes."""

    def __repr__(self) -> str:
        return f"<_Batch of {len(self.entries)} entries from {len(self.runs)} runs>"


class Deduplication:
    """The deduplication of one topic. Invariant: a batch is under way, or nothing is held."""

    def __init__(self, registry: "Deduplications", topic: Topic, sequences: Sequences) -> None:
        self._registry = registry
        self._topic = topic
        self._sequences = sequences
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._flying = False
        self._unresolved: list[Callable[[], None]] = []
        self.ended = False
        """It is turned off: held runs are stored in their turn, and nothing is remembered."""
        self._outlived: set[str] = set()
        """Producers whose numbers from before it was turned off are still on disk."""

    def __repr__(self) -> str:
        held = f"{len(self._held)} runs held, " if self._held else ""
        state = "ended" if self.ended else "a batch under way" if self._flying else "idle"
        return f"<Deduplication of {self._topic.name}, {held}{state}>"

    def append(self, owner: ProducerOwner, run: AppendRun) -> None:
        """Store the entries of a run that are new; its connection is told in the end."""
        self._held.append(_Held(owner, run, self._expected(owner, run)))
        size = sum(map(len, run.entries))
        self._held_bytes += size
        self._registry.held_bytes += size
        self._fly()

    def ask_highest(self, name: str, then: Callable[[int], None]) -> None:
        """Call ``then`` with a producer's highest stored number, as soon as it is known."""
        if self._flying:
            self._unresolved.append(lambda: then(self._sequences.highest(name)))
        else:
            then(self._sequences.highest(name))

    def end(self) -> None:
        """Turn it off and forget everything. If the disk fails now, the next batch removes what it
        kept: nothing may be stored while old numbers could come back."""
        self.ended = True
        self._outlived |= self._sequences.reaches.keys()
        self._sequences = Sequences()
        if self._outlived and not self._flying:
            self._flying = True
            batch = _Batch(forgotten=frozenset(self._outlived))
            rows = Unit(metadata=[(self._key(name), None) for name in batch.forgotten])
            self._registry.core.commit(rows, partial(self._landed, batch, (), first=Position(0)))

    @property
    def is_over(self) -> bool:
        """It is turned off, and nothing is left to do or to remove."""
        return self.ended and not (self._flying or self._held or self._outlived)

    # Inside

    def _fly(self) -> None:
        """Store the next batch, if none is under way. Batches of nothing but duplicates are
        answered in a loop, not by recursion: a client may have thousands of them waiting."""
        left = ENTRIES_PER_TURN
        for _ in range(BATCHES_PER_TURN):
            if self._flying or not self._held:
                return
            if left <= 0:
                break
            batch = self._next_batch()
            left -= batch.sorted
            self._flying = True
            if batch.entries:
                self._store(batch)
            else:
                self._tell(batch, None, Position(0))
        if self._held and not self._flying:
            self._flying = True  # or what comes meanwhile would continue this turn
            trio.lowlevel.current_trio_token().run_sync_soon(call, self._continue)

    def _continue(self) -> None:
        self._flying = False
        self._fly()

    def _next_batch(self) -> _Batch:
        first, size = self._held[0], 0
        batch = _Batch(first.run.transaction, first.owner.caller, first.expected)
        while self._held and self._goes_with(batch, self._held[0]):
            if batch.sorted >= ENTRIES_PER_TURN:
                break
            held = self._held.popleft()
            batch.sorted += len(held.run.entries)
            size += sum(map(len, held.run.entries))
            batch.runs.append((held, len(batch.entries)))
            self._sort_run(held.owner, held.run, batch)
        self._registry.released(size)
        self._held_bytes -= size
        return batch

    def _store(self, batch: _Batch) -> None:
        now_ms = self._registry.clock.wall_ms()
        reaches = [(name, Reach(highest, now_ms)) for name, highest in batch.reaches.items()]
        done = partial(self._landed, batch, reaches)
        metadata: list[tuple[str, bytes | None]] = []
        if not self.ended:
            metadata += [(self._key(name), reach.pack()) for name, reach in reaches]
            metadata += [(self._key(name), None) for name in self._forget()]
        batch.forgotten = frozenset(self._outlived - batch.reaches.keys())
        metadata += [(self._key(name), None) for name in batch.forgotten]
        registry, transaction = self._registry, batch.transaction
        if transaction is None:
            registry.core.append(self._topic, batch.entries, done, batch.messages, metadata)
        else:
            registry.transactions.send(
                transaction, batch.caller, self._topic, batch.entries, done, metadata,
                batch.expected,
            )  # fmt: skip

    def _expected(self, owner: ProducerOwner, run: AppendRun) -> OpenTransaction | None:
        """Return the transaction of the run, which waits for it from now on."""
        if run.transaction is None:
            return None
        try:
            found = self._registry.transactions.find(run.transaction, owner.caller)
        except RequestRefused:
            return None  # the run is refused in its turn
        found.begin_one()
        return found

    def _goes_with(self, batch: _Batch, held: _Held) -> bool:
        """Return whether ``held`` can be stored together with what is in ``batch``."""
        wanted = held.run.transaction
        if wanted is None or batch.transaction is None:
            return wanted is batch.transaction
        mine = wanted, held.owner.caller, held.expected
        return mine == (batch.transaction, batch.caller, batch.expected)

    def _sort_run(self, owner: ProducerOwner, run: AppendRun, batch: _Batch) -> None:
        """Put the new messages of ``run`` into the batch."""
        entries = iter(run.entries)
        for sent in run.sends:
            name = owner.producer_name(ProducerKey(sent.key))
            own = [next(entries) for _ in sent.sequences]
            if name is None:
                # The producer left, or was fenced out, while this waited: it must not be stored.
                sent.refused(GONE)
                continue
            if self.ended:
                batch.entries += own
                batch.messages += sum(map(messages_in, own))
                continue
            highest = batch.reaches.get(name, self._sequences.highest(name))
            highest = _sort_out(sent, own, highest, batch)
            if highest > self._sequences.highest(name):
                batch.reaches[name] = highest

    def _landed(
        self,
        batch: _Batch,
        reaches: Iterable[tuple[str, Reach]],
        error: CommitFailed | None,
        first: Position,
    ) -> None:
        if error is None:
            self._outlived -= batch.forgotten
            for name, reach in reaches:
                if self.ended:  # it was turned off meanwhile
                    self._outlived.add(name)
                else:
                    self._outlived.discard(name)
                    self._sequences.stored(name, reach, self._registry.clock.now())
        self._tell(batch, error, first)
        self._fly()

    def _tell(self, batch: _Batch, error: CommitFailed | None, first: Position) -> None:
        """Tell the senders of a batch how it went; it is no longer under way."""
        # Before the next batch is made: a producer whose messages failed is closed, and what it
        # sent after them must not be stored, or they would pass for duplicates when sent again.
        for held, offset in batch.runs:
            held.owner.appended(held.run, error, Position(first + offset))
            if held.expected is not None:
                held.expected.end_one()
        self._flying = False
        resolved, self._unresolved = self._unresolved, []
        for then in resolved:
            then()
        self._registry.drop_if_over(self._topic, self)

    def _forget(self) -> list[str]:
        """Forget producers that have been away for long; return their names."""
        there = {claim.name for claim in self._registry.producers.of(self._topic)}
        outdated = list(self._sequences.outdated(there, self._registry.clock.now()))
        for name in outdated:
            self._sequences.forget(name)
        return outdated

    def _key(self, name: str) -> str:
        return metadata_key(self._topic, SEQUENCE + name)


def _sort_out(sent: PendingSends, entries: list[bytes], highest: int, batch: _Batch) -> int:
    """Put the new ones of a producer's sends into the batch; return how far the producer gets."""
    for index, (sequence, entry) in enumerate(zip(sent.sequences, entries, strict=True)):
        if sequence <= highest:
            sent.duplicates.add(index)
            continue
        batch.entries.append(entry)
        batch.messages += messages_in(entry)
        if index not in sent.chunks or _is_last_chunk(entry):
            highest = max(sequence, sent.highest.get(index, 0))
    return highest


def _is_last_chunk(entry: bytes) -> bool:
    """Return whether it is the last of a message's chunks, which all have its number."""
    metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
    return metadata.chunk_id == metadata.num_chunks_from_msg - 1


class Deduplications:
    """The deduplications of all topics that want it; ``wanted`` says so, by the topic's name."""

    def __init__(
        self,
        core: Core,
        producers: ProducerRegistry,
        wanted: Callable[[str], bool],
        clock: Clock,
        transactions: TransactionCoordinator,
    ) -> None:
        self.core = core
        self.transactions = transactions
        self.producers = producers
        self.clock = clock
        self._wanted = wanted
        self._by_topic: dict[int, Deduplication] = {}
        self._kept = _load(core, clock.now())
        self.held_bytes = 0
        self._room = trio.lowlevel.ParkingLot()

    def __repr__(self) -> str:
        return f"<Deduplications of {len(self._by_topic)} topics, {self.held_bytes} bytes held>"

    def of(self, topic: Topic) -> Deduplication | None:
        """Return the deduplication of ``topic``; None if it has none."""
        return self._by_topic.get(topic.id)

    def refresh(self, topic: Topic) -> None:
        """Look again whether ``topic`` wants it. If not, forget what is kept."""
        wanted = topic.durable and self._wanted(topic.name)
        present = self._by_topic.get(topic.id)
        if wanted and present is None:
            kept = self._kept.pop(topic.id, None) or Sequences()
            self._by_topic[topic.id] = Deduplication(self, topic, kept)
        elif present is not None and wanted:
            present.ended = False
        elif not wanted:
            self._turn_off(topic, present)

    def _turn_off(self, topic: Topic, present: Deduplication | None) -> None:
        """Forget what is known, which may date from before the start. ``present`` stays until
        nothing waits in it, which goes before what is sent now, or is left on disk."""
        kept = self._kept.pop(topic.id, None)
        if present is None and kept is not None:
            present = self._by_topic[topic.id] = Deduplication(self, topic, kept)
        if present is not None:
            present.end()
            self.drop_if_over(topic, present)

    def drop_if_over(self, topic: Topic, present: Deduplication) -> None:
        """Drop ``present`` if it was turned off and nothing is left of it."""
        if present.is_over and self._by_topic.get(topic.id) is present:
            del self._by_topic[topic.id]

    def forget_except(self, topics: Container[int]) -> None:
        """Forget all topics but these ids: the others are gone."""
        for known in (self._by_topic, self._kept):
            for topic in [each for each in known if each not in topics]:
                del known[topic]

    def refresh_all(self) -> None:
        """As :meth:`refresh`, for every topic with producers; others follow when one comes."""
        for topic in self.producers.topics():
            self.refresh(topic)

    @property
    def crowded(self) -> bool:
        """Publishers must pause."""
        return self.held_bytes > HELD_BYTES_MAX

    async def room(self) -> None:
        """Wait until not :attr:`crowded`."""
        while self.crowded:
            await self._room.park()

    def released(self, size: int) -> None:
        """Note that ``size`` bytes no longer wait."""
        self.held_bytes -= size
        if self._room and not self.crowded:
            self._room.unpark_all()


def _load(core: Core, now: float) -> dict[int, Sequences]:
    """Return what is kept, by the id of the topic, the producer used last coming last."""
    found: dict[int, dict[str, Reach]] = {}
    for topic, what, value in stored(core):
        if what.startswith(SEQUENCE):
            found.setdefault(int(topic), {})[what.removeprefix(SEQUENCE)] = Reach.unpack(value)
    return {
        topic: Sequences(dict(sorted(reaches.items(), key=lambda each: each[1].used_ms)), now)
        for topic, reaches in found.items()
    }
