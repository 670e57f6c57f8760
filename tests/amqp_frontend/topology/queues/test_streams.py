"""Streams: the offsets of deliveries, whatever the ledgers and batches underneath are."""

from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.amqp_frontend.opening import open_topology
from tests.amqp_frontend.topology.conftest import ME, Box, Opener

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import ChannelException
from arneb_amqp.topology.queues.consumer_arguments import Start, StartsAt, start_of
from arneb_amqp.topology.queues.declaration import Declaration
from arneb_amqp.topology.queues.options import QUEUE_TYPE, QueueOptions
from arneb_amqp.wire.stamp import STREAM_OFFSET
from arneb_amqp.wire.tables import Field, Table, long, longstr, signedint
from arneb_core.api.entries.entry import EntryHeader, Origin, messages_in
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import WITHOUT_END, TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, make_entry, quiet

pytestmark = pytest.mark.real_time

STREAM = {QUEUE_TYPE: longstr("stream")}
TOPIC = "persistent://public/default/q"


def consumption(window: int = 1000, start: Field | None = None) -> Consumption:
    arguments: Table = {} if start is None else {STREAM_OFFSET: start}
    return Consumption("q", "c", False, False, arguments, (Window(window), Window()))


@settings(max_examples=20)
@given(
    sizes=st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=12),
    start=st.integers(0, 14),
    window=st.sampled_from([1, 2, 1000]),
)
def test_each_message_is_delivered_once_with_its_offset(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], start: int, window: int
) -> None:
    trio.run(read_through, tmp_path_factory.mktemp("stream"), sizes, start, window)


async def read_through(path: Path, sizes: list[int], start: int, window: int) -> None:
    async with open_engine(path / "data") as engine:
        topology = await open_topology(engine)
        vhost = topology.vhost("/")
        assert vhost is not None
        arguments = {**STREAM, "x-stream-max-segment-size-bytes": signedint(100)}
        queue = await vhost.queues.declare(Declaration(ME, "q", durable=True, arguments=arguments))
        for size in sizes:
            origin = Origin.PULSAR if size > 1 else Origin.AMQP
            await append(engine, TOPIC, [EntryHeader(origin, messages=size).pack() + b"x"])
        box = Box()
        attachment = await vhost.attachments.attach(consumption(window, long(start)), ME, box)
        offsets: list[int] = []
        while True:
            await quiet(engine)
            runs, box.runs = box.runs, []
            if not runs:
                break
            for run in runs:
                assert run.offsets is not None
                for at, entry, offset in zip(run.positions, run.entries, run.offsets, strict=True):
                    mask = (run.masks or {}).get(at, (1 << messages_in(entry)) - 1)
                    offsets += [offset + bit for bit in range(40) if mask >> bit & 1]
                    attachment.consumer.acknowledge_messages(at, mask)
        total = sum(sizes)
        first = min(start, total)
        assert offsets == list(range(offsets[0], total)) if offsets else first == total
        # A start inside a batch begins with the batch; the session drops the messages before it.
        assert not offsets or first - 2 <= offsets[0] <= first
        assert queue.message_count == total and queue.consumer_count == 0
        await vhost.attachments.detach(attachment)


async def test_a_consumer_that_lags_behind_retention_continues_with_true_offsets(
    broker: Opener,
) -> None:
    async with broker() as place:
        arguments = {
            **STREAM,
            "x-stream-max-segment-size-bytes": signedint(100),
            "x-max-length-bytes": signedint(300),
        }
        await place.declare(arguments=arguments)
        box = Box()
        wanted = consumption(2, longstr("first"))
        attachment = await place.vhost.attachments.attach(wanted, ME, box)
        for number in range(40):
            await append(place.engine, TOPIC, [make_entry(b"%d" % number)])
        await quiet(place.engine)
        seen: dict[int, bytes] = {}
        for _ in range(40):
            places = [at for run in box.runs for at in run.positions]
            for run in box.runs:
                assert run.offsets is not None
                seen.update(zip(run.offsets, (each[40:] for each in run.entries), strict=True))
            box.runs.clear()
            attachment.consumer.acknowledge(places)
            await quiet(place.engine)
        assert seen == {number: b"%d" % number for number in seen}
        assert 39 in seen and len(seen) < 40
        await place.vhost.attachments.detach(attachment)


