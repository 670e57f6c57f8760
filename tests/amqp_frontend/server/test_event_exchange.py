"""The event exchange: publishes what happens in the broker, and only if somebody is bound to it."""

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import AMQPConnectionError
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread, wait

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server import connection_events
from arneb_amqp.topology import broker_events
from arneb_amqp.topology.broker_events import EVENT, BrokerEvents
from arneb_core.access.edits import Edit
from arneb_core.access.records import OperatorPolicy, Policy
from arneb_core.api.process.resource_alarms import Resource

PublishedEvent = tuple[str, dict[str, Any]]
Take = Callable[..., list[PublishedEvent]]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    config = AmqpConfig(event_exchange_vhost="/")
    yield from serve_in_thread(tmp_path_factory.mktemp("events") / "data", config)


@pytest.fixture
def take_events(channel: Any) -> Take:
    """The next events with these keys, without the fields that differ each time."""
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, EVENT, "#")

    def take(count: int, *keys: str) -> list[PublishedEvent]:
        found: list[PublishedEvent] = []

        def has_come() -> bool:
            while len(found) < count:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return False
                assert (body, properties.delivery_mode) == (b"", 2)
                ms = properties.headers.pop("timestamp_in_ms")
                assert properties.timestamp == ms // 1000
                if method.routing_key in keys:
                    found.append((method.routing_key, properties.headers))
            return True

        wait(channel, has_come)
        assert len(found) == count, f"expected {count} of {keys}, got {found}"
        return found

    take(1, "binding.created")
    return take


def edited(broker: Broker, change: Callable[[Edit], object]) -> None:
    """Make a change as an operator does."""

    async def make() -> None:
        async with broker.catalogue.changing() as edit:
            change(edit)

    broker.call(make)


def test_declarations_and_deletions_are_published_with_the_user_who_made_them(
    channel: Any, take_events: Take
) -> None:
    channel.queue_declare("e1", durable=True, arguments={"x-max-length": 5})
    channel.exchange_declare("x1", "topic")
    channel.queue_bind("e1", "x1", "k.#", {"z": 1})
    channel.exchange_bind("amq.fanout", "x1", "f")
    channel.queue_delete("e1")
    channel.exchange_delete("x1")
    keys = "queue.created", "exchange.created", "binding.created"
    gone = "queue.deleted", "exchange.deleted", "binding.deleted"
    queue, exchange, binding, between, unbound, deleted, *rest = take_events(8, *keys, *gone)
    by = {"vhost": "/", "user_who_performed_action": "guest"}
    shown = {"durable": True, "auto_delete": False, "exclusive": False, "owner_pid": ""}
    more = {"type": "rabbit_classic_queue", "arguments": ['{<<"x-max-length">>,signedint,5}']}
    assert queue == ("queue.created", {"name": "e1", **shown, **more, **by})
    kind = {"type": "topic", "durable": False, "auto_delete": False, "internal": False}
    assert exchange == (
        "exchange.created", {"name": "x1", **kind, "arguments": [], "policy": "", **by}
    )  # fmt: skip
    ends = {"source_name": "x1", "source_kind": "exchange"}
    to = {"destination_name": "e1", "destination_kind": "queue", "routing_key": "k.#"}
    bound = {**ends, **to, "arguments": ['{<<"z">>,signedint,1}'], **by}
    assert binding == ("binding.created", bound)
    assert between[1]["destination_kind"] == "exchange"
    # The binding was removed together with its queue.
    assert unbound == ("binding.deleted", {**bound, "user_who_performed_action": "rmq-internal"})
    assert deleted == ("queue.deleted", {"name": "e1", **by})
    assert rest[0] == ("exchange.deleted", {"name": "x1", **by})
    assert (rest[1][0], rest[1][1]["user_who_performed_action"]) == ("binding.deleted", "guest")


def test_a_binding_that_exists_already_is_published_once(channel: Any, take_events: Take) -> None:
    channel.queue_declare("e2", exclusive=True)
    for key in ("a", "a", "b"):
        channel.queue_bind("e2", "amq.direct", key)
    channel.queue_declare("e3", exclusive=True)
    found = take_events(4, "queue.created", "binding.created")
    assert [each.get("routing_key") for _, each in found] == [None, "a", "b", None]


