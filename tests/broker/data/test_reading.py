"""Reading the log through the broker gives the same as reading the directory, and a truncated
answer never goes unnoticed."""

from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.broker.data.kit import Served, served

from arneb.data.blocks import BYTES_DEFAULT, PIECE_BYTES, frames
from arneb_core.api.core import Unit
from arneb_core.api.entries.position import AFTER_ALL, Position, position_at, render
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine
from arneb_core.engine.topics.stored_reading import StoredReading
from arneb_core.store.format.bodies import SHARED_BYTES_MIN
from arneb_core.store.reading.exported_blocks import ExportedBlocks
from arneb_core.store.reading.extents import find_extents
from arneb_core.testing.engine_kit import append, make_entry, publish
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.log.topics import TopicSelection
from pyspark_arneb.offsets import EARLIEST, Offsets
from pyspark_arneb.options import ReadOptions
from pyspark_arneb.plan.ranges import Loss, Span, select
from pyspark_arneb.service.errors import ServiceError

pytestmark = pytest.mark.real_time

KEPT = TopicSettings(retention_ms=-1, retention_bytes=-1)
A, B = "persistent://public/default/a", "persistent://public/default/b"


async def refused(here: Served, code: str, method: str, path: str, **what: object) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        await here.ask(method, path, **what)
    assert caught.value.code == code, caught.value
    return caught.value


def everything_of(here: Served, name: str, bytes_max: int) -> dict[Position, bytes]:
    """All entries of a topic as a Spark task reads them."""
    source = Remote(here.address).open()
    (extent,) = source.extents([name])
    found: dict[Position, bytes] = {}
    for ledger in extent.ledgers:
        place = ledger.first
        while place <= ledger.last:
            blocks = source.read(extent.topic_id, place, ledger.last, bytes_max)
            assert blocks, f"nothing at {render(place)}"
            for block in blocks:
                first, entries = block.decode()
                found.update((Position(first + n), each) for n, each in enumerate(entries))
                place = Position(block.last + 1)
    return found


async def stored(engine: Engine, name: str) -> Mapping[Position, bytes]:
    with engine._store.snapshot() as snapshot:
        blocks = snapshot.iter_blocks(engine.topic(name).id)  # type: ignore[arg-type]
        return {Position(at + n): e for at, entries in blocks for n, e in enumerate(entries)}


