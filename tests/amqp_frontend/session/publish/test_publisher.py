"""Publishing: runs become appends; confirms, returns and transactions."""

from functools import partial
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Connection, Queue, Tx
from tests.amqp_frontend.session.playbook import (
    CHANNEL,
    NOW_MS,
    Bytes,
    Delivered,
    Playbook,
    client,
    opened,
    publishes,
    run_of,
    sent,
)
from tests.counting import calls_of

from arneb_amqp.errors import ReplyCode, connection_forced, internal_error, precondition_failed
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.reply_to import REPLY_TO
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.routes import ROUTE_TARGETS_MAX, Routes
from arneb_amqp.session.connection.session import TURN_WORK
from arneb_amqp.session.effects import Acknowledge, Append, Commit, EndConnection, Leave, Release
from arneb_amqp.session.events import Committed, QueueDeclared, RequestDone, RequestFailed
from arneb_amqp.session.publish.publish_cost import SINGLE_WORK
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import Field, FieldType, longstr, signedint
from arneb_core.api.entries.entry import EntryFlag, read_header

CC = Field(FieldType.ARRAY, (longstr("q2"),))


def confirming(play: Playbook | None = None) -> Playbook:
    return opened(play) >> client(Confirm.Select) << sent(Confirm.SelectOk)


def test_a_run_is_one_append_and_one_confirm() -> None:
    with confirming() as play:
        play >> publishes(b"a", b"b", b"c")
        append = play.appended()
        assert (append.queues, len(append.entries)) == (("q",), 3)
        play >> Committed(append.token) << sent(Basic.Ack, delivery_tag=3, multiple=True)


def test_an_entry_contains_what_the_core_must_know() -> None:
    with opened() as play:
        play >> publishes(b"a", delivery_mode=2)
        header = read_header(play.appended().entries[0])
        assert (header.messages, header.flags) == (1, EntryFlag.NONE)
        assert (header.publish_time_ms, header.hint) == (NOW_MS, len(b"\0\1q"))
        assert header.key_hash
        play >> publishes(b"a")
        assert read_header(play.appended().entries[0]).flags is EntryFlag.TRANSIENT


def test_messages_with_other_keys_to_the_same_queues_share_an_append() -> None:
    with confirming() as play:
        play.vhost.router.declare(Exchange("x", "fanout"))
        play.vhost.router.bind(Binding("x", "q"))
        both = b"".join(publishes(b"a", exchange="x", key=key).data for key in "uvw")
        play >> Bytes(both)
        append = play.appended()
        assert len(append.entries) == 3
        play >> Committed(append.token) << sent(Basic.Ack, delivery_tag=3, multiple=True)


def test_appends_complete_in_any_order_and_confirms_keep_theirs() -> None:
    with confirming() as play:
        play >> publishes(b"a")
        play >> publishes(b"b")
        first, second = play.appended(), play.appended()
        play >> Committed(second.token)
        play >> Committed(first.token) << sent(Basic.Ack, delivery_tag=2, multiple=True)


def test_a_failed_commit_is_a_nack() -> None:
    with confirming() as play:
        play >> publishes(b"a", b"b")
        play >> Committed(play.appended().token, internal_error("no"))
        play << sent(Basic.Nack, delivery_tag=2, multiple=True)


def test_messages_that_another_node_may_have_stored_are_not_answered() -> None:
    with confirming() as play:
        opened(play, 2)
        play >> publishes(b"a") >> publishes(b"b", channel=2)
        first, second = play.appended(), play.appended()
        play >> Committed(first.token, connection_forced("another node leads"))
        play << sent(Connection.Close, 0, reply_code=320, class_id=60, method_id=40)
        play << EndConnection()
        play >> Committed(second.token, connection_forced("another node leads"))


def test_a_failed_commit_without_confirms_closes_the_channel() -> None:
    with opened() as play:
        play >> publishes(b"a")
        play >> Committed(play.appended().token, precondition_failed("the disk is full"))
        play << sent(Channel.Close, reply_code=406, class_id=60, method_id=40) << Leave(CHANNEL, ())


