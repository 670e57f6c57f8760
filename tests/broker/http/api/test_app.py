"""The HTTP port: on a real socket, and as an application."""

import gc
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Message
from tests.broker.conftest import a_subscription

from arneb.http.api.app import http_app
from arneb.http.api.documents import topic_document
from arneb.http.metrics.topic_statistics import topic_statistics
from arneb.http.server.asgi import PHRASE_CHARS_MAX, phrase
from arneb.http.server.pages import PAGES_MAX, Page, PageAnswer, Pages
from arneb.http.server.room import HELD_S
from arneb.http.server.server import serve_http
from arneb.listening.listeners import Listeners
from arneb.metrics.own import SUBSCRIPTION_FIGURES, TOPIC_FIGURES, topic_figures
from arneb.metrics.single_figures import ALARM_FIGURES, ENGINE_FIGURES, single_figures
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.observed import ObservedCore
from arneb.settings.config import Address
from arneb.settings.watermarks import Levels, Watermarks

Answer = tuple[int, str, bytes]


def get(url: str | urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read()


async def answers(core: object, *paths: str) -> list[Answer]:
    """What a served application answers to each path."""
    listeners = await Listeners.bind({"http": Address("127.0.0.1", 0)})
    [address] = listeners.addresses("http")
    app = http_app(cast(ObservedCore, core))
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, app, listeners.by_name["http"])
        got = [await trio.to_thread.run_sync(get, f"http://{address}{path}") for path in paths]
        nursery.cancel_scope.cancel()
    return got


def test_the_status_line_gives_the_reason_in_one_line() -> None:
    assert phrase(404, "") == "Not Found"
    assert phrase(404, "no a\r\nb: é") == "no a??b: ?"
    assert phrase(404, "x" * 1000) == "x" * PHRASE_CHARS_MAX
    assert phrase(599, "") == ""


@pytest.mark.real_time
async def test_health_is_ok_even_when_the_disk_is_full(core: Any) -> None:
    [(status, kind, body)] = await answers(core, "/healthz")
    assert (status, kind) == (200, "application/json")
    assert json.loads(body) == {"status": "ok", "store": "ok"}
    core.full = True
    [(status, _, body)] = await answers(core, "/healthz")
    assert (status, json.loads(body)) == (200, {"status": "ok", "store": "full"})


@pytest.mark.real_time
async def test_topics_are_listed_in_order(core: object) -> None:
    [(status, _, body)] = await answers(core, "/api/topics")
    assert status == 200
    topics = json.loads(body)["topics"]
    assert [topic["name"] for topic in topics] == [
        'public/default/odd"name\\\n',
        "public/default/orders",
    ]
    assert topics[1]["last"] == "2:4"
    assert [each["name"] for each in topics[1]["subscriptions"]] == ["amqp", "audit"]
    assert topics[1]["subscriptions"][0]["mark_delete"] == "1:-1"


@pytest.mark.real_time
async def test_metrics_parse_and_contain_every_figure(core: object) -> None:
    [(status, kind, body)] = await answers(core, "/metrics/per-object")
    assert status == 200
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, sample.labels.get("topic"), sample.labels.get("subscription")): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    assert samples["arneb_topics", None, None] == 2
    assert samples["arneb_topic_bytes", 'public/default/odd"name\\\n', None] == 4096
    orders = "public/default/orders"
    assert samples["arneb_subscription_backlog_entries", orders, "audit"] == 10
    assert samples["arneb_engine_store_bytes", None, None] == 40_960
    for figure in ENGINE_FIGURES:
        assert (f"arneb_engine_{figure.field}", None, None) in samples
    for figure in TOPIC_FIGURES:
        assert (f"arneb_topic_{figure.field}", orders, None) in samples
    for figure in SUBSCRIPTION_FIGURES:
        assert (f"arneb_subscription_{figure.field}", orders, "amqp") in samples
    assert samples["process_resident_memory_bytes", None, None] > 0


@pytest.mark.real_time
async def test_unknown_paths_are_refused_with_json(core: object) -> None:
    [(status, kind, body)] = await answers(core, "/nothing/here")
    assert (status, kind) == (404, "application/json")
    assert json.loads(body) == {"reason": "Not Found: GET /nothing/here"}


async def test_a_topic_that_is_deleted_during_the_listing_is_left_out(core: Any) -> None:
    class Vanishing(dict[str, object]):
        def get(self, name: str, default: object = None) -> object:
            return None

    core.topics = Vanishing(core.topics)
    assert [each async for each in topic_statistics(core)] == []


async def test_a_document_has_the_names_of_the_statistics(core: Any) -> None:
    [_, topic] = [each async for each in topic_statistics(core)]
    document = topic_document(topic)
    assert set(document) == set(topic.__slots__)
    assert set(document["subscriptions"][0]) == set(topic.subscriptions[0].__slots__)
    json.dumps(document)


def test_a_page_without_topics_is_valid(core: Any) -> None:
    assert "arneb_topics 0.0\n" in single_figures(core.statistics(), 0)


def quiet_alarms() -> Alarms:
    return Alarms(
        Watermarks(), Path(), available=lambda: 1000, read=lambda _: Levels(100, 60_000_000)
    )


async def answers_about(alarms: Alarms, *bodies: bytes) -> list[Answer]:
    """What ``PUT /api/alarms`` answers to each body, and ``GET`` after them."""
    listeners = await Listeners.bind({"http": Address("127.0.0.1", 0)})
    [address] = listeners.addresses("http")
    app = http_app(cast(ObservedCore, None), alarms)
    url = f"http://{address}/api/alarms"
    requests = [urllib.request.Request(url, body, method="PUT") for body in bodies]
    requests.append(urllib.request.Request(url))
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_http, app, listeners.by_name["http"])
        got = [await trio.to_thread.run_sync(get, request) for request in requests]
        nursery.cancel_scope.cancel()
    return got


