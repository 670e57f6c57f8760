"""The log topic, read: from any place on, and up to what is its end now.

The rule: it is held by a durable subscription before anything is written, since Pulsar trims a
topic without one when its ledger closes.
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
"""After Pulsar could not be reached."""

CLOSE_S: Final = 1.0
"""How long who stops waits for a broker to hear it."""

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
        """Make the subscription that holds it, as long as that takes; where the topic ends,
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
        """Have Pulsar forget everything up to there, once the ledgers that hold it are closed.
        Raises :class:`PulsarError` and :class:`StoreUnusable`."""
        holder = await self._held()
        try:
            await holder.acknowledge_stored(MessageId(*place), cumulative=True)
        finally:
            with trio.move_on_after(CLOSE_S, shield=True), suppress(PulsarError):
                await holder.close()

    async def _held(self) -> Consumer[bytes]:
        # Failover: what is acknowledged cumulatively is taken of any of its consumers, and several
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
        """Of what stands behind ``after``. Raises :class:`PulsarError`."""
        start = EARLIEST if after == NOWHERE else MessageId(after.ledger, after.entry)
        return await self._client.create_reader(self._topic, start)

    async def history(self) -> str | None:
        """Which life of the shard it belongs to, as the first entry says that says it; None: no
        entry does. Raises :class:`PulsarError`."""
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
        """What stands behind ``after``, until there is no more; some of it twice, where the way to
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
    """Where it stands, and what it is."""
    return Place(message.id.ledger_id, message.id.entry_id), message.data