def test_confirms_of_several_channels_do_not_mix() -> None:
    with confirming() as play:
        opened(play, 2)
        play >> publishes(b"a", channel=2)
        play >> publishes(b"b")
        other, mine = play.appended(), play.appended()
        play >> Committed(other.token)
        play >> Committed(mine.token) << sent(Basic.Ack, delivery_tag=1, multiple=False)


def test_unroutable_messages_are_confirmed() -> None:
    with confirming() as play:
        play >> publishes(b"a", b"b", key="nowhere")
        play << sent(Basic.Ack, delivery_tag=2, multiple=True)


def test_a_return_comes_before_the_confirm() -> None:
    with confirming() as play:
        play >> publishes(b"lost", key="nowhere", mandatory=True)
        play << sent(Basic.Return, reply_code=312, reply_text="NO_ROUTE", exchange="")
        play << sent(Basic.Ack, delivery_tag=1)
        assert play.contents[-1] == b"lost"


def test_a_reply_that_cannot_be_routed_is_returned_and_confirmed() -> None:
    """As RabbitMQ's documentation of direct reply-to says."""
    name = "amq.rabbitmq.reply-to.x"
    with confirming() as play:
        play.vhost.router.add_queue(name)
        play >> publishes(b"answer", key=name, mandatory=True)
        play << sent(Basic.Return, reply_code=312, reply_text="NO_ROUTE", exchange="")
        append = play.appended()
        assert append.queues == (name,)
        play >> Committed(append.token) << sent(Basic.Ack, delivery_tag=1)


def test_mandatory_messages_that_are_routed_are_ordinary() -> None:
    with confirming() as play:
        play >> publishes(b"a", b"b", mandatory=True)
        assert len(play.appended().entries) == 2


def test_mandatory_messages_read_together_cost_no_more_than_others() -> None:
    calls = []
    for mandatory in (False, True):
        with confirming() as play:
            play >> publishes(b"a", mandatory=mandatory)
            data = publishes(*[b"b"] * 500, mandatory=mandatory).data
            receive = partial(play.session.receive_data, data, play.now, play.later_ms)
            calls.append(calls_of(receive))
            play.effects.clear()
    assert calls[1] < calls[0] + 20


def test_very_many_messages_without_a_queue_are_returned_in_turns() -> None:
    with confirming() as play:
        play.pauses = 0
        play >> publishes(*[b"x"] * 1_000, key="nowhere", mandatory=True)
        assert play.pauses >= 1_000 * SINGLE_WORK // TURN_WORK - 1
        for _ in range(1_000):
            play << sent(Basic.Return, reply_code=312)
        play << sent(Basic.Ack, delivery_tag=1_000, multiple=True)


def test_an_unroutable_message_waits_for_the_confirms_before_it() -> None:
    with confirming() as play:
        play >> publishes(b"a")
        play >> publishes(b"b", key="nowhere")
        play >> Committed(play.appended().token) << sent(Basic.Ack, delivery_tag=2, multiple=True)


def test_a_topic_that_nobody_declared_accepts_messages() -> None:
    with opened() as play:
        play.vhost.foreign.add("pulsars")
        play >> publishes(b"a", key="pulsars")
        assert play.appended().queues == ("pulsars",)
        play.vhost.foreign.clear()
        play >> publishes(b"a", key="pulsars")


def test_several_queues_take_a_message_in_one_append() -> None:
    with opened() as play:
        play.vhost.router.add_queue("q2")
        play.vhost.router.declare(Exchange("x", "fanout"))
        for queue in ("q", "q2"):
            play.vhost.router.bind(Binding("x", queue))
        play >> publishes(b"a", exchange="x")
        assert play.appended().queues == ("q", "q2")


def test_headers_are_routed_message_by_message() -> None:
    with opened() as play:
        play.vhost.router.declare(Exchange("h", "headers"))
        play.vhost.router.bind(Binding("h", "q", arguments={"k": longstr("v")}))
        both = publishes(b"a", exchange="h", headers={"k": longstr("v")}).data
        both += publishes(b"b", exchange="h", headers={"k": longstr("w")}).data
        play >> Bytes(both)
        assert [entry[-2:-1] for entry in play.appended().entries] == [b"a"]


