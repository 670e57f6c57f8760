"""What is appended to a topic that is being deleted, or has gone; and topics that go only if nobody
uses them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed, SubscriptionBusy, TopicBusy, TopicFenced
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, attach, make_entry, occupy, publish, quiet
from arneb_core.testing.faults import FaultyStore

pytestmark = pytest.mark.real_time

ENTRY = make_entry(b"a")


@asynccontextmanager
async def faulty_engine(path: Path) -> AsyncIterator[tuple[Engine, FaultyStore]]:
    with Store.open(path) as store:
        faulty = FaultyStore(store)
        async with open_engine(path, store=store, committing=faulty) as engine:
            yield engine, faulty


async def wait() -> None:
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("durable", [True, False])
async def test_an_append_to_a_topic_that_is_going_fails(data_dir: Path, *, durable: bool) -> None:
    """Before its fence and in the same commit, behind its fence, and when it has gone."""
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q", TopicSettings(durable=durable))
        await engine.create_topic("other")
        faulty.hold()
        outcomes = [Outcome() for _ in range(5)]
        under_way = await occupy(engine, "other")
        engine.append(topic, [ENTRY], outcomes[0])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.delete_topic, "q")
            await wait()
            assert topic.fenced
            engine.append(topic, [ENTRY], outcomes[1])
            engine.commit(Unit([(engine.topic("other"), [ENTRY]), (topic, [ENTRY])]), outcomes[2])
            faulty.release()
        engine.append(topic, [ENTRY], outcomes[3])
        engine.commit(Unit([(topic, [ENTRY])]), outcomes[4])
        errors = [await each.wait() for each in outcomes]
        assert topic.gone
        if not durable:
            assert errors.pop(0) is None, "the commit came before the deletion, so it must succeed"
        assert [type(each) for each in errors] == [TopicFenced] * len(errors)
        assert engine.topic("other").messages == under_way, "a unit takes place whole or not at all"


@pytest.mark.parametrize("as_owner", [True, False])
async def test_only_the_owner_of_a_topic_has_what_comes_for_it_go_with_it(
    data_dir: Path, *, as_owner: bool
) -> None:
    """A queue that is deleted over AMQP; what somebody else deletes takes nothing along."""
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")
        other = await engine.create_topic("other")
        faulty.hold()
        outcomes = [Outcome() for _ in range(4)]
        under_way = await occupy(engine, "other")
        engine.append(topic, [ENTRY], outcomes[0], passes_over_gone=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(engine.delete_topic, "q", as_owner=as_owner))
            await wait()
            engine.append(topic, [ENTRY], outcomes[1], passes_over_gone=True)
            both = Unit([(topic, [ENTRY]), (other, [ENTRY])], passes_over_gone=True)
            engine.commit(both, outcomes[2])
            faulty.release()
        engine.append(topic, [ENTRY], outcomes[3], passes_over_gone=True)
        errors = [await each.wait() for each in outcomes]
        if as_owner:
            assert errors == [None] * 4
        else:
            assert [type(each) for each in errors] == [TopicFenced] * 4
        assert other.messages == under_way + as_owner, "a unit takes place whole or not at all"


async def test_what_is_noted_of_a_topic_that_goes_does_not_bring_it_back(data_dir: Path) -> None:
    """Its record is written once more when entries come that expire, or are delayed."""
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")
        await engine.create_topic("other")
        faulty.hold()
        await occupy(engine, "other")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(engine.delete_topic, "q", as_owner=True))
            await wait()
            engine.expect_expiry(topic)
            engine.expect_delays(topic)
            await wait()
            faulty.release()
        await quiet(engine)
    async with open_engine(data_dir) as engine:
        assert set(engine.topics) == {"other"}


async def test_appends_to_a_topic_whose_deletion_failed_go_on(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")
        faulty.hold()
        faulty.fail_next()
        async with trio.open_nursery() as nursery:

            async def delete() -> None:
                with pytest.raises(StoreFailed):
                    await engine.delete_topic("q", as_owner=True)

            nursery.start_soon(delete)
            await wait()
            kept = Outcome()
            engine.append(topic, [ENTRY], kept, passes_over_gone=True)
            faulty.release()
        assert await kept.wait() is None
        await publish(engine, "q", [b"b"])
        assert topic.messages == 2


async def test_a_topic_goes_only_if_that_is_true_when_its_turn_has_come(data_dir: Path) -> None:
    """What was looked at before may have changed while another deletion was under way."""
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")
        await engine.create_topic("other")
        faulty.hold()
        refused: list[TopicBusy] = []

        async def delete_if_empty() -> None:
            def is_empty(found: Topic) -> bool:
                assert found is topic
                return not found.messages and not found.has_incoming

            assert is_empty(topic)
            try:
                await engine.delete_topic("q", only_if=is_empty)
            except TopicBusy as error:
                refused.append(error)

        stored = Outcome()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(topic.retain, 1, 1)
            await wait()
            nursery.start_soon(delete_if_empty)
            await wait()
            engine.append(topic, [ENTRY], stored)
            faulty.release()
        assert await stored.wait() is None
        assert refused and engine.topics["q"] is topic and not topic.fenced
        assert topic.messages == 1
        await engine.delete_topic("q", only_if=lambda found: found.messages == 1)
        assert "q" not in engine.topics


async def test_what_goes_with_a_topic_goes_in_the_same_commit(data_dir: Path) -> None:
    """And nothing of it when the commit fails; companions are not asked by the owner, nor for what
    is refused at once."""
    async with faulty_engine(data_dir) as (engine, faulty):
        heard: list[str] = []

        @asynccontextmanager
        async def companion(name: str, unit: Unit) -> AsyncIterator[None]:
            heard.append(f"{name} goes")
            unit.metadata.append((f"amqp/queue/{name}", None))
            try:
                yield
            except StoreFailed:
                heard.append(f"{name} stays")
                raise

        engine.accompany_deletions(companion)
        for name in ("q", "own"):
            row = (f"amqp/queue/{name}", b"x")
            await engine.create_topic(name, unit=Unit(metadata=[row]))
        with pytest.raises(TopicBusy):
            await engine.delete_topic("q", only_if=lambda topic: False)
        await engine.delete_topic("own", as_owner=True)
        assert not heard
        faulty.fail_next()
        with pytest.raises(StoreFailed):
            await engine.delete_topic("q")
        assert heard == ["q goes", "q stays"] and "amqp/queue/q" in engine.metadata("amqp/")
        before = engine.statistics().commits_total
        await engine.delete_topic("q")
        assert engine.statistics().commits_total == before + 1
        assert list(engine.metadata("amqp/")) == ["amqp/queue/own"]
    async with open_engine(data_dir) as engine:
        assert not engine.topics and list(engine.metadata("amqp/")) == ["amqp/queue/own"]


async def test_what_waits_for_its_commit_is_incoming(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")
        memory = await engine.create_topic("m", TopicSettings(durable=False))
        faulty.hold()
        engine.append(topic, [ENTRY], Outcome())
        assert topic.has_incoming and not memory.has_incoming
        await wait()
        assert topic.has_incoming, "its commit is under way"
        engine.commit(Unit([(topic, [ENTRY]), (memory, [ENTRY])]), Outcome())
        assert memory.has_incoming
        faulty.release()
        await quiet(engine)
        assert not topic.has_incoming and not memory.has_incoming


async def test_a_subscription_goes_only_with_those_that_leave_it(data_dir: Path) -> None:
    """Somebody came while another removal was under way."""
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")
        await engine.create_topic("other")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        mine, _ = attach(subscription)
        faulty.hold()
        refused: list[SubscriptionBusy] = []

        async def unsubscribe() -> None:
            try:
                await topic.unsubscribe("s", leaving=[mine])
            except SubscriptionBusy as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(topic.retain, 1, 1)
            await wait()
            nursery.start_soon(unsubscribe)
            await wait()
            theirs, sink = attach(subscription)
            faulty.release()
        assert refused and not sink.closed and topic.subscriptions["s"] is subscription
        theirs.detach()
        await topic.unsubscribe("s", leaving=[mine])
        assert not topic.subscriptions


# What is kept in memory only waits for what is durable


async def both_topics(engine: Engine) -> tuple[Topic, Topic, list[bytes]]:
    """A durable topic, one that is not, and what a consumer of that has got."""
    durable = await engine.create_topic("d")
    memory = await engine.create_topic("m", TopicSettings(durable=False))
    subscription = await memory.subscribe("s", initial=InitialPosition.EARLIEST)
    _, sink = attach(subscription, unlimited=True)
    return durable, memory, sink


async def test_what_is_kept_in_memory_waits_for_the_rest_of_its_unit(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        durable, memory, sink = await both_topics(engine)
        faulty.hold()
        outcomes = [Outcome() for _ in range(4)]
        unit = Unit([(durable, [ENTRY]), (memory, [make_entry(b"1")])])
        assert not engine.commit(unit, outcomes[0])
        # Behind it, to keep the publisher's order, whichever way it comes.
        engine.append(memory, [make_entry(b"2")], outcomes[1])
        assert not engine.commit(Unit([(memory, [make_entry(b"3")])]), outcomes[2])
        await wait()
        assert sink.bodies == [] and not any(each.calls for each in outcomes)
        faulty.release()
        assert [await each.wait() for each in outcomes[:3]] == [None] * 3
        assert engine.commit(Unit([(memory, [make_entry(b"4")])]), outcomes[3])
        await quiet(engine)
        assert sink.bodies == [b"1", b"2", b"3", b"4"]


async def test_what_is_kept_in_memory_never_comes_if_its_unit_fails(data_dir: Path) -> None:
    """What only stood behind it comes all the same, at the place that its publisher is told."""
    async with faulty_engine(data_dir) as (engine, faulty):
        durable, memory, sink = await both_topics(engine)
        placed: list[tuple[Exception | None, Position]] = []
        faulty.fail_until_healed()
        faulty.hold()
        lost, unit = Outcome(), Unit([(durable, [ENTRY]), (memory, [make_entry(b"lost")])])
        engine.commit(unit, lost)
        engine.append(memory, [make_entry(b"a")], lambda *args: placed.append(args))
        behind = Outcome()
        engine.commit(Unit([(memory, [make_entry(b"b")])]), behind)
        await wait()
        faulty.release()
        assert isinstance(await lost.wait(), StoreFailed)
        assert await behind.wait() is None
        faulty.heal()
        await quiet(engine)
        assert sink.bodies == [b"a", b"b"] and durable.messages == 0
        assert placed == [(None, sink.positions[0])]
        assert not memory.has_incoming
