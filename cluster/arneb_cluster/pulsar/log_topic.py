"""The log topic: read from any place onwards, or up to its current end.

The rule: a durable subscription holds it before anything is written, because Pulsar trims a topic
without one when its ledger closes.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import trio

from arneb_cluster.protocol.entries import history_in
from arneb_cluster.protocol.values import NOWHERE, Place
from arneb_core.api.errors import StoreUnusable
from arneb_pulsar.client import (
    Client,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    SubscriptionType,
)
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.client.ids import EARLIEST
from arneb_pulsar.client.reader import Reader

RETRY_S: Final = 0.5
"""Wait after Pulsar could not be reached."""

CLOSE_S: Final = 1.0
"""How long a stopping node waits for a broker's answer."""

TRIM_SUBSCRIPTION: Final = "trim"

logger = logging.getLogger(__name__)


class LogTopic:
    """A shard's topic."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic

    def __repr__(self) -> str:
        return f"<LogTopic {self._topic}>"

    async def hold(self) -> Place:
        """Create the subscription that holds it, however long that takes; return the topic's end,
        :data:`NOWHERE` if it is empty. Raises :class:`StoreUnusable`."""
        while True:
            try:
                made = await self._held()
                found = await made.last_message_id()
                await made.close()
                return NOWHERE if found.entry_id < 0 else Place(found.ledger_id, found.entry_id)
            except PulsarError as error:
                logger.warning("%s: %s", self._topic, error)
                await trio.sleep(RETRY_S)

    async def trim(self, place: Place) -> None:
        """Have Pulsar trim everything up to ``place``, once the ledgers with it are closed. Raises
        :class:`PulsarError` and :class:`StoreUnusable`."""
        holder = await self._held()
        try:
            await holder.acknowledge_stored(MessageId(*place), cumulative=True)
        finally:
            with trio.move_on_after(CLOSE_S, shield=True), suppress(PulsarError):
                await holder.close()

    async def _held(self) -> Consumer[bytes]:
        # Failover: cumulative acknowledgements are accepted from any of its consumers, and several
        # nodes may have one at a time.
        options = ConsumerOptions(
            type=SubscriptionType.FAILOVER, initial_position=InitialPosition.EARLIEST, queue_size=0
        )
        made = await self._client.subscribe(self._topic, TRIM_SUBSCRIPTION, options)
        if isinstance(made, Consumer):
            return made
        await made.close()
        raise StoreUnusable(
            f"expected {self._topic} to have no partitions: delete it, and have topics of its "
            "namespace made without"
        )

    async def reader(self, after: Place) -> Reader[bytes]:
        """Return a reader of the entries after ``after``. Raises :class:`PulsarError`."""
        start = EARLIEST if after == NOWHERE else MessageId(after.ledger, after.entry)
        return await self._client.create_reader(self._topic, start)

    async def history(self) -> str | None:
        """Return the topic's history from the first entry that states it; None: no entry does.
        Raises :class:`PulsarError`."""
        reader = await self.reader(NOWHERE)
        try:
            while await reader.has_message_available():
                history = history_in((await reader.read()).data)
                if history is not None:
                    return history
            return None
        finally:
            await reader.close()

    async def up_to_the_end(self, after: Place) -> AsyncIterator[tuple[Place, bytes]]:
        """Yield the entries after ``after`` up to the end; some of them twice if the connection to
        Pulsar breaks meanwhile."""
        while True:
            try:
                reader = await self.reader(after)
                while await reader.has_message_available():
                    yield entry_of(await reader.read())
                await reader.close()
            except PulsarError as error:
                logger.warning("%s: %s", self._topic, error)
                await trio.sleep(RETRY_S)
            else:
                return


def entry_of(message: Message[bytes]) -> tuple[Place, bytes]:
    """Return a message's place and data."""
    return Place(message.id.ledger_id, message.id.entry_id), message.data
