"""Destinations: destinations of messages that no AMQP client publishes.

The rule: they are found as for any publish, a step of the search at a time; they are void once the
router's generation has changed.
"""

from dataclasses import dataclass
from typing import Final

import trio

from arneb_amqp.errors import access_refused, exchange_in_words, not_found
from arneb_amqp.routing.exchange import DEFAULT_EXCHANGE
from arneb_amqp.routing.search import Search
from arneb_amqp.topology.overflow import Overflow
from arneb_amqp.topology.row_entries import Addressing
from arneb_amqp.topology.topology import Vhost
from arneb_amqp.wire.tables import decode_table
from arneb_core.api.topics.topic import Topic

SEARCHES_A_TURN: Final = 50
"""Short searches between two checkpoints: some 2 ms."""


@dataclass(frozen=True, slots=True)
class RoutedTopics:
    """Where messages with the same addressing go: topics, and queues that may refuse them."""

    topics: tuple[Topic, ...]
    refusing: tuple[Overflow, ...] = ()


class Destinations:
    """The destinations found in one vhost, correct as long as :attr:`is_valid`."""

    def __init__(self, vhost: Vhost) -> None:
        self._vhost = vhost
        self._generation = vhost.router.generation
        self._found: dict[Addressing, RoutedTopics] = {}

    def __repr__(self) -> str:
        return f"<Destinations in {self._vhost.name}, {len(self._found)} found>"

    @property
    def is_valid(self) -> bool:
        """Whether the topology is unchanged."""
        return self._generation == self._vhost.router.generation

    async def find(self, addressing: Addressing) -> RoutedTopics:
        """Return where messages with that addressing go. Raises :class:`.AmqpError` as for a
        publish."""
        found = self._found.get(addressing)
        if found is None:
            if len(self._found) % SEARCHES_A_TURN == SEARCHES_A_TURN - 1:
                await trio.lowlevel.checkpoint()
            found = self._found[addressing] = await self._search(addressing)
        return found

    async def _search(self, addressing: Addressing) -> RoutedTopics:
        router, queues = self._vhost.router, self._vhost.queues
        if router.exchange(addressing.exchange).internal:
            words = exchange_in_words(addressing.exchange, self._vhost.name)
            raise access_refused(f"cannot publish to internal {words}")
        headers = decode_table(addressing.headers) if addressing.headers else None
        search = Search(
            router, addressing.exchange, addressing.routing_key, headers, addressing.copies
        )
        while not search.step():
            await trio.lowlevel.checkpoint()
        names = search.result.queues
        if not names and addressing.exchange == DEFAULT_EXCHANGE:
            names = (
                (addressing.routing_key,)
                if self._vhost.foreign_topic(addressing.routing_key)
                else ()
            )
        refusing = queues.refusing
        topics = [queues.topic(name) for name in names if name not in refusing]
        return RoutedTopics(
            tuple(topic for topic in topics if topic is not None),
            tuple(refusing[name] for name in names if name in refusing),
        )


def expect_queue(vhost: Vhost, name: str) -> None:
    """Raise 404 if there is no such queue."""
    if vhost.queues.options(name) is None and not vhost.foreign_topic(name):
        raise not_found(f"no queue '{name}' in vhost '{vhost.name}'")


def expect_exchange(vhost: Vhost, name: str) -> None:
    """Raise 404 if there is no such exchange."""
    vhost.router.exchange(name)
