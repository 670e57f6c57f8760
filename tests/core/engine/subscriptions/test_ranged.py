"""Exclusive consumers of some keys: they get those, and what they do not get is not lost."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.errors import KeyRangesRefused
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode, SlotRange
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, attach, make_entry, quiet

KEYS = [b"key-%d" % number for number in range(12)]
EXCLUSIVE = SubscriptionType.EXCLUSIVE
HALVES = ((0, 32767), (32768, 65535))


def of(*ranges: SlotRange) -> KeySharing:
    return KeySharing(KeySharingMode.STICKY, ranges)


def is_in(key: bytes, ranges: Sequence[SlotRange]) -> bool:
    slot = key_hash(key) % 65536 or 1
    return any(first <= slot <= last for first, last in ranges)


@given(
    st.lists(st.tuples(st.sampled_from(KEYS), st.integers(1, 3)), max_size=30),
    st.lists(st.sampled_from([(0, 9999), (10000, 32767), (32768, 49999), (50000, 65535)]),
             min_size=1, max_size=4, unique=True),
    st.integers(1, 8),
)  # fmt: skip
def test_it_gets_what_is_in_its_ranges_and_its_permits_are_for_that(
    messages: list[tuple[bytes, int]], ranges: list[SlotRange], permits: int
) -> None:
    async def main() -> None:
        with TemporaryDirectory() as position:
            async with open_engine(Path(position)) as engine:
                topic = await engine.create_topic("t")
                subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
                consumer, sink = attach(subscription, type=EXCLUSIVE, sharing=of(*ranges))
                for key, size in messages:
                    await append(engine, "t", [make_entry(key, size, key=key)])
                wanted = [each for each in messages if is_in(each[0], ranges)]
                for turn in range(1, len(messages) + 1):
                    consumer.flow(permits)
                    await quiet(engine)
                    got = wanted[: len(sink.bodies)]
                    assert sink.bodies == [key for key, _ in got]
                    assert consumer.permits == turn * permits - sum(size for _, size in got)
                    assert got == wanted or consumer.permits <= 0
                while sink.bodies != [key for key, _ in wanted]:
                    assert consumer.permits <= 0
                    consumer.flow(permits)
                    await quiet(engine)

    trio.run(main)


async def test_the_next_consumer_gets_what_was_passed_over(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        await append(engine, "t", [make_entry(key, key=key) for key in KEYS])
        low, sink = attach(subscription, permits=99, type=EXCLUSIVE, sharing=of(HALVES[0]))
        await quiet(engine)
        passed = [key for key in KEYS if not is_in(key, HALVES[:1])]
        assert sink.bodies == [key for key in KEYS if key not in passed]
        assert passed
        low.acknowledge(sink.positions)
        low.detach()
        _, everything = attach(subscription, permits=99, type=EXCLUSIVE)
        await quiet(engine)
        assert everything.bodies == passed


async def test_one_of_several_goes_by_no_ranges(tmp_path: Path) -> None:
    """As in Pulsar, where only exclusive consumers are looked at so."""
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        await append(engine, "t", [make_entry(key, key=key) for key in KEYS])
        failover = SubscriptionType.FAILOVER
        _, sink = attach(subscription, permits=99, type=failover, sharing=of(HALVES[0]))
        await quiet(engine)
        assert sink.bodies == KEYS


@pytest.mark.parametrize("ranges", [((5, 4),), ((0, 65536),), ((-1, 3),), ((0, 9), (9, 12))])
async def test_ranges_that_are_none_are_refused(
    tmp_path: Path, ranges: tuple[SlotRange, ...]
) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await (await engine.create_topic("t")).subscribe("s")
        with pytest.raises(KeyRangesRefused):
            attach(subscription, type=EXCLUSIVE, sharing=of(*ranges))
        assert not subscription.consumers
