"""Turns of a session: the input of one read is handled in pieces, in its order."""

from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Channel, Queue
from pamqp.commands import Confirm as ConfirmMethods
from tests.amqp_frontend.session.playbook import (
    Bytes,
    Playbook,
    client,
    make,
    opened,
    publishes,
    sent,
)
from tests.counting import calls_of

from arneb_amqp.routing import search
from arneb_amqp.routing.exchange import Binding, Exchange
from arneb_amqp.routing.search import Search
from arneb_amqp.session.connection.session import TURN_WORK
from arneb_amqp.session.effects import Append, Find, Perform, Reject, Token
from arneb_amqp.session.events import QueueDeclared, RequestDone
from arneb_amqp.session.publish.confirms import Confirm
from arneb_amqp.wire.items import Ack, Method, Publish
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.tables import array, longstr, signedint

HARD_KEY = ".".join(["a"] * 127)


def hard_patterns(count: int) -> list[str]:
    """Patterns that match the hard key, each of which must be compared to its end."""
    return [".".join(["#", "a", "*", "a"] * 30 + ["#"] + ["a"] * (at % 6)) for at in range(count)]


def topic_exchange(play: Playbook, patterns: list[str]) -> None:
    router = play.vhost.router
    router.declare(Exchange("topics", "topic"))
    for at, pattern in enumerate(patterns):
        router.add_queue(f"q{at}")
        router.bind(Binding("topics", f"q{at}", f"{pattern}.{at}"))
    router.bind(Binding("topics", "q", "#"))


def carbon_copies(count: int) -> dict[str, object]:
    return {"headers": {"CC": array([longstr(f"{HARD_KEY[:-1]}{at}") for at in range(count)])}}


def most_calls(play: Playbook, data: bytes) -> int:
    """The work of the largest of the turns in which ``data`` is handled."""
    session, most = play.session, 0

    def turn(work: Callable[[], object]) -> None:
        nonlocal most
        most = max(most, calls_of(work))
        play.effects.extend(session.take_effects())

    turn(lambda: session.receive_data(data, play.now, play.later_ms))
    while session.has_more:
        play.pauses += 1
        turn(lambda: session.handle_more(play.now, play.later_ms))
    return most


def test_many_methods_take_many_turns() -> None:
    play = opened()
    flow = encode_method(1, make(Channel.Flow, active=True))
    most = most_calls(play, flow * 10_000)
    play._read(play.session.data_to_send(play.now))
    assert [command.name for _, command in play.frames] == ["Channel.FlowOk"] * 10_000
    assert play.pauses >= 50
    assert most < 40_000


def test_a_read_of_small_messages_takes_one_turn() -> None:
    play = opened()
    most = most_calls(play, publishes(*[b"x" * 128] * 1_500).data)
    assert play.pauses == 0
    assert len(play.appended().entries) == 1_500
    assert most < 1_000


def test_publishes_routed_by_headers_are_divided_into_turns() -> None:
    play = opened()
    router = play.vhost.router
    router.declare(Exchange("by-headers", "headers"))
    for at in range(1_000):
        router.bind(Binding("by-headers", "q", arguments={"number": signedint(at)}))
    data = b"".join(
        publishes(
            f"message {at}".encode(), exchange="by-headers", headers={"number": signedint(at)}
        ).data
        for at in range(1_000)
    )
    most = most_calls(play, data)
    assert play.pauses >= 5
    assert most < 20_000
    assert [entry.rpartition(b"message ")[2][:-1] for entry in entries_of(play)] == [
        str(at).encode() for at in range(1_000)
    ]


@pytest.mark.parametrize("traced", [False, True], ids=["dead letters", "copies"])
@pytest.mark.parametrize("keys", [1, 3], ids=["one route", "several"])
def test_publishes_that_are_rewritten_at_once_are_divided_into_turns(
    keys: int, traced: bool
) -> None:
    play = opened()
    play.vhost.is_traced = traced
    if not traced:
        play.vhost.refusing.add("q")
    play.vhost.router.declare(Exchange("t", "topic"))
    play.vhost.router.bind(Binding("t", "q", "#"))
    data = b"".join(
        publishes(f"message {at}".encode(), exchange="t", key=f"key {at % keys}").data
        for at in range(1_000)
    )
    most_calls(play, data)
    assert play.pauses >= 5
    assert [entry.rpartition(b"message ")[2][:-1] for entry in entries_of(play)] == [
        str(at).encode() for at in range(1_000)
    ]


def test_a_run_with_more_publishes_by_headers_than_a_turn_goes_on_in_the_next() -> None:
    """A full read of the smallest messages contains more of them than a turn may handle."""
    play = opened()
    play.vhost.router.declare(Exchange("h", "headers"))
    play.vhost.router.bind(Binding("h", "q"))
    count = TURN_WORK + 1_000
    raw = publishes(*[b"x"] * count, exchange="h").data
    play.session.receive_data(raw, play.now, play.later_ms)
    for _ in range(count):
        if not play.session.has_more:
            break
        play.session.handle_more(play.now, play.later_ms)
    play.effects.extend(play.session.take_effects())
    assert len(entries_of(play)) == count


def test_messages_whose_routes_are_all_new_are_divided_into_turns() -> None:
    """Each has its own routing key, whose queues have to be searched for."""
    play = opened()
    topic_exchange(play, [])
    keys = [f"key.{at:03}" for at in range(600)]
    raw = b"".join(publishes(key.encode(), exchange="topics", key=key).data for key in keys)
    most = most_calls(play, raw)
    assert play.pauses >= 4
    assert most < 40_000
    assert [entry[-8:-1].decode() for entry in entries_of(play)] == keys


