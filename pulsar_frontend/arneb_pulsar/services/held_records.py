"""Held records: the log of open transactions, an internal topic of the core.

The rule: what is sent or acknowledged in a transaction is on disk here before anybody hears that it
was taken. A record goes when its transaction has ended, lazily: whoever reads the log at a start
passes over the records of transactions whose outcome is known.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

import trio
from pyroaring import BitMap64

from arneb_core.api.callbacks import Appended
from arneb_core.api.consumers import Consumer, ConsumerSpec
from arneb_core.api.core import Core
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import StoreFailed, TopicExists
from arneb_core.api.position import Position, before, render
from arneb_core.api.settings import TopicSettings
from arneb_core.api.subscriptions import InitialPosition, Subscription
from arneb_core.api.topics import Topic

NAME: Final = "pulsar-transactions://open"
"""No name that a client could give a topic."""

SUBSCRIPTION: Final = "open"

READ_BYTES: Final = 1024 * 1024
"""At a time."""

LEDGER_BYTES: Final = 16 * 1024 * 1024
"""The grain in which what has ended goes from the disk."""

ENDED_PER_TURN: Final = 2_000
"""Records acknowledged in one turn: some 2 ms."""

ENDED_TOGETHER: Final = 256
"""Records that have ended are acknowledged when there are so many: each time the subscription has
a turn, as long as a small transaction takes."""


class NoSink:
    """Who ends records is assigned none."""

    def deliver(self, run: Deliveries) -> None:
        raise AssertionError("it pulls, and never does")

    def active_changed(self, active: bool) -> None:
        """It never is."""

    def closed_by_core(self, reason: str) -> None:
        """The core stops, or a turn failed; acknowledgements go on as before."""


class HeldRecords:
    """The log, which is made when it is first needed."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._topic: Topic | None = core.topics.get(NAME)
        self._subscription: Subscription | None = None
        self._consumer: Consumer | None = None
        self._ended: list[int] = []
        """Not acknowledged yet."""

    def __repr__(self) -> str:
        return f"<HeldRecords in {self._topic!r}>"

    @property
    def is_there(self) -> bool:
        """The log was made, now or by an earlier process."""
        return self._topic is not None

    @property
    def topic(self) -> Topic | None:
        """The log, for who looks at its ledgers."""
        return self._topic

    async def open(self) -> None:
        """Make the log if it is not there. Raises :class:`.CommitFailed`."""
        if self._topic is None:
            # What has ended needs no retention, whatever the broker's is.
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
        """Keep records, and ``metadata`` with them."""
        assert self._topic is not None, "it was opened"
        self._core.append(self._topic, records, done, len(records), metadata)

    def ended(self, places: Iterable[int]) -> None:
        """These are needed no more; it need not be on disk at once."""
        self._ended += places
        if ENDED_TOGETHER <= len(self._ended) <= ENDED_PER_TURN:
            self._acknowledge()

    async def let_go(self) -> None:
        """Acknowledge all that has ended. Often not a checkpoint."""
        while self._ended:
            self._acknowledge()
            if self._ended:
                await trio.lowlevel.checkpoint()

    def _acknowledge(self) -> None:
        assert self._consumer is not None, "it was opened"
        some, self._ended = self._ended[:ENDED_PER_TURN], self._ended[ENDED_PER_TURN:]
        self._consumer.acknowledge([*map(Position, some)])

    async def read(self, places: BitMap64) -> AsyncIterator[tuple[Position, bytes]]:
        """These records, in their order. Raises :class:`.StoreFailed`."""
        assert self._topic is not None, "it was opened"
        left = iter(places)
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
        """All records that have not ended. Raises :class:`.StoreFailed`."""
        assert self._subscription is not None, "it was opened"
        after = before(self._topic.floor) if self._topic is not None else None
        while places := self._subscription.unacknowledged(ENDED_PER_TURN, after):
            async for place, entry in self.read(BitMap64(places)):
                yield place, entry
            after = places[-1]
