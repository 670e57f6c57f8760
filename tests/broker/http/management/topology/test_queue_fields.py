"""Fields of queues: lists are sorted by what documents show, and columns show the same values."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from pamqp.commands import Queue as Methods
from tests.broker.http.management.kit import Caller, managed

from arneb.http.management.lists.lists import narrowed
from arneb.http.management.topology import queue_fields
from arneb.http.management.topology.queue_fields import figure_of, queue_document
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.wire.replies import make

V = "v%2Fm"

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {"durable": True},
    "quick": {"durable": False, "arguments": {"x-max-length": 7}},
    "replicated": {"durable": True, "arguments": {"x-queue-type": "quorum"}},
    "stream": {"durable": True, "arguments": {"x-queue-type": "stream"}},
    "single": {"durable": True, "arguments": {"x-single-active-consumer": True}},
}


async def some_queues(call: Caller) -> list[Queue]:
    """One queue of each kind, some with messages."""
    for name, body in QUEUES.items():
        await call.does("PUT", f"queues/{V}/{name}", body)
    for name, count in (("plain", 3), ("quick", 2), ("stream", 4)):
        for _ in range(count):
            body = {
                "properties": {},
                "routing_key": name,
                "payload": "x",
                "payload_encoding": "string",
            }
            await call.does("POST", f"exchanges/{V}/amq.default/publish", body)
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    await call.does("POST", f"queues/{V}/plain/get", taken)
    policy = {"pattern": "^q", "definition": {"max-length": 5}}
    await call.does("PUT", f"policies/{V}/p", policy)
    vhost = call.site.topology.vhost("v/m")
    assert vhost is not None
    return list(vhost.queues)


def paths_in(document: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All values of a document that are not objects, by their paths."""
    for name, value in document.items():
        path = f"{before}{name}"
        if isinstance(value, dict):
            yield from paths_in(value, f"{path}.")
        elif not isinstance(value, list):
            yield path, value


async def test_queues_are_sorted_by_what_their_documents_show(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        queues = await some_queues(call)
        documents = {queue.name: queue_document(call.site, queue) for queue in queues}
        rows = {name: dict(paths_in(document)) for name, document in documents.items()}
        paths = sorted({path for row in rows.values() for path in row})
        assert len(paths) > 60
        for path in paths:
            figure = figure_of(call.site, path)
            for queue in queues:
                wanted = rows[queue.name].get(path)
                assert (figure(queue) or 0) == (wanted or 0), (queue, path)
        for path in ("nonsense", "message_stats", "name.x", "arguments.none", "messages_details"):
            assert {figure_of(call.site, path)(queue) for queue in queues} <= {None}


async def test_a_sorted_page_makes_only_the_documents_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with managed(tmp_path) as call:
        await some_queues(call)
        made = 0

        def counted(*given: Any, **more: Any) -> Any:
            nonlocal made
            made += 1
            return queue_document(*given, **more)

        monkeypatch.setattr("arneb.http.management.topology.queue_fields.queue_document", counted)
        rate = "message_stats.publish_details.rate"
        sorts = (
            "", "messages", "message_bytes", rate, "policy", "arguments.x-max-length", "idle_since",
            "backing_queue_status.len", "nonsense",
        )  # fmt: skip
        for number, (sort, way) in enumerate(itertools.product(sorts, ("true", "false")), 1):
            query = f"page=1&page_size=2&sort={sort}&sort_reverse={way}"
            assert len((await call.does("GET", f"queues?{query}"))["items"]) == 2
            assert made == 2 * number
        assert len(call.site.rates) <= len(QUEUES) + 4, "only queues that are shown are sampled"


async def test_columns_show_what_the_whole_document_does(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for queue in await some_queues(call):
            whole = queue_document(call.site, queue)
            for wanted in (
                "name,messages", "message_stats.publish,name", "arguments", "none,type",
                "garbage_collection,idle_since",
            ):  # fmt: skip
                columns = tuple(tuple(each.split(".")) for each in wanted.split(","))
                names = [path[0] for path in columns]
                some = queue_document(call.site, queue, names=names)
                assert set(some) <= set(names)
                assert narrowed(some, columns) == narrowed(whole, columns)


async def test_a_changed_figure_is_in_the_next_page_with_columns(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        queues = await some_queues(call)
        path = "queues?page=1&sort=messages&sort_reverse=true&columns=name,messages"
        first = (await call.does("GET", path))["items"]
        assert [each["messages"] for each in first] == [4, 2, 2, 0, 0]
        vhost = call.site.topology.vhost("v/m")
        assert vhost is not None
        actor = await call.site.acting_in(vhost, await principal(call), "127.0.0.1")
        await actor.perform(make(Methods.Purge, ticket=0, queue="quick", nowait=False))
        again = (await call.does("GET", path))["items"]
        assert {each["name"]: each["messages"] for each in again}["quick"] == 0
        await call.does("DELETE", f"queues/{V}/plain")
        assert len((await call.does("GET", path))["items"]) == len(queues) - 1


async def principal(call: Caller) -> Any:
    from arneb_core.access.principals import Credentials

    return await call.site.authority._backends[0].log_in(Credentials("admin", "p"))


async def test_queues_are_sorted_by_how_fast_they_grow(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        queues = {queue.name: queue for queue in await some_queues(call)}
        path = "message_stats.publish_details.rate"
        assert figure_of(call.site, path)(queues["plain"]) == 0
        await call.site.rates.sample()
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(2)
        body = {
            "properties": {},
            "routing_key": "quick",
            "payload": "x",
            "payload_encoding": "string",
        }
        await call.does("POST", f"exchanges/{V}/amq.default/publish", body)
        rate = figure_of(call.site, path)
        assert rate(queues["quick"]) > 0
        assert rate(queues["plain"]) == 0
        page = await call.does("GET", f"queues?page=1&page_size=1&sort_reverse=true&sort={path}")
        assert [each["name"] for each in page["items"]] == ["quick"]


async def test_queues_are_in_the_order_of_their_names_whichever_come_or_go(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        vhost = call.site.topology.vhost("v/m")
        assert vhost is not None
        there: set[str] = set()
        for name in ("m", "c", "x", "a", "-c", "b", "-m", "-x", "z", "-a", "a"):
            if name.startswith("-"):
                await call.does("DELETE", f"queues/{V}/{name[1:]}")
                there.discard(name[1:])
            else:
                await call.does("PUT", f"queues/{V}/{name}", {})
                there.add(name)
            found = await call.site.by_name.of(vhost.queues)
            assert [each.name for each in found] == sorted(there)
            assert await call.site.by_name.of(vhost.queues) is found, "nothing has changed"
        assert {"name", "messages", "idle_since"} <= queue_fields.FIELDS


async def test_what_is_said_of_collections_of_garbage_is_no_number_below_0(tmp_path: Path) -> None:
    """The client in Rust reads unsigned numbers, and refuses the whole list otherwise."""
    async with managed(tmp_path) as call:
        await call.does("PUT", "queues/%2F/q", {})
        [queue] = await call.does("GET", "queues/detailed")
        collections = queue["garbage_collection"]
        assert collections["fullsweep_after"] > 1000
        assert all(type(each) is int and each >= 0 for each in collections.values())
