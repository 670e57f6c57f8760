"""Definitions: what RabbitMQ exports can be imported and exported again without loss, in both
directions, also at the start; exports of older versions are understood; what is not understood is
reported by name.
"""

import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from hashlib import md5
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.management.client import Client
from conformance.management.conftest import Managed

VHOST: Final = "def/ined"
V: Final = quote(VHOST, safe="")

KINDS: Final = (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters",
    "policies", "queues", "exchanges", "bindings",
)  # fmt: skip

_QUEUES: Final[Mapping[str, dict[str, Any]]] = {
    "plain": {},
    "from": {"durable": True},
    "to": {"durable": True},
    "tränsient/ä b": {"durable": False, "auto_delete": True},
    "everything": {
        "durable": True,
        "arguments": {
            "x-message-ttl": 60000, "x-expires": 3600000, "x-max-length": 1000,
            "x-max-length-bytes": 1000000, "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "plain",
            "x-max-priority": 5, "x-queue-mode": "lazy", "x-single-active-consumer": True,
            "x-queue-type": "classic", "x-own": ["a", 1, True, {"b": 2.5, "c": "ä"}],
        },
    },
    "quorum": {
        "durable": True,
        "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3, "x-max-in-memory-length": 9},
    },
    "stream": {
        "durable": True,
        "arguments": {
            "x-queue-type": "stream", "x-max-age": "7D", "x-stream-max-segment-size-bytes": 100000,
        },
    },
}  # fmt: skip

_EXCHANGES: Final[Mapping[str, dict[str, Any]]] = {
    **{f"of-{kind}": {"type": kind, "durable": True} for kind in
       ("direct", "fanout", "topic", "headers", "x-consistent-hash")},
    "transient": {"type": "direct", "durable": False, "auto_delete": True},
    "internal/é": {
        "type": "topic", "durable": True, "internal": True,
        "arguments": {"alternate-exchange": "of-fanout"},
    },
}  # fmt: skip

_BINDINGS: Final[tuple[tuple[str, str, str, dict[str, Any]], ...]] = (
    ("of-direct", "q", "plain", {"routing_key": "k"}),
    ("of-topic", "q", "plain", {"routing_key": "a.*.#/ %"}),
    ("of-headers", "q", "everything", {"arguments": {"x-match": "any", "n": 1, "t": "x"}}),
    ("of-headers", "q", "everything", {"arguments": {"x-match": "all", "n": -1, "b": False}}),
    ("of-x-consistent-hash", "q", "quorum", {"routing_key": "10"}),
    ("of-fanout", "e", "internal/é", {}),
    ("amq.topic", "q", "stream", {"routing_key": "s"}),
)


def fill(api: Client) -> None:
    """Create one of everything that can be exported."""
    limits = {"value": 1000}
    here = f"amqp:///{V}"
    shovel = {"src-uri": here, "src-queue": "from", "dest-uri": [here], "dest-queue": "to",
              "ack-mode": "on-publish", "src-delete-after": "never"}  # fmt: skip
    policy = {"pattern": "^never", "apply-to": "queues", "priority": 7}
    definition = {"max-length": 3, "overflow": "reject-publish", "message-ttl": 5, "expires": 9}
    rows: list[tuple[str, str, Any]] = [
        ("PUT", f"vhosts/{V}", {"description": "what was defined", "tags": "a,b"}),
        ("PUT", "users/defined", {"password": "p", "tags": "management,own"}),
        ("PUT", "users/hashed", {"password_hash": "", "tags": ""}),
        ("PUT", f"permissions/{V}/defined", {"configure": "^a", "write": "", "read": ".*"}),
        ("PUT", f"topic-permissions/{V}/defined", {"exchange": "amq.topic", "write": "^a",
                                                    "read": "{username}"}),
        ("PUT", f"policies/{V}/p%2F1", {**policy, "definition": definition}),
        ("PUT", f"policies/{V}/exchanges", {"pattern": "^never", "apply-to": "exchanges",
                                            "definition": {"alternate-exchange": "x"}}),
        ("PUT", f"operator-policies/{V}/o", {**policy, "definition": {"max-length": 9}}),
        ("PUT", f"vhost-limits/{V}/max-queues", limits),
        ("PUT", f"vhost-limits/{V}/max-connections", limits),
        ("PUT", "user-limits/defined/max-channels", limits),
        ("PUT", "global-parameters/own", {"value": {"a": [1, None, {"b": "ä"}]}}),
        ("PUT", f"parameters/shovel/{V}/s", {"value": shovel}),
        ("PUT", f"parameters/federation-upstream/{V}/u",
         {"value": {"uri": "amqp://x", "max-hops": 2, "ack-mode": "on-confirm"}}),
        *(("PUT", f"exchanges/{V}/{quote(n, safe='')}", b) for n, b in _EXCHANGES.items()),
        *(("PUT", f"queues/{V}/{quote(n, safe='')}", b) for n, b in _QUEUES.items()),
        *(("POST", f"bindings/{V}/e/{quote(s, safe='')}/{k}/{quote(d, safe='')}", b)
          for s, k, d, b in _BINDINGS),
    ]  # fmt: skip
    for method, path, body in rows:
        answer = api.call(method, path, body)
        assert answer.status in (201, 204), (method, path, answer)


