"""Objects that are created, read, deleted and imported again over HTTP."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.broker.http.management.kit import ADMIN, Caller, managed
from tests.broker.http.management.requests.test_rules import path_of

from arneb.http.management.definitions.file import definitions_in
from arneb.http.management.definitions.importing import (
    PUTS_PER_TURN,
    import_definitions,
    load_definitions,
)
from arneb.http.management.requests.calls import Refused
from arneb.http.management.table import ROUTER
from arneb.http.management.topology import messages
from arneb.http.management.topology.bindings import properties_key
from arneb_amqp.routing.exchange import Binding
from arneb_amqp.wire.json_fields import table_from_json, table_to_json

V = "v%2Fm"
SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
MESSAGE: dict[str, Any] = {
    "properties": {"delivery_mode": 2, "headers": {"n": 1, "l": [True, "x"], "t": {"d": 1.5}}},
    "routing_key": "q/1",
    "payload": "hällo",
    "payload_encoding": "string",
}


def get(count: int, mode: str) -> dict[str, Any]:
    return {"count": count, "ackmode": mode, "encoding": "auto"}


async def test_a_queue_is_created_once_and_stays_what_it_is(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        body = {"durable": "true", "arguments": {"x-max-length": 3}}
        assert (await call("PUT", f"queues/{V}/a%2Fb", body)).status == 201
        assert (await call("PUT", f"queues/{V}/a%2Fb", body)).status == 204
        other = await call("PUT", f"queues/{V}/a%2Fb", {})
        assert other.status == 400
        assert other.json["reason"].startswith("inequivalent arg 'durable' for queue 'a/b'")
        shown = await call.does("GET", f"queues/{V}/a%2Fb/")
        assert (shown["name"], shown["vhost"], shown["durable"]) == ("a/b", "v/m", True)
        assert shown["arguments"] == {"x-max-length": 3}
        assert "message_stats" not in shown
        await call.does("DELETE", f"queues/{V}/a%2Fb")
        assert (await call("DELETE", f"queues/{V}/a%2Fb")).status == 404


async def test_a_message_is_published_and_got_as_each_mode_says(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", f"queues/{V}/q%2F1", {"durable": True})
        publish = f"exchanges/{V}/amq.default/publish"
        assert await call.does("POST", publish, MESSAGE) == {"routed": True}
        nowhere = {**MESSAGE, "routing_key": "none"}
        assert await call.does("POST", publish, nowhere) == {"routed": False}
        taken = f"queues/{V}/q%2F1/get"
        for mode in ("ack_requeue_true", "reject_requeue_true"):
            [message] = await call.does("POST", taken, get(9, mode))
            assert message["payload"] == "hällo"
            assert message["properties"] == MESSAGE["properties"]
        assert message["redelivered"]
        shown = await call.does("GET", f"queues/{V}/q%2F1")
        assert (shown["messages"], shown["messages_ready"]) == (1, 1)
        assert shown["message_stats"]["publish"] == 1
        assert len(await call.does("POST", taken, get(9, "reject_requeue_false"))) == 1
        assert await call.does("POST", taken, get(9, "ack_requeue_true")) == []
        await call.does("POST", publish, MESSAGE)
        await call.does("POST", publish, MESSAGE)
        assert await call.does("POST", taken, get(0, "ack_requeue_false")) == []
        assert len(await call.does("POST", taken, get(-1, "ack_requeue_true"))) == 2, "all of them"
        assert len(await call.does("POST", taken, get(-1, "reject_requeue_true"))) == 2
        assert len(await call.does("POST", taken, get(1, "ack_requeue_false"))) == 1
        assert len(await call.does("POST", taken, get(1, "ack_requeue_false"))) == 1
        assert (await call.does("GET", f"queues/{V}/q%2F1"))["messages"] == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"password": "short1"}, "minimum required password length: 8"),
        ({"password": ""}, "minimum required password length: 8"),
        ({"password": "long enough"},
         "provided password does not match the validator regular expression"),
        ({"password": "long enough 1"}, None),
        ({"password_hash": ""}, None),
        ({}, None),
    ],
)  # fmt: skip
async def test_passwords_must_be_as_the_settings_say(
    tmp_path: Path, body: dict[str, str], reason: str | None
) -> None:
    async with managed(tmp_path) as call:
        config = replace(call.site.config, password_length_min=8, password_pattern="[0-9]$")
        strict = replace(call, site=replace(call.site, config=config))
        found = await strict("PUT", "users/u", {**body, "tags": ""})
        if reason is None:
            assert found.status == 201
        else:
            assert (found.status, found.json["reason"]) == (400, reason)
            assert (await call("GET", "users/u")).status == 404


async def test_no_more_messages_are_got_than_one_answer_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "TAKEN_BYTES_MAX", 1500)
    monkeypatch.setattr(messages, "BYTES_PER_TURN", 1000)
    async with managed(tmp_path) as call:
        await call.does("PUT", f"queues/{V}/q%2F1", {"durable": True})
        for size in (700, 700, 700, 2000, 1):
            message = {**MESSAGE, "payload": "x" * size}
            await call.does("POST", f"exchanges/{V}/amq.default/publish", message)
        taken = f"queues/{V}/q%2F1/get"
        sizes = []
        while got := await call.does("POST", taken, get(100, "ack_requeue_false")):
            sizes.append([each["payload_bytes"] for each in got])
        assert sizes == [[700, 700, 700], [2000], [1]]


async def test_the_time_of_the_first_message_is_the_one_set_by_its_publisher(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        path, publish = f"queues/{V}/timed", f"exchanges/{V}/amq.default/publish"
        await call.does("PUT", path, {"durable": True})
        message = {"routing_key": "timed", "payload": "x", "payload_encoding": "string"}
        assert (await call.does("GET", path))["head_message_timestamp"] is None
        for properties in ({"timestamp": 1_700_000_000}, {"timestamp": 1_800_000_000}, {}):
            await call.does("POST", publish, {**message, "properties": properties})
        taking = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        for expected in (1_700_000_000, 1_800_000_000, None, None):
            assert (await call.does("GET", path))["head_message_timestamp"] == expected
            await call.does("POST", f"{path}/get", taking)


async def test_a_full_queue_that_refuses_reports_it(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await call.does("PUT", f"queues/{V}/q%2F1", {"arguments": arguments})
        publish = f"exchanges/{V}/amq.default/publish"
        assert await call.does("POST", publish, MESSAGE) == {"routed": True}
        refused = await call("POST", publish, MESSAGE)
        assert (refused.status, refused.json["reason"]) == (
            400,
            "rejected Unable to publish message. Check queue limits.",
        )


async def test_a_binding_is_found_at_the_location_it_was_given(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", f"queues/{V}/q", {})
        path = f"bindings/{V}/e/amq.direct/q/q"
        bodies: list[dict[str, Any]] = [
            {"routing_key": "a b/%~"},
            {"routing_key": "k", "arguments": {"x": 1}},
            {"routing_key": "k", "arguments": {"x": "1"}},
            {},
        ]
        for body in bodies:
            made = await call("POST", path, body)
            assert made.status == 201
            last = made.reply.headers["location"].split("/")[-1]
            shown = await call.does("GET", f"{path}/{last}")
            assert shown["routing_key"] == body.get("routing_key", "")
            assert shown["arguments"] == body.get("arguments", {})
        listed = await call.does("GET", path)
        assert len({each["properties_key"] for each in listed}) == len(bodies)
        assert len(await call.does("GET", f"queues/{V}/q/bindings")) == len(bodies) + 1
        await call.does("DELETE", f"{path}/~")
        assert (await call("GET", f"{path}/~")).status == 404


@given(st.text(max_size=5), st.dictionaries(st.text(max_size=3), st.integers(0, 2), max_size=2))
def test_keys_of_bindings_differ_when_the_bindings_do(key: str, values: dict[str, int]) -> None:
    try:
        binding = Binding("x", "q", key, table_from_json(values))
    except UnicodeEncodeError:
        return
    plain = Binding("x", "q", key)
    assert (properties_key(binding) == properties_key(plain)) == (not values)
    assert properties_key(Binding("x", "q", f"{key}~")) != properties_key(plain)


json_values = st.recursive(
    st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False,
    allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text("abc", max_size=3), json_values, max_size=4))
def test_a_json_object_is_unchanged_after_conversion_to_a_table(value: dict[str, Any]) -> None:
    assert table_to_json(table_from_json(value)) == value


@pytest.mark.parametrize("value", [{"a": None}, {"a": 1 << 63}, {"a" * 256: 1}])
def test_what_no_table_can_hold_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        table_from_json(value)


async def everything(call: Caller) -> None:
    await call.does("PUT", f"queues/{V}/q", {"durable": True, "arguments": {"x-max-length": 3}})
    await call.does("PUT", f"exchanges/{V}/x", {"type": "topic", "durable": True})
    await call.does("POST", f"bindings/{V}/e/x/q/q", {"routing_key": "k", "arguments": {"a": 1}})
    await call.does("PUT", f"policies/{V}/p", {"pattern": "^z", "definition": {"max-length": 1}})
    await call.does(
        "PUT", f"operator-policies/{V}/o", {"pattern": "^z", "definition": {"expires": 1000}}
    )
    await call.does("PUT", f"vhost-limits/{V}/max-queues", {"value": 9})
    await call.does("PUT", "user-limits/management/max-channels", {"value": 9})
    await call.does("PUT", f"parameters/shovel/{V}/s", {"value": SHOVEL})
    await call.does("PUT", "global-parameters/g", {"value": [1]})
    topic = {"exchange": "amq.topic", "write": "a", "read": "b"}
    await call.does("PUT", f"topic-permissions/{V}/management", topic)
    await call.does("PUT", f"vhosts/{V}", {"description": "d", "tags": ["t"]})


async def test_definitions_are_imported_without_loss(tmp_path: Path) -> None:
    async with managed(tmp_path / "a") as call:
        await everything(call)
        exported = await call.does("GET", "definitions")
        of_vhost = await call.does("GET", f"definitions/{V}")
    async with managed(tmp_path / "b") as call:
        assert (await call("POST", "definitions", exported)).status == 204
        assert await call.does("GET", "definitions") == exported
        assert (await call("POST", "definitions", exported)).status == 204
    async with managed(tmp_path / "c") as call:
        await call.does("POST", f"definitions/{V}", of_vhost)
        assert await call.does("GET", f"definitions/{V}") == of_vhost


async def test_users_of_a_large_import_are_added_in_turns_and_all_or_none(
    tmp_path: Path,
) -> None:
    count = 10 * PUTS_PER_TURN
    users = [{"name": f"u{n}", "password_hash": "", "tags": []} for n in range(count)]
    wrong = {"user": "u0", "vhost": "none", "configure": "", "write": "", "read": ""}
    async with managed(tmp_path) as call:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        read = definitions_in(json.dumps({"users": users, "permissions": [wrong]}).encode(), None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            with pytest.raises(Refused, match="nothing was imported"):
                await import_definitions(call.site.catalogue, call.site.topology, read)
            assert turns >= count // PUTS_PER_TURN
            nursery.cancel_scope.cancel()
        assert (await call("GET", "users/u0")).status == 404


async def test_definitions_are_loaded_from_a_file_and_a_directory(tmp_path: Path) -> None:
    (tmp_path / "defs").mkdir()
    for name in ("a", "b"):
        queue = {"name": name, "vhost": "/", "durable": True}
        (tmp_path / "defs" / f"{name}.json").write_text(json.dumps({"queues": [queue]}))
    (tmp_path / "bad.json").write_text("{")
    async with managed(tmp_path / "data") as call:
        site = call.site
        assert await load_definitions(site.catalogue, site.topology, tmp_path / "defs") == 2
        assert [each["name"] for each in await call.does("GET", "queues")] == ["a", "b"]
        for path in (tmp_path / "bad.json", tmp_path / "none.json"):
            with pytest.raises(ValueError, match=path.name):
                await load_definitions(site.catalogue, site.topology, path)


@pytest.mark.parametrize(
    "bad",
    [
        {"permissions": [{"user": "u", "vhost": "none", "configure": "", "write": "", "read": ""}]},
        {"queues": [{"name": "q", "vhost": "none"}]},
        {"queues": [{"name": "q"}]},
        {"queues": {}},
        {"bindings": [{"source": "x", "vhost": "/", "destination": "q", "destination_type": "z"}]},
        {"policies": [{"vhost": "/", "name": "p", "pattern": "(", "definition": {"expires": 1}}]},
        {"users": [{"name": "v", "tags": "", "password_hash": "!"}]},
    ],
)
async def test_invalid_definitions_change_nothing(tmp_path: Path, bad: Any) -> None:
    async with managed(tmp_path) as call:
        before = await call.does("GET", "definitions")
        good = {"users": [{"name": "u", "tags": ""}], "vhosts": [{"name": "new"}]}
        assert (await call("POST", "definitions", good | bad)).status == 400
        assert await call.does("GET", "definitions") == before


async def test_an_import_that_is_incomplete_says_what_is_missing(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        queues = [
            {"name": "good", "vhost": "/", "durable": True},
            {"name": "bad", "vhost": "/", "arguments": {"x-max-length": "ten"}},
        ]
        refused = await call("POST", "definitions", {"queues": queues})
        assert refused.status == 400
        assert "everything was imported but 1: invalid arg 'x-max-length'" in refused.json["reason"]
        assert [each["name"] for each in await call.does("GET", "queues")] == ["good"]


async def test_ignored_fields_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with managed(tmp_path) as call:
        parameter = {"vhost": "/", "component": "mqtt", "name": "n", "value": {}}
        await call.does("POST", "definitions", {"parameters": [parameter], "strange": []})
    assert "parameter n of component mqtt in vhost /" in caplog.text
    assert "strange" in caplog.text


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["queues", "exchanges", "bindings", "users", "policies", "vhosts"]),
    st.lists(
        st.dictionaries(
            st.sampled_from(["name", "vhost", "type", "arguments", "tags", "definition"]),
            st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just({"a": None}),
        )
        | st.integers(),
        max_size=3,
    ),
)
def test_hostile_definitions_are_refused_and_never_break(kind: str, rows: list[Any]) -> None:
    try:
        definitions_in(json.dumps({kind: rows}).encode(), None)
    except Refused as refused:
        assert refused.status == 400


async def test_malformed_bodies_are_refused_everywhere(tmp_path: Path) -> None:
    hostile = [b"{", b"[]", b"1", b'{"arguments":[1]}', b'{"value":null,"tags":{},"name":1}']
    async with managed(tmp_path) as call:
        await call.does("PUT", "queues/%2F/x", {})
        for route in ROUTER.routes:
            if route.method in ("PUT", "POST"):
                for body in hostile:
                    answered = await call(route.method, path_of(route.path), body)
                    assert answered.status < 500, (route, body, answered.reply)


async def test_unsupported_methods_and_options(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        refused = await call("PATCH", "queues")
        assert (refused.status, refused.reply.body) == (405, None)
        assert refused.reply.headers["allow"] == "HEAD, GET, OPTIONS"
        assert (await call("OPTIONS", "queues", user=None)).status == 200
        assert (await call("HEAD", "queues")).status == 200


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("whoami?columns=name", {"name": ADMIN}),
        ("whoami?columns=name&columns=tags", {"name": ADMIN}),
        ("cluster-name?columns=none", {}),
        ("global-parameters/g?columns=value.a,name", {"name": "g", "value": {"a": 1}}),
        ("bindings/v%2Fm/e/amq.direct/q/q?columns=routing_key", [{"routing_key": "k"}]),
        (
            "parameters/vhost-limits/v%2Fm/limits?columns=name,value.x",
            {"name": "limits", "value": {}},
        ),
        ("definitions?columns=queues.name", {"queues": [{"name": "q"}]}),
    ],
)
async def test_every_document_has_columns(tmp_path: Path, path: str, shown: Any) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", "queues/v%2Fm/q", {})
        await call.does("PUT", "global-parameters/g", {"value": {"a": 1, "b": 2}})
        await call.does("POST", "bindings/v%2Fm/e/amq.direct/q/q", {"routing_key": "k"})
        await call.does("PUT", "vhost-limits/v%2Fm/max-queues", {"value": 9})
        assert await call.does("GET", path) == shown
