"""A channel's methods: empty names are filled in, requests keep their order, and answers have
RabbitMQ's words."""

from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue, Tx
from tests.amqp_frontend.session.playbook import CHANNEL, Playbook, client, connected, opened, sent

from arneb_amqp.errors import not_found
from arneb_amqp.session.effects import EndConnection, Leave, Perform
from arneb_amqp.session.events import QueueDeclared, RequestDone, RequestFailed
from arneb_amqp.wire.access import Access
from arneb_amqp.wire.constants import ChannelId


def asked(play: Playbook) -> Any:
    return play.effect(Perform).command


def declared(play: Playbook, name: str = "q") -> Playbook:
    play >> client(Queue.Declare, queue=name)
    asked(play)
    return play >> RequestDone(QueueDeclared(name, 3, 2)) << sent(Queue.DeclareOk, queue=name)


def test_declare_ok_says_what_is_there() -> None:
    with opened() as play:
        play >> client(Queue.Declare, queue="q")
        assert asked(play).queue == "q"
        play >> RequestDone(QueueDeclared("q", 3, 2))
        play << sent(Queue.DeclareOk, queue="q", message_count=3, consumer_count=2)


def test_names_that_pamqp_would_refuse_are_answered() -> None:
    with opened() as play:
        declared(play, "Überraschung & größer?")


def test_line_ends_are_removed_from_names() -> None:
    with opened() as play:
        play >> client(Queue.Declare, queue="a\r\nb")
        assert asked(play).queue == "ab"


@pytest.mark.parametrize(
    ("command", "ok", "value", "fields"),
    [
        (client(Queue.Delete, queue=""), Queue.DeleteOk, 5, {"message_count": 5}),
        (client(Queue.Purge, queue=""), Queue.PurgeOk, 5, {"message_count": 5}),
        (client(Queue.Bind, queue="", exchange="x", routing_key="k"), Queue.BindOk, None, {}),
        (client(Queue.Unbind, queue="", exchange="x", routing_key="k"), Queue.UnbindOk, None, {}),
    ],
)
def test_an_empty_name_means_the_last_declared_queue(
    command: Any, ok: type, value: object, fields: dict[str, object]
) -> None:
    with declared(opened(), "last") as play:
        play >> command
        assert asked(play).queue == "last"
        play >> RequestDone(value) << sent(ok, **fields)


def test_an_empty_key_with_an_empty_queue_means_its_name_too() -> None:
    with declared(opened(), "last") as play:
        play >> client(Queue.Bind, queue="", exchange="x", routing_key="")
        assert asked(play).routing_key == "last"


@pytest.mark.parametrize("kind", [Queue.Delete, Queue.Purge, Queue.Bind, Basic.Get, Basic.Consume])
def test_an_empty_name_with_nothing_declared_is_refused(kind: type) -> None:
    with opened() as play:
        play >> client(kind, queue="")
        text = "NOT_FOUND - no previously declared queue"
        play << sent(Channel.Close, reply_code=404, reply_text=text) << Leave(CHANNEL, ())


@pytest.mark.parametrize(
    ("kind", "ok", "fields"),
    [
        (Exchange.Declare, Exchange.DeclareOk, {"exchange": "x"}),
        (Exchange.Delete, Exchange.DeleteOk, {"exchange": "x"}),
        (Exchange.Bind, Exchange.BindOk, {"source": "x", "destination": "y"}),
        (Exchange.Unbind, Exchange.UnbindOk, {"source": "x", "destination": "y"}),
    ],
)
@pytest.mark.parametrize("nowait", [False, True])
def test_exchange_methods_are_answered_unless_nowait_is_set(
    kind: type, ok: type, fields: dict[str, object], nowait: bool
) -> None:
    with opened() as play:
        play >> client(kind, nowait=nowait, **fields)
        assert isinstance(asked(play), kind)
        play >> RequestDone()
        if not nowait:
            play << sent(ok)


def test_a_refusal_closes_the_channel_and_names_the_method() -> None:
    with opened() as play:
        play >> client(Queue.Purge, queue="nope")
        asked(play)
        play >> RequestFailed(not_found("no queue 'nope' in vhost '/'"))
        text = "NOT_FOUND - no queue 'nope' in vhost '/'"
        play << sent(Channel.Close, reply_code=404, reply_text=text, class_id=50, method_id=30)
        play << Leave(CHANNEL, ())


def test_a_channel_that_is_closing_cannot_be_opened() -> None:
    with opened() as play:
        play >> client(Queue.Purge, queue="")
        play << sent(Channel.Close, reply_code=404) << Leave(CHANNEL, ())
        play >> RequestDone() >> client(Channel.Open)
        text = "CHANNEL_ERROR - second 'channel.open' seen"
        play << sent(Connection.Close, 0, reply_code=504, reply_text=text) << EndConnection()


def test_input_waits_while_a_request_is_unanswered() -> None:
    with opened() as play:
        play >> client(Queue.Declare, queue="a") >> client(Queue.Declare, queue="b")
        assert asked(play).queue == "a"
        play >> RequestDone(QueueDeclared("a", 0, 0)) << sent(Queue.DeclareOk, queue="a")
        assert asked(play).queue == "b"


def test_flow_cannot_be_turned_off() -> None:
    with opened() as play:
        play >> client(Channel.Flow, active=True) << sent(Channel.FlowOk, active=True)
        play >> client(Channel.Flow, active=False)
        text = "NOT_IMPLEMENTED - active=false"
        play << sent(Connection.Close, 0, reply_code=540, reply_text=text) << EndConnection()


def test_the_obsolete_access_class_gets_a_ticket() -> None:
    with opened() as play:
        play >> client(Access.Request) << sent(Access.RequestOk, ticket=1)


@pytest.mark.parametrize(
    "kind", [Basic.ConsumeOk, Queue.DeclareOk, Tx.SelectOk, Channel.CloseOk, Channel.FlowOk]
)
def test_methods_that_only_a_broker_sends_are_invalid(kind: type) -> None:
    fields = (
        {"queue": "q", "message_count": 0, "consumer_count": 0} if kind is Queue.DeclareOk else {}
    )
    if kind is Basic.ConsumeOk:
        fields = {"consumer_tag": "c"}
    if kind is Channel.FlowOk:
        fields = {"active": True}
    with opened() as play:
        play >> client(kind, **fields)
        play << sent(Connection.Close, 0, reply_code=503) << EndConnection()


def test_channels_are_numbered_by_the_client() -> None:
    with connected() as play:
        opened(play, 2047)
        opened(play, 5)
        close = client(Channel.Close, 5, reply_code=200, class_id=0, method_id=0)
        play >> close << Leave(ChannelId(5), ())
        play >> RequestDone() << sent(Channel.CloseOk, 5)
        opened(play, 5)