def test_a_message_with_the_headers_of_the_one_before_it_needs_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []
    search = Router.search

    def noted(self: Router, exchange: str, *more: Any) -> Any:
        searched.append(exchange)
        return search(self, exchange, *more)

    with opened() as play:
        play.vhost.router.declare(Exchange("h", "headers"))
        play.vhost.router.bind(Binding("h", "q", "", {"k": longstr("v")}))
        monkeypatch.setattr(Router, "search", noted)
        batches = [(b"abc", "v"), (b"de", "w"), (b"fg", "v")]
        data = b"".join(
            publishes(*map(bytes, zip(payloads)), exchange="h", headers={"k": longstr(value)}).data
            for payloads, value in batches
        )
        play >> Bytes(data)
        assert len(play.appended().entries) == len(b"abcfg")
    assert len(searched) <= 1 + len(batches), "one search for the route, one for each change"


def test_cc_adds_queues_and_bcc_is_removed() -> None:
    with opened() as play:
        play.vhost.router.add_queue("q2")
        play >> publishes(b"a", headers={"BCC": CC})
        append = play.appended()
        assert append.queues == ("q", "q2")
        assert b"BCC" not in append.entries[0]
        play >> publishes(b"a", headers={"CC": CC})
        append = play.appended()
        assert append.queues == ("q", "q2")
        assert b"CC" in append.entries[0]


def test_malformed_keys_in_cc_are_ignored() -> None:
    keys = Field(FieldType.ARRAY, (signedint(1), Field(FieldType.VOID, None), longstr("q2")))
    with opened() as play:
        play.vhost.router.add_queue("q2")
        play >> publishes(b"a", headers={"CC": keys})
        assert play.appended().queues == ("q", "q2")


@pytest.mark.parametrize(
    ("publish", "code", "text"),
    [
        (publishes(b"a", exchange="nope"), 404, "no exchange 'nope' in vhost '/'"),
        (
            publishes(b"a", user_id="bob"),
            406,
            "user_id property set to 'bob' but authenticated user was 'guest'",
        ),
        (
            publishes(b"a", expiration="12x"),
            406,
            "invalid expiration '12x': {leftover_string,\"x\"}",
        ),
        (
            publishes(b"a", expiration="999999999999"),
            406,
            "invalid expiration '999999999999': {value_too_large,999999999999}",
        ),
        (
            publishes(b"a", expiration='1\t"'),
            406,
            'invalid expiration \'1\t"\': {leftover_string,"\\t\\""}',
        ),
        (
            publishes(b"a", expiration="1" + 17 * "a"),
            406,
            f"invalid expiration '1{17 * 'a'}': {{leftover_string,\"{17 * 'a'}\"}}",
        ),
        (
            publishes(b"a", expiration="1" + 18 * "a"),
            406,
            f"invalid expiration '1{18 * 'a'}': {{leftover_string,\n{43 * ' '}\"{18 * 'a'}\"}}",
        ),
        (
            publishes(b"a", expiration="9" * 19),
            406,
            f"invalid expiration '{19 * '9'}': {{value_too_large,\n{43 * ' '}{19 * '9'}}}",
        ),
        # Of several errors, the one that RabbitMQ checks first.
        (
            publishes(b"a", exchange="nope", reply_to=REPLY_TO, user_id="bob"),
            404,
            "no exchange 'nope' in vhost '/'",
        ),
        (
            publishes(b"a", reply_to=REPLY_TO, user_id="bob", expiration="x"),
            406,
            "fast reply consumer does not exist",
        ),
        (
            publishes(b"a", user_id="bob", expiration="x", headers={"CC": signedint(1)}),
            406,
            "user_id property set to 'bob' but authenticated user was 'guest'",
        ),
        (
            publishes(b"a", expiration="x", headers={"CC": signedint(1)}),
            406,
            "invalid expiration 'x': no_integer",
        ),
    ],
)
def test_an_invalid_publish_closes_its_channel(publish: Bytes, code: int, text: str) -> None:
    with opened() as play:
        play >> publish
        play << sent(Channel.Close, reply_code=code, reply_text=f"{ReplyCode(code).name} - {text}")
        play << Leave(CHANNEL, ())


