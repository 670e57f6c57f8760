"""Groups on Key_Shared: the chunks of a message stay with the consumer that has the first of them,
whoever has their key meanwhile."""

from pathlib import Path
from unittest.mock import patch

import pytest

from arneb_core.api.encoding.hashing import key_hash
from arneb_core.api.entries.entry import EntryFlag, EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.dispatch.key_shared import KeySharedDispatcher
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.testing.engine_kit import RecordingSink, append, attach, make_entry, quiet

KEY_SHARED = SubscriptionType.KEY_SHARED
IN_ORDER = KeySharing()
OUT_OF_ORDER = KeySharing(in_order=False)
KEYS = [b"%d" % number for number in range(200)]


def piece(body: bytes, key: bytes, group: int = 1) -> bytes:
    """A chunk of the message ``group``."""
    header = EntryHeader(Origin.PULSAR, flags=EntryFlag.GROUPED, hint=group, key_hash=key_hash(key))
    return header.pack() + body


class Handover:
    """A subscription, a consumer ``a``, and a key of it that goes to ``b`` when ``b`` comes. There
    is a bystander that has room, so that what ``a`` has no room for is read and waits."""

    def __init__(self, subscription: LogSubscription, sharing: KeySharing, permits: int) -> None:
        self.subscription = subscription
        self.sharing = sharing
        self.bystander, self.bystander_sink = self.attach("c", 100)
        self.old, self.old_sink = self.attach("a", permits)
        probe, _ = self.attach("b", 0)
        moving = [key for key in KEYS if self.owner_of(key) == "b"]
        probe.detach()
        self.moves = next(key for key in moving if self.owner_of(key) == "a")
        self.stays = next(key for key in KEYS if self.owner_of(key) == "c" and key not in moving)

    def attach(self, name: str, permits: int) -> tuple[LogConsumer, RecordingSink]:
        return attach(
            self.subscription, name=name, type=KEY_SHARED, permits=permits, sharing=self.sharing
        )

    def owner_of(self, key: bytes) -> str:
        dispatcher = self.subscription.machine.keys
        assert isinstance(dispatcher, KeySharedDispatcher)
        owner = dispatcher._owners[dispatcher.slots([key_hash(key)])[0]]
        assert owner is not None
        return owner.name

    def piece(self, body: bytes, group: int = 1) -> bytes:
        return piece(body, self.moves, group)

    def other(self, body: bytes) -> bytes:
        """A message with the same key."""
        return make_entry(body, key=self.moves)


async def begin(engine: Engine, sharing: KeySharing = IN_ORDER, permits: int = 10) -> Handover:
    topic = await engine.create_topic("t")
    topic.expect_groups()
    subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
    assert isinstance(subscription, LogSubscription)
    return Handover(subscription, sharing, permits)


@pytest.mark.parametrize("sharing", [IN_ORDER, OUT_OF_ORDER], ids=["in order", "out of order"])
async def test_a_consumer_that_joins_between_two_chunks_gets_none_of_them(
    data_dir: Path, sharing: KeySharing
) -> None:
    async with open_engine(data_dir) as engine:
        keys = await begin(engine, sharing)
        await append(engine, "t", [keys.piece(b"1")])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        await append(engine, "t", [keys.piece(b"2"), keys.piece(b"3")])
        await quiet(engine)
        assert keys.old_sink.bodies == [b"1", b"2", b"3"]
        keys.old.acknowledge(keys.old_sink.positions)
        await append(engine, "t", [keys.piece(b"next", 2)])
        await quiet(engine)
        assert new_sink.bodies == [b"next"]


