"""The event exchange: both brokers emit the same events, compared key by key and header by
header."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Final

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.conftest import Managed
from pika.exceptions import AMQPConnectionError

VARYING: Final = frozenset(
    {"timestamp_in_ms", "pid", "channel", "connection", "connection_name", "connected_at", "node",
     "port", "peer_port", "owner_pid", "cluster_state"}
)  # fmt: skip
"""Headers of which only the type is compared."""

OURS_ALONE: Final = {
    ("queue.created", "type"),  # of classic queues; RabbitMQ has it only for the others
    ("topic.permission.deleted", "exchange"),
    ("vhost.limits.set", "vhost"), ("vhost.limits.cleared", "vhost"),
}  # fmt: skip
THEIRS_ALONE: Final = {
    ("vhost.created", "metadata"), ("vhost.updated", "metadata"),  # an Erlang map as text
}  # fmt: skip

TOLD_BY_RABBITMQ_ALONE: Final = frozenset({"vhost.down", "node.node.stats", "node.node.deleted"})
SETTLE_S: Final = 1.0
"""How long to wait for further events; both brokers emit them with a small delay."""


@pytest.mark.parametrize("name", ["topology", "clients", "access", "policies"])
def test_the_same_events_are_published(pair: tuple[Managed, Managed], name: str) -> None:
    ours, theirs = (events_of(broker, PROGRAMS[name]) for broker in pair)
    theirs = [last_limit_cleared(*each) for each in theirs]
    assert [key for key, _ in ours] == [key for key, _ in theirs]
    for (key, mine), (_, other) in zip(ours, theirs, strict=True):
        only = {(key, each) for each in mine.keys() - other.keys()}
        missing = {(key, each) for each in other.keys() - mine.keys()}
        assert (only - OURS_ALONE, missing - THEIRS_ALONE) == (set(), set())
        for header in mine.keys() & other.keys():
            assert mine[header] == other[header], f"{key}: {header}"


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[Managed, Managed]]:
    """Both brokers with TLS and verified client certificates, which are in the test's directory."""
    if not RabbitMQ.installed():
        pytest.skip("expected Debian's rabbitmq-server")
    root = make_certificate(tmp_path, "root")
    for name in ("server", "known"):
        make_certificate(tmp_path, name, root, organization="us")
    looked_at = "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = false\n"
    theirs = RabbitMQ(
        tmp_path / "rabbitmq", tmp_path, plugins=["rabbitmq_event_exchange"], settings=looked_at
    )
    settings = f"""
[amqp]
event_exchange_vhost = "/"

[amqp.tls]
listen = "127.0.0.1:0"
certificate = "{tmp_path}/server.crt"
key = "{tmp_path}/server.key"
client_ca = "{tmp_path}/root.crt"
"""
    ours = Arneb(tmp_path / "arneb", listeners=["amqp", "amqp-tls"], settings=settings)
    with ExitStack() as stack:
        for broker in (theirs, ours):
            broker.start()
            stack.callback(broker.stop)
        nowhere = Address("127.0.0.1", 0)
        yield (
            Managed("arneb", ours, ours.address, nowhere),
            Managed("rabbitmq", theirs, theirs.address, nowhere),
        )


def test_the_same_events_are_published_for_tls(
    secured: tuple[Managed, Managed], tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=tmp_path / "root.crt")
    context.load_cert_chain(tmp_path / "known.crt", tmp_path / "known.key")

    def log_in(broker: Managed, _: pika.BlockingConnection) -> None:
        address = broker.process.amqps_address
        options = pika.SSLOptions(context, address.host)
        parameters = pika.ConnectionParameters(address.host, address.port, ssl_options=options)
        with pika.BlockingConnection(parameters):
            pass

    def of_tls(broker: Managed) -> list[tuple[str, Any]]:
        # The connection that reads the events does not use TLS.
        return [each for each in events_of(broker, log_in) if each[1].get("ssl") is True]

    ours, theirs = map(of_tls, secured)
    assert [key for key, _ in theirs] == ["user.authentication.success", "connection.created"]
    assert "O=us" in theirs[1][1]["peer_cert_subject"]
    assert ours == theirs


def events_of(broker: Managed, program: Callable[[Managed, Any], None]) -> list[tuple[str, Any]]:
    with connected(broker) as connection:
        channel = connection.channel()
        channel.queue_declare("events", exclusive=True)
        channel.queue_bind("events", "amq.rabbitmq.event", "#")
        with connected(broker) as other:
            program(broker, other)
        found: list[tuple[str, Any]] = []
        quiet_at = time.monotonic() + SETTLE_S
        while time.monotonic() < quiet_at:
            method, properties, body = channel.basic_get("events", auto_ack=True)
            if method is None:
                connection.sleep(0.05)
                continue
            quiet_at = time.monotonic() + SETTLE_S
            headers = properties.headers
            internal = headers.get("component") == "exchange-delete-in-progress"
            if method.routing_key in TOLD_BY_RABBITMQ_ALONE or internal:
                continue
            assert (body, properties.delivery_mode) == (b"", 2)
            assert properties.timestamp == headers["timestamp_in_ms"] // 1000
            found.append((method.routing_key, evened(method.routing_key, headers)))
        # RabbitMQ creates the exchanges of a new vhost in an arbitrary order.
        together = [list(each) for _, each in groupby(found, key=lambda event: event[0])]
        ordered = [sorted(each, key=lambda event: str(event[1].get("name"))) for each in together]
        event = chain.from_iterable(ordered)
        return [each for each in event if each[1].get("source_name") != "amq.rabbitmq.event"]


