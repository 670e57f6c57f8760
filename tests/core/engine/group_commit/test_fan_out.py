"""Fan-out: a large entry for many topics is kept once, through failures, restarts and trimming."""

from collections.abc import Callable
from pathlib import Path

import pytest

from arneb_core.api.core import Unit
from arneb_core.api.errors import CommitFailed
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.log import planning
from arneb_core.store.environment import Store
from arneb_core.store.format.schema import Table
from arneb_core.testing.engine_kit import Outcome, attach, make_entry, quiet
from arneb_core.testing.faults import FaultyStore

pytestmark = pytest.mark.real_time

QUEUES = [f"q{number}" for number in range(5)]
LARGE = 16 * 1024


async def make_queues(engine: Engine) -> None:
    for name in QUEUES:
        topic = await engine.create_topic(name)
        await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)


async def fan_out(engine: Engine, *bodies: bytes, queues: list[str] = QUEUES) -> None:
    entries = [make_entry(body) for body in bodies]
    await engine.committed(Unit([(engine.topic(name), entries) for name in queues]))


def rows(store: Store) -> tuple[int, int]:
    with store.snapshot() as snapshot:
        return snapshot.rows(Table.BODIES), snapshot.rows(Table.REFERENCES)


async def drain(engine: Engine, name: str) -> list[bytes]:
    """Everything, acknowledged."""
    consumer, sink = attach(engine.topic(name).subscriptions["amqp"], unlimited=True)
    await quiet(engine)
    durable = Outcome()
    consumer.acknowledge(sink.positions, durable)  # type: ignore[attr-defined]
    assert await durable.wait() is None
    await quiet(engine)
    consumer.detach()  # type: ignore[attr-defined]
    return sink.bodies


async def test_a_large_body_is_kept_once_and_every_queue_has_it(data_dir: Path) -> None:
    bodies = [b"small", b"%d" % 1 + bytes(LARGE), b"%d" % 2 + bytes(LARGE)]
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await make_queues(engine)
            await fan_out(engine, *bodies)
            assert rows(store) == (2, 2)
            await fan_out(engine, b"to one only" + bytes(LARGE), queues=QUEUES[:1])
            await fan_out(engine, *[b"small"] * 10)
            assert rows(store) == (2, 2)
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            for name in QUEUES[1:]:
                assert await drain(engine, name) == bodies + [b"small"] * 10


async def test_a_body_goes_with_the_last_ledger_that_refers_to_it(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await make_queues(engine)
            await fan_out(engine, bytes(LARGE))
            monkeypatch.setattr(planning, "LEDGER_ENTRIES_MAX", 1)
            await fan_out(engine, b"closes the ledger")
            await fan_out(engine, b"and opens another")
            for number, name in enumerate(QUEUES):
                assert rows(store) == (1, 1), f"{number} queues are done with it"
                if number % 2:
                    await engine.delete_topic(name)
                else:
                    assert len(await drain(engine, name)) == 3
                await quiet(engine)
            assert rows(store) == (0, 0)


async def test_a_failed_fan_out_leaves_no_body_and_the_next_one_takes_its_places(
    data_dir: Path,
) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            await make_queues(engine)
            faulty.fail_until_healed()
            with pytest.raises(CommitFailed):
                await fan_out(engine, b"lost" + bytes(LARGE))
            faulty.heal()
            assert rows(store) == (0, 0)
            await fan_out(engine, b"kept" + bytes(LARGE))
            assert rows(store) == (1, 1)
            assert [body[:4] for body in await drain(engine, "q4")] == [b"kept"]


async def test_queues_in_memory_do_not_count(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await make_queues(engine)
            await engine.create_topic("memory", TopicSettings(durable=False))
            await fan_out(engine, bytes(LARGE), queues=["q0", "memory"])
            assert rows(store) == (0, 0)


@pytest.mark.parametrize("make", [lambda body: body, lambda body: body + b"?"])
async def test_equal_bytes_of_two_publishes_are_two_bodies(
    data_dir: Path, make: Callable[[bytes], bytes]
) -> None:
    """Who looks for equal ones would look at every byte of every message."""
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            await make_queues(engine)
            await fan_out(engine, bytes(LARGE))
            await fan_out(engine, make(bytes(LARGE)))
            assert rows(store) == (2, 2)