async def test_reading_through_the_broker_gives_what_the_directory_holds(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        engine = here.engine
        a, b = await engine.create_topic(A, KEPT), await engine.create_topic(B, KEPT)
        for number in range(5):
            await publish(engine, A, [b"%d-%d" % (number, n) * 50 for n in range(number * 700)])
            await a.roll()
        shared = [make_entry(bytes([n]) * SHARED_BYTES_MIN) for n in range(40)]
        await engine.committed(Unit([(a, shared), (b, shared)]))
        await append(engine, B, [make_entry(b"1")])
        for name in (A, B):
            expected = await stored(engine, name)
            assert len(expected) >= 41
            for bytes_max in (1, 100_000, 1 << 20):
                assert await here.call(everything_of, here, name, bytes_max) == expected
        source = Remote(here.address).open()
        assert sorted(await here.call(source.topics)) == [A, B]
        with engine._store.snapshot() as snapshot:
            extents = find_extents(snapshot, [B, A])
        assert await here.call(source.extents, [B, "persistent://x/y/z", A]) == extents


async def test_the_messages_of_an_open_ledger_are_counted(tmp_path: Path) -> None:
    """The directory gives an estimate, from the last entry. A query that has read a ledger to its
    end would then miss messages when the ledger is trimmed."""
    async with served(tmp_path) as here:
        await here.engine.create_topic(A, KEPT)
        source = Remote(here.address).open()
        for sizes in ([5, 1], [3]):
            await append(here.engine, A, [make_entry(b"", size) for size in sizes])
        (extent,) = await here.call(source.extents, [A])
        assert [each.messages for each in extent.ledgers] == [9]
        await here.engine.topic(A).roll()
        await append(here.engine, A, [make_entry(b"", 4), make_entry(b"", 2)])
        (extent,) = await here.call(source.extents, [A])
        assert [(each.messages_before, each.messages) for each in extent.ledgers] == [
            (0, 9),
            (9, 6),
        ]


async def test_a_read_begins_where_what_was_trimmed_ended(tmp_path: Path) -> None:
    """The read before it ended there, so it has lost nothing."""
    async with served(tmp_path) as here:
        topic = await here.engine.create_topic(A)
        await publish(here.engine, A, [b"1", b"2"])
        await topic.roll()
        await publish(here.engine, A, [b"3"])
        await topic.trim(position_at(2, 0))

        def planned(place: Position) -> tuple[list[Span], list[Loss]]:
            source = Remote(here.address)
            start = Offsets(EARLIEST, {A: place})
            options = ReadOptions(source, TopicSelection(names=(A,)), start=start)
            return select(source.open().extents([A]), options)

        spans, losses = await here.call(planned, position_at(1, 2))
        assert ([span.first for span in spans], losses) == ([position_at(2, 0)], [])
        _, (loss,) = await here.call(planned, position_at(1, 1))
        assert (loss.first, loss.last) == (position_at(1, 1), position_at(2, 0) - 1)


@given(cut=st.tuples(st.integers(0, 300), st.integers(0, 300)), size=st.sampled_from([1, 70_000]))
@settings(max_examples=10, deadline=None)
def test_any_range_is_complete(
    tmp_path_factory: pytest.TempPathFactory, cut: tuple[int, int], size: int
) -> None:
    async def play() -> None:
        async with served(tmp_path_factory.mktemp("stretch")) as here:
            await here.engine.create_topic(A, KEPT)
            for _ in range(3):
                await publish(here.engine, A, [b"x" * 2000] * 100)
            low, high = sorted(cut)
            topic_id = here.engine.topic(A).id
            source = Remote(here.address).open()
            first, last = position_at(1, low), position_at(1, high)
            place, seen = first, set[int]()
            while True:
                blocks = await here.call(source.read, topic_id, place, last, size)
                for block in blocks:
                    at, entries = block.decode()
                    seen.update(range(at, at + len(entries)))
                    place = Position(block.last + 1)
                if not blocks or place > last:
                    break
            assert {each for each in seen if first <= each <= last} == set(
                range(first, min(last, position_at(1, 299)) + 1)
            )

    trio.run(play)


async def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        old = await here.engine.create_topic(A)
        await publish(here.engine, A, [b"old"])
        await here.engine.delete_topic(A)
        new = await here.engine.create_topic(A)
        await publish(here.engine, A, [b"new"])
        where = {"from": "1:0", "to": "1:9"}
        await refused(here, "topic_replaced", "GET", "/blocks", parameters={"id": old.id, **where})
        both = {"id": old.id, "topic": A, **where}
        error = await refused(here, "topic_replaced", "GET", "/blocks", parameters=both)
        assert A in error.reason
        source = Remote(here.address).open()
        gone = await here.call(source.read, old.id, position_at(1, 0), AFTER_ALL, 1 << 20)
        assert list(gone) == []
        (block,) = await here.call(source.read, new.id, position_at(1, 0), AFTER_ALL, 1 << 20)
        assert block.decode()[1] == [make_entry(b"new")]


async def test_topics_are_found_by_name_queue_namespace_and_partition(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        names = [
            "persistent://public/default/orders",
            "persistent://public/default/parts-partition-0",
            "persistent://public/default/parts-partition-1",
            "persistent://public/other/a%2Fb",
            "amqp-delayed://public/default/x",
        ]
        for name in names:
            await here.engine.create_topic(name)

        async def found(**asked: object) -> list[str]:
            answer = await here.ask("GET", "/topics", parameters=asked)
            return [each["name"] for each in answer["topics"]]

        assert await found() == sorted(names[:4])
        assert await found(internal="true") == sorted(names)
        assert await found(topic="persistent://public/default/parts") == names[1:3]
        assert await found(queue="a/b", vhost="other") == [names[3]]
        assert await found(namespace="public/other") == [names[3]]
        answer = await here.ask(
            "GET", "/topics", parameters={"topic": "persistent://public/default/order"}
        )
        assert answer["missing"] == ["persistent://public/default/order"]
        assert answer["similar"]["persistent://public/default/order"][0] == names[0]
        (one,) = (await here.ask("GET", "/topics", parameters={"topic": names[1]}))["topics"]
        assert one["partition"] == 0
        assert one["partitioned"] == "persistent://public/default/parts"
        assert one["queue"] is None


async def test_positions_are_found_by_time(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        await here.engine.create_topic(A, KEPT)
        entries = [make_entry(b"", publish_time_ms=1_000 * n) for n in range(1, 6)]
        await append(here.engine, A, entries)
        for time_ms, expected in ((0, "1:0"), (3_000, "1:2"), (3_001, "1:3"), (9_000, "1:5")):
            body = {"topics": {A: {"time_ms": time_ms}}}
            assert await here.ask("POST", "/positions", body=body) == {"positions": {A: expected}}


async def test_invalid_requests_are_refused_with_what_was_expected(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        await here.engine.create_topic(A)
        good = {"id": here.engine.topic(A).id, "from": "1:0", "to": "1:1"}
        for wrong in (
            {"from": "1:-1"}, {"to": "x"}, {"id": "-1"}, {"id": "²"}, {"bytes": 1}, {"byte": 1},
            {"from": "99999999999:1"}, {"from": ["1:0", "1:1"]}, {"bytes": 1 << 40},
        ):  # fmt: skip
            await refused(here, "bad_request", "GET", "/blocks", parameters={**good, **wrong})
        for body in (
            [], {"topics": 1}, {"topics": [1]}, {"topics": [], "more": 1}, "x", None,
            {"topics": ["\ud800"]}, {"topics": ["a"] * 10_001},
        ):  # fmt: skip
            error = await refused(here, "bad_request", "POST", "/extents", body=body)
            assert len(error.reason) < 700
        await refused(here, "no_data_api", "GET", "/nothing")
        await refused(here, "no_data_api", "PUT", "/extents", body={})


class NoRights:
    name = "user nobody"

    def may_continue(self, owner: str) -> bool:
        return False

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        return topic == B

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        return False

    def may_produce(self, topic: str) -> bool:
        return False


async def test_topics_that_may_not_be_consumed_are_neither_listed_nor_sent(tmp_path: Path) -> None:
    async with served(tmp_path, rights_of=lambda request: NoRights()) as here:
        a = await here.engine.create_topic(A)
        await here.engine.create_topic(B)
        await publish(here.engine, A, [b"secret"])
        shown = await here.ask("GET", "/topics")
        assert [each["name"] for each in shown["topics"]] == [B]
        assert (await here.ask("GET", "/topics", parameters={"topic": A}))["topics"] == []
        error = await refused(here, "forbidden", "POST", "/extents", body={"topics": [B, A]})
        assert A in error.reason
        where = {"id": a.id, "from": "1:0", "to": "1:1"}
        await refused(here, "forbidden", "GET", "/blocks", parameters=where)
        await refused(here, "forbidden", "GET", "/schemas", parameters={"topic": A})
        times = {"topics": {A: {"time_ms": 0}}}
        await refused(here, "forbidden", "POST", "/positions", body=times)


async def test_for_a_client_that_does_not_read_only_one_piece_is_read(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        topic = await here.engine.create_topic(A, KEPT)
        for _ in range(8):
            await publish(here.engine, A, [bytes(100_000)] * 20)
        reads: list[int] = []
        held: list[int] = []

        class Counting(StoredReading):
            async def blocks(
                self, topic_id: int, first: Position, last: Position, bytes_max: int
            ) -> ExportedBlocks:
                reads.append(first)
                return await super().blocks(topic_id, first, last, bytes_max)

        async def hold(size: int) -> None:
            held.append(size)

        reading = Counting(here.engine.reader)
        sent = frames(reading, topic, position_at(1, 0), position_at(9, 0), BYTES_DEFAULT, hold)
        async with aclosing(sent) as pieces:
            for count in range(1, 6):
                piece = await anext(pieces)
                assert len(piece) < 2 * PIECE_BYTES
                assert len(reads) == len(held) == count


async def test_clients_that_never_read_delay_nobody(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        topic = await here.engine.create_topic(A, KEPT)
        for _ in range(20):
            await publish(here.engine, A, [bytes(100_000)] * 20)
        host, _, port = here.address.url.removeprefix("http://").partition(":")
        request = f"GET /data/v1/blocks?id={topic.id}&from=1:0&to=9:0 HTTP/1.1\r\nhost: x\r\n\r\n"
        streams = [await trio.open_tcp_stream(host, int(port)) for _ in range(150)]
        for stream in streams:
            await stream.send_all(request.encode())
        source = Remote(here.address).open()
        blocks = await here.call(
            source.read, topic.id, position_at(1, 0), position_at(1, 399), 1 << 30
        )
        assert sum(len(block.decode()[1]) for block in blocks) == 400
        for stream in streams:
            await trio.aclose_forcefully(stream)
