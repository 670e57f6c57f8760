"""Replies of RabbitMQ 3.10.8, provoked again: codes and texts must be the same."""

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

GOLDENS = json.loads((Path(__file__).parent.parent / "goldens/rabbitmq-3.10.8.json").read_text())

NO_GOLDEN = {"_note"}
DIFFERENT_ON_PURPOSE = {"server_properties": "see test_server_properties"}

Channel = Any
Act = Callable[[Channel], object]
ACTS: dict[str, Act] = {}
SEPARATELY = {"bad_vhost", "bad_password", "x_death_sample"}


def declare(name: str = "gz3", **arguments: object) -> Act:
    durable = arguments.get("x-queue-type") in ("quorum", "stream")
    return lambda ch: ch.queue_declare(name, durable=durable, arguments=arguments)


def publish(exchange: str = "", key: str = "gq", **properties: object) -> Act:
    def act(channel: Channel) -> None:
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))
        channel.queue_declare("gq", passive=True)  # a round trip, to receive the error

    return act


def bind(arguments: dict[str, object]) -> Act:
    return lambda ch: ch.queue_bind("gq", "amq.headers", arguments=arguments)


def quorum(**fields: object) -> Act:
    arguments = {"x-queue-type": "quorum"}
    return lambda ch: ch.queue_declare("gz3", **fields, arguments=arguments)


def round_trip(act: Act) -> Act:
    def both(channel: Channel) -> None:
        act(channel)
        channel.queue_declare("gq", passive=True)

    return both


