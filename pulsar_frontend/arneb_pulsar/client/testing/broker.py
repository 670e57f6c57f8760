"""A Pulsar broker in memory, or a cluster of several.

The rule: only the program that uses it and the seed of its
:class:`~arneb_pulsar.client.testing.faults.Faults` decide what happens; on a clock that jumps,
hours take no time.
"""

from zlib import crc32

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from arneb_pulsar.client.connection.dialling import Address
from arneb_pulsar.client.errors import ConnectError
from arneb_pulsar.client.ids import EntryId
from arneb_pulsar.client.testing.answers import Watcher
from arneb_pulsar.client.testing.faults import Faults
from arneb_pulsar.client.testing.session import FakeSession
from arneb_pulsar.client.testing.stream import FakeStream
from arneb_pulsar.client.testing.topic import FakeTopic
from arneb_pulsar.client.testing.transactions import COORDINATORS, FakeTransactions, Part
from arneb_pulsar.names import parse_topic
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

EPOCH_MS = 1_700_000_000_000
"""The time of day at which the clock of a fake broker begins."""


class FakeBroker:
    """A cluster of ``brokers`` that divide the topics; a topic's owner changes when it is unloaded.

    The cluster has ``coordinators`` transaction coordinators. It lacks authentication, delayed
    delivery, quotas and compaction.
    """

    pattern_characters_max = 50
    """The longest watched pattern, as in Apache Pulsar's ``subscriptionPatternMaxLength``."""

    def __init__(
        self,
        faults: Faults | None = None,
        *,
        brokers: int = 1,
        deduplication: bool = False,
        coordinators: int = 0,
    ) -> None:
        self.faults = faults or Faults()
        self.watchers: list[Watcher] = []
        """Watchers to tell of new topics."""
        self.is_down = False
        """No broker accepts connections."""
        self.sessions: list[FakeSession] = []
        """Every connection that was ever made, for tests that count."""
        self._addresses = [Address(f"fake-{number}", 6650) for number in range(1, brokers + 1)]
        self._deduplication = deduplication
        self._topics: dict[str, FakeTopic] = {}
        self._partitions: dict[str, int] = {}
        self._streams: list[FakeStream] = []
        self.transactions = FakeTransactions(self._part_of)
        """The open and the committed transactions."""
        if coordinators:
            self._partitions[COORDINATORS] = coordinators

    def __repr__(self) -> str:
        return f"<FakeBroker {len(self._topics)} topics, {len(self.open_streams)} connections>"

    @property
    def url(self) -> str:
        """The service URL, which is the first broker's."""
        return str(self._addresses[0])

    @property
    def open_streams(self) -> list[FakeStream]:
        """The connections that have not ended."""
        return [each for each in self._streams if not each.is_cut]

    async def dial(self, address: Address) -> ByteStream:
        """Connect to a broker; pass this to ``ClientOptions(dial=...)``. Raises
        :class:`ConnectError`."""
        await checkpoint()
        if address not in self._addresses or self.is_down or self.faults.is_refused():
            raise ConnectError(f"expected a fake broker at {address}, nobody is there")
        stream = FakeStream(self.faults)
        session = FakeSession(self, str(address), stream.write, stream.cut)
        stream.session = session
        self.sessions.append(session)
        self._streams = [*self.open_streams, stream]
        return stream

    # What a program does to it

    def create_topic(self, name: str, partitions: int = 0) -> None:
        """Make a topic; topics that clients ask for are made automatically, without partitions."""
        if partitions:
            self._partitions[_full(name)] = partitions
            for number in range(partitions):
                self.topic(f"{_full(name)}-partition-{number}")
        else:
            self.topic(name)

    def delete_all(self) -> None:
        """Delete all topics, which nobody may be using."""
        self._topics.clear()

    def topic(self, name: str) -> FakeTopic:
        """Return a topic, made if it does not exist."""
        name = _full(name)
        if name not in self._topics:
            self._topics[name] = FakeTopic(
                name, deduplication=self._deduplication, is_open=self.transactions.is_open
            )
            for each in self.watchers:
                each.on_made(name)
        return self._topics[name]

    def backlog(self, topic: str, subscription: str) -> list[EntryId]:
        """Return the entries that a subscription has not acknowledged."""
        return self.topic(topic).subscriptions[subscription].backlog()

    def unload(self, topic: str) -> None:
        """Unload a topic; another broker of the cluster, if any, becomes its owner."""
        self.topic(topic).unload()

    def cut(self) -> None:
        """Cut every connection; bytes under way are lost."""
        for stream in self.open_streams:
            stream.cut()

    def restart(self) -> None:
        """Do what a kill does: cut every connection, and put new entries into new ledgers. Messages
        with a receipt stay."""
        self.cut()
        for topic in self._topics.values():
            topic.new_ledger()

    # What sessions ask

    def partitions(self, name: str) -> int:
        """Return how many partitions a topic has; 0 = it is not partitioned."""
        return self._partitions.get(_full(name), 0)

    def topics(self, namespace: str, mode: int) -> list[str]:
        """Return the topics of ``tenant/namespace``, with each partition by itself."""
        wanted: dict[int, tuple[bool, ...]] = {
            CommandGetTopicsOfNamespace.PERSISTENT: (True,),
            CommandGetTopicsOfNamespace.NON_PERSISTENT: (False,),
        }
        names = [
            name
            for name, topic in self._topics.items()
            if topic.is_persistent in wanted.get(mode, (True, False))
        ]
        return sorted(name for name in names if str(parse_topic(name).namespace) == namespace)

    def owner(self, name: str) -> str:
        """Return the URL of the broker that owns a topic now."""
        name = _full(name)
        moves = self._topics[name].moves if name in self._topics else 0
        return str(self._addresses[(crc32(name.encode()) + moves) % len(self._addresses)])

    def now_ms(self) -> int:
        """Return the time of day, in ms since the epoch."""
        return EPOCH_MS + int(anyio.current_time() * 1000)

    def expire(self) -> None:
        """Abort expired transactions."""
        self.transactions.expire(self.now_ms())

    def _part_of(self, topic: str, subscription: str) -> Part:
        found = self.topic(topic)
        return found.subscriptions[subscription] if subscription else found

    def is_doubled(self) -> bool:
        """Return whether the next receipt is sent twice."""
        return self.faults.is_doubled()

    def is_not_ready(self) -> bool:
        """Return whether the next producer or consumer is told to try again later."""
        return self.faults.is_not_ready()


def _full(name: str) -> str:
    return str(parse_topic(name))
