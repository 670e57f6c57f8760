"""Every route of the data API against the rights it needs: with just those, and with all but
those."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.broker.data.kit import Served, body_of, served

from arneb_core.api.topics.settings import TopicSettings
from pyspark_arneb.service.errors import ServiceError

pytestmark = pytest.mark.real_time

TOPIC = "persistent://public/default/t"
QUERY = "q"


@dataclass
class Some:
    """Everything, or all but one right."""

    consume: bool = True
    produce: bool = True
    own: bool = True
    name: str = "user somebody"

    def may_continue(self, owner: str) -> bool:
        return self.own

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        return self.consume

    def may_produce(self, topic: str) -> bool:
        return self.produce

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        return self.produce


HOLDER = {"subscription": "s", "owner": "o"}
ONE = {"topics": {TOPIC: {"id": 1}}}
ROWS = body_of([b"1"], [{"topic": TOPIC}])
OF_BATCH = {"query": QUERY, "batch": 1}

Needs = tuple[tuple[str, ...], Mapping[str, Any]]

ROUTES: dict[tuple[str, str], Needs] = {
    ("GET", ""): ((), {}),  # it returns the broker's version and its bounds
    ("GET", "/topics"): (("consume",), {"parameters": {"topic": TOPIC}}),
    ("POST", "/extents"): (("consume",), {"body": {"topics": [TOPIC]}}),
    ("POST", "/positions"): (("consume",), {"body": {"topics": {TOPIC: {"time_ms": 1}}}}),
    ("GET", "/schemas"): (("consume",), {"parameters": {"topic": TOPIC}}),
    ("GET", "/blocks"): (
        ("consume",), {"parameters": {"id": 1, "topic": TOPIC, "from": "1:0", "to": "1:1"}},
    ),
    ("GET", "/cursors"): (("consume",), {"parameters": {"topic": TOPIC}}),
    ("POST", "/cursors/open"): (
        ("consume",), {"body": {**HOLDER, "topics": {TOPIC: {}}, "lease_s": None}},
    ),
    ("POST", "/cursors/renew"): (("consume",), {"body": {**HOLDER, **ONE}}),
    ("POST", "/cursors/acknowledge"): (
        ("consume",), {"body": {**HOLDER, "topics": {TOPIC: {"id": 1, "next": "1:0"}}}},
    ),
    ("POST", "/cursors/release"): (("consume",), {"body": {**HOLDER, "topics": [TOPIC]}}),
    ("POST", "/ledgers/roll"): (("consume",), {"body": ONE}),
    ("POST", "/ledgers/trim"): (
        ("consume", "produce"), {"body": {"topics": {TOPIC: {"id": 1, "before": "1:0"}}}},
    ),
    ("POST", "/publish"): (("produce",), {"rows": ROWS}),
    ("POST", "/stages"): (
        ("produce", "own"), {"parameters": {**OF_BATCH, "stage": "s", "piece": 0}, "rows": ROWS},
    ),
    ("GET", "/stages"): (("own",), {"parameters": {"query": QUERY}}),
    ("DELETE", "/stages"): (("own",), {"parameters": OF_BATCH}),
    ("POST", "/commits"): (("own",), {"body": {**OF_BATCH, "stages": []}}),
    ("GET", "/commits"): (("own",), {"parameters": {"query": QUERY}}),
}  # fmt: skip


STAGES = iter(range(1000))


async def refusal(here: Served, route: tuple[str, str]) -> str:
    """That route's answer to a request; empty if it was carried out."""
    method, path = route
    what = dict(ROUTES[route][1])
    if route == ("POST", "/stages"):  # one that exists already is not created again
        what["parameters"] = {**what["parameters"], "stage": f"s{next(STAGES)}"}
    try:
        found = await here.ask(method, path, **what)
    except ServiceError as error:
        return error.code
    return "forbidden" if path == "/topics" and not found["topics"] else ""


async def test_a_user_who_lacks_just_one_right_is_refused_on_every_route(tmp_path: Path) -> None:
    rights = Some()
    async with served(tmp_path, rights_of=lambda request: rights) as here:
        served_by = {
            (method, route.path.removeprefix("/data/v1"))
            for route in here.data.routes
            for method in (route.methods or set()) - {"HEAD"}
        }
        assert served_by == set(ROUTES)
        await here.engine.create_topic(TOPIC, TopicSettings())
        for route, (needed, _) in ROUTES.items():
            for lacking in ("consume", "produce", "own"):
                rights = Some(**{lacking: False})  # type: ignore[arg-type]
                found = await refusal(here, route)
                assert (found == "forbidden") is (lacking in needed), (route, lacking, found)
            rights = Some()
            assert await refusal(here, route) != "forbidden", route


async def test_a_query_belongs_to_the_user_who_began_it(tmp_path: Path) -> None:
    class Named(Some):
        def may_continue(self, owner: str) -> bool:
            return owner in ("", self.name)

    rights = Named()
    stage, commit = ("POST", "/stages"), ("POST", "/commits")
    async with served(tmp_path, rights_of=lambda request: rights) as here:
        rights = Named(name="user a")
        assert not await refusal(here, stage)
    async with served(tmp_path, rights_of=lambda request: rights) as here:
        rights = Named(name="user b")
        for route in (stage, commit, ("DELETE", "/stages"), ("GET", "/stages")):
            assert await refusal(here, route) == "forbidden", route
    async with served(tmp_path, rights_of=lambda request: rights) as here:
        rights = Named(name="user a")
        assert not await refusal(here, commit)
        rights = Named(name="user b")
        for route in (stage, commit, ("GET", "/commits")):
            assert await refusal(here, route) == "forbidden", route
    async with served(tmp_path, rights_of=lambda request: rights) as here:
        assert await refusal(here, commit) == "forbidden", (
            "the right must be missing after a restart too"
        )