def test_a_connection_its_channel_and_its_consumer_are_published(
    broker: Broker, channel: Any, take_events: Take
) -> None:
    channel.queue_declare("e4", auto_delete=True)
    with broker.connect(client_properties={"connection_name": "mine"}) as connection:
        other = connection.channel(7)
        other.basic_qos(prefetch_count=3)
        tag = other.basic_consume("e4", lambda *_: None, arguments={"x-priority": 2})
        other.basic_cancel(tag)
    keys = (
        "user.authentication.success", "connection.created", "channel.created",
        "consumer.created", "consumer.deleted", "queue.deleted", "connection.closed",
    )  # fmt: skip
    login, connected, opened, consuming, consumed, deleted, closed = take_events(7, *keys)
    assert login[1]["name"] == "guest"
    assert (login[1]["auth_mechanism"], login[1]["peer_host"]) == ("PLAIN", "{127,0,0,1}")
    made = connected[1]
    assert (made["user"], made["vhost"], made["user_provided_name"]) == ("guest", "/", "mine")
    assert made["name"] == login[1]["connection_name"]
    assert (made["channel_max"], made["protocol"], made["ssl"]) == (2047, "{0,9,1}", False)
    assert '{<<"connection_name">>,longstr,<<"mine">>}' in made["client_properties"]
    assert opened[1] == {
        "number": 7, "connection": made["pid"], "name": f"{made['name']} (7)", "vhost": "/",
        "pid": opened[1]["pid"], "user": "guest", "user_who_performed_action": "guest",
    }  # fmt: skip
    whose = {"consumer_tag": tag, "queue": "e4", "vhost": "/", "channel": opened[1]["pid"]}
    by = {"user_who_performed_action": "guest"}
    how = {"exclusive": False, "ack_required": True, "prefetch_count": 3}
    assert consuming[1] == {**whose, **how, "arguments": ['{<<"x-priority">>,signedint,2}'], **by}
    assert consumed[1] == {**whose, **by}
    assert deleted[1] == {"name": "e4", "vhost": "/", "user_who_performed_action": "rmq-internal"}
    assert closed[1] == {
        name: made[name]
        for name in ("pid", "name", "node", "client_properties", "user_provided_name")
    }


def test_channels_and_consumers_that_end_with_something_else_are_published(
    broker: Broker, channel: Any, take_events: Take
) -> None:
    channel.queue_declare("e5")
    with broker.connect() as connection:
        other = connection.channel(3)
        other.basic_consume("e5", lambda *_: None, consumer_tag="c1")
        other.close()
        ended, closed = take_events(2, "consumer.deleted", "channel.closed")
        assert ended[1]["consumer_tag"] == "c1"
        assert closed[1]["pid"] == ended[1]["channel"]
        other = connection.channel(4)
        other.basic_consume("e5", lambda *_: None, consumer_tag="c2")
        channel.queue_delete("e5")
        assert [each["consumer_tag"] for _, each in take_events(1, "consumer.deleted")] == ["c2"]


def test_a_refused_login_is_published_with_the_reason_and_without_a_password(
    broker: Broker, take_events: Take
) -> None:
    with pytest.raises(AMQPConnectionError):
        broker.connect(credentials=pika.PlainCredentials("guest", "not-this-one"))
    [(_, failed)] = take_events(1, "user.authentication.failure")
    assert (failed["name"], failed["auth_mechanism"]) == ("guest", "PLAIN")
    assert "invalid credentials" in failed["error"]
    assert "not-this-one" not in str(failed)


def test_alarms_are_published_when_they_begin_and_end(broker: Broker, take_events: Take) -> None:
    broker.run_short(Resource.DISK, Resource.MEMORY)
    broker.run_short(Resource.MEMORY)
    broker.run_short()
    shown = [(key, each["source"]) for key, each in take_events(4, "alarm.set", "alarm.cleared")]
    began, ended = "alarm.set", "alarm.cleared"
    assert shown == [(began, "disk"), (began, "memory"), (ended, "disk"), (ended, "memory")]


