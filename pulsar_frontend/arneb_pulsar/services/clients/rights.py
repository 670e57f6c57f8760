"""Rights: closes producers, consumers and watchers that have lost their right.

The rule: a producer, a consumer or a watcher of topics needs its right for as long as it lasts.
Code that changes rights waits for :meth:`Rights.look`; code that learns of a change made elsewhere
calls :meth:`Rights.changed`. A look is cut into turns; what is opened meanwhile is checked then.
"""

import logging
from collections.abc import AsyncIterator, Iterable
from typing import Final, NoReturn, TypeVar

import trio

from arneb_pulsar.authorization.authorizer import Authorizer, PrefixNeeded
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.authorization.operations import NamespaceOperation, TopicOperation
from arneb_pulsar.names import TopicName, topic_name_of
from arneb_pulsar.services.clients.consumers import ConsumerRegistry
from arneb_pulsar.services.clients.producers import ProducerRegistry
from arneb_pulsar.services.clients.watchers import Watchers

LOOKED_AT_ONCE: Final = 200
"""Producers, consumers or watchers between two checkpoints: about a millisecond."""

logger = logging.getLogger(__name__)

Item = TypeVar("Item")


class Rights:
    """Checks who may continue, on one broker."""

    def __init__(
        self,
        authorizer: Authorizer,
        producers: ProducerRegistry,
        consumers: ConsumerRegistry,
        watchers: Watchers,
    ) -> None:
        self.authorizer: Final = authorizer
        self._producers = producers
        self._consumers = consumers
        self._watchers = watchers
        self._changed = trio.Event()

    def __repr__(self) -> str:
        state = "changed" if self._changed.is_set() else "as they were"
        return f"<Rights {state}, {self.authorizer!r}>"

    def may_produce(self, caller: Caller, topic: TopicName | None) -> bool:
        """Return whether ``caller`` may produce to a topic; None = it has no Pulsar name."""
        return topic is not None and self.authorizer.allows_topic(
            caller, topic, TopicOperation.PRODUCE
        )

    def may_consume(self, caller: Caller, topic: TopicName | None, subscription: str) -> bool:
        """Return whether ``caller`` may consume from a subscription of a topic."""
        try:
            return topic is not None and self.authorizer.allows_topic(
                caller, topic, TopicOperation.CONSUME, subscription
            )
        except PrefixNeeded:
            return False

    def owner(self, caller: Caller) -> Caller | None:
        """Return whose transactions ``caller`` may use: its own, or those of all (None) if it is a
        super user where roles have rights."""
        is_above = self.authorizer.enabled and self.authorizer.is_super(caller)
        return None if is_above else caller

    def changed(self) -> None:
        """Have rights, which may have changed, checked soon."""
        self._changed.set()

    async def run(self) -> NoReturn:
        """Look whenever rights have changed, until cancelled."""
        while True:
            await self._changed.wait()
            self._changed = trio.Event()
            await self.look()

    async def look(self) -> None:
        """Close everything that has lost its right."""
        if not self.authorizer.enabled:
            return
        async for claim in _in_turns(self._producers.all()):
            producer = claim.holder
            topic = topic_name_of(producer.topic.name)
            if not self.may_produce(producer.connection.caller, topic):
                logger.info("%r is not allowed to produce anymore", producer)
                producer.owner.disconnect(producer.key)
        async for consumer in _in_turns(self._consumers.all()):
            topic, subscription = topic_name_of(consumer.topic.name), consumer.subscription.name
            if self._consumers.has(consumer) and not self.may_consume(
                consumer.connection.caller, topic, subscription
            ):
                logger.info("%r is not allowed to consume anymore", consumer)
                consumer.disconnect()
        async for connection, namespace in _in_turns(self._watchers.all()):
            if not self.authorizer.allows_namespace(
                connection.caller, namespace, NamespaceOperation.GET_TOPICS
            ):
                # The protocol cannot say it; the client reconnects, and is refused.
                logger.info("%s is not allowed to watch %s anymore", connection.address, namespace)
                connection.kill()


async def _in_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    for count, each in enumerate(list(items)):
        if count % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
            await trio.lowlevel.checkpoint()
        yield each
