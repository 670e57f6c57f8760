"""A consumer of all topics of a namespace that match a pattern, including later ones.

The rule: brokers that support topic watchers report changes; others are polled. Either way only
the last complete list counts.
"""

import logging
from collections.abc import Iterable
from typing import Final, TypeVar

import anyio

from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.consumer.multi_topic import Make, MultiTopicConsumer
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import (
    ClientClosed,
    ConfigurationError,
    NotAllowed,
    PulsarError,
    TopicNotFound,
)
from arneb_pulsar.client.tasks.waiting import Bell
from arneb_pulsar.names import (
    NON_PERSISTENT,
    PERSISTENT,
    InvalidTopicName,
    parse_namespace,
    parse_topic,
)
from arneb_pulsar.patterns import InvalidPattern, TopicPattern
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicUpdate,
)

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

AGAIN_S: Final = 1.0
"""Time until a list that could not be read is requested again."""

ALL_TOPICS: Final = ".*"
"""Watched if a broker refuses the pattern: Apache Pulsar refuses those over 50 characters
(``subscriptionPatternMaxLength``), including the namespace's name."""

SYSTEM_PREFIX: Final = "__"
"""The prefix of system topics' names."""


class PatternConsumer(MultiTopicConsumer[T]):
    """Consumes the topics that match a pattern. Made by ``Client.subscribe_pattern``."""

    quiet_ends = (ClientClosed, TopicNotFound)

    def __init__(
        self,
        context: ClientContext,
        subscription: str,
        make: "Make[T]",
        namespace: str,
        domain: str,
        pattern: str,
    ) -> None:
        """``pattern`` is matched against names without their domain; an empty ``domain`` means
        both. Raises :class:`ConfigurationError` for an invalid pattern."""
        super().__init__(context, subscription, make)
        self._namespace = namespace
        self._domain = domain
        self._text = pattern
        try:
            self._pattern = TopicPattern(pattern)
        except InvalidPattern as error:
            raise ConfigurationError(f"expected a pattern, got {pattern!r}: {error}") from error
        self._hash = ""
        self._watcher_id = next(context.numbers)
        self._watching: Connection | None = None
        self._changed = Bell()
        self._is_stale = False
        """Topics may have changed since the list was last requested."""

    def __repr__(self) -> str:
        return f"<PatternConsumer {self._text!r}, {super().__repr__()}>"

    async def refresh(self) -> None:
        """Read the list of topics, and consume exactly those. Raises :class:`PulsarError`."""
        lookup = self._context.lookup
        found = await lookup.topics(self._namespace, self._domain, self._text, self._hash)
        if not found.changed:
            return
        self._hash = found.hash
        wanted = self._chosen(found.topics)
        for name in [each for each in self._consumers if each not in wanted]:
            await self.remove(name)
        await self._add_all(wanted)

    async def follow(self, poll_s: float) -> None:
        """Follow changes of the list until the consumer is closed."""
        with self._scope:
            while True:
                await self._watch()
                if not self._is_stale:
                    with anyio.move_on_after(poll_s):
                        await self._changed.wait()
                self._is_stale = False
                try:
                    await self.refresh()
                except PulsarError as error:
                    LOG.info("topics of %s: %s", self._namespace, error)
                    self._out_of_date()
                    await anyio.sleep(AGAIN_S)

    async def close(self) -> None:
        """See :meth:`Consumer.close`."""
        connection, self._watching = self._watching, None
        if connection is not None and connection.is_open:
            connection.machine.watchers.pop(self._watcher_id, None)
            connection.machine.request(
                CommandWatchTopicListClose(watcher_id=self._watcher_id),
                "end of a watch",
                lambda _reply, _error: None,
            )
            connection.flush()
        await super().close()

    def on_update(self, update: CommandWatchTopicUpdate) -> None:
        """See ``connection.machine.Watcher``."""
        if self._chosen((*update.new_topics, *update.deleted_topics)):
            self._out_of_date()

    def on_lost(self, error: PulsarError) -> None:
        """See ``connection.machine.Watcher``."""
        self._watching = None
        self._out_of_date()

    def _out_of_date(self) -> None:
        # The flag keeps changes that come while the list is read or a watch begun.
        self._hash, self._is_stale = "", True
        self._changed.ring()

    async def _watch(self) -> None:
        """Start a topic watcher, unless one is running or the broker has none."""
        if self._watching is not None:
            return
        try:
            connection = await self._context.pool.any()
            connected = connection.machine.connected
            if connected is None or not connected.feature_flags.supports_topic_watchers:
                return
            try:
                await self._watch_by(connection, self._text)
            except NotAllowed:
                await self._watch_by(connection, ALL_TOPICS)
            # For topics that came before the watch began.
            self._hash = ""
            await self.refresh()
        except PulsarError as error:
            LOG.info("a watch of %s: %s", self._namespace, error)

    async def _watch_by(self, connection: Connection, pattern: str) -> None:
        """Watch the topics that match ``pattern``. Raises :class:`PulsarError`."""
        command = CommandWatchTopicList(
            watcher_id=self._watcher_id, namespace=self._namespace, topics_pattern=pattern
        )
        connection.machine.watchers[self._watcher_id] = self
        self._watching = connection
        try:
            await connection.request(
                command, f"watch of {self._namespace}", self._context.operation_timeout_s
            )
        except PulsarError:
            connection.machine.watchers.pop(self._watcher_id, None)
            self._watching = None
            raise

    async def _add_all(self, names: Iterable[str]) -> None:
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(self._add_one, name)

    async def _add_one(self, name: str) -> None:
        try:
            await self.add(parse_topic(name))
        except PulsarError as error:
            # It may be deleted already; the next list tells.
            LOG.warning("%s could not be consumed: %s", name, error)
            self._hash = ""

    def _chosen(self, topics: Iterable[str]) -> set[str]:
        domains = (self._domain,) if self._domain else (PERSISTENT, NON_PERSISTENT)
        return {
            each
            for each in topics
            if self._pattern.matches(each)
            and each.partition("://")[0] in domains
            and not each.rpartition("/")[2].startswith(SYSTEM_PREFIX)
        }


def split_pattern(pattern: str) -> tuple[str, str]:
    """Split ``tenant/namespace/<expression>`` into the namespace and a regular expression for
    complete names without their domain. Raises :class:`ConfigurationError`."""
    text = pattern.partition("://")[2] or pattern
    parts = text.split("/", 2)
    if len(parts) == 1:
        parts = ["public", "default", text]
    if len(parts) != 3:
        raise ConfigurationError(f"expected tenant/namespace/pattern, got {pattern!r}")
    namespace = f"{parts[0]}/{parts[1]}"
    try:
        parse_namespace(namespace)
    except InvalidTopicName as error:
        raise ConfigurationError(f"expected a namespace in {pattern!r}: {error}") from error
    return namespace, f"{namespace}/{parts[2]}"
