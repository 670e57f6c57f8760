"""Changes of different objects share commits; whatever fails, memory equals what is on disk."""

import random
from contextlib import suppress

import pytest
import trio
from pamqp.commands import Exchange as ExchangeMethods
from pamqp.commands import Queue as QueueMethods
from tests.amqp_frontend.opening import entered
from tests.amqp_frontend.topology.conftest import Opener, RunningVhost

from arneb_amqp.errors import AmqpError
from arneb_amqp.routing.exchange import DestinationKind
from arneb_amqp.server.context import NOBODY
from arneb_amqp.server.operations.methods import Methods
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_core.api.errors import CoreError

CONNECTIONS = 20


async def perform(place: RunningVhost, owner: int, method: object) -> None:
    """As a connection runs a method."""
    context = await entered(place.engine, place.topology, ConnectionId(owner), NOBODY)
    await Methods(context).perform(method)  # type: ignore[arg-type]


async def all_at_once(place: RunningVhost, methods: list[object]) -> int:
    """Run each for a connection of its own; return the number of commits."""
    before = place.faults.commits_total
    place.faults.hold()
    async with trio.open_nursery() as nursery:
        for number, method in enumerate(methods):
            nursery.start_soon(perform, place, number, method)
        await trio.testing.wait_all_tasks_blocked()
        place.faults.release()
    return place.faults.commits_total - before


def declared(number: int) -> object:
    return QueueMethods.Declare(queue=f"q{number}", durable=True)


def made(number: int) -> object:
    return ExchangeMethods.Declare(exchange=f"x{number}", exchange_type="topic", durable=True)


def bound(number: int) -> object:
    return QueueMethods.Bind(queue=f"q{number}", exchange="amq.topic", routing_key=f"k{number}")


def unbound(number: int) -> object:
    return QueueMethods.Unbind(queue=f"q{number}", exchange="amq.topic", routing_key=f"k{number}")


def deleted(number: int) -> object:
    return QueueMethods.Delete(queue=f"q{number}")


async def test_requests_of_many_connections_at_once_share_commits(broker: Opener) -> None:
    async with broker() as place:
        for kind in (declared, made, bound, unbound, bound, deleted):
            commits = await all_at_once(place, [kind(number) for number in range(CONNECTIONS)])
            assert commits <= 2, f"{kind.__name__}: the first, and one for all others"
        assert not list(place.vhost.queues)


async def test_a_durable_queue_is_declared_with_one_commit(broker: Opener) -> None:
    async with broker() as place:
        before = place.faults.commits_total
        await perform(place, 1, declared(1))
        assert place.faults.commits_total == before + 1


NAMES = ("a", "b", "c")


def some_method(chance: random.Random) -> object:
    """An operation, on few names so that operations collide."""
    name, other = chance.choice(NAMES), chance.choice(NAMES)
    return chance.choice(
        [
            QueueMethods.Declare(queue=name, durable=True),
            QueueMethods.Delete(queue=name),
            QueueMethods.Purge(queue=name),
            QueueMethods.Bind(queue=name, exchange=f"x{other}", routing_key=other),
            QueueMethods.Unbind(queue=name, exchange=f"x{other}", routing_key=other),
            ExchangeMethods.Declare(
                exchange=f"x{name}",
                exchange_type="direct",
                durable=True,
                auto_delete=name == "a",
            ),
            ExchangeMethods.Delete(exchange=f"x{name}"),
            ExchangeMethods.Bind(source=f"x{name}", destination=f"x{other}", routing_key="k"),
            ExchangeMethods.Unbind(source=f"x{name}", destination=f"x{other}", routing_key="k"),
        ]
    )


def shape(place: RunningVhost) -> tuple[object, ...]:
    """What exists."""
    router = place.vhost.router
    return (
        sorted(queue.name for queue in place.vhost.queues),
        sorted(router.exchanges),
        sorted(str(each) for name in router.exchanges for each in router.bindings_from(name)),
    )


@pytest.mark.parametrize("seed", range(40))
async def test_memory_equals_the_disk_whatever_fails(broker: Opener, seed: int) -> None:
    chance = random.Random(seed)
    async with broker() as place:

        async def connection(number: int) -> None:
            for _ in range(25):
                if chance.random() < 0.2:
                    place.faults.fail_next()
                with suppress(AmqpError, CoreError):
                    await perform(place, number, some_method(chance))

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(connection, number)
        place.faults.heal()
        found = shape(place)
        for name in NAMES:
            bindings = place.vhost.router.bindings_to(name, DestinationKind.QUEUE)
            assert not bindings or name in {queue.name for queue in place.vhost.queues}
    async with broker() as place:
        assert shape(place) == found