@pytest.mark.real_time
async def test_watermarks_are_moved_and_alarms_shown() -> None:
    moved, shown = await answers_about(quiet_alarms(), b'{"memory_high_watermark": 0}')
    assert moved == shown
    assert json.loads(shown[2]) == {
        "memory_alarm": True,
        "memory_used_bytes": 100,
        "memory_high_watermark_bytes": 0,
        "disk_alarm": False,
        "disk_free_bytes": 60_000_000,
        "disk_free_min_bytes": 50_000_000,
        "log_trim_alarm": "",
    }


@pytest.mark.real_time
async def test_the_reason_why_a_replicated_log_is_not_trimmed_is_shown() -> None:
    alarms = quiet_alarms()
    alarms.log_trim_alarm = lambda: "1 of 2 nodes (n1) have a copy"
    (shown,) = await answers_about(alarms)
    assert json.loads(shown[2])["log_trim_alarm"] == "1 of 2 nodes (n1) have a copy"
    assert not alarms.resource_alarms.short  # nobody is blocked


@pytest.mark.real_time
async def test_invalid_watermarks_are_refused_with_a_text() -> None:
    alarms = quiet_alarms()
    bodies = (
        b"", b"{", b"\xff", b"[]", b'{"disk": 1}', b'{"memory_high_watermark": 2}',
        b"[" * 100_000, b'{"a":' * 100_000, b'{"disk_free_min_bytes": ' + b"1" * 5000 + b"}",
        b'{"\\ud800": 1}', b'{"memory_high_watermark": "\\ud800"}',
        b'{"memory_high_watermark": NaN}',
        b'{"memory_high_watermark": 1e999}', b'{"disk_free_min_bytes": ' + b"9" * 30 + b"}",
    )  # fmt: skip
    *refused, shown = await answers_about(alarms, *bodies)
    assert [status for status, _, _ in refused] == [400] * len(bodies)
    assert all(json.loads(body)["reason"] for _, _, body in refused)
    assert not json.loads(shown[2])["memory_alarm"]
    assert alarms.watermarks == Watermarks()


@pytest.mark.real_time
async def test_requests_that_arrive_while_a_page_is_made_share_the_next_one(core: Any) -> None:
    for number in range(500):
        core.add(f"public/default/{number:03}", a_subscription("amqp"))
    made = 0

    async def make() -> AsyncIterator[str]:
        nonlocal made
        made += 1
        async for each in topic_statistics(core):
            yield each.name

    pages = Pages(make, "text/plain")
    found = list[Page]()

    async def ask() -> None:
        found.append(await pages.current())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(200):
            nursery.start_soon(ask)
    assert (made, len(found)) == (2, 201)
    assert b"".join(found[-1].pieces).endswith(b"public/default/orders")


@pytest.mark.real_time
async def test_few_pages_are_in_memory_however_many_clients_read_them() -> None:
    made = 0

    async def make() -> AsyncIterator[str]:
        nonlocal made
        made += 1
        yield "x" * 1000
        await trio.lowlevel.checkpoint()

    pages = Pages(make, "text/plain")
    reading = [await pages.current() for _ in range(20)]
    assert made == len(pages.alive) == PAGES_MAX
    assert reading[-1] is reading[PAGES_MAX - 1]
    del reading
    # From Python 3.12 on a coroutine keeps the frame of what it awaited last.
    await trio.lowlevel.checkpoint()
    gc.collect()
    assert not pages.alive
    await pages.current()
    assert made == PAGES_MAX + 1


async def test_a_client_that_does_not_read_an_old_page_keeps_no_other_from_a_new_one() -> None:
    made = 0

    async def make() -> AsyncIterator[str]:
        nonlocal made
        made += 1
        yield f"page {made}"
        await trio.lowlevel.checkpoint()

    async def unread_body() -> Message:
        raise AssertionError("a page needs nothing of its request")

    async def unread(_: Message) -> None:
        await trio.sleep_forever()

    async def stand() -> None:
        with pytest.raises(trio.TooSlowError):
            await PageAnswer(await pages.current(), "text/plain")({}, unread_body, unread)

    pages = Pages(make, "text/plain")
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            for _ in range(PAGES_MAX):
                nursery.start_soon(stand)
                await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(HELD_S):
                await trio.Event().wait()
            assert made == len(pages.alive) == PAGES_MAX
            await pages.current()
    gc.collect()
    assert b"".join((await pages.current()).pieces) == b"page %d" % (PAGES_MAX + 1)


def test_figures_of_topics_are_those_of_the_library(core: Any) -> None:
    core.add('\\n "quoted"\n', a_subscription('"\\'))
    topics = [topic.statistics() for topic in core.topics.values()]
    page = "".join(topic_figures(topics))
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    for topic in topics:
        for figure in TOPIC_FIGURES:
            value = samples.pop((f"arneb_topic_{figure.field}", topic.name))
            assert value == getattr(topic, figure.field)
        for each in topic.subscriptions:
            for figure in SUBSCRIPTION_FIGURES:
                name = f"arneb_subscription_{figure.field}", topic.name, each.name
                assert samples.pop(name) == getattr(each, figure.field)
    assert not samples


def test_alarms_are_metrics(core: Any) -> None:
    page = single_figures(core.statistics(), 0, quiet_alarms().statistics)
    for figure in ALARM_FIGURES:
        assert f"arneb_{figure.field} " in page