ACTS |= {
    "passive_queue_missing": lambda ch: ch.queue_declare("nope", passive=True),
    "passive_exchange_missing": lambda ch: ch.exchange_declare("nope", passive=True),
    "queue_inequivalent_durable": lambda ch: ch.queue_declare("gq", durable=True),
    "queue_inequivalent_autodelete": lambda ch: ch.queue_declare("gq", auto_delete=True),
    "queue_inequivalent_exclusive": lambda ch: ch.queue_declare("gq", exclusive=True),
    "queue_inequivalent_ttl_none": declare("gqttl"),
    "queue_inequivalent_ttl_other": declare("gqttl", **{"x-message-ttl": 2000}),
    "queue_inequivalent_added_arg": declare("gq", **{"x-expires": 1000}),
    "queue_unknown_arg_ignored": declare("gq", **{"x-foo": 1}),
    "exchange_inequivalent_type": lambda ch: ch.exchange_declare("gx", "fanout"),
    "exchange_inequivalent_durable": lambda ch: ch.exchange_declare("gx", durable=True),
    "exchange_unknown_type": lambda ch: ch.exchange_declare("gx2", "wibble"),
    "exchange_reserved": lambda ch: ch.exchange_declare("amq.foo"),
    "queue_reserved": lambda ch: ch.queue_declare("amq.foo"),
    "exchange_default_declare": lambda ch: ch.exchange_declare(""),
    "exchange_delete_predeclared": lambda ch: ch.exchange_delete("amq.direct"),
    "exchange_delete_default": lambda ch: ch.exchange_delete(""),
    "bind_default_exchange": lambda ch: ch.queue_bind("gq", "", "k"),
    "bind_missing_queue": lambda ch: ch.queue_bind("nope", "gx", "k"),
    "bind_missing_exchange": lambda ch: ch.queue_bind("gq", "nope", "k"),
    "unbind_missing_binding": lambda ch: ch.queue_unbind("gq", "gx", "never"),
    "unbind_missing_exchange": lambda ch: ch.queue_unbind("gq", "nope", "never"),
    "exclusive_other_conn_declare": lambda ch: ch.queue_declare("excl", exclusive=True),
    "exclusive_other_conn_passive": lambda ch: ch.queue_declare("excl", passive=True),
    "exclusive_other_conn_consume": lambda ch: ch.basic_consume("excl", lambda *_: None),
    "exclusive_other_conn_delete": lambda ch: ch.queue_delete("excl"),
    "queue_delete_missing": lambda ch: ch.queue_delete("nope"),
    "exchange_delete_missing": lambda ch: ch.exchange_delete("nope"),
    "queue_purge_missing": lambda ch: ch.queue_purge("nope"),
    "consume_missing": lambda ch: ch.basic_consume("nope", lambda *_: None),
    "get_missing": lambda ch: ch.basic_get("nope"),
    "publish_missing_exchange": publish("nope"),
    "publish_internal": publish("gxi"),
    "publish_bad_expiration": publish(expiration="abc"),
    "publish_expiration_trailing": publish(expiration="10x"),
    "publish_neg_expiration": publish(expiration="-1"),
    "publish_bad_user_id": publish(user_id="bob"),
    "publish_cc_not_list": publish(headers={"CC": "x"}),
    "publish_reply_to_no_consumer": publish(reply_to="amq.rabbitmq.reply-to"),
    "ack_unknown": round_trip(lambda ch: ch.basic_ack(99)),
    "nack_unknown": round_trip(lambda ch: ch.basic_nack(99)),
    "reject_unknown": round_trip(lambda ch: ch.basic_reject(99)),
    "ack_0_multiple_empty": lambda ch: ch.basic_ack(0, multiple=True),
    "qos_prefetch_size": lambda ch: ch.basic_qos(prefetch_size=10),
    "recover_requeue_false": lambda ch: ch.basic_recover(requeue=False),
    "tx_commit_no_tx": lambda ch: ch.tx_commit(),
    "tx_rollback_no_tx": lambda ch: ch.tx_rollback(),
    "tx_then_confirm": lambda ch: (ch.tx_select(), ch.confirm_delivery()),
    "confirm_then_tx": lambda ch: (ch.confirm_delivery(), ch.tx_select()),
    "dlrk_without_dlx": declare("gz1", **{"x-dead-letter-routing-key": "x"}),
    "dlx_wrong_type": declare("gz2", **{"x-dead-letter-exchange": 1}),
    "ttl_neg": declare(**{"x-message-ttl": -1}),
    "ttl_str": declare(**{"x-message-ttl": "x"}),
    "expires_zero": declare(**{"x-expires": 0}),
    "maxlen_neg": declare(**{"x-max-length": -1}),
    "maxprio_260": declare(**{"x-max-priority": 260}),
    "overflow_bad": declare(**{"x-overflow": "x"}),
    "queue_type_bad": declare(**{"x-queue-type": "x"}),
    "quorum_nondurable": quorum(),
    "quorum_exclusive": quorum(durable=True, exclusive=True),
    "quorum_autodelete": quorum(durable=True, auto_delete=True),
    "quorum_bad_arg": declare(**{"x-queue-type": "quorum", "x-max-priority": 1}),
    "quorum_servernamed": declare("", **{"x-queue-type": "quorum"}),
    "quorum_global_qos_consume": lambda ch: (
        ch.queue_declare("gqq", durable=True, arguments={"x-queue-type": "quorum"}),
        ch.basic_qos(prefetch_count=1, global_qos=True),
        ch.basic_consume("gqq", lambda *_: None),
    ),
    "stream_get": lambda ch: ch.basic_get("gst"),
    "stream_consume_noprefetch": lambda ch: ch.basic_consume("gst", lambda *_: None),
    "stream_consume_autoack": lambda ch: (
        ch.basic_qos(prefetch_count=10),
        ch.basic_consume("gst", lambda *_: None, auto_ack=True),
    ),
    "stream_bad_offset": lambda ch: (
        ch.basic_qos(prefetch_count=10),
        ch.basic_consume("gst", lambda *_: None, arguments={"x-stream-offset": "bogus"}),
    ),
    "stream_purge": lambda ch: ch.queue_purge("gst"),
    "consumer_priority_bad": lambda ch: ch.basic_consume(
        "gq", lambda *_: None, arguments={"x-priority": "x"}
    ),
    "exclusive_consume_conflict": lambda ch: (
        ch.basic_consume("gq", lambda *_: None),
        ch.basic_consume("gq", lambda *_: None, exclusive=True),
    ),
    "queue_delete_if_unused_in_use": lambda ch: (
        ch.basic_consume("gq", lambda *_: None),
        ch.queue_delete("gq", if_unused=True),
    ),
    "queue_delete_if_empty": lambda ch: ch.queue_delete("gne", if_empty=True),
    "exchange_delete_if_unused": lambda ch: ch.exchange_delete("gx", if_unused=True),
    "headers_bad_xmatch": bind({"x-match": "wrong"}),
    "headers_xmatch_type": bind({"x-match": 5}),
    "empty_queue_name_no_last": lambda ch: ch.queue_purge(""),
    "consistent_hash_bad_weight": lambda ch: (
        ch.exchange_declare("gch", "x-consistent-hash"),
        ch.queue_bind("gq", "gch", "abc"),
    ),
    "directreply_ack_mode": lambda ch: ch.basic_consume("amq.rabbitmq.reply-to", lambda *_: None),
    "directreply_twice": lambda ch: (
        ch.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True),
        ch.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True),
    ),
    # RabbitMQ 3.10.8 serves basic.get there, whatever its name says; this is its answer to anybody
    # who declares such a queue as exclusive.
    "sac_get": lambda ch: ch.basic_consume("gsac", lambda *_: None, exclusive=True),
}