def entries_of(play: Playbook) -> list[bytes]:
    found = [entry for append in play.effects for entry in append.entries]
    play.effects.clear()
    return found


def test_a_hard_key_costs_no_more_than_a_turn() -> None:
    play = opened()
    topic_exchange(play, hard_patterns(600))
    most = most_calls(play, publishes(b"hard", exchange="topics", key=HARD_KEY).data)
    assert play.appended().queues == ("q",)
    assert most < 20_000


def test_a_long_search_and_the_messages_after_it_wait() -> None:
    play = opened()
    topic_exchange(play, hard_patterns(600))
    hard = publishes(b"hard", exchange="topics", key=HARD_KEY, **carbon_copies(60))
    play >> Bytes(publishes(b"before").data + hard.data + publishes(b"behind").data)
    assert play.appended().queues == ("q",)
    find = play.effect(Find)
    assert not play.effects
    assert not play.session.has_more
    steps = 1
    while not find.search.step():
        steps += 1
    assert steps >= 3
    play >> RequestDone(None)
    assert [entry[-5:-1] for entry in entries_of(play)] == [b"hard", b"hind"]


def test_a_search_for_many_messages_is_made_once_per_route() -> None:
    play = opened()
    topic_exchange(play, hard_patterns(600))
    slow = Search(play.vhost.router, "topics", HARD_KEY, None, [HARD_KEY] * 60)
    assert not slow.step()
    assert not slow.answers("topics", HARD_KEY, None, (HARD_KEY,) * 60)
    while not slow.step():
        pass
    assert slow.answers("topics", HARD_KEY, None, (HARD_KEY,) * 60)
    assert not slow.answers("topics", HARD_KEY, None, (HARD_KEY,) * 59)
    play.vhost.router.add_queue("new")
    assert not slow.answers("topics", HARD_KEY, None, (HARD_KEY,) * 60)


def test_a_search_starts_over_when_the_topology_changes() -> None:
    play = opened()
    topic_exchange(play, hard_patterns(600))
    router = play.vhost.router
    slow = Search(router, "topics", HARD_KEY, None, [HARD_KEY] * 60)
    assert not slow.step()
    router.add_queue("late")
    router.bind(Binding("topics", "late", "a.#"))
    router.take_back(Binding("topics", "q", "#"))
    while not slow.step():
        pass
    assert slow.result == router.route("topics", HARD_KEY)
    assert slow.result.queues == ("late",)


def test_an_endless_search_closes_its_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEPS_MAX", 2)
    play = opened()
    topic_exchange(play, hard_patterns(600))
    play >> publishes(b"hard", exchange="topics", key=HARD_KEY, **carbon_copies(60))
    slow = play.effect(Find).search
    with pytest.raises(Exception, match="took too long") as caught:
        while not slow.step():
            pass
    assert caught.value.reply_code == 406


def test_a_request_after_a_pause_waits_for_its_turn() -> None:
    """The declaration sees what was published before it, however many turns that took."""
    play = opened()
    flow = encode_method(1, make(Channel.Flow, active=True))
    declare = encode_method(1, make(Queue.Declare, queue="q", passive=True))
    play >> Bytes(flow * 1_000 + publishes(b"x").data + declare + publishes(b"y").data)
    assert play.pauses
    (before,) = play.appended().entries
    assert play.effect(Perform).command.queue == "q"
    assert not play.effects
    play >> RequestDone(QueueDeclared("q", 1, 0))
    (after,) = play.appended().entries
    assert (before[-2:-1], after[-2:-1]) == (b"x", b"y")
    assert play.frames.pop()[1].name == "Queue.DeclareOk"
    play.frames.clear()


def test_nothing_is_handled_after_the_end() -> None:
    play = opened()
    flow = encode_method(1, make(Channel.Flow, active=True))
    play.session.receive_data(flow * 1_000, play.now, play.later_ms)
    assert play.session.has_more
    play.session.cut("gone")
    assert not play.session.has_more


def test_a_request_stops_the_turns() -> None:
    play = opened()
    flow = encode_method(1, make(Channel.Flow, active=True))
    get = encode_method(1, make(Basic.Get, queue="q"))
    play >> Bytes(get + flow * 1_000)
    assert not play.session.has_more
    play.effects.popleft()
    play >> RequestDone(None) << sent(Basic.GetEmpty)
    assert len(play.frames) == 1_000


def test_a_publish_and_its_confirm_are_few_calls() -> None:
    play = opened() >> client(ConfirmMethods.Select) << sent(ConfirmMethods.SelectOk)
    publish = publishes(b"x" * 128).data
    calls = []
    for _ in range(3):
        tokens: list[Token] = []

        def publish_and_confirm(tokens: list[Token] = tokens) -> None:
            session = play.session
            session.receive_data(publish, play.now, play.later_ms)
            tokens += [effect.token for effect in session.take_effects()]  # type: ignore[union-attr]
            session.committed(tokens[0], None, refused=False)
            assert session.data_to_send(play.now)

        calls.append(calls_of(publish_and_confirm))
    assert calls[-1] <= 95


@pytest.mark.parametrize("kind", [Append, Confirm, Publish, Ack, Method, Reject])
def test_objects_made_for_every_message_are_made_in_one_step(kind: type) -> None:
    """Not field by field, as frozen dataclasses are."""
    assert not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
