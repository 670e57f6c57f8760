"""Pages of RabbitMQ's metrics: sums, all objects, and chosen families of some objects.

The rule: the sums may be scraped every few seconds, however many objects there are. A list of
objects is made while it is sent, from columns of numbers gathered before, so that 50,000 queues
need only a few MiB and delay nothing else.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import trio

from arneb.http.management.site import Site
from arneb.http.metrics import families
from arneb.http.metrics.families import FAMILIES, PREFIX, Family, Of
from arneb.http.metrics.node import NodeFigures, summed_of_channels, values_of
from arneb.http.metrics.rows import (
    OF_CHANNELS,
    OF_CONNECTIONS,
    OF_QUEUES,
    Channel,
    channel_labels,
    connection_labels,
    exchange_labels,
    of_exchange,
    queue_labels,
    vhost_labels,
)
from arneb.http.server.long_answers import between_pieces
from arneb.metrics.text import Columns
from arneb_amqp.routing.exchange import Exchange
from arneb_amqp.server.roster import ConnectionStatistics
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.topology import Vhost
from arneb_core.api.subscriptions.limits import Departure, Fate

ROWS_PER_TURN: Final = 50
"""Rows made between two checkpoints: about a millisecond."""

Row = TypeVar("Row")
Pause = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The objects that a page shows."""

    vhosts: frozenset[str] | None = None
    """The vhosts; None: all."""
    names: Callable[[str], bool] | None = None
    """Selects queues and exchanges by name; None: all."""

    def has_vhost(self, vhost: str) -> bool:
        """Is it one of them?"""
        return self.vhosts is None or vhost in self.vhosts

    def has_name(self, name: str) -> bool:
        """Is it one of them?"""
        return self.names is None or self.names(name)


EVERYTHING: Final = Chosen()


class RabbitPages:
    """The pages of one broker."""

    def __init__(self, site: Site, pause: Pause = between_pieces) -> None:
        self._site = site
        self._pause = pause

    def __repr__(self) -> str:
        return f"<RabbitPages of {self._site.node}>"

    async def sums(self, without: Collection[Family] = ()) -> str:
        """Return the single figures, and the sums of all families but some."""
        figures = await self._figures(without)
        node_page = await trio.to_thread.run_sync(_node_page)
        return node_page(self._site, figures)

    async def objects(
        self, chosen: Chosen, wanted: Sequence[Family], prefix: str = PREFIX
    ) -> AsyncIterator[str]:
        """Yield families, object by object."""
        for family in wanted:
            columns = Columns(family.metrics)
            await self._fill(columns, family, chosen)
            for part in columns.lines(family.prefix or prefix):
                yield part
                await self._pause()

    async def _figures(self, without: Collection[Family]) -> NodeFigures:
        site = self._site
        sums: dict[Family, list[float]] = {
            each: [0.0] * len(each.metrics)
            for each in FAMILIES
            if each.is_summed and each.of is Of.QUEUES and each not in without
        }
        departed: Counter[tuple[str, Departure, Fate]] = Counter()
        rows = [(OF_QUEUES[family], sum_) for family, sum_ in sums.items()]
        async for queue in self._queues(EVERYTHING):
            for of_queue, sum_ in rows:
                for index, value in enumerate(of_queue(queue)):
                    sum_[index] += value
            for (reason, fate), count in queue.departed.items():
                departed[queue.type.value, reason, fate] += count
        channels, publishers, consumers = [0.0] * len(families.CHANNEL.metrics), 0, 0
        of_channel = OF_CHANNELS[families.CHANNEL]
        opened = 0
        async for _, channel in self._channels():
            opened += 1
            publishers += channel.traffic.published > 0
            consumers += len(channel.consumers)
            for index, value in enumerate(of_channel(channel)):
                channels[index] += value
        connections = list(site.roster.connections())
        octets = site.roster.octets()
        packets = site.roster.packets()
        rest = (
            sum(each.waiting_bytes for each in connections),
            sum(each.channels for each in connections),
        )
        of_node = [(each, values_of(site, each)) for each in FAMILIES if each.of is Of.NODE]
        queues = sum(len(each.queues) for each in site.topology.vhosts)
        summed = (
            *of_node,
            *((family, tuple(sum_)) for family, sum_ in sums.items()),
            (families.CHANNEL, tuple(channels)),
            *summed_of_channels(site.topology.traffic()),
            (families.CONNECTION_COARSE, (octets["recv_oct"], octets["send_oct"])),
            (families.CONNECTION, (*packets, *rest)),
        )
        return NodeFigures(
            (len(connections), opened, consumers, queues),
            publishers,
            tuple(each for each in summed if each[0] not in without),
            departed,
        )

    async def _fill(self, columns: Columns, family: Family, chosen: Chosen) -> None:
        match family.of:
            case Of.NODE:
                columns.add("", values_of(self._site, family))
            case Of.QUEUES:
                of_queue = OF_QUEUES[family]
                async for queue in self._queues(chosen):
                    columns.add(queue_labels(queue), of_queue(queue))
            case Of.EXCHANGES:
                async for vhost, exchange in self._exchanges(chosen):
                    labels = exchange_labels(family, vhost, exchange)
                    columns.add(labels, of_exchange(family, vhost, exchange))
            case Of.CHANNELS:
                of_channel = OF_CHANNELS[family]
                async for row in self._channels(chosen):
                    columns.add(channel_labels(row), of_channel(row[1]))
            case Of.CONNECTIONS:
                of_connection = OF_CONNECTIONS[family]
                async for connection in self._connections(chosen):
                    columns.add(connection_labels(connection), of_connection(connection))
            case Of.VHOSTS:
                for each in self._vhosts(chosen):
                    columns.add(vhost_labels(each), (1,))

    def _vhosts(self, chosen: Chosen) -> list[Vhost]:
        return [each for each in self._site.topology.vhosts if chosen.has_vhost(each.name)]

    async def _queues(self, chosen: Chosen) -> AsyncIterator[Queue]:
        for vhost in self._vhosts(chosen):
            async for queue in self._in_turns(vhost.queues):
                if chosen.has_name(queue.name) and not queue.topic.fenced:
                    yield queue

    async def _exchanges(self, chosen: Chosen) -> AsyncIterator[tuple[Vhost, Exchange]]:
        for vhost in self._vhosts(chosen):
            async for exchange in self._in_turns(list(vhost.router.exchanges.values())):
                if chosen.has_name(exchange.name) and exchange.name in vhost.router.exchanges:
                    yield vhost, exchange

    async def _connections(self, chosen: Chosen) -> AsyncIterator[ConnectionStatistics]:
        async for connection in self._in_turns(self._site.roster.connections()):
            if chosen.has_vhost(connection.vhost):
                yield connection

    async def _channels(self, chosen: Chosen = EVERYTHING) -> AsyncIterator[Channel]:
        async for connection in self._connections(chosen):
            async for channel in self._in_turns(self._site.roster.channels(connection.id)):
                yield connection, channel

    async def _in_turns(self, rows: Iterable[Row]) -> AsyncIterator[Row]:
        for number, row in enumerate(rows, 1):
            yield row
            if number % ROWS_PER_TURN == 0:
                await self._pause()


def _node_page() -> Callable[[Site, NodeFigures], str]:
    """Return what writes the node's page. The first call imports Prometheus' library."""
    from arneb.http.metrics.node_page import node_page
    from arneb.metrics.library import library_version

    library_version()  # reads files, once
    return node_page