def test_changes_of_vhosts_users_and_rights_are_published(
    broker: Broker, take_events: Take
) -> None:
    edited(broker, lambda edit: edit.put_vhost("v", description="d", tags=("a",)))
    edited(broker, lambda edit: edit.put_user("u", tags=("monitoring",)))
    edited(broker, lambda edit: edit.set_permissions("u", "v", "a", "b", "c"))
    edited(broker, lambda edit: edit.set_topic_permissions("u", "v", "amq.topic", "b", "c"))
    edited(broker, lambda edit: edit.set_vhost_limits("v", {"max-queues": 7}))
    edited(broker, lambda edit: edit.set_user_limits("u", {"max-channels": 2}))
    edited(broker, lambda edit: edit.clear_permissions("u", "v"))
    edited(broker, lambda edit: edit.delete_user("u"))
    keys = (
        "vhost.created", "user.created", "user.tags.set", "permission.created",
        "topic.permission.created", "vhost.limits.set", "user.limits.set", "permission.deleted",
        "user.deleted",
    )  # fmt: skip
    found = dict(take_events(len(keys), *keys))
    by = {"user_who_performed_action": "rmq-internal"}
    assert found["vhost.created"]["tags"] == ["a"]
    assert found["user.tags.set"] == {"name": "u", "tags": ["monitoring"], **by}
    who = {"user": "u", "vhost": "v"}
    patterns = {"configure": "a", "write": "b", "read": "c"}
    assert found["permission.created"] == {**who, **patterns, **by}
    topics = {"exchange": "amq.topic", "write": "b", "read": "c"}
    assert found["topic.permission.created"] == {**who, **topics, **by}
    assert found["vhost.limits.set"] == {"name": "limits", "vhost": "v", "max-queues": 7, **by}
    limits = {"name": "limits", "username": "u", "max-channels": 2}
    assert found["user.limits.set"] == {**limits, **by}
    assert found["permission.deleted"] == {**who, **by}
    assert found["user.deleted"] == {"name": "u", **by}
    broker.call(broker.catalogue.delete_vhost, "v")
    assert take_events(1, "vhost.deleted") == [("vhost.deleted", {"name": "v", **by})]


def test_policies_and_parameters_are_published_without_passwords(
    broker: Broker, take_events: Take
) -> None:
    policy = Policy("/", "p", "^nothing$", {"max-length": 5}, "queues", 2)
    edited(broker, lambda edit: edit.set_policy(policy))
    limit = OperatorPolicy("/", "o", "^nothing$", {"max-length": 9})
    edited(broker, lambda edit: edit.set_policy(limit))
    edited(broker, lambda edit: edit.clear_policy(Policy, "/", "p"))
    edited(broker, lambda edit: edit.clear_policy(OperatorPolicy, "/", "o"))
    value = {"src-uri": ["amqp://u:secret@h/v"], "big": 1 << 70, "none": None}
    edited(broker, lambda edit: edit.set_parameter("/", "other", "s", value))
    keys = "policy.set", "policy.cleared", "operator.policy.cleared"
    first, limit_set, limited, *cleared, parameter = take_events(
        7, *keys, "parameter.set", "parameter.cleared"
    )
    by = {"vhost": "/", "user_who_performed_action": "rmq-internal"}
    fields = {"pattern": "^nothing$", "definition": {"max-length": 5}, "priority": 2}
    assert first == ("policy.set", {"name": "p", **fields, "apply-to": "queues", **by})
    assert (limit_set[0], limit_set[1]["component"]) == ("parameter.set", "operator_policy")
    assert limited == ("policy.set", {**limit_set[1]["value"], "name": "o", **by})
    assert cleared == [
        ("policy.cleared", {"name": "p", **by}),
        ("parameter.cleared", {"name": "o", "component": "operator_policy", **by}),
        ("operator.policy.cleared", {"name": "o", **by}),
    ]
    assert (parameter[1]["component"], parameter[1]["name"]) == ("other", "s")
    assert parameter[1]["value"] == {
        "src-uri": ["amqp://h/v"], "big": str(1 << 70), "none": "null"
    }  # fmt: skip


def test_no_event_is_made_while_nobody_is_bound(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for module in (broker_events, connection_events):
        monkeypatch.setattr(module, "render_rows", made.append)
    monkeypatch.setattr(broker_events, "table_from_json", made.append)
    with broker.connect() as connection:
        other = connection.channel()
        other.queue_declare("e9", arguments={"x-max-length": 5})
        other.queue_bind("e9", "amq.direct", "k")
        other.basic_consume("e9", lambda *_: None)
        other.queue_delete("e9")
    assert not made


def test_a_broker_without_the_setting_has_no_such_exchange(tmp_path: Any) -> None:
    for broker in serve_in_thread(tmp_path / "data"):
        vhost = broker.topology.vhost("/")
        assert vhost is not None
        assert EVENT not in vhost.router.exchanges
        assert not broker.topology.broker_events.wanted


def test_values_that_no_table_can_hold_are_published_as_text() -> None:
    class Teller:
        def has_takers(self, exchange: str) -> bool:
            return exchange == EVENT

        def tell(self, exchange: str, messages: Any) -> None:
            heard.extend(messages)

    heard: list[Any] = []
    events = BrokerEvents("n")
    events.go_by(Teller())
    events.emit("parameter.set", {"name": "n", "value": {"k" * 300: 1}})
    [(key, properties)] = heard
    assert key == "parameter.set"
    assert properties.headers["value"].value == b'{"' + b"k" * 300 + b'": 1}'