def last_limit_cleared(key: str, headers: dict[str, Any]) -> tuple[str, Any]:
    """RabbitMQ's event for the removal of a vhost's last limit, which sets an empty set of limits,
    in the form that Arneb emits."""
    if headers.get("component") == "vhost-limits" and headers.get("value") == []:
        return "parameter.cleared", {each: headers[each] for each in headers if each != "value"}
    if key == "vhost.limits.set" and not headers.keys() & {"max-queues", "max-connections"}:
        return "vhost.limits.cleared", headers
    return key, headers


def evened(key: str, headers: dict[str, Any]) -> dict[str, Any]:
    """Headers without values that differ each time or by nature."""
    shown = {
        name: type(value).__name__ if name in VARYING else value for name, value in headers.items()
    }
    if key in ("connection.created", "channel.created", "connection.closed"):
        shown["name"] = "named"
    if key == "user.authentication.failure" and isinstance(shown["error"], list):
        # RabbitMQ sends the text as a list of numbers
        shown["error"] = bytes(shown["error"]).decode()
    if isinstance(shown.get("client_properties"), list):
        shown["client_properties"] = sorted(shown["client_properties"])
    return shown


def connected(broker: Managed, **more: Any) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(broker.amqp.host, broker.amqp.port, "/", **more)
    )


def topology(broker: Managed, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    arguments = {"x-max-length": 5, "x-overflow": "reject-publish"}
    channel.queue_declare("t1", durable=True, arguments=arguments)
    channel.exchange_declare("tx", "topic", arguments={"a": ["b", 1]}, auto_delete=True)
    for _ in range(2):
        channel.queue_bind("t1", "tx", "k.#", {"z": 1})
    channel.exchange_bind("amq.fanout", "tx", "f")
    channel.exchange_unbind("amq.fanout", "tx", "f")
    channel.queue_unbind("t1", "tx", "k.#", {"z": 1})
    channel.queue_declare("t2", exclusive=True)
    channel.queue_declare("t3", auto_delete=True)
    channel.queue_bind("t3", "amq.direct", "k")
    channel.basic_consume("t3", lambda *_: None, consumer_tag="t", arguments={"x-priority": 3})
    channel.basic_cancel("t")
    channel.queue_delete("t1")
    call = broker.api.call
    call("PUT", "queues/%2F/t4", {"durable": True})
    call("PUT", "exchanges/%2F/ty", {"type": "direct", "durable": True})
    call("POST", "bindings/%2F/e/ty/q/t4", {"routing_key": "r"})
    call("DELETE", "queues/%2F/t4")
    call("DELETE", "exchanges/%2F/ty")


def clients(broker: Managed, _: pika.BlockingConnection) -> None:
    with connected(broker, client_properties={"connection_name": "mine"}) as connection:
        channel = connection.channel(5)
        channel.queue_declare("c1", exclusive=True)
        channel.basic_qos(prefetch_count=3)
        channel.basic_consume("c1", lambda *_: None, consumer_tag="c")
        channel.close()
    with pytest.raises(AMQPConnectionError):
        connected(broker, credentials=pika.PlainCredentials("guest", "wrong"))
    with pytest.raises(AMQPConnectionError):
        parameters = pika.ConnectionParameters(broker.amqp.host, broker.amqp.port, "nowhere")
        pika.BlockingConnection(parameters)


def access(broker: Managed, _: pika.BlockingConnection) -> None:
    call = broker.api.call
    call("PUT", "users/u", {"password": "p", "tags": "management"})
    call("PUT", "users/u", {"password": "p2", "tags": "monitoring"})
    call("PUT", "users/v", {"password": "p", "tags": ""})
    call("PUT", "vhosts/ev", {"description": "d", "tags": "a,b"})
    call("PUT", "vhosts/ev", {"description": "e", "tags": "a"})
    call("PUT", "permissions/ev/u", {"configure": "a", "write": "b", "read": "c"})
    call("PUT", "topic-permissions/ev/u", {"exchange": "amq.topic", "write": "b", "read": "c"})
    call("DELETE", "topic-permissions/ev/u")
    call("DELETE", "permissions/ev/u")
    call("PUT", "vhost-limits/ev/max-queues", {"value": 7})
    call("DELETE", "vhost-limits/ev/max-queues")
    call("PUT", "user-limits/u/max-channels", {"value": 7})
    call("DELETE", "user-limits/u/max-channels")
    call("PUT", "permissions/ev/u", {"configure": "a", "write": "b", "read": "c"})
    for name in ("users/u", "users/v"):
        call("DELETE", name)


def policies(broker: Managed, _: pika.BlockingConnection) -> None:
    call = broker.api.call
    call("PUT", "policies/%2F/p", {"pattern": "^z", "definition": {"max-length": 5}, "priority": 2})
    call("PUT", "operator-policies/%2F/p", {"pattern": "^z", "definition": {"max-length": 6}})
    call("DELETE", "policies/%2F/p")
    call("DELETE", "operator-policies/%2F/p")
    call("PUT", "global-parameters/g", {"value": {"a": 1, "b": ["c", True]}})


PROGRAMS: Final = {
    "topology": topology, "clients": clients, "access": access, "policies": policies,
}  # fmt: skip