def test_a_valid_expiration_and_user_are_accepted() -> None:
    with opened() as play:
        play >> publishes(b"a", expiration="0", user_id="guest")
        play.appended()


@pytest.mark.parametrize(("properties", "expected"), [
    ({"priority": 7}, 7),
    ({"priority": 255, "expiration": "5"}, 255),
    ({"expiration": "5"}, 0),
    ({"priority": 0}, 0),
])  # fmt: skip
def test_the_core_receives_the_priority(properties: dict[str, Any], expected: int) -> None:
    with opened() as play:
        play >> publishes(b"a", **properties)
        header = read_header(play.appended().entries[0])
        assert (header.priority, header.flags) == (expected, EntryFlag.TRANSIENT)


def test_immediate_is_not_implemented() -> None:
    with opened() as play:
        play >> publishes(b"a", immediate=True)
        text = "NOT_IMPLEMENTED - immediate=true"
        play << sent(Connection.Close, 0, reply_code=540, reply_text=text) << EndConnection()


def test_messages_published_before_an_error_are_stored() -> None:
    with confirming() as play:
        play >> Bytes(publishes(b"a").data + publishes(b"b", exchange="nope").data)
        append = play.appended()
        play << sent(Channel.Close, reply_code=404) << Leave(CHANNEL, ())
        play >> Committed(append.token)
        # The channel is closing: no confirm may follow.


def test_a_forwarded_message_is_stored_before_it_is_acknowledged() -> None:
    with opened() as play:
        consume(play)
        play >> Delivered(1, run_of(0, 1)) << sent(Basic.Deliver)
        ack = client(Basic.Ack, delivery_tag=1)
        play >> Bytes(encode_method(ChannelId(1), ack.command) + publishes(b"a").data)
        play.effect(Append)
        play.effect(Acknowledge)


# Transactions.


def transactional() -> Playbook:
    return opened() >> client(Tx.Select) << sent(Tx.SelectOk)


def test_nothing_of_a_transaction_happens_before_its_commit() -> None:
    with transactional() as play:
        play >> publishes(b"a", b"b")
        play >> publishes(b"lost", key="nowhere", mandatory=True)
        play >> client(Tx.Commit) << sent(Basic.Return, reply_code=312)
        commit = play.effect(Commit)
        assert [(queues, len(entries)) for queues, entries in commit.appends] == [(("q",), 2)]
        play >> RequestDone() << sent(Tx.CommitOk)


def test_the_lifetime_of_a_message_begins_when_it_is_committed() -> None:
    with transactional() as play:
        play >> publishes(b"a", expiration="500") >> publishes(b"b")
        later = play.later_ms = NOW_MS + 300
        play >> client(Tx.Commit)
        assert play.effect(Commit).published_ms == later
        play >> RequestDone() << sent(Tx.CommitOk)


def test_a_rollback_drops_publishes_and_undoes_acknowledgements() -> None:
    with transactional() as play:
        consume(play)
        play >> Delivered(1, run_of(0, 2))
        play << sent(Basic.Deliver) << sent(Basic.Deliver)
        play >> publishes(b"a") >> client(Basic.Ack, delivery_tag=1)
        play >> client(Tx.Rollback) << sent(Tx.RollbackOk)
        play >> client(Basic.Ack, delivery_tag=2, multiple=True)
        play >> client(Tx.Commit)
        commit = play.effect(Commit)
        assert list(commit.appends) == []
        assert [len(answered.positions) for answered in commit.acknowledged] == [2]