def empty(api: Client) -> None:
    """Delete all of it."""
    for path in (f"vhosts/{V}", "users/defined", "users/hashed", "global-parameters/own"):
        assert api.call("DELETE", path).status in (204, 404), path


def exported(api: Client) -> dict[str, Any]:
    answer = api.call("GET", "definitions")
    assert answer.status == 200
    found: dict[str, Any] = answer.json
    return found


def rows_of(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows that :func:`fill` creates, sorted, without fields that only one broker exports."""
    return {kind: sorted_rows(document, kind, _is_ours) for kind in KINDS}


def sorted_rows(
    document: Mapping[str, Any], kind: str, counts: Callable[[str, Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The rows of a kind that ``counts`` selects, with the fields that both brokers export."""
    rows = [
        {name: value for name, value in row.items() if name in FIELDS[kind]}
        for row in document[kind]
        if counts(kind, row)
    ]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


FIELDS: Final = {
    "users": {"name", "password_hash", "hashing_algorithm", "tags", "limits"},
    "vhosts": {"name"},
    "permissions": {"user", "vhost", "configure", "write", "read"},
    "topic_permissions": {"user", "vhost", "exchange", "write", "read"},
    "parameters": {"vhost", "component", "name", "value"},
    "global_parameters": {"name", "value"},
    "policies": {"vhost", "name", "pattern", "apply-to", "definition", "priority"},
    "queues": {"name", "vhost", "durable", "auto_delete", "arguments"},
    "exchanges": {"name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"},
    "bindings": {
        "source", "vhost", "destination", "destination_type", "routing_key", "arguments",
    },
}  # fmt: skip
"""The fields that 3.10 exports."""


def _is_ours(kind: str, row: Mapping[str, Any]) -> bool:
    if kind == "users":
        return row["name"] in ("defined", "hashed")
    if kind == "global_parameters":
        return row["name"] == "own"
    return row.get("vhost", row["name"]) == VHOST if kind == "vhosts" else row["vhost"] == VHOST


def _is_old(kind: str, row: Mapping[str, Any]) -> bool:
    return "old" in (row.get("vhost"), row["name"] if kind == "vhosts" else "") or (
        row.get("name") == "of old"
    )


@pytest.fixture(scope="module")
def document(pair: tuple[Managed, Managed]) -> Iterator[dict[str, Any]]:
    """RabbitMQ's export of everything that :func:`fill` creates."""
    _, theirs = pair
    fill(theirs.api)
    yield exported(theirs.api)
    for managed in pair:
        empty(managed.api)


def test_nothing_is_lost_from_rabbitmq_to_arneb_and_back(
    pair: tuple[Managed, Managed], document: dict[str, Any]
) -> None:
    ours, theirs = pair
    assert all(rows_of(document)[kind] for kind in KINDS), "something of everything"
    assert ours.api.call("POST", "definitions", document).status == 204
    again = exported(ours.api)
    assert rows_of(again) == rows_of(document)
    empty(theirs.api)
    assert not any(rows_of(exported(theirs.api)).values())
    assert theirs.api.call("POST", "definitions", again).status == 204
    back = exported(theirs.api)
    assert rows_of(back) == rows_of(document)
    # The existing user can still log in with its password.
    for managed in pair:
        assert Client(managed.http, "defined", "p").call("GET", "whoami").status == 200
    # Importing once more changes nothing.
    assert ours.api.call("POST", "definitions", back).status == 204
    assert rows_of(exported(ours.api)) == rows_of(document)


def test_the_definitions_of_one_vhost_come_over_by_themselves(
    pair: tuple[Managed, Managed], document: dict[str, Any]
) -> None:
    ours, theirs = pair
    one = theirs.api.call("GET", f"definitions/{V}").json
    assert ours.api.call("PUT", "vhosts/one", {}).status == 201
    assert ours.api.call("POST", "definitions/one", one).status == 204
    again = ours.api.call("GET", "definitions/one").json
    for kind in ("policies", "queues", "exchanges", "bindings", "parameters"):
        found, wanted = (
            sorted(
                json.dumps({k: v for k, v in row.items() if k != "vhost"}, sort_keys=True)
                for row in each[kind]
            )
            for each in (again, one)
        )
        assert found == wanted, kind
    assert ours.api.call("DELETE", "vhosts/one").status == 204


def test_a_broker_begins_with_the_definitions_of_rabbitmq(
    document: dict[str, Any], tmp_path: Path
) -> None:
    """From a file, and once more at the next start, when everything exists already."""
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(document))
    broker = Arneb(tmp_path / "arneb", settings=f'load_definitions = "{file}"\n')
    for _ in range(2):
        broker.start()
        try:
            api = Client(broker.http_address)
            assert rows_of(exported(api)) == rows_of(document)
            parameters = pika.ConnectionParameters(
                broker.address.host, broker.address.port, VHOST,
                pika.PlainCredentials("defined", "p"),
            )  # fmt: skip
            pika.BlockingConnection(parameters).close()
        finally:
            broker.stop()


