"""What a producer sends twice is stored once, over a real core that fails and restarts."""

import random
from typing import Any

import pytest
import trio.testing
from tests.pulsar_frontend.conftest import OpenBroker, Running
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected
from tests.pulsar_frontend.server.transacting import begin, named

from arneb_core.api.entries.entry import HEADER_BYTES
from arneb_core.api.entries.position import Position
from arneb_pulsar.namespaces.policies import Policies
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.topics import deduplication
from arneb_pulsar.services.topics.deduplication import BATCHES_PER_TURN, Deduplication
from arneb_pulsar.wire.checksum import split_body
from arneb_pulsar.wire.metadata import parse_metadata
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

NAME = "persistent://public/default/t"
DUPLICATE = (1 << 64) - 1


async def stored(running: Running) -> list[tuple[str, int]]:
    """Producer and number of every message, in log order."""
    topic = running.core.topic(NAME)
    found: list[tuple[str, int]] = []
    for _, entries in await topic.read(topic.first or Position(0), 1 << 30):
        for entry in entries:
            metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
            found.append((metadata.producer_name, metadata.sequence_id))
    return found


async def send(client: RawClient, sequence: int, name: str = "p", **fields: Any) -> None:
    """One message, without waiting."""
    metadata = {
        key: fields.pop(key) for key in ("chunk_id", "num_chunks_from_msg") if key in fields
    }
    body = body_of(b"x", producer_name=name, sequence_id=sequence, **metadata)
    await client.send(pb.CommandSend(producer_id=1, sequence_id=sequence, **fields), body=body)


async def receipts(client: RawClient, count: int) -> list[tuple[int, bool]]:
    """Number and "was a duplicate" of the next receipts."""
    found = [await client.expect(pb.CommandSendReceipt) for _ in range(count)]
    for each in found:
        assert (each.message_id.ledgerId == DUPLICATE) is (each.message_id.entryId == DUPLICATE)
    return [(each.sequence_id, each.message_id.ledgerId == DUPLICATE) for each in found]


