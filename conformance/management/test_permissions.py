"""Each right that a method needs, tried by a user with exactly the required rights and by users
with every right but one, on both brokers: the outcome and its text are the same.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pika
import pytest
from conformance.management.conftest import Managed
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    AMQPConnectionError,
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
)

VHOST: Final = "rights"
USER: Final = "tried"
RIGHTS: Final = ("configure", "write", "read")

Right = tuple[str, str]
"""A kind of right and the name that it is for. ``topic write`` and ``topic read`` are rights on
routing keys of :data:`T`."""

T: Final = "topics"
"""The topic exchange."""


@dataclass(frozen=True, slots=True)
class Row:
    """A method, and all rights that it needs."""

    name: str
    act: Callable[[BlockingChannel], object]
    needs: tuple[Right, ...] = ()


def declare_with(arguments: dict[str, Any]) -> Callable[[BlockingChannel], object]:
    return lambda channel: channel.queue_declare("new", arguments=arguments)


def publish(exchange: str, key: str, **more: Any) -> Callable[[BlockingChannel], object]:
    def act(channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**more))

    return act


def answered(how: str) -> Callable[[BlockingChannel], object]:
    """Get a message and acknowledge it, or return it, in this way."""

    def act(channel: BlockingChannel) -> None:
        method, _, _ = channel.basic_get("q")
        assert method is not None
        if how == "recover":
            channel.basic_recover(requeue=True)
        else:
            getattr(channel, f"basic_{how}")(method.delivery_tag)
        # it is answered, so everything before it has been processed
        channel.basic_qos(prefetch_count=1)

    return act


def consume(channel: BlockingChannel) -> None:
    tag = channel.basic_consume("q", lambda *_: None)
    channel.basic_cancel(tag)


def ask_and_be_answered(channel: BlockingChannel) -> None:
    """Direct reply-to: consuming needs no right, and a request needs those of publishing."""
    heard: list[bytes] = []
    channel.basic_consume(
        "amq.rabbitmq.reply-to", lambda *found: heard.append(found[3]), auto_ack=True
    )
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    channel.basic_publish("", "q", b"ask", properties)
    channel.basic_qos(prefetch_count=1)


def transact(channel: BlockingChannel) -> None:
    channel.tx_select()
    channel.tx_commit()
    channel.tx_rollback()


ROWS: Final = (
    Row("exchange.declare", lambda c: c.exchange_declare("new"), (("configure", "new"),)),
    Row(
        "exchange.declare with an alternate exchange",
        lambda c: c.exchange_declare("new", arguments={"alternate-exchange": "x"}),
        (("configure", "new"), ("read", "new"), ("write", "x")),
    ),
    Row("exchange.declare again", lambda c: c.exchange_declare("x"), (("configure", "x"),)),
    Row("exchange.declare passive", lambda c: c.exchange_declare("x", passive=True)),
    Row("exchange.delete", lambda c: c.exchange_delete("x"), (("configure", "x"),)),
    Row(
        "exchange.delete of none",
        lambda c: c.exchange_delete("none"),
        (("configure", "none"),),
    ),
    Row(
        "exchange.bind",
        lambda c: c.exchange_bind("y", "x", "k"),
        (("write", "y"), ("read", "x")),
    ),
    Row(
        "exchange.unbind",
        lambda c: c.exchange_unbind("y", "x", "bound"),
        (("write", "y"), ("read", "x")),
    ),
    Row("queue.declare", lambda c: c.queue_declare("new"), (("configure", "new"),)),
    Row("queue.declare without a name", lambda c: c.queue_declare(""), (("configure", "amq.gen"),)),
    Row(
        "queue.declare with a dead letter exchange",
        declare_with({"x-dead-letter-exchange": "x"}),
        (("configure", "new"), ("read", "new"), ("write", "x")),
    ),
    Row("queue.declare again", lambda c: c.queue_declare("q"), (("configure", "q"),)),
    Row("queue.declare passive", lambda c: c.queue_declare("q", passive=True)),
    Row("queue.delete", lambda c: c.queue_delete("q"), (("configure", "q"),)),
    Row("queue.delete of none", lambda c: c.queue_delete("none"), (("configure", "none"),)),
    Row("queue.bind", lambda c: c.queue_bind("q", "x", "k"), (("write", "q"), ("read", "x"))),
    Row(
        "queue.unbind",
        lambda c: c.queue_unbind("q", "x", "bound"),
        (("write", "q"), ("read", "x")),
    ),
    Row("queue.purge", lambda c: c.queue_purge("q"), (("read", "q"),)),
    Row("basic.get", lambda c: c.basic_get("q", auto_ack=True), (("read", "q"),)),
    Row("basic.get of none", lambda c: c.basic_get("none"), (("read", "none"),)),
    Row("basic.consume and basic.cancel", consume, (("read", "q"),)),
    *(Row(f"basic.{how}", answered(how), (("read", "q"),)) for how in ("ack", "nack", "reject")),
    Row("basic.recover", answered("recover"), (("read", "q"),)),
    Row("basic.publish", publish("x", "k"), (("write", "x"),)),
    Row("basic.publish to the default exchange", publish("", "q"), (("write", "amq.default"),)),
    Row("basic.publish to none", publish("none", "q"), (("write", "none"),)),
    Row("basic.publish of one's own", publish("x", "k", user_id=USER), (("write", "x"),)),
    Row("basic.publish and basic.consume by reply-to", ask_and_be_answered,
        (("write", "amq.default"),)),
    Row("basic.publish to topics", publish(T, "a.b"), (("write", T), ("topic write", "a.b"))),
    Row(
        "queue.bind to topics",
        lambda c: c.queue_bind("q", T, "a.b"),
        (("write", "q"), ("read", T), ("topic read", "a.b")),
    ),
    Row(
        "queue.unbind from topics",
        lambda c: c.queue_unbind("q", T, "a.b"),
        (("write", "q"), ("read", T), ("topic read", "a.b")),
    ),
    Row(
        "exchange.bind to topics",
        lambda c: c.exchange_bind("y", T, "a.b"),
        (("write", "y"), ("read", T), ("topic read", "a.b")),
    ),
    Row("confirm.select", lambda c: c.confirm_delivery()),
    Row("tx.select, tx.commit and tx.rollback", transact),
    Row("basic.qos", lambda c: c.basic_qos(prefetch_count=1)),
)  # fmt: skip


def only(names: set[str]) -> str:
    """A pattern that matches only these names; ``amq.gen`` stands for all names with that
    prefix."""
    if not names:
        return "^$"
    return "|".join(f"^{re.escape(n)}{'' if n == 'amq.gen' else '$'}" for n in sorted(names))


def everything_but(name: str) -> str:
    """A pattern that matches all names but one."""
    return f"^(?!{re.escape(name)}{'' if name == 'amq.gen' else '$'})"


def grant(managed: Managed, patterns: dict[str, str]) -> None:
    """Grant the user rights for exactly these patterns."""
    body = {each: patterns[each] for each in RIGHTS}
    assert managed.api.call("PUT", f"permissions/{VHOST}/{USER}", body).status in (201, 204)
    topics = {"exchange": T, "write": patterns["topic write"], "read": patterns["topic read"]}
    answer = managed.api.call("PUT", f"topic-permissions/{VHOST}/{USER}", topics)
    assert answer.status in (201, 204)


KINDS: Final = (*RIGHTS, "topic write", "topic read")


def just(needs: tuple[Right, ...]) -> dict[str, str]:
    return {kind: only({name for right, name in needs if right == kind}) for kind in KINDS}


def all_but(lacking: Right) -> dict[str, str]:
    kind, name = lacking
    return {**dict.fromkeys(KINDS, ".*"), kind: everything_but(name)}


def connect(managed: Managed, user: str, password: str) -> pika.BlockingConnection:
    parameters = pika.URLParameters(f"amqp://{user}:{password}@{managed.amqp}/{VHOST}?heartbeat=0")
    return pika.BlockingConnection(parameters)


def renew(managed: Managed) -> None:
    """Create the objects as each row expects them."""
    with connect(managed, "guest", "guest") as connection:
        channel = connection.channel()
        for name in ("q", "new"):
            channel.queue_delete(name)
        for name in ("x", "y", "new", T):
            channel.exchange_delete(name)
        for name in ("x", "y"):
            channel.exchange_declare(name)
        channel.exchange_declare(T, "topic")
        channel.queue_declare("q")
        channel.queue_bind("q", "x", "bound")
        channel.exchange_bind("y", "x", "bound")
        channel.confirm_delivery()
        for _ in range(2):
            channel.basic_publish("", "q", b"x")


def outcome(managed: Managed, act: Callable[[BlockingChannel], object]) -> str:
    """The outcome of an action: "done", or the reply code and text, without the name of the missing
    right, which 3.10 does not give."""
    connection = connect(managed, USER, "p")
    try:
        act(connection.channel())
        return "done"
    except (ChannelClosedByBroker, ConnectionClosedByBroker) as error:
        text = re.sub(r"amq\.gen-[\w-]+", "amq.gen", error.reply_text)
        text = re.sub(r"- (configure|write|read) access to", "- access to", text)
        return f"{error.reply_code} {text}"
    finally:
        with suppress(AMQPError):
            connection.close()


@pytest.fixture(scope="module")
def places(pair: tuple[Managed, Managed]) -> Iterator[tuple[Managed, Managed]]:
    for managed in pair:
        api = managed.api
        assert api.call("PUT", f"vhosts/{VHOST}", {}).status == 201
        assert api.call("PUT", f"users/{USER}", {"password": "p", "tags": ""}).status == 201
    yield pair
    for managed in pair:
        managed.api.call("DELETE", f"vhosts/{VHOST}")
        managed.api.call("DELETE", f"users/{USER}")


def same(places: tuple[Managed, Managed], row: Row, patterns: dict[str, str]) -> str:
    """The outcome of a row, which must be the same on both brokers."""
    found = []
    for managed in places:
        renew(managed)
        grant(managed, patterns)
        found.append(outcome(managed, row.act))
    ours, theirs = found
    assert ours == theirs, patterns
    return ours


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_just_what_it_takes_is_enough_and_each_of_it_is_needed(
    places: tuple[Managed, Managed], row: Row
) -> None:
    enough = same(places, row, just(row.needs))
    assert enough == "done" or enough.startswith("404 NOT_FOUND"), row
    for lacking in row.needs:
        refused = same(places, row, all_but(lacking))
        assert refused.startswith("403 ACCESS_REFUSED - access to"), lacking
        kind, name = lacking
        what = f"topic '{name}'" if kind.startswith("topic") else f" '{name}' in vhost '{VHOST}'"
        assert what in refused, refused


@pytest.mark.parametrize("exchange", ["", "amq.direct", "amq.none"])
def test_what_nobody_may_delete_is_refused_before_rights_are_looked_at(
    places: tuple[Managed, Managed], exchange: str
) -> None:
    row = Row("exchange.delete", lambda c: c.exchange_delete(exchange), ())
    refused = same(places, row, just(()))
    assert refused.startswith("403 ACCESS_REFUSED - ") and "access to" not in refused


def test_a_row_of_permissions_is_what_lets_into_a_vhost(places: tuple[Managed, Managed]) -> None:
    reasons = []
    for managed in places:
        managed.api.call("DELETE", f"permissions/{VHOST}/{USER}")
        with pytest.raises(AMQPConnectionError) as refused:
            connect(managed, USER, "p")
        reasons.append(str(refused.value))
        grant(managed, just(()))
        connect(managed, USER, "p").close()
    assert reasons[0] == reasons[1]
    assert f"NOT_ALLOWED - access to vhost '{VHOST}' refused for user '{USER}'" in reasons[0]


def test_whose_message_it_is_may_be_said_by_impersonators_only(
    places: tuple[Managed, Managed],
) -> None:
    row = Row("", publish("x", "k", user_id="guest"))
    patterns = dict.fromkeys(KINDS, ".*")
    for tags, expected in (("", "406 PRECONDITION_FAILED"), ("impersonator", "done"), ("", "406")):
        for managed in places:
            body = {"password": "p", "tags": tags}
            assert managed.api.call("PUT", f"users/{USER}", body).status == 204
        assert same(places, row, patterns).startswith(expected)


@pytest.mark.parametrize("lacking", RIGHTS)
def test_revoking_a_right_affects_connected_clients(
    places: tuple[Managed, Managed], lacking: str
) -> None:
    """The next channel that it opens is refused; in RabbitMQ, open channels remember their
    rights."""
    acts: dict[str, Callable[[BlockingChannel], object]] = {
        "configure": lambda c: c.queue_declare("q"),
        "write": publish("x", "k"),
        "read": lambda c: c.basic_get("q", auto_ack=True),
    }
    codes = []
    for managed in places:
        renew(managed)
        grant(managed, dict.fromkeys(KINDS, ".*"))
        connection = connect(managed, USER, "p")
        acts[lacking](connection.channel())
        grant(managed, {**dict.fromkeys(KINDS, ".*"), lacking: "^$"})
        with pytest.raises(ChannelClosedByBroker) as refused:
            acts[lacking](connection.channel())
        codes.append(refused.value.reply_code)
        connection.close()
    assert codes == [403, 403]