async def test_a_stream_is_still_one_after_a_restart(broker: Opener) -> None:
    async with broker() as place:
        await place.declare(arguments={**STREAM, "x-max-age": longstr("2h")})
        await append(place.engine, TOPIC, [make_entry(b"0")])
    async with broker() as place:
        queue = await place.declare(arguments={**STREAM, "x-max-age": longstr("2h")})
        assert queue.message_count == 1
        assert not queue.topic.subscriptions
        assert place.engine.topic(TOPIC).settings.retention_ms == 7_200_000
        with pytest.raises(ChannelException, match="inequivalent arg 'x-max-age'"):
            await place.declare(arguments={**STREAM, "x-max-age": longstr("1h")})


async def test_nothing_in_a_stream_expires(broker: Opener) -> None:
    async with broker() as place:
        await place.declare(arguments=STREAM)
        place.vhost.queues.expect_expiry(["q", "unknown"])
        header = EntryHeader(Origin.AMQP, expires_at_ms=1)
        await append(place.engine, TOPIC, [header.pack() + b"x"])
        box = Box()
        wanted = consumption(start=longstr("first"))
        attachment = await place.vhost.attachments.attach(wanted, ME, box)
        await quiet(place.engine)
        assert [run.offsets for run in box.runs] == [[0]]
        await place.vhost.attachments.detach(attachment)


async def test_another_clients_topic_does_not_become_a_stream(broker: Opener) -> None:
    async with broker() as place:
        await place.engine.create_topic(TOPIC)
        with pytest.raises(ChannelException, match="inequivalent arg 'x-queue-type'"):
            await place.declare(arguments=STREAM)


async def test_a_reader_leaves_nothing_behind(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare(arguments=STREAM)
        attachment = await place.vhost.attachments.attach(consumption(), ME, Box())
        assert len(queue.topic.subscriptions) == 1
        await place.vhost.attachments.detach(attachment)
        assert not queue.topic.subscriptions


async def test_a_pulsar_subscription_reads_a_stream_too(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare(arguments=STREAM)
        await append(place.engine, TOPIC, [make_entry(b"0"), make_entry(b"1")])
        made = await queue.topic.subscribe("billing", initial=InitialPosition.EARLIEST)
        assert made.ready_messages == 2


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (None, StartsAt(Start.NEXT)),
        (longstr("first"), StartsAt(Start.FIRST)),
        (longstr("last"), StartsAt(Start.LAST)),
        (longstr("next"), StartsAt(Start.NEXT)),
        (long(7), StartsAt(Start.OFFSET, 7)),
        (long(-7), StartsAt(Start.OFFSET, 0)),
        (longstr("10s"), StartsAt(Start.TIME, 990_000)),
        (longstr("2m"), StartsAt(Start.TIME, 880_000)),
    ],
)
def test_where_a_consumer_begins(argument: object, expected: StartsAt) -> None:
    arguments: Table = {} if argument is None else {STREAM_OFFSET: argument}  # type: ignore[dict-item]
    assert start_of(arguments, "q", 1_000_000) == expected


def stream_settings(arguments: Table) -> TopicSettings:
    options = QueueOptions.parse({**STREAM, **arguments})
    return options.topic_settings(durable=True, exclusive=False)


@pytest.mark.parametrize(
    ("age", "seconds"),
    [("1s", 1), ("2m", 120), ("3h", 10_800), ("1D", 86_400), ("1M", 2_592_000), ("1Y", 31_536_000)],
)
def test_the_units_of_max_age(age: str, seconds: int) -> None:
    assert stream_settings({"x-max-age": longstr(age)}) == TopicSettings(
        retention_ms=seconds * 1000, retention_bytes=WITHOUT_END
    )


def test_without_arguments_a_stream_keeps_everything() -> None:
    assert stream_settings({}) == TopicSettings(
        retention_ms=WITHOUT_END, retention_bytes=WITHOUT_END
    )
