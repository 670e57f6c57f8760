"""A bounded store is filled, drained by acknowledgements alone, and filled again, many times.

The short form of ``make soak-room``, which does the same with a broker on small file systems.
"""

import random
from pathlib import Path

import pytest
import trio

from arneb_core.api.errors import StoreFull
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, attach, body_of, publish, quiet

pytestmark = pytest.mark.real_time

STORE_BYTES = 24 << 20
TOPICS = 3
ROUNDS = 6
SEED = 20_274


async def fill(engine: Engine, dice: random.Random) -> dict[str, list[bytes]]:
    """Publish to all topics in turn until one run is refused; what was confirmed."""
    taken: dict[str, list[bytes]] = {name: [] for name in engine.topics}
    while True:
        for name, bodies in taken.items():
            sizes = [dice.choice([10, 1_000, 60_000]) for _ in range(dice.randint(1, 20))]
            run = [dice.randbytes(8) + bytes(size) for size in sizes]
            try:
                await publish(engine, name, run)
            except StoreFull:
                return taken
            bodies += run


async def drain(engine: Engine, name: str) -> list[bytes]:
    """Acknowledge all of a topic; what it held."""
    consumer, sink = attach(engine.topic(name).subscriptions["amqp"], unlimited=True)
    await quiet(engine)
    outcome = Outcome()
    consumer.acknowledge(sink.positions, outcome)
    assert await outcome.wait() is None
    consumer.detach()
    await quiet(engine)
    return [body_of(entry) for run in sink.runs for entry in run.entries]


async def test_acknowledgements_alone_make_room_again_and_again(data_dir: Path) -> None:
    dice = random.Random(SEED)
    filled = []
    with Store.open(data_dir, bytes_max=STORE_BYTES) as store:
        async with open_engine(data_dir, store=store) as engine:
            for number in range(TOPICS):
                topic = await engine.create_topic(f"q{number}", TopicSettings())
                await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
            for _ in range(ROUNDS):
                taken = await fill(engine, dice)
                filled.append(sum(len(body) for run in taken.values() for body in run))
                for name, bodies in taken.items():
                    assert await drain(engine, name) == bodies
                with trio.fail_after(10):
                    while store.statistics().trims_left:
                        await quiet(engine)
                assert store.free_bytes > STORE_BYTES // 2
    assert min(filled) > 0.8 * filled[0] > 0.4 * STORE_BYTES, filled