async def test_without_deduplication_nothing_is_reported(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        assert (await client.producer(producer_name="p")).last_sequence_id == -1
        for sequence in (5, 5):
            await send(client, sequence)
        assert await receipts(client, 2) == [(5, False), (5, False)]


async def test_a_duplicate_is_answered_and_not_stored(open_broker: OpenBroker) -> None:
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        assert (await client.producer(producer_name="p")).last_sequence_id == -1
        for sequence in (0, 1, 1, 0, 2):
            await send(client, sequence)
        expected = [(0, False), (1, False), (1, True), (0, True), (2, False)]
        assert await receipts(client, 5) == expected
        await send(client, 5, highest_sequence_id=9)
        await send(client, 9)
        assert await receipts(client, 2) == [(5, False), (9, True)]
        assert [sequence for _, sequence in await stored(running)] == [0, 1, 2, 5]
        again = await client.producer(producer_name="p")
        assert again.last_sequence_id in (-1, 9)
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        assert (await client.producer(producer_name="p")).last_sequence_id == 9
        for sequence in (8, 10):
            await send(client, sequence)
        assert await receipts(client, 2) == [(8, True), (10, False)]


async def test_producers_are_distinguished(open_broker: OpenBroker) -> None:
    async with (
        open_broker(deduplication=True) as running,
        connected(running.context, 2) as (first, second),
    ):
        await first.producer(producer_name="a")
        await second.producer(producer_name="b")
        for client, name in ((first, "a"), (second, "b")):
            await send(client, 3, name)
            assert await receipts(client, 1) == [(3, False)]


async def test_chunks_of_one_message_are_no_duplicates_until_it_is_whole(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        for chunk in (0, 1, 2, 0, 1, 2):
            await send(client, 7, is_chunk=True, chunk_id=chunk, num_chunks_from_msg=3)
        await send(client, 7)
        assert await receipts(client, 7) == [(7, False)] * 3 + [(7, True)] * 4


async def test_what_failed_is_no_duplicate_when_it_comes_again(open_broker: OpenBroker) -> None:
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        running.store.fail_until_healed()
        for sequence in (0, 1):
            await send(client, sequence)
            assert (await client.expect(pb.CommandSendError)).error == pb.PersistenceError
            await client.expect(pb.CommandCloseProducer)
            assert (await client.producer(producer_name="p")).last_sequence_id == -1
        running.store.heal()
        for sequence in (0, 1, 0):
            await send(client, sequence)
        assert await receipts(client, 3) == [(0, False), (1, False), (0, True)]


async def test_what_follows_waits_for_what_is_on_its_way(open_broker: OpenBroker) -> None:
    """Were number 1 stored after number 0 failed, number 0 could not come again."""
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        running.store.hold()
        await send(client, 0)
        assert await client.silent()
        await send(client, 1)
        assert await client.silent()
        assert not running.core.topic(NAME).last
        running.store.fail_next()
        running.store.release()
        assert (await client.expect(pb.CommandSendError)).sequence_id == 0
        await client.expect(pb.CommandCloseProducer)
        await send(client, 2)  # it did not know yet
        assert await client.silent()
        assert not running.core.topic(NAME).last
        assert (await client.producer(producer_name="p")).last_sequence_id == -1
        for sequence in (0, 1, 2):
            await send(client, sequence)
        assert await receipts(client, 3) == [(0, False), (1, False), (2, False)]


async def test_thousands_of_batches_of_duplicates_are_recognised_some_per_turn(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a transaction and others send in turn are as many batches, none of which is stored."""
    turns, fly = 0, Deduplication._fly

    def counted(self: Deduplication) -> None:
        nonlocal turns
        turns += 1
        fly(self)

    many = 1_000
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        transaction = named(await begin(client))
        await send(client, 5)
        await receipts(client, 1)
        running.store.hold()
        await send(client, 6)
        assert await client.silent()
        for number in range(many):
            await send(client, 5, **(transaction if number % 2 else {}))
        await trio.testing.wait_all_tasks_blocked(0.02)
        monkeypatch.setattr(Deduplication, "_fly", counted)
        running.store.release()
        assert await receipts(client, 1 + many) == [(6, False)] + [(5, True)] * many
        assert turns == many // BATCHES_PER_TURN + 1
        await send(client, 7)
        assert await receipts(client, 1) == [(7, False)]


@pytest.mark.parametrize("first", [5, 100])  # all duplicates, or none
async def test_thousands_of_messages_that_waited_are_sorted_some_a_turn(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """What waited for one batch is one batch by itself, however much came meanwhile."""
    most, sizes, turns, fly = 64, list[int](), 0, Deduplication._fly
    next_batch = Deduplication._next_batch
    monkeypatch.setattr(deduplication, "ENTRIES_PER_TURN", most)

    def counted(self: Deduplication) -> None:
        nonlocal turns
        turns += 1
        fly(self)

    def measured(self: Deduplication) -> Any:
        batch = next_batch(self)
        sizes.append(sum(len(held.run.entries) for held, _ in batch.runs))
        return batch

    many = 1_000
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        await send(client, 5)
        await receipts(client, 1)
        running.store.hold()
        await send(client, 6)
        assert await client.silent()
        for number in range(many):
            await send(client, 5 if first == 5 else first + number)
        await trio.testing.wait_all_tasks_blocked(0.02)
        monkeypatch.setattr(Deduplication, "_fly", counted)
        monkeypatch.setattr(Deduplication, "_next_batch", measured)
        running.store.release()
        answers = await receipts(client, 1 + many)
    assert answers[0] == (6, False) and len(set(answers[1:])) == (1 if first == 5 else many)
    assert sum(sizes) == many and turns >= len(sizes) == -(-many // most)


async def test_one_that_takes_a_name_over_hears_how_far_it_got(open_broker: OpenBroker) -> None:
    async with (
        open_broker(deduplication=True) as running,
        connected(running.context, 2) as (first, second),
    ):
        await first.producer(producer_name="p")
        running.store.hold()
        await send(first, 4)
        assert await first.silent()
        await first.stream.aclose()
        command = pb.CommandProducer(topic="t", producer_id=1, request_id=1, producer_name="p")
        await second.send(command)
        assert await second.silent()
        running.store.release()
        assert (await second.expect(pb.CommandProducerSuccess)).last_sequence_id == 4


async def test_turned_off_it_forgets(open_broker: OpenBroker) -> None:
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        await send(client, 4)
        await receipts(client, 1)
        assert len(running.core.metadata("pulsar/topic/")) == 1
        policies = Policies(deduplication=False)
        await running.context.namespaces.change_namespace("public/default", lambda _: policies)
        await send(client, 4)
        assert await receipts(client, 1) == [(4, False)]
        assert not running.core.metadata("pulsar/topic/")


OFF, ON = Policies(deduplication=False), Policies(deduplication=True)


async def test_what_was_known_before_a_start_is_forgotten_too(open_broker: OpenBroker) -> None:
    """Else, a producer that began to count again while it was off would lose what it sends."""
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        await send(client, 100)
        await receipts(client, 1)
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        change = running.context.namespaces.change_namespace
        await change("public/default", lambda _: OFF)
        await client.producer(producer_name="p")
        await send(client, 0)
        assert await receipts(client, 1) == [(0, False)]
        assert not running.core.metadata("pulsar/topic/")
        await change("public/default", lambda _: ON)
        await send(client, 1)
        assert await receipts(client, 1) == [(1, False)]
        await send(client, 1)
        assert await receipts(client, 1) == [(1, True)]


def switch(running: Running, policies: Policies) -> None:
    """Turn it off or on without a commit: what is kept of namespaces is not looked at here."""
    registry = running.context.namespaces
    registry._namespaces["public/default"] = policies
    registry._tell_changed()


@pytest.mark.parametrize("sent_when", ["off", "on again"])
async def test_a_disk_that_fails_when_it_is_turned_off_brings_no_numbers_back(
    open_broker: OpenBroker, sent_when: str
) -> None:
    """Else, a producer that began to count again would lose messages after the next start."""
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        await client.producer(producer_id=2, producer_name="q")
        await send(client, 100)
        body = body_of(b"x", producer_name="q", sequence_id=100)
        await client.send(pb.CommandSend(producer_id=2, sequence_id=100), body=body)
        await receipts(client, 2)
        running.store.fail_next(1)
        switch(running, OFF)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(running.core.metadata("pulsar/topic/")) == 2, "the disk failed"
        switch(running, OFF if sent_when == "off" else ON)
        await send(client, 0)
        assert await receipts(client, 1) == [(0, False)]
        is_on = sent_when == "on again"
        assert len(running.core.metadata("pulsar/topic/")) == is_on
        await send(client, 0)
        assert await receipts(client, 1) == [(0, is_on)]
        assert (running.context.deduplications.of(running.core.topic(NAME)) is None) is not is_on
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        last = (await client.producer(producer_name="p")).last_sequence_id
        assert last == (0 if is_on else -1)
        assert (await client.producer(producer_id=2, producer_name="q")).last_sequence_id == -1


async def test_what_is_under_way_when_it_is_turned_off_leaves_no_number(
    open_broker: OpenBroker,
) -> None:
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        await client.producer(producer_name="p")
        running.store.hold()
        await send(client, 100)
        await trio.testing.wait_all_tasks_blocked(0.02)
        switch(running, OFF)
        running.store.release()
        await receipts(client, 1)
        await send(client, 0)
        assert await receipts(client, 1) == [(0, False)]
        assert not running.core.metadata("pulsar/topic/")


@pytest.mark.parametrize("on_again", [False, True])
async def test_what_waits_when_it_is_turned_off_stays_in_order(
    open_broker: OpenBroker, on_again: bool
) -> None:
    async with open_broker(deduplication=True) as running, connected(running.context) as (client,):
        change = running.context.namespaces.change_namespace
        await client.producer(producer_name="p")
        await change("public/default", lambda _: ON)
        running.store.hold()
        await send(client, 1)
        await trio.testing.wait_all_tasks_blocked(0.02)
        await send(client, 2)
        await send(client, 3)
        await trio.testing.wait_all_tasks_blocked(0.02)
        switch(running, OFF)
        await send(client, 4)
        await trio.testing.wait_all_tasks_blocked(0.02)
        if on_again:
            switch(running, ON)
        await send(client, 5)
        await trio.testing.wait_all_tasks_blocked(0.02)
        running.store.release()
        assert [number for number, _ in await receipts(client, 5)] == [1, 2, 3, 4, 5]
        assert await stored(running) == [("p", number) for number in range(1, 6)]
        await send(client, 5)
        assert await receipts(client, 1) == [(5, on_again)]
        assert (running.context.deduplications.of(running.core.topic(NAME)) is None) is not on_again


@pytest.mark.parametrize("seed", range(4))
async def test_at_random_everything_is_stored_once_and_in_order(
    open_broker: OpenBroker, seed: int
) -> None:
    """Two producers send runs of numbers, again and again where they heard no receipt, while
    commits fail and the broker restarts."""
    chance = random.Random(seed)
    confirmed = {"a": -1, "b": -1}
    for _life in range(4):
        async with (
            open_broker(deduplication=True) as running,
            connected(running.context, 2) as clients,
        ):
            for client, name in zip(clients, confirmed, strict=True):
                opened = await client.producer(producer_name=name)
                assert opened.last_sequence_id >= confirmed[name]
            await running.core.topic(NAME).subscribe("keep")  # else what is old would go
            for _step in range(12):
                if chance.random() < 0.4:
                    running.store.fail_next(chance.randrange(1, 4))
                for client, name in zip(clients, confirmed, strict=True):
                    await _talk(client, name, confirmed, chance)
                running.store.heal()
            found = await stored(running)
            for name, highest in confirmed.items():
                numbers = [number for owner, number in found if owner == name]
                assert numbers == sorted(set(numbers)), "twice, or out of order"
                assert set(range(highest + 1)) <= set(numbers), "lost"


async def _talk(
    client: RawClient, name: str, confirmed: dict[str, int], chance: random.Random
) -> None:
    """Send a run from somewhere before the first unconfirmed number on; note the receipts."""
    first = max(0, confirmed[name] + 1 - chance.randrange(4))
    count = chance.randrange(1, 6)
    for sequence in range(first, first + count):
        await send(client, sequence, name)
    failed = False
    for sequence in range(first, first + count):
        answer = (await client.reply())[0]
        if failed and isinstance(answer, pb.CommandCloseProducer):
            break
        assert answer.sequence_id == sequence
        failed = failed or isinstance(answer, pb.CommandSendError)
        if not failed:
            confirmed[name] = max(confirmed[name], sequence)
    else:
        if failed:
            await client.expect(pb.CommandCloseProducer)
    if failed:
        opened = await client.producer(producer_name=name)
        assert opened.last_sequence_id >= confirmed[name]


async def test_a_clock_that_is_set_right_makes_no_duplicate_new(
    open_broker: OpenBroker,
) -> None:
    """It said 1970 when the producer went, and does not when it comes again."""
    clock_ms = [1]
    clock = Clock(wall_ms=lambda: clock_ms[0])
    async with (
        open_broker(clock, deduplication=True) as running,
        connected(running.context, 2) as (client, other),
    ):
        await client.producer(producer_name="p")
        await send(client, 7)
        assert await receipts(client, 1) == [(7, False)]
        await client.send(pb.CommandCloseProducer(producer_id=1, request_id=9))
        await client.expect(pb.CommandSuccess)
        clock_ms[0] = 1_700_000_000_000
        await other.producer(producer_name="other")
        await send(other, 1, "other")
        await receipts(other, 1)
        await client.producer(producer_name="p")
        await send(client, 7)
        assert await receipts(client, 1) == [(7, True)]
