"""Held records: the log of open transactions, an internal topic of the core.

The rule: what is sent or acknowledged in a transaction is on disk here before the client is told
that it was accepted. Records go lazily after their transaction has ended: reading the log at a
start passes over the records of transactions whose outcome is known.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import trio
from pyroaring import BitMap64

from arneb_core.api.core import Core
from arneb_core.api.entries.position import Position, before, render
from arneb_core.api.errors import StoreFailed, TopicExists
from arneb_core.api.process.callbacks import Appended
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic

NAME: Final = "pulsar-transactions://open"
"""A name that no client could give a topic."""

SUBSCRIPTION: Final = "open"

READ_BYTES: Final = 1024 * 1024
"""Bytes read at a time."""

LEDGER_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a ledger: the grain in which records of ended transactions leave the disk."""

ENDED_PER_TURN: Final = 2_000
"""Records acknowledged in one turn: some 2 ms."""

ENDED_TOGETHER: Final = 256
"""Ended records that are acknowledged together: each acknowledgement gives the subscription a turn,
which takes as long as a small transaction."""


class NoSink:
    """The sink of the consumer that ends records, which is delivered none."""

    def deliver(self, run: Deliveries) -> None:
        raise AssertionError("it pulls, and never does")

    def active_changed(self, active: bool) -> None:
        """Nothing to do."""

    def closed_by_core(self, reason: str) -> None:
        """Nothing to do: the core stops or a turn failed; acknowledgements continue as before."""


class HeldRecords:
    """The log, which is created when it is first needed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._topic: Topic | None = core.topics.get(NAME)
        self._subscription: Subscription | None = None
        self._consumer: Consumer | None = None
        self._ended: list[int] = []
        """Ended records that are not acknowledged yet."""

    def __repr__(self) -> str:
        return f"<HeldRecords in {self._topic!r}>"

    @property
    def is_there(self) -> bool:
        """The log exists, created by this process or an earlier one."""
        return self._topic is not None

    @property
    def topic(self) -> Topic | None:
        """The log's topic, for statistics of its ledgers."""
        return self._topic

    async def open(self) -> None:
        """Create the log if it does not exist. Raises :class:`.CommitFailed`."""
        if self._topic is None:
            # Ended records need no retention, whatever the broker's is.
            settings = TopicSettings(retention_ms=1, ledger_bytes_max=LEDGER_BYTES)
            try:
                self._topic = await self._core.create_topic(NAME, settings)
            except TopicExists:
                self._topic = self._core.topic(NAME)
        if self._consumer is None:
            self._subscription = await self._topic.subscribe(
                SUBSCRIPTION, initial=InitialPosition.EARLIEST
            )
            spec = ConsumerSpec("coordinator", pulls=True)
            self._consumer = self._subscription.attach(spec, NoSink())

    def append(
        self,
        records: list[bytes],
        done: Appended,
        metadata: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Store records, and ``metadata`` with them."""
        assert self._topic is not None, "it was opened"
        self._core.append(self._topic, records, done, len(records), metadata)

    def ended(self, positions: Iterable[int]) -> None:
        """Note that these are no longer needed; that need not be on disk at once."""
        self._ended += positions
        if ENDED_TOGETHER <= len(self._ended) <= ENDED_PER_TURN:
            self._acknowledge()

    async def acknowledge_ended(self) -> None:
        """Acknowledge all ended records. Often not a checkpoint."""
        while self._ended:
            self._acknowledge()
            if self._ended:
                await trio.lowlevel.checkpoint()

    def _acknowledge(self) -> None:
        assert self._consumer is not None, "it was opened"
        some, self._ended = self._ended[:ENDED_PER_TURN], self._ended[ENDED_PER_TURN:]
        self._consumer.acknowledge([*map(Position, some)])

    async def read(self, positions: BitMap64) -> AsyncIterator[tuple[Position, bytes]]:
        """Yield these records, in order. Raises :class:`.StoreFailed`."""
        assert self._topic is not None, "it was opened"
        left = iter(positions)
        wanted = next(left, None)
        while wanted is not None:
            runs = await self._topic.read(Position(wanted), READ_BYTES)
            through = wanted
            for first, entries in runs:
                last = first + len(entries) - 1
                while wanted is not None and first <= wanted <= last:
                    through = wanted
                    yield Position(wanted), entries[wanted - first]
                    wanted = next(left, None)
            if wanted == through:
                raise StoreFailed(f"expected a record at {render(Position(wanted))}, got none")

    async def unended(self) -> AsyncIterator[tuple[Position, bytes]]:
        """Yield all records that have not ended. Raises :class:`.StoreFailed`."""
        assert self._subscription is not None, "it was opened"
        after = before(self._topic.floor) if self._topic is not None else None
        while positions := self._subscription.unacknowledged(ENDED_PER_TURN, after):
            async for position, entry in self.read(BitMap64(positions)):
                yield position, entry
            after = positions[-1]
