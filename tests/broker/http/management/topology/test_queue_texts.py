"""Cached texts of queues: kept exactly as long as they equal what the document would be."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.broker.http.management.kit import Caller, managed
from tests.broker.http.management.topology.test_queue_fields import QUEUES, V, some_queues

from arneb.http.management.topology.queue_fields import listed_document

MESSAGE = {"properties": {}, "routing_key": "plain", "payload": "x", "payload_encoding": "string"}

CHANGES: tuple[tuple[str, str, Any], ...] = (
    ("POST", f"exchanges/{V}/amq.default/publish", MESSAGE),
    ("PUT", f"policies/{V}/other", {"pattern": "^single", "definition": {"max-length": 9}}),
    ("DELETE", f"policies/{V}/p", None),
    ("DELETE", f"queues/{V}/plain/contents", None),
    ("PUT", f"operator-policies/{V}/o", {"pattern": "^plain", "definition": {"expires": 90_000}}),
    ("DELETE", f"queues/{V}/quick", None),
    ("PUT", f"queues/{V}/quick", {"durable": False, "auto_delete": True}),
    (
        "POST", f"queues/{V}/single/get",
        {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
    ),
)  # fmt: skip
"""Whatever changes what a list shows."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def at(call: Caller, clock: Clock) -> None:
    """Set the time for its rates."""
    rates = call.site.rates
    rates.__init__(clock, bytes_max=1 << 30)  # type: ignore[misc]


async def test_a_list_shows_what_the_documents_contain_whatever_happens(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        clock = Clock()
        at(call, clock)
        await some_queues(call)
        for method, path, body in CHANGES:
            for _ in range(4):
                shown = {each["name"]: each for each in await call.does("GET", f"queues/{V}")}
                vhost = call.site.topology.vhost("v/m")
                assert vhost is not None
                for queue in vhost.queues:
                    expected = json.loads(json.dumps(listed_document(call.site, queue)))
                    assert shown[queue.name] == expected, (path, queue.name)
                assert shown.keys() == QUEUES.keys() - (set() if len(shown) == 5 else {"quick"})
                clock.now += 0.7
            await call.does(method, path, body)


async def test_an_unchanged_text_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(site: Any, queue: Any, *given: Any) -> Any:
        made.append(queue.name)
        return listed_document(site, queue, *given)

    monkeypatch.setattr("arneb.http.management.topology.queue_texts.listed_document", counted)
    async with managed(tmp_path) as call:
        clock = Clock()
        at(call, clock)
        await some_queues(call)
        for _ in range(3):
            await call.does("GET", "queues")
            clock.now += 2
        made.clear()
        for _ in range(5):
            await call.does("GET", "queues")
            clock.now += 2
        assert set(made) == {"stream"}, "streams, whose readers are shown too"
        made.clear()
        await call.does("POST", f"exchanges/{V}/amq.default/publish", MESSAGE)
        await call.does("GET", "queues")
        assert set(made) == {"plain", "stream"}