def test_rejected_messages_are_requeued_when_the_transaction_is_committed() -> None:
    with transactional() as play:
        consume(play)
        play >> Delivered(1, run_of(0, 1)) << sent(Basic.Deliver)
        play >> client(Basic.Nack, delivery_tag=1, multiple=False, requeue=True)
        play >> client(Tx.Commit)
        play.effect(Commit)
        play >> RequestDone() << sent(Tx.CommitOk)
        play.effect(Release)


def test_a_commit_that_fails_closes_the_channel() -> None:
    with transactional() as play:
        play >> publishes(b"a") >> client(Tx.Commit)
        play.effect(Commit)
        play >> RequestFailed(precondition_failed("the disk is full"))
        play << sent(Channel.Close, reply_code=406, class_id=90, method_id=20) << Leave(CHANNEL, ())


@pytest.mark.parametrize(
    ("first", "then", "text"),
    [
        (Tx.Select, Confirm.Select, "cannot switch from tx to confirm mode"),
        (Confirm.Select, Tx.Select, "cannot switch from confirm to tx mode"),
        (None, Tx.Commit, "channel is not transactional"),
        (None, Tx.Rollback, "channel is not transactional"),
    ],
)
def test_modes_exclude_each_other(first: type | None, then: type, text: str) -> None:
    with opened() as play:
        if first is not None:
            play >> client(first)
            play.frames.clear()
        play >> client(then)
        play << sent(Channel.Close, reply_code=406, reply_text=f"PRECONDITION_FAILED - {text}")
        play << Leave(CHANNEL, ())


def test_confirm_select_with_nowait_takes_effect_without_an_answer() -> None:
    with opened() as play:
        play >> client(Confirm.Select, nowait=True)
        play >> publishes(b"a")
        play >> Committed(play.appended().token) << sent(Basic.Ack, delivery_tag=1)


def test_confirm_select_again_starts_no_new_count() -> None:
    with confirming() as play:
        play >> publishes(b"a")
        play >> client(Confirm.Select) << sent(Confirm.SelectOk)
        play >> publishes(b"b")
        first, second = play.appended(), play.appended()
        play >> Committed(first.token) << sent(Basic.Ack, delivery_tag=1)
        play >> Committed(second.token) << sent(Basic.Ack, delivery_tag=2)


# Routes.


def test_routes_are_remembered_until_the_topology_changes() -> None:
    play = opened()
    routes = Routes(play.vhost.router)
    first = routes.find(b"\0\1q")
    assert routes.find(b"\0\1q") is first
    play.vhost.router.add_queue("another")
    assert routes.find(b"\0\1q") is not first


def test_routes_to_very_many_queues_are_forgotten_before_they_fill_the_memory() -> None:
    router, held = Router(), 0
    router.declare(Exchange("wide", "fanout"))
    for number in range(1_000):
        router.add_queue(f"q{number}")
        router.bind(Binding("wide", f"q{number}", ""))
    routes = Routes(router)
    for number in range(2 * ROUTE_TARGETS_MAX // 1_000):
        raw = join_route("wide", f"key {number}")
        routes.find(raw)
        held = sum(len(route.queues) for route in routes._routes.values())
        assert held <= ROUTE_TARGETS_MAX
    assert len(routes.find(join_route("wide", "key 0")).queues) == 1_000
    assert held, "no route was remembered"


def test_declaring_a_queue_between_two_publishes_changes_where_they_go() -> None:
    with opened() as play:
        play >> publishes(b"a", key="new")
        play >> client(Queue.Declare, queue="new")
        play.effects.clear()
        play.vhost.router.add_queue("new")
        play >> publishes(b"b", key="new")
        assert not play.effects, "the input must wait for the answer"
        play >> RequestDone(QueueDeclared("new", 0, 0)) << sent(Queue.DeclareOk, queue="new")
        assert play.appended().queues == ("new",)


def consume(play: Playbook, tag: str = "c", **fields: object) -> None:
    play >> client(Basic.Consume, queue="q", consumer_tag=tag, **fields)
    play.effects.clear()
    play >> RequestDone() << sent(Basic.ConsumeOk, consumer_tag=tag)
