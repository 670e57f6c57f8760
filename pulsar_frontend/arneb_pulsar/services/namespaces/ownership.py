"""Ownership: which namespaces this broker serves, where others are served, and moves between.

The rule: a topic served elsewhere is refused so that clients look it up again, as a Pulsar broker
refuses a bundle that it does not own; when a namespace has moved, its clients here are sent to its
new broker. A broker that is alone serves everything.
"""

from collections.abc import Callable, Iterable
from typing import Final, NoReturn

import trio

from arneb_core.api.nodes.placement import Elsewhere, Here, NodeAddresses, Placement, Placements
from arneb_pulsar.names import TopicName, parse_topic
from arneb_pulsar.services.clients.consumers import ConsumerRegistry
from arneb_pulsar.services.clients.producers import ProducerRegistry
from arneb_pulsar.session.errors import RequestRefused
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

NOT_OWNED: Final = (
    "Namespace bundle for topic ({}) not served by this instance:{}. Please redo the lookup. "
    "Request is denied: namespace={}"
)
"""The text of Pulsar's brokers, which its clients show."""

TOLD_PER_TURN: Final = 50
"""Producers, or consumers, told to reconnect in one turn: some 2 ms."""


class Ownership:
    """Knows which namespaces one broker serves."""

    def __init__(self, producers: ProducerRegistry, consumers: ConsumerRegistry) -> None:
        self._producers = producers
        self._consumers = consumers
        self._placements: Placements | None = None
        self._node = ""
        self._misplaced: Callable[[str], str] = _never
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<Ownership of {'everything' if self._placements is None else self._node}>"

    def follow(
        self, placements: Placements, node: str, misplaced: Callable[[str], str] | None = None
    ) -> None:
        """Follow ``placements`` from now on. ``node``: this broker's name. ``misplaced``: says why
        a namespace is never served by this broker; empty = it may be."""
        self._placements, self._node = placements, node
        self._misplaced = misplaced or _never

    def elsewhere(self, namespace: str) -> Placement | None:
        """Return who serves a namespace, None if this broker does."""
        if self._placements is None:
            return None
        placement = self._placements.of(namespace)
        return None if isinstance(placement, Here) else placement

    def check(self, topic: TopicName) -> None:
        """Raise :class:`RequestRefused` for a topic that is not served here."""
        if self.elsewhere(topic.namespace) is not None:
            raise self.refusal(topic)

    def check_together(self, topics: Iterable[TopicName]) -> None:
        """Raise :class:`RequestRefused` if some of ``topics`` are never served by this broker: an
        atomic change of several topics happens on one broker."""
        for each in topics:
            if why := self._misplaced(each.namespace):
                text = f"expected topics of one shard in a transaction: {why}"
                raise RequestRefused(pb.NotAllowedError, text)

    def refusal(self, topic: TopicName) -> RequestRefused:
        """Return the refusal for a client at the wrong broker: it is to look the topic up again."""
        text = NOT_OWNED.format(topic, self._node, topic.namespace)
        return RequestRefused(pb.ServiceNotReady, text)

    async def run(self) -> NoReturn:
        """Have clients of namespaces that move reconnect at the right broker."""
        if self._placements is None:
            await trio.sleep_forever()
        self._placements.listen(self._note)
        try:
            while True:
                self._changed = trio.Event()
                await self._tell()
                await self._changed.wait()
        finally:
            self._placements.leave(self._note)

    def _note(self) -> None:
        self._changed.set()

    async def _tell(self) -> None:
        for index, claim in enumerate(self._producers.all()):
            if (assigned := self._assigned(claim.holder.topic.name)) is not None:
                claim.holder.owner.disconnect(claim.holder.key, assigned)
            if index % TOLD_PER_TURN == TOLD_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
        for index, attached in enumerate(self._consumers.all()):
            assigned = self._assigned(attached.topic.name)
            if assigned is not None and self._consumers.has(attached):
                attached.disconnect(assigned)
            if index % TOLD_PER_TURN == TOLD_PER_TURN - 1:
                await trio.lowlevel.checkpoint()

    def _assigned(self, topic: str) -> Assigned | None:
        """Return where the clients of a topic are to reconnect; None = they may stay."""
        placement = self.elsewhere(parse_topic(topic).namespace)
        if isinstance(placement, Elsewhere):
            return assigned_to(placement.addresses)
        return None if placement is None else NOWHERE


def _never(_: str) -> str:
    return ""


def assigned_to(addresses: NodeAddresses) -> Assigned:
    """Return where clients find a node."""
    return Assigned(addresses.pulsar, addresses.pulsar_tls)