async def test_other_messages_of_the_key_wait_until_the_message_is_whole_and_answered(
    data_dir: Path,
) -> None:
    """They lie between the chunks, and another message in chunks begins among them."""
    async with open_engine(data_dir) as engine:
        keys = await begin(engine)
        await append(engine, "t", [keys.piece(b"1")])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        between = [keys.other(b"x"), keys.piece(b"q1", 2), keys.piece(b"2"), keys.piece(b"q2", 2)]
        await append(engine, "t", [*between, keys.piece(b"3"), keys.other(b"y")])
        await quiet(engine)
        assert (keys.old_sink.bodies, new_sink.bodies) == ([b"1", b"2", b"3"], [])
        keys.old.acknowledge(keys.old_sink.positions[:2])
        await quiet(engine)
        assert new_sink.bodies == []
        keys.old.acknowledge(keys.old_sink.positions[2:])
        await quiet(engine)
        assert new_sink.bodies == [b"x", b"q1", b"q2", b"y"]


@pytest.mark.parametrize("cold", [False, True])
async def test_what_waited_for_permits_when_the_key_moved_goes_to_the_consumer_of_its_message(
    data_dir: Path, *, cold: bool
) -> None:
    with patch("arneb_core.subscription.dispatching.keyed.HELD_BYTES_MAX", 0 if cold else 10_000):
        async with open_engine(data_dir) as engine:
            keys = await begin(engine, permits=1)
            pieces = [keys.piece(b"1"), keys.other(b"x"), keys.piece(b"2"), keys.piece(b"3")]
            await append(engine, "t", pieces)
            await quiet(engine)
            if cold:
                keys.subscription.topic.log.tail.clear()
            _, new_sink = keys.attach("b", 10)
            await quiet(engine)
            assert (keys.old_sink.bodies, new_sink.bodies) == ([b"1"], [])
            keys.old.flow(1)
            await quiet(engine)
            assert (keys.old_sink.bodies, new_sink.bodies) == ([b"1", b"2"], [])
            keys.old.flow(1)
            await quiet(engine)
            keys.old.acknowledge(keys.old_sink.positions)
            await quiet(engine)
            assert (keys.old_sink.bodies, new_sink.bodies) == ([b"1", b"2", b"3"], [b"x"])


