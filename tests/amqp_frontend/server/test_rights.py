"""Every right of the table is needed: over a real connection, a user who lacks just that one is
refused, and a user who has it is not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pamqp.commands
import pika
import pytest
from pamqp.base import Frame as Command
from pamqp.commands import Basic, Exchange, Queue
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread

from arneb_amqp.session.channel import channel as channel_module
from arneb_amqp.session.channel import declarer as declarer_module
from arneb_amqp.session.connection import lifecycle as lifecycle_module
from arneb_amqp.session.rules import RULES
from arneb_amqp.wire.access import Access
from arneb_core.access.catalogue import hashed
from arneb_core.access.edits import Edit
from arneb_core.access.principals import Kind
from arneb_core.access.rights import Right

ALL_BUT = "^(?!{}$)"
"""A pattern that matches every name except one."""

Change = Callable[[Edit], None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    path: Path = tmp_path_factory.mktemp("rights") / "data"
    serving = serve_in_thread(path)
    running = next(serving)
    change(running, lambda edit: edit.put_vhost("other"))
    connection = running.connect()
    channel = connection.channel()
    for name in ("q", "other-q"):
        channel.queue_declare(name, durable=True)
    channel.queue_bind("q", "amq.direct", "bound")
    for name, kind in (("x", "direct"), ("y", "direct"), ("t", "topic")):
        channel.exchange_declare(name, kind, durable=True)
    connection.close()
    try:
        yield running
    finally:
        serving.close()  # type: ignore[attr-defined]


def change(broker: Broker, what: Change) -> None:
    async def make() -> None:
        async with broker.catalogue.changing() as edit:
            what(edit)

    broker.call(make)


def with_rights(
    broker: Broker, configure: str, write: str, read: str, topics: tuple[str, str] | None = None
) -> None:
    """The user ``u`` may do this and nothing else."""

    async def make() -> None:
        password = await hashed("u")
        async with broker.catalogue.changing() as edit:
            edit.put_user("u", password)
            edit.set_permissions("u", "/", configure, write, read)
            edit.clear_topic_permissions("u", "/")
            if topics is not None:
                edit.set_topic_permissions("u", "/", "t", *topics)

    broker.call(make)


@contextmanager
def channel_of(broker: Broker, user: str = "u", vhost: str = "/") -> Iterator[Any]:
    connection = broker.connect(credentials=pika.PlainCredentials(user, user), virtual_host=vhost)
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


@dataclass(frozen=True)
class Case:
    """A method that needs a right on something, and how a client calls it."""

    method: type[Command]
    right: Right
    kind: Kind
    name: str
    ask: Callable[[Any], object]
    topics: tuple[str, str] | None = None
    what: str = ""

    def __str__(self) -> str:
        return f"{self.method.name} {self.right.value} {self.kind.value} {self.name}"


def publish(exchange: str, key: str) -> Callable[[Any], object]:
    def ask(channel: Any) -> object:
        channel.basic_publish(exchange, key, b"x")
        return channel.exchange_declare("amq.direct", passive=True)  # something that is answered

    return ask


def consume(channel: Any) -> object:
    return channel.basic_consume("q", lambda *_: None)


DLX = {"x-dead-letter-exchange": "x"}
C, W, R = Right.CONFIGURE, Right.WRITE, Right.READ
Q, X, T = Kind.QUEUE, Kind.EXCHANGE, Kind.TOPIC
IN_TOPIC = "topic 'k' in exchange 't'"

CASES = [
    Case(Exchange.Declare, C, X, "new", lambda c: c.exchange_declare("new", "direct")),
    Case(Exchange.Declare, C, X, "x", lambda c: c.exchange_declare("x", "direct", durable=True)),
    Case(
        Exchange.Declare, R, X, "with-ae",
        lambda c: c.exchange_declare("with-ae", arguments={"alternate-exchange": "x"}),
    ),
    Case(
        Exchange.Declare, W, X, "x",
        lambda c: c.exchange_declare("with-ae2", arguments={"alternate-exchange": "x"}),
    ),
    Case(Exchange.Delete, C, X, "gone", lambda c: c.exchange_delete("gone")),
    Case(Exchange.Bind, W, X, "y", lambda c: c.exchange_bind("y", "x", "k")),
    Case(Exchange.Bind, R, X, "x", lambda c: c.exchange_bind("y", "x", "k")),
    Case(Exchange.Bind, R, T, "t", lambda c: c.exchange_bind("y", "t", "k"), ("", "^z"), IN_TOPIC),
    Case(Exchange.Unbind, W, X, "y", lambda c: c.exchange_unbind("y", "x", "k")),
    Case(Exchange.Unbind, R, X, "x", lambda c: c.exchange_unbind("y", "x", "k")),
    Case(
        Exchange.Unbind, R, T, "t", lambda c: c.exchange_unbind("y", "t", "k"), ("", "^z"), IN_TOPIC
    ),
    Case(Queue.Declare, C, Q, "new", lambda c: c.queue_declare("new")),
    Case(Queue.Declare, C, Q, "q", lambda c: c.queue_declare("q", durable=True)),
    Case(Queue.Declare, R, Q, "dlx", lambda c: c.queue_declare("dlx", arguments=DLX)),
    Case(Queue.Declare, W, X, "x", lambda c: c.queue_declare("dlx2", arguments=DLX)),
    Case(Queue.Delete, C, Q, "gone", lambda c: c.queue_delete("gone")),
    Case(Queue.Bind, W, Q, "q", lambda c: c.queue_bind("q", "x", "k")),
    Case(Queue.Bind, R, X, "x", lambda c: c.queue_bind("q", "x", "k")),
    Case(Queue.Bind, R, T, "t", lambda c: c.queue_bind("q", "t", "k"), ("", "^z"), IN_TOPIC),
    Case(Queue.Unbind, W, Q, "q", lambda c: c.queue_unbind("q", "x", "k")),
    Case(Queue.Unbind, R, X, "x", lambda c: c.queue_unbind("q", "x", "k")),
    Case(Queue.Unbind, R, T, "t", lambda c: c.queue_unbind("q", "t", "k"), ("", "^z"), IN_TOPIC),
    Case(Queue.Purge, R, Q, "q", lambda c: c.queue_purge("q")),
    Case(Basic.Get, R, Q, "q", lambda c: c.basic_get("q")),
    Case(Basic.Consume, R, Q, "q", consume),
    Case(Basic.Publish, W, X, "x", publish("x", "k")),
    Case(Basic.Publish, W, X, "amq.default", publish("", "q")),
    Case(Basic.Publish, W, T, "t", publish("t", "k"), ("^z", ""), IN_TOPIC),
]  # fmt: skip


def every_method() -> set[type[Command]]:
    known = {
        each
        for group in vars(pamqp.commands).values()
        if isinstance(group, type)
        for each in vars(group).values()
        if isinstance(each, type) and issubclass(each, Command)
    }
    return known | {Access.Request, Access.RequestOk}


def test_every_method_of_amqp_has_a_rule() -> None:
    assert set(RULES) == every_method()


def test_no_method_is_handled_that_has_no_rule() -> None:
    handled = {
        *channel_module._HANDLERS, *declarer_module._HANDLERS, *lifecycle_module._METHODS,
    }  # fmt: skip
    assert handled <= set(RULES)


def test_each_need_of_a_rule_is_tried() -> None:
    needed = {
        (method, need.right, need.kind) for method, rule in RULES.items() for need in rule.needs
    }
    assert {(each.method, each.right, each.kind) for each in CASES} == needed


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_user_without_that_right_is_refused_and_a_user_with_it_is_not(
    broker: Broker, case: Case
) -> None:
    everything = dict.fromkeys(Right, ".*")
    lacking = dict(everything)
    if case.kind is not T:
        lacking[case.right] = ALL_BUT.format(case.name.replace(".", "\\."))
    with_rights(broker, lacking[C], lacking[W], lacking[R], case.topics)
    what = case.what or f"{case.kind.value} '{case.name}'"
    with channel_of(broker) as channel:
        with pytest.raises(ChannelClosedByBroker) as refused:
            case.ask(channel)
        assert refused.value.reply_code == 403
        assert refused.value.reply_text == (
            f"ACCESS_REFUSED - {case.right.value} access to {what} in vhost '/' refused "
            "for user 'u'"
        )
    with_rights(broker, ".*", ".*", ".*")
    with channel_of(broker) as channel:
        case.ask(channel)


NOTHING_NEEDED: list[Callable[[Any], object]] = [
    lambda c: c.exchange_declare("x", passive=True),
    lambda c: c.queue_declare("q", passive=True),
    lambda c: c.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True),
    lambda c: c.basic_qos(prefetch_count=1),
    lambda c: c.tx_select(),
    lambda c: c.confirm_delivery(),
]


@pytest.mark.parametrize("ask", NOTHING_NEEDED)
def test_methods_that_need_no_right_can_be_called_without_any(
    broker: Broker, ask: Callable[[Any], object]
) -> None:
    with_rights(broker, "", "", "")
    with channel_of(broker) as channel:
        ask(channel)


def test_declaring_an_existing_queue_needs_no_right_on_its_dead_letter_exchange(
    broker: Broker,
) -> None:
    with_rights(broker, ".*", ".*", ".*")
    with channel_of(broker) as channel:
        channel.queue_declare("has-dlx", arguments=DLX, durable=True)
    with_rights(broker, ".*", "", "")
    with channel_of(broker) as channel:
        channel.queue_declare("has-dlx", arguments=DLX, durable=True)


def test_a_name_generated_by_the_broker_needs_configure_too(broker: Broker) -> None:
    with_rights(broker, "^mine", ".*", ".*")
    with channel_of(broker) as channel, pytest.raises(ChannelClosedByBroker, match="amq.gen-"):
        channel.queue_declare("")
    with_rights(broker, "^amq\\.gen", ".*", ".*")
    with channel_of(broker) as channel:
        channel.queue_declare("")


@pytest.mark.parametrize(
    ("exchange", "text"),
    [
        ("", "operation not permitted on the default exchange"),
        ("amq.direct", "deletion of system exchange 'amq.direct' in vhost '/' not allowed"),
        ("amq.none", "deletion of system exchange 'amq.none' in vhost '/' not allowed"),
    ],
)
def test_what_nobody_may_delete_is_refused_before_rights_are_looked_at(
    broker: Broker, exchange: str, text: str
) -> None:
    with_rights(broker, "", "", "")
    with channel_of(broker) as channel, pytest.raises(ChannelClosedByBroker) as refused:
        channel.exchange_delete(exchange)
    assert refused.value.reply_text == f"ACCESS_REFUSED - {text}"


@pytest.mark.parametrize(
    ("ask", "code"), [(publish("nowhere", "k"), 404), (lambda c: c.basic_get("nothing"), 404)]
)
def test_a_refusal_comes_before_not_found(
    broker: Broker, ask: Callable[[Any], object], code: int
) -> None:
    with_rights(broker, "", "", "")
    with channel_of(broker) as channel, pytest.raises(ChannelClosedByBroker) as refused:
        ask(channel)
    assert refused.value.reply_code == 403
    with_rights(broker, ".*", ".*", ".*")
    with channel_of(broker) as channel, pytest.raises(ChannelClosedByBroker) as missing:
        ask(channel)
    assert missing.value.reply_code == code


@pytest.mark.parametrize("name", ["", "x", "amq.new"])
def test_an_unknown_type_of_exchange_comes_before_every_refusal(broker: Broker, name: str) -> None:
    """As in RabbitMQ."""
    with_rights(broker, "", "", "")
    with channel_of(broker) as channel, pytest.raises(ConnectionClosedByBroker) as refused:
        channel.exchange_declare(name, "wibble")
    assert refused.value.reply_code == 503


def test_patterns_are_searched_for_and_not_anchored(broker: Broker) -> None:
    with_rights(broker, "mid", "", "")
    with channel_of(broker) as channel:
        channel.queue_declare("a-mid-z")


def test_a_topic_permission_has_variables_and_applies_to_one_exchange(broker: Broker) -> None:
    with_rights(broker, ".*", ".*", ".*", ("^{username}-{vhost}$", ".*"))
    with channel_of(broker) as channel:
        publish("t", "u-/")(channel)
        publish("x", "anything")(channel)
        with pytest.raises(ChannelClosedByBroker):
            publish("t", "v-/")(channel)


def test_a_right_that_is_taken_away_is_lost_at_once(broker: Broker) -> None:
    with_rights(broker, ".*", ".*", ".*")
    with channel_of(broker) as channel:
        publish("x", "k")(channel)
        publish("t", "k")(channel)
        with_rights(broker, ".*", "^t$", ".*")
        publish("t", "k")(channel)
        with pytest.raises(ChannelClosedByBroker):
            publish("x", "k")(channel)
    with channel_of(broker) as channel:
        publish("t", "k")(channel)
        with_rights(broker, ".*", "^t$", ".*", ("^other", ".*"))
        with pytest.raises(ChannelClosedByBroker):
            publish("t", "k")(channel)


def test_a_right_that_is_granted_holds_at_once(broker: Broker) -> None:
    with_rights(broker, "", "", "")
    with channel_of(broker) as channel:
        with_rights(broker, "", "^x$", "")
        publish("x", "k")(channel)


def test_rights_in_one_vhost_do_not_extend_to_another(broker: Broker) -> None:
    with_rights(broker, "", "", "")
    change(broker, lambda edit: edit.set_permissions("u", "other", ".*", ".*", ".*"))
    with channel_of(broker, vhost="other") as channel:
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"in other")
        method, _, body = channel.basic_get("q")
        assert body == b"in other"
        channel.basic_ack(method.delivery_tag)
    with channel_of(broker) as channel, pytest.raises(ChannelClosedByBroker):
        channel.basic_get("q")
    change(broker, lambda edit: edit.clear_permissions("u", "other"))


def test_a_user_id_must_be_the_users_own_unless_it_may_impersonate(broker: Broker) -> None:
    with_rights(broker, ".*", ".*", ".*")

    def say(channel: Any, user: str) -> None:
        channel.basic_publish("", "q", b"x", pika.BasicProperties(user_id=user))
        channel.queue_declare("q", passive=True)

    with channel_of(broker) as channel:
        say(channel, "u")
        with pytest.raises(ChannelClosedByBroker) as refused:
            say(channel, "guest")
        assert refused.value.reply_text == (
            "PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was 'u'"
        )
    change(broker, lambda edit: edit.put_user("u", edit.user("u").password, ["impersonator"]))
    with channel_of(broker) as channel:
        say(channel, "guest")
