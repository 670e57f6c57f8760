"""Calls to the admin API with whatever a body, a query or a name may hold: an answer that says why,
never a defect of ours."""

import json
from typing import Any
from urllib.parse import quote

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pulsar_frontend.conftest import OpenBroker

from arneb_pulsar.admin.api import ROUTER, answer
from arneb_pulsar.admin.calls.router import VARIABLE, Node
from arneb_pulsar.services.context import BrokerContext

pytestmark = pytest.mark.real_time

NAMES = ("public", "default", "t", "t-partition-0", "s", "persistent", "1", "-1", "schema", "",
         "99999999999999999999", "\ud800", "a/b", "*", "٣", "true", "2")  # fmt: skip
KEYS = (
    "type", "schema", "properties", "ledgerId", "entryId", "partitionIndex", "limit", "limitSize",
    "limitTime", "policy", "retentionTimeInMinutes", "retentionSizeInMB", "allowAutoTopicCreation",
    "topicType", "defaultNumPartitions",
    "deleteWhileInactive", "maxInactiveDurationSeconds", "inactiveTopicDeleteMode", "key", "value",
    "allowAutoSubscriptionCreation", "adminRoles", "allowedClusters", "batchIndex", "x",
    "publishThrottlingRateInByte", "publishThrottlingRateInMsg",
)  # fmt: skip
RAW = (
    b"[" * 50_000, b'{"a":' * 50_000, b"1" * 5000, b"-1e999", b"NaN", b'"\\ud800"', b"\xff\xfe",
    b'{"type":"AVRO","schema":"\\ud800","properties":{}}',
    b'{"type":"JSON","schema":"{}","properties":{"a":"\\udfff"}}', b"{", b"", b"null", b"\x00",
    json.dumps({"type": "AVRO", "properties": {}, "schema": json.dumps(
        {"type": "record", "name": "\ud800", "fields": []})}).encode(),
    json.dumps({"type": "AVRO", "properties": {}, "schema": json.dumps(
        {"type": "record", "name": "R", "fields": [
            {"name": "f", "type": "string", "default": "\ud800"}]})}).encode(),
    json.dumps({"type": "AVRO", "properties": {}, "schema": "[" * 50_000}).encode(),
    json.dumps({"type": "AVRO", "properties": {}, "schema": "1" * 5000}).encode(),
    json.dumps({"type": "KEY_VALUE", "properties": {"key.schema.type": "AVRO"},
                "schema": json.dumps({"key": "\ud800", "value": ""})}).encode(),
    json.dumps({"type": "PROTOBUF_NATIVE", "properties": {}, "schema": "[" * 50_000}).encode(),
)  # fmt: skip
NUMBERS = (0, 1, -1, 2**31, 2**63, 2**64, 10**30, -(10**30), 0.5, 1e308)

ATOMS = (
    st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(NAMES[:-1]) | st.text()
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=6),
    max_leaves=8,
)  # fmt: skip
QUERIES = st.dictionaries(
    st.sampled_from(
        (
            "force", "authoritative", "mode", "initialPosition", "messagePosition",
            "backlogQuotaType", "applied", "isGlobal", "bundle", "x",
        )
    ),
    st.sampled_from(NAMES[:-1]) | st.text(),
    max_size=3,
)  # fmt: skip
BODIES = st.sampled_from(RAW) | VALUES.map(lambda value: json.dumps(value).encode())


def routes(node: Node, path: tuple[str, ...] = ()) -> list[tuple[str, tuple[str, ...]]]:
    found = [(method, path) for method in node.routes]
    for part, below in node.below.items():
        found += routes(below, (*path, part))
    return found


ROUTES = routes(ROUTER._root)


async def call(context: BrokerContext, data: st.DataObject) -> tuple[str, int, bytes]:
    method, parts = data.draw(st.sampled_from(ROUTES))
    filled = [data.draw(st.sampled_from(NAMES)) if part == VARIABLE else part for part in parts]
    path = "/" + "/".join(quote(part, safe="", errors="surrogatepass") for part in filled)
    query = data.draw(QUERIES)
    body = data.draw(BODIES)
    reply = await answer(context, method, path, query, body, data.draw(st.sampled_from(NAMES)))
    return f"{method} {path} {query} {body[:200]!r}", reply.status, reply.body


def test_no_call_finds_a_defect(open_broker: OpenBroker) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def play(data: st.DataObject) -> None:
        async def main() -> None:
            async with open_broker() as running:
                await call_each(running.context, data)

        trio.run(main)

    play()


async def call_each(context: BrokerContext, data: st.DataObject) -> None:
    for _ in range(40):
        what, status, text = await call(context, data)
        assert status != 500, what
        if status >= 400:
            assert json.loads(text)["reason"], what


@pytest.mark.parametrize("body", RAW, ids=lambda body: ascii(body[:30]))
async def test_what_cannot_be_read_is_refused_with_a_reason(
    open_broker: OpenBroker, body: bytes
) -> None:
    path = "/admin/v2/schemas/public/default/t/schema"
    async with open_broker() as running:
        for method in ("POST", "PUT"):
            reply = await answer(running.context, method, path, {}, body, "here:8080")
            assert reply.status in (400, 405, 422), reply.body
            found: Any = json.loads(reply.body)
            assert found["reason"]
            assert running.context.core.metadata("schema") == {} or reply.status != 200