async def test_without_ordering_only_chunks_wait_for_their_consumer(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        keys = await begin(engine, OUT_OF_ORDER, permits=1)
        await append(engine, "t", [keys.piece(b"1"), keys.piece(b"2")])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        await append(engine, "t", [keys.other(b"x"), keys.piece(b"3"), keys.other(b"y")])
        await quiet(engine)
        assert (keys.old_sink.bodies, new_sink.bodies) == ([b"1"], [b"x", b"y"])
        keys.old.flow(5)
        await quiet(engine)
        assert keys.old_sink.bodies == [b"1", b"2", b"3"]


async def test_a_consumer_that_leaves_in_the_middle_gives_the_whole_message_away(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        keys = await begin(engine, permits=2)
        await append(engine, "t", [keys.piece(b"%d" % number) for number in range(4)])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        await quiet(engine)
        assert (keys.old_sink.bodies, new_sink.bodies) == ([b"0", b"1"], [])
        keys.old.detach()
        await quiet(engine)
        assert new_sink.bodies == [b"0", b"1", b"2", b"3"]


async def test_returned_chunks_go_to_the_consumer_that_has_the_others(data_dir: Path) -> None:
    """And when it has none of them any more, to whom their key belongs now."""
    async with open_engine(data_dir) as engine:
        keys = await begin(engine)
        await append(engine, "t", [keys.piece(b"1"), keys.piece(b"2")])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        await append(engine, "t", [keys.other(b"x")])
        one, two = keys.old_sink.positions
        keys.old.release([one], count=True)
        await quiet(engine)
        assert (keys.old_sink.bodies, new_sink.bodies) == ([b"1", b"2", b"1"], [])
        keys.old.release([two, one], count=True)
        await quiet(engine)
        assert (keys.old_sink.bodies[3:], new_sink.bodies) == ([], [b"1", b"2", b"x"])


async def test_a_client_that_gives_a_message_up_lets_the_rest_of_its_key_go_on(
    data_dir: Path,
) -> None:
    """It acknowledges the chunks that it has; what waits of the message is in its place again."""
    async with open_engine(data_dir) as engine:
        keys = await begin(engine, permits=1)
        await append(engine, "t", [keys.piece(b"1"), keys.other(b"x"), keys.piece(b"2")])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        await append(engine, "t", [keys.other(b"y")])
        await quiet(engine)
        keys.old.acknowledge(keys.old_sink.positions)
        await quiet(engine)
        assert new_sink.bodies == [b"x", b"2", b"y"]


async def test_a_key_that_comes_back_goes_on_in_order(data_dir: Path) -> None:
    """The newcomer leaves again before it had anything: what waited is one line once more."""
    async with open_engine(data_dir) as engine:
        keys = await begin(engine, permits=1)
        await append(engine, "t", [keys.piece(b"1"), keys.other(b"x"), keys.piece(b"2")])
        await quiet(engine)
        new, _ = keys.attach("b", 10)
        await quiet(engine)
        new.detach()
        await quiet(engine)
        keys.old.flow(10)
        await append(engine, "t", [keys.other(b"y")])
        await quiet(engine)
        assert keys.old_sink.bodies == [b"1", b"x", b"2", b"y"]


async def test_messages_of_other_keys_are_other_messages(data_dir: Path) -> None:
    """Though the sixteen bits that tell them apart are the same."""
    async with open_engine(data_dir) as engine:
        keys = await begin(engine)
        await append(engine, "t", [keys.piece(b"1"), piece(b"q1", keys.stays)])
        await quiet(engine)
        _, new_sink = keys.attach("b", 10)
        await append(engine, "t", [piece(b"q2", keys.stays), keys.piece(b"2")])
        await quiet(engine)
        sinks = keys.old_sink, keys.bystander_sink, new_sink
        assert [each.bodies for each in sinks] == [[b"1", b"2"], [b"q1", b"q2"], []]


async def test_sticky_ranges_keep_a_message_until_its_consumer_leaves(data_dir: Path) -> None:
    """Nobody can take a range over; who comes after it left gets the message whole."""
    low = KeySharing(KeySharingMode.STICKY, ((0, 32767),))
    high = KeySharing(KeySharingMode.STICKY, ((32768, 65535),))
    key = b"Order-3459134"  # 6067
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        topic.expect_groups()
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        old, old_sink = attach(subscription, type=KEY_SHARED, permits=1, sharing=low)
        _, other_sink = attach(subscription, type=KEY_SHARED, permits=9, sharing=high)
        await append(engine, "t", [piece(b"1", key), piece(b"2", key)])
        await quiet(engine)
        old.detach()
        await quiet(engine)
        _, new_sink = attach(subscription, type=KEY_SHARED, permits=9, sharing=low)
        await quiet(engine)
        sinks = old_sink, other_sink, new_sink
        assert [each.bodies for each in sinks] == [[b"1"], [], [b"1", b"2"]]


async def test_chunks_in_a_log_that_is_opened_stay_together_too(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        for number in b"12":
            await append(engine, "t", [piece(b"%c " % number + key, key) for key in KEYS])
    async with open_engine(data_dir) as engine:
        subscription = engine.topic("t").subscriptions["s"]
        old, old_sink = attach(subscription, name="a", type=KEY_SHARED, permits=len(KEYS))
        await quiet(engine)
        _, new_sink = attach(subscription, name="b", type=KEY_SHARED, permits=1000)
        old.flow(1000)
        await quiet(engine)
        assert old_sink.bodies == [b"1 " + key for key in KEYS] + [b"2 " + key for key in KEYS]
        assert new_sink.bodies == []


async def test_acknowledging_another_consumers_chunk_removes_it_from_the_message(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        keys = await begin(engine, permits=1)
        first = await append(engine, "t", [keys.piece(b"%d" % number) for number in range(4)])
        await quiet(engine)
        new, new_sink = keys.attach("b", 10)
        await quiet(engine)
        new.acknowledge([Position(first + 2)])
        keys.old.flow(10)
        await quiet(engine)
        assert (keys.old_sink.bodies, new_sink.bodies) == ([b"0", b"1", b"3"], [])
