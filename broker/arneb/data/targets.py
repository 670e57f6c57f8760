"""Targets: where rows may go, in which format, and to which topics.

The rule: targets are resolved in the event loop: the format of rows when they arrive, their topics
when they are committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arneb.data.errors import DataError
from arneb.data.here import (
    Misplaced,
    everything_is,
    expect_here,
    expect_topic_here,
    expect_vhost_here,
)
from arneb.data.prepared import Destination
from arneb.data.preparing import Aim, AmqpAim, PulsarAim
from arneb.data.rights import Rights, expect_produce, forbidden
from arneb.data.rows import Target
from arneb.data.topics import declared_queue
from arneb_amqp.errors import AmqpError
from arneb_amqp.topology.destinations import (
    Destinations,
    RoutedTopics,
    expect_exchange,
    expect_queue,
)
from arneb_amqp.topology.row_entries import Addressing
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.api.core import Core
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.names import InvalidTopicName, TopicName, parse_topic
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_access import check_common, open_topic

NOWHERE: Final = RoutedTopics(())


@dataclass(frozen=True, slots=True)
class Resolved:
    """The topics of destinations, correct while :attr:`is_valid`."""

    routed: Sequence[RoutedTopics]
    destinations: Sequence[Destinations]

    @property
    def is_valid(self) -> bool:
        """Whether nothing has changed since."""
        return all(each.is_valid for each in self.destinations)


class Targets:
    """The targets of one broker."""

    def __init__(
        self,
        core: Core,
        topology: Topology | None,
        pulsar: BrokerContext | None,
        misplaced: Misplaced = everything_is,
    ) -> None:
        """A frontend that is off is None; ``misplaced`` tells whether another shard has a
        namespace."""
        self._misplaced = misplaced
        self._core = core
        self._topology = topology
        self._pulsar = pulsar

    def __repr__(self) -> str:
        return f"<Targets among {len(self._core.topics)} topics>"

    async def aim(self, target: Target, rights: Rights) -> Aim:
        """Return what rows for ``target`` become. Raises :class:`.DataError` for a target that does
        not exist and cannot be made, or is not allowed."""
        if target.topic is not None:
            return await self._topic_aim(target.topic, rights)
        vhost = self._vhost(target.vhost)
        exchange = target.exchange
        try:
            if target.queue is not None:
                if not rights.may_publish(vhost.name, "", target.queue):
                    raise forbidden("publish to", f"queue {target.queue} of vhost {vhost.name}")
                expect_queue(vhost, target.queue)
                return AmqpAim(vhost.name, "", _octets(target.queue), fixed=True)
            if not rights.may_publish(vhost.name, exchange, target.routing_key):
                raise forbidden("publish to", f"exchange {exchange} of vhost {vhost.name}")
            expect_exchange(vhost, exchange)
        except AmqpError as error:
            code = "exchange_not_found" if target.queue is None else "queue_not_found"
            raise DataError(404, code, error.reply_text) from error
        return AmqpAim(vhost.name, exchange, _octets(target.routing_key))

    async def resolve(self, destinations: Sequence[Destination], rights: Rights) -> Resolved:
        """Return the topics of ``destinations``. Raises :class:`.DataError`."""
        by_vhost: dict[str, Destinations] = {}
        routed: list[RoutedTopics] = []
        for each in destinations:
            if each.topic is not None:
                expect_produce(rights, each.topic)
                routed.append(RoutedTopics((await self._open(each.topic),)))
                continue
            if not rights.may_publish(each.vhost, each.exchange, each.routing_key):
                what = f"exchange {each.exchange!r} of vhost {each.vhost} by {each.routing_key!r}"
                raise forbidden("publish to", what)
            found = by_vhost.get(each.vhost)
            if found is None:
                found = by_vhost[each.vhost] = Destinations(self._vhost(each.vhost))
            headers = bytes.fromhex(each.headers)
            addressing = Addressing(each.exchange, each.routing_key, each.copies, headers)
            try:
                routed.append(await found.find(addressing))
            except AmqpError as error:
                status, code = (404, "exchange_not_found") if error.reply_code == 404 else (
                    409, "not_allowed",
                )  # fmt: skip
                raise DataError(status, code, error.reply_text) from error
        return Resolved(routed, list(by_vhost.values()))

    async def _topic_aim(self, name: str, rights: Rights) -> Aim:
        wanted = self._parsed(name)
        expect_here(self._misplaced, wanted.namespace)
        expect_produce(rights, wanted.core_name)
        if (queue := declared_queue(self._topology, wanted.core_name)) is not None:
            vhost, own_name = queue
            return AmqpAim(vhost.name, "", _octets(own_name), topic=wanted.core_name)
        if self._pulsar is None:
            await self._open(wanted.core_name)
            return AmqpAim("", "", _octets(wanted.local), topic=wanted.core_name)
        partitions = await self._pulsar.topics.partitions(wanted, create=True)
        parts = [wanted.part(index) for index in range(partitions)] or [wanted]
        for part in parts:
            await self._open(part.core_name)
        return PulsarAim(tuple(part.core_name for part in parts))

    async def _open(self, name: str) -> Topic:
        """Return the topic of that name, made as for a Pulsar producer."""
        topic = self._core.topics.get(name)
        if topic is None:
            expect_topic_here(self._misplaced, name)
        if topic is None and self._pulsar is not None:
            topic = await open_topic(self._pulsar, self._parsed(name), create=True)
        if topic is None:
            off = "; none is made, as Pulsar is off" if self._pulsar is None else ""
            raise DataError(404, "topic_not_found", f"no topic {name}{off}")
        check_common(topic)
        if self._pulsar is not None and topic.id in self._pulsar.namespaces.ended:
            raise DataError(409, "not_allowed", f"topic {name} was terminated")
        return topic

    def _vhost(self, name: str) -> Vhost:
        found = None if self._topology is None else self._topology.vhost(name)
        if found is None:
            expect_vhost_here(self._misplaced, name)
            off = " as AMQP is off" if self._topology is None else ""
            raise DataError(404, "exchange_not_found", f"no vhost {name!r}{off}"[:300])
        return found

    def _parsed(self, name: str) -> TopicName:
        try:
            return parse_topic(name)
        except InvalidTopicName as error:
            raise DataError(404, "topic_not_found", str(error)[:500]) from error


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
