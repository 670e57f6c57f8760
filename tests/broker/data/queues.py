"""Queues and bindings for the data API's tests."""

from typing import Final

from arneb_amqp.routing.exchange import Binding
from arneb_amqp.topology.names import topic_of
from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_amqp.wire.tables import Field, long, longstr

ME: Final = ConnectionId(1)


async def declare(topology: Topology, queue: str, **arguments: int | str) -> str:
    """Declare a durable queue of vhost ``/``; return the name of its topic."""
    table: dict[str, Field] = {
        name: long(each) if isinstance(each, int) else longstr(each)
        for name, each in arguments.items()
    }
    await _default(topology).queues.declare(Declaration(ME, queue, durable=True, arguments=table))
    return topic_of("public/default", queue)


async def bind(topology: Topology, exchange: str, queue: str, key: str) -> None:
    """Bind it."""
    binding = Binding(exchange, queue, key)
    await _default(topology).exchanges.bind(binding, ME)


def _default(topology: Topology) -> Vhost:
    vhost = topology.vhost("/")
    assert vhost is not None, "every test has this vhost"
    return vhost
