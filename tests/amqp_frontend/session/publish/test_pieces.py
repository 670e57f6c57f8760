"""Runs whose messages have different routes give the same result as each message by itself."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Confirm
from tests.amqp_frontend.session.playbook import Bytes, Playbook, client, opened, publishes, sent
from tests.counting import calls_of

from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.session.effects import Append, Authorize
from arneb_amqp.session.events import Committed, RequestDone
from arneb_amqp.wire.route import join_route
from arneb_amqp.wire.tables import longstr
from arneb_core.access.principals import Kind, Question, Right
from arneb_core.api.entries.entry import read_header

EXCHANGES: Final = ("", "direct", "fan", "by-headers", "internal", "missing", "closed", "keyed")
CALLS_A_MESSAGE: Final = 9
REPLIES: Final = "amq.rabbitmq.reply-to.x"
KEYS: Final = ("q", "q2", "other", "foreign", "not.allowed", REPLIES)


@dataclass(frozen=True)
class Message:
    """One publish."""

    exchange: str
    key: str
    persistent: bool
    mandatory: bool
    channel: int = 1
    header: str = "v"
    priority: int | None = None
    expiration: str | None = None

    def bytes(self, number: int) -> bytes:
        return publishes(
            f"message {number}".encode(),
            exchange=self.exchange,
            key=self.key,
            channel=self.channel,
            mandatory=self.mandatory,
            delivery_mode=2 if self.persistent else 1,
            headers={"k": longstr(self.header)},
            priority=self.priority,
            expiration=self.expiration,
        ).data


MESSAGES = st.lists(
    st.builds(
        Message,
        st.sampled_from(["direct", "keyed"]) | st.sampled_from(EXCHANGES),
        st.sampled_from(KEYS),
        st.integers(0, 9).map(bool),
        st.booleans(),
        st.sampled_from([1, 1, 1, 2]),
        st.sampled_from("vw"),
        st.sampled_from([None, None, 0, 1, 255]),
        st.sampled_from([None, None, None, "0", "60000", "+5", "x"]),
    ),
    max_size=20,
)


def ready() -> Playbook:
    """Two channels, one of them in confirm mode, an exchange of each kind, and most routes
    known."""
    play = opened() >> client(Confirm.Select) << sent(Confirm.SelectOk)
    play >> client(Channel.Open, 2) << sent(Channel.OpenOk, 2)
    router = play.vhost.router
    router.add_queue("q2")
    router.add_queue(REPLIES)
    for name, kind in [("direct", "direct"), ("fan", "fanout"), ("closed", "direct")]:
        router.declare(Exchange(name, kind))
    router.declare(Exchange("by-headers", "headers"))
    router.declare(Exchange("keyed", "topic"))
    router.declare(Exchange("internal", "direct", internal=True))
    for exchange in ("direct", "closed", "keyed"):
        for key, queue in [("q", "q"), ("other", "q"), ("q2", "q2"), ("not.allowed", "q2")]:
            router.bind(Binding(exchange, queue, key))
    router.bind(Binding("fan", "q"))
    router.bind(Binding("fan", "q2"))
    router.bind(Binding("by-headers", "q2", arguments={"k": longstr("v")}))
    play.vhost.foreign = {"foreign"}
    play.verdicts.limited = {"keyed"}
    play.verdicts.refused = {
        Question(Right.WRITE, Kind.EXCHANGE, "closed"),
        Question(Right.WRITE, Kind.TOPIC, "keyed", "not.allowed"),
    }
    for exchange in ("direct", "fan", "closed", "keyed"):
        for key in KEYS:
            play.vhost.routes.find(join_route(exchange, key))
    return play


@dataclass(frozen=True)
class Outcome:
    """What a client and the core received."""

    entries: list[tuple[tuple[str, ...], bytes]]
    confirmed: int
    others: list[tuple[int, dict[str, object]]]
    """Frames that are not confirms."""
    counted: tuple[int, ...]


def publish(play: Playbook, pieces: Iterable[bytes]) -> Outcome:
    """The outcome of reading ``pieces`` one after the other, once everything is on disk."""
    for piece in pieces:
        play >> Bytes(piece)
        while any(isinstance(effect, Authorize) for effect in play.effects):
            play.effects = deque(each for each in play.effects if not isinstance(each, Authorize))
            play.verdicts.unknown.clear()
            play >> RequestDone(None)
    appends = [effect for effect in play.effects if isinstance(effect, Append)]
    for append in appends:
        play >> Committed(append.token)
    acks = [command for _, command in play.frames if isinstance(command, Basic.Ack)]
    traffic = play.vhost.router.traffic
    per_exchange = (traffic.exchanges[name] for name in sorted(traffic.exchanges))
    return Outcome(
        [(append.queues, entry) for append in appends for entry in append.entries],
        max([ack.delivery_tag for ack in acks], default=0),
        [(on, dict(each)) for on, each in play.frames if not isinstance(each, Basic.Ack)],
        (
            traffic.to_confirm, traffic.returned, traffic.dropped,
            *(each.published_in for each in per_exchange),
            *(each.published_out for each in traffic.exchanges.values()),
        ),
    )  # fmt: skip


@given(MESSAGES, st.sampled_from(["", "direct", "fan", "keyed"]))
def test_messages_read_together_have_the_same_outcome_as_alone(
    messages: list[Message], asked_for: str
) -> None:
    raw = [message.bytes(number) for number, message in enumerate(messages)]
    together, alone = ready(), ready()
    for play in (together, alone):
        # Whether this may be published has to be asked for first, as with an HTTP backend.
        name = asked_for or "amq.default"
        play.verdicts.unknown = {Question(Right.WRITE, Kind.EXCHANGE, name)}
    assert publish(together, [b"".join(raw)]) == publish(alone, raw)


def test_each_key_of_a_restricted_exchange_is_checked() -> None:
    play = ready()
    play >> publishes(b"allowed", exchange="keyed", key="q")
    keys = ["q", "other", "not.allowed", "q"]
    play >> Bytes(b"".join(publishes(b"x", exchange="keyed", key=key).data for key in keys))
    assert sum(len(effect.entries) for effect in play.effects if isinstance(effect, Append)) == 3
    assert [dict(frame)["reply_code"] for _, frame in play.frames] == [403]


def test_a_mandatory_reply_is_returned_from_among_other_keys() -> None:
    play = ready()
    keys = ["q", REPLIES, "q2"]
    for _ in range(2):  # the second time, all routes are known
        play.frames.clear()
        play >> Bytes(b"".join(publishes(b"x", key=key, mandatory=True).data for key in keys))
        assert [dict(frame)["routing_key"] for _, frame in play.frames] == [REPLIES]


def test_each_message_goes_to_the_queues_of_its_key() -> None:
    play = ready()
    play >> publishes(b"x", exchange="direct", key="q")
    play.effects.clear()
    keys = ["q", "other", "q2", "q2", "q", "foreign", "q"]
    play >> Bytes(b"".join(publishes(b"x", exchange="direct", key=key).data for key in keys))
    appends = [effect for effect in play.effects if isinstance(effect, Append)]
    assert [(append.queues, len(append.entries)) for append in appends] == [
        (("q",), 2),
        (("q2",), 2),
        (("q",), 1),
        (("q",), 1),  # an unroutable message is confirmed in its turn
    ]


def varied(count: int, exchange: str = "direct", *, mandatory: bool = False) -> bytes:
    keys = ["q", "other"]
    return b"".join(
        publishes(b"%d" % number, exchange=exchange, key=keys[number % 2], mandatory=mandatory).data
        for number in range(count)
    )


def test_messages_with_several_keys_to_the_same_queues_are_one_append() -> None:
    play = ready()
    play >> Bytes(varied(100))
    append = play.appended()
    bodies = [entry.rpartition(b"\0")[2] for entry in append.entries]
    assert [body[1:-1] for body in bodies[10:]] == [b"%d" % number for number in range(10, 100)]
    assert (append.queues, len(append.entries)) == (("q",), 100)
    assert not play.effects


@pytest.mark.parametrize("mandatory", [False, True])
def test_a_message_with_another_key_costs_a_few_calls_of_builtins(mandatory: bool) -> None:
    play = ready()
    play >> Bytes(varied(10, mandatory=mandatory))
    pieces = (varied(count, mandatory=mandatory) for count in (100, 600))
    counted = [
        calls_of(partial(play.session.receive_data, data, play.now, play.later_ms))
        for data in pieces
    ]
    # Two lookups of the method frame and its layout, an unpack, three appends, two more lookups.
    assert counted[1] - counted[0] <= 500 * CALLS_A_MESSAGE


def test_work_done_before_a_pause_is_not_repeated() -> None:
    """A key that has to be asked for is in the middle."""
    play = ready()
    play.verdicts.unknown = {Question(Right.WRITE, Kind.EXCHANGE, "fan")}
    raw = varied(3) + publishes(b"asked", exchange="fan", key="q").data + varied(3)
    play >> Bytes(raw)
    before = play.appended()
    assert len(before.entries) == 3
    assert isinstance(play.effects.popleft(), Authorize)
    play.verdicts.unknown.clear()
    play >> RequestDone(None)
    asked, behind = play.appended(), play.appended()
    assert (asked.queues, len(asked.entries)) == (("q", "q2"), 1)
    assert (behind.queues, len(behind.entries)) == (("q",), 3)


@pytest.mark.parametrize("keys", [("q", "q", "q"), ("q", "other", "q2")])
@pytest.mark.parametrize("exchange", ["direct", "by-headers"])
@pytest.mark.parametrize("priority", [None, 7])
def test_messages_of_a_run_have_its_priority_and_expire(
    keys: tuple[str, ...], exchange: str, priority: int | None
) -> None:
    play = ready()
    wanted = [
        Message(exchange, key, True, False, priority=priority, expiration="60000").bytes(number)
        for number, key in enumerate(keys)
    ]
    play >> Bytes(b"".join(wanted))
    appends = [effect for effect in play.effects if isinstance(effect, Append)]
    assert all(each.expiring for each in appends)
    headers = [read_header(entry) for each in appends for entry in each.entries]
    assert len(headers) == len(keys)
    for header in headers:
        assert header.priority == (priority or 0)
        assert header.expires_at_ms == header.publish_time_ms + 60_000


def test_a_message_that_does_not_expire_follows_one_that_does() -> None:
    play = ready()
    each = [Message("direct", "q", True, False, expiration=text) for text in ("0", None, "1", "1")]
    play >> Bytes(b"".join(message.bytes(number) for number, message in enumerate(each)))
    appends = [effect for effect in play.effects if isinstance(effect, Append)]
    entries = [read_header(entry) for append in appends for entry in append.entries]
    lifetimes = [header.expires_at_ms - header.publish_time_ms for header in entries]
    assert [max(each, -1) for each in lifetimes] == [0, -1, 1, 1]


def test_messages_that_expire_cost_no_more_calls_than_others() -> None:
    counts = []
    for priority, expiration in ((None, None), (5, "60000")):
        play = ready()
        message = Message("direct", "q", True, False, priority=priority, expiration=expiration)
        raw = b"".join(message.bytes(number) for number in range(100))
        counts.append(calls_of(partial(play.session.receive_data, raw, play.now, play.later_ms)))
    assert counts[1] < counts[0] + 50