def md5_hash(password: str) -> str:
    """The password hash that RabbitMQ used before 3.6."""
    salt = b"\x01\x02\x03\x04"
    return b64encode(salt + md5(salt + password.encode()).digest()).decode()


OLD: Final[dict[str, Any]] = {
    "rabbit_version": "3.5.7",
    "users": [{"name": "of old", "password_hash": md5_hash("secret"), "tags": "administrator"}],
    "vhosts": [{"name": "old"}],
    "permissions": [
        {"user": "of old", "vhost": "old", "configure": ".*", "write": ".*", "read": ".*"}
    ],
    "parameters": [
        {
            "value": {"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://",
                      "dest-queue": "b", "add-forward-headers": False, "ack-mode": "on-confirm",
                      "delete-after": "never", "prefetch-count": 10, "reconnect-delay": 5},
            "vhost": "old", "component": "shovel", "name": "of old",
        }
    ],
    "policies": [
        {"vhost": "old", "name": "ha", "pattern": "^ha", "definition": {"ha-mode": "all"},
         "priority": 0}
    ],
    "queues": [
        # The shovel declares the second queue as well, sooner or later.
        {"name": "a", "vhost": "old", "durable": True, "auto_delete": False, "arguments": {}},
        {"name": "b", "vhost": "old", "durable": True, "auto_delete": False, "arguments": {}},
    ],
    "exchanges": [
        {"name": "x", "vhost": "old", "type": "topic", "durable": True, "auto_delete": False,
         "internal": False, "arguments": {}}
    ],
    "bindings": [
        {"source": "x", "vhost": "old", "destination": "a", "destination_type": "queue",
         "routing_key": "#", "arguments": {}}
    ],
}  # fmt: skip


def test_what_3_5_exported_is_understood_as_3_10_understands_it(
    pair: tuple[Managed, Managed],
) -> None:
    shown = []
    for managed in pair:
        assert managed.api.call("POST", "definitions", OLD).status == 204
        assert Client(managed.http, "of old", "secret").call("GET", "whoami").status == 200
        found = exported(managed.api)
        shown.append({kind: sorted_rows(found, kind, _is_old) for kind in KINDS})
        managed.api.call("DELETE", "vhosts/old")
        managed.api.call("DELETE", "users/of%20old")
    assert shown[0] == shown[1]


def test_what_is_not_understood_is_named_and_the_rest_is_taken(
    pair: tuple[Managed, Managed],
) -> None:
    ours, _ = pair
    strange = {
        "rabbit_version": "3.12.0",
        "feature_flags": [{"name": "x"}],
        "vhosts": [{"name": "strange", "colour": "blue"}],
        "parameters": [
            {"vhost": "strange", "component": "mqtt-mirror", "name": "m", "value": {"a": 1}}
        ],
        "queues": [
            {"name": "taken", "vhost": "strange", "durable": True, "auto_delete": False,
             "arguments": {}, "leader_locator": "balanced"}
        ],
    }  # fmt: skip
    assert ours.api.call("POST", "definitions", strange).status == 204
    assert ours.api.call("GET", "queues/strange/taken").status == 200
    end = time.monotonic() + 10
    named = (
        "feature_flags", "parameter m of component mqtt-mirror in vhost strange",
        "colour", "leader_locator",
    )  # fmt: skip
    while missing := [each for each in named if each not in ours.process.log]:
        assert time.monotonic() < end, missing
        time.sleep(0.1)
    assert ours.api.call("DELETE", "vhosts/strange").status == 204