@pytest.fixture(scope="module")
def furnished(broker: Any) -> Iterator[Any]:
    """What the probe declared before it began."""
    owner = broker.connect()
    channel = owner.channel()
    channel.queue_declare("gq")
    channel.queue_declare("gne")
    channel.basic_publish("", "gne", b"x")
    channel.queue_declare("gqttl", arguments={"x-message-ttl": 1000})
    channel.queue_declare("gsac", arguments={"x-single-active-consumer": True})
    channel.queue_declare("gst", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_declare("excl", exclusive=True)
    channel.exchange_declare("gx")
    channel.exchange_declare("gxi", internal=True)
    channel.queue_bind("gne", "gx", "k")
    yield broker
    owner.close()


@pytest.mark.parametrize("name", ACTS)
def test_the_reply_is_that_of_rabbitmq(furnished: Any, name: str) -> None:
    connection = furnished.connect()
    try:
        got = observe(ACTS[name], connection.channel())
    finally:
        if connection.is_open:
            connection.close()
    assert got == GOLDENS[name]


def observe(act: Act, channel: Channel) -> list[object]:
    try:
        return ["ok", str(act(channel))]
    except ChannelClosedByBroker as error:
        return ["channel.close", error.reply_code, error.reply_text]
    except ConnectionClosedByBroker as error:
        return ["connection.close", error.reply_code, error.reply_text]


def test_every_golden_is_covered_or_named() -> None:
    covered = ACTS.keys() | NO_GOLDEN | DIFFERENT_ON_PURPOSE.keys() | SEPARATELY
    assert covered == GOLDENS.keys()


def test_an_unknown_vhost_is_refused_with_rabbitmqs_text(broker: Any) -> None:
    with pytest.raises(ProbableAccessDeniedError) as caught:
        broker.connect(virtual_host="nope")
    assert "(530) 'NOT_ALLOWED - vhost nope not found'" in str(caught.value)
    assert "(530) 'NOT_ALLOWED - vhost nope not found'" in GOLDENS["bad_vhost"][2]


def test_a_wrong_password_is_refused_with_rabbitmqs_text(broker: Any) -> None:
    with pytest.raises(ProbableAuthenticationError) as caught:
        broker.connect(credentials=pika.PlainCredentials("guest", "wrong"))
    words = GOLDENS["bad_password"][2].partition(" (host")[0]
    assert words in str(caught.value)


def test_a_dead_letter_has_rabbitmqs_headers(broker: Any) -> None:
    """And those of its last death, which RabbitMQ adds since 3.13. Only the time differs."""
    golden = GOLDENS["x_death_sample"]
    connection = broker.connect()
    channel = connection.channel()
    channel.exchange_declare("gdlx", "fanout")
    channel.queue_declare("gdead")
    channel.queue_bind("gdead", "gdlx")
    channel.queue_declare("gsrc", arguments={"x-dead-letter-exchange": "gdlx"})
    properties = pika.BasicProperties(expiration="50", headers={"CC": ["zz"], "BCC": ["hidden"]})
    channel.basic_publish("", "gsrc", b"x", properties)
    method = None
    while method is None:
        method, found, _ = channel.basic_get("gdead", auto_ack=True)
    connection.close()
    assert (method.exchange, method.routing_key) == (golden["exchange"], golden["routing_key"])
    for when in ("exchange", "queue", "reason"):
        last = found.headers.pop(f"x-last-death-{when}")
        assert last == found.headers[f"x-first-death-{when}"]
    (death,) = found.headers["x-death"]
    text = golden["props"].removeprefix('<BasicProperties(["headers=').removesuffix('"])>')
    wanted = eval(text, {"datetime": dt})
    death["time"] = wanted["x-death"][0]["time"]
    assert found.headers == wanted
    assert found.expiration is None


def test_server_properties(broker: Any) -> None:
    """The product is RabbitMQ's, since clients act on it; platform and information are ours."""
    connection = broker.connect()
    properties = connection._impl.server_properties
    connection.close()
    golden = GOLDENS["server_properties"]
    assert properties.keys() == golden.keys()
    assert properties["product"] == golden["product"] == "RabbitMQ"
    assert properties["version"] == "3.13.7"
    assert "Arneb" in properties["platform"]
    assert "Arneb" in properties["information"]
    for capability in eval(golden["capabilities"]):
        assert properties["capabilities"][capability] is True
