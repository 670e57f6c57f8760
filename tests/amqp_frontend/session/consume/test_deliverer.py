"""Delivering: consumers, deliveries, prefetch, acknowledgements, basic.get."""

from dataclasses import dataclass
from typing import Any

import pytest
from pamqp.base import Frame as Command
from pamqp.commands import Basic, Channel, Connection, Queue
from tests.amqp_frontend.session.playbook import (
    CHANNEL,
    Bytes,
    Client,
    Delivered,
    Playbook,
    client,
    opened,
    run_of,
    sent,
)

from arneb_amqp.errors import access_refused, not_found
from arneb_amqp.routing.reply_to import REPLY_TO
from arneb_amqp.session.consume.unbatching import UNREADABLE
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.session.effects import (
    Acknowledge,
    Cancel,
    Consume,
    EndConnection,
    Get,
    Leave,
    Perform,
    Reject,
    Release,
    Wake,
)
from arneb_amqp.session.events import ConsumerClosed, Pulled, RequestDone, RequestFailed
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.methods import encode_method
from arneb_amqp.wire.tables import longstr
from arneb_core.api.entries import codec as core_codec
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries

FIRST = ConsumerId(1)


def places(*entries: int) -> list[Any]:
    return [position_at(1, entry) for entry in entries]


def consuming(play: Playbook | None = None, tag: str = "c", **fields: object) -> Playbook:
    play = opened() if play is None else play
    play >> client(Basic.Consume, queue="q", consumer_tag=tag, **fields)
    play.effect(Consume)
    return play >> RequestDone() << sent(Basic.ConsumeOk, consumer_tag=tag)


def acknowledged(consumer: int, *entries: int) -> Acknowledge:
    return Acknowledge(AnsweredDeliveries(ConsumerId(consumer), places(*entries)))


def rejected(consumer: int, *entries: int) -> Reject:
    return Reject(AnsweredDeliveries(ConsumerId(consumer), places(*entries)))


def released(consumer: int, *entries: int) -> Release:
    return Release(AnsweredDeliveries(ConsumerId(consumer), places(*entries)))


def delivered(play: Playbook, count: int, consumer: int = 1, first: int = 0) -> Playbook:
    play >> Delivered(consumer, run_of(first, count))
    for _ in range(count):
        play << sent(Basic.Deliver)
    return play


def test_deliveries_carry_tag_route_and_payload() -> None:
    with consuming() as play:
        play >> Delivered(1, run_of(0, 2, b"hello"))
        play << sent(Basic.Deliver, consumer_tag="c", delivery_tag=1, redelivered=False)
        play << sent(Basic.Deliver, delivery_tag=2, exchange="", routing_key="q")
        assert play.contents.count(b"hello") == 2


def test_redelivered_messages_are_marked() -> None:
    with consuming() as play:
        play >> Delivered(1, run_of(0, 3, redelivered={position_at(1, 1)}))
        for redelivered in (False, True, False):
            play << sent(Basic.Deliver, redelivered=redelivered)


def test_acks_become_positions() -> None:
    with delivered(consuming(), 5) as play:
        play >> client(Basic.Ack, delivery_tag=2) << acknowledged(1, 1)
        play >> client(Basic.Ack, delivery_tag=4, multiple=True) << acknowledged(1, 0, 2, 3)
        play >> client(Basic.Ack, delivery_tag=0, multiple=True) << acknowledged(1, 4)
        play >> client(Basic.Ack, delivery_tag=0, multiple=True)


def test_acks_of_two_consumers_are_kept_apart() -> None:
    with delivered(consuming(), 1) as play:
        consuming(play, "d")
        delivered(play, 1, consumer=2, first=7)
        play >> client(Basic.Ack, delivery_tag=0, multiple=True)
        play << acknowledged(1, 0) << acknowledged(2, 7)


@pytest.mark.parametrize(
    "command",
    [
        client(Basic.Ack, delivery_tag=99),
        client(Basic.Ack, delivery_tag=99, multiple=True),
        client(Basic.Ack, delivery_tag=0),
        client(Basic.Nack, delivery_tag=99),
        client(Basic.Nack, delivery_tag=99, multiple=True),
        client(Basic.Reject, delivery_tag=99),
    ],
)
def test_an_unknown_tag_closes_the_channel(command: Any) -> None:
    with delivered(consuming(), 1) as play:
        play >> command
        tag = command.command.delivery_tag
        text = f"PRECONDITION_FAILED - unknown delivery tag {tag}"
        play << sent(Channel.Close, reply_code=406, reply_text=text) << Leave(CHANNEL, (FIRST,))


def test_a_tag_can_be_acknowledged_once() -> None:
    with delivered(consuming(), 1) as play:
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0)
        play >> client(Basic.Ack, delivery_tag=1)
        play << sent(Channel.Close, reply_code=406) << Leave(CHANNEL, (FIRST,))


def test_rejected_messages_are_requeued_or_discarded() -> None:
    with delivered(consuming(), 4) as play:
        play >> client(Basic.Reject, delivery_tag=1, requeue=True) << released(1, 0)
        play >> client(Basic.Reject, delivery_tag=2, requeue=False) << rejected(1, 1)
        play >> client(Basic.Nack, delivery_tag=4, multiple=True, requeue=True)
        play << released(1, 2, 3)


def at_once(*commands: Client) -> Bytes:
    """The acknowledgements of one read."""
    return Bytes(
        b"".join(encode_method(ChannelId(each.channel), each.command) for each in commands)
    )


def rejecting(*tags: int) -> list[Client]:
    return [client(Basic.Reject, delivery_tag=tag, requeue=False) for tag in tags]


def test_what_one_read_rejects_is_one_effect() -> None:
    with delivered(consuming(), 200) as play:
        play >> at_once(*rejecting(*range(1, 101))) << rejected(1, *range(100))
        play >> at_once(*rejecting(102, 101)) << rejected(1, 101, 100)


def test_rejects_and_nacks_of_one_read_are_one_effect() -> None:
    with delivered(consuming(), 7) as play:
        nacks = [client(Basic.Nack, delivery_tag=tag, requeue=False) for tag in (3, 4)]
        rest = client(Basic.Nack, delivery_tag=7, multiple=True, requeue=False)
        play >> at_once(*rejecting(1, 2), *nacks, *rejecting(5), rest) << rejected(1, *range(7))


def test_what_one_read_requeues_is_one_effect() -> None:
    with delivered(consuming(), 200) as play:
        nacks = [client(Basic.Nack, delivery_tag=tag, requeue=True) for tag in range(1, 101)]
        play >> at_once(*nacks) << released(1, *range(100))


@pytest.mark.parametrize("method", [Basic.Reject, Basic.Nack])
@pytest.mark.parametrize("requeue", [True, False])
def test_rejections_before_an_unknown_tag_count(method: type[Command], requeue: bool) -> None:
    with delivered(consuming(), 5) as play:
        tags = 2, 1, 2, 3
        play >> at_once(*(client(method, delivery_tag=tag, requeue=requeue) for tag in tags))
        play << (released if requeue else rejected)(1, 1, 0)
        closed = play.frame(Channel.Close)
        assert closed.reply_text == "PRECONDITION_FAILED - unknown delivery tag 2"
        assert (closed.class_id, closed.method_id) == (60, method.index & 0xFFFF)
        play << Leave(CHANNEL, (FIRST,))


def test_rejections_are_merged_only_if_nothing_comes_between_them() -> None:
    with delivered(consuming(), 3) as play:
        consuming(play, "d")
        delivered(play, 2, consumer=2, first=7)
        play >> at_once(
            *rejecting(1),
            client(Basic.Ack, delivery_tag=2),
            *rejecting(3, 4),
            client(Basic.Reject, delivery_tag=5, requeue=True),
        )
        play << rejected(1, 0) << acknowledged(1, 1) << rejected(1, 2)
        play << rejected(2, 7) << released(2, 8)


def test_recover_returns_everything() -> None:
    with delivered(consuming(), 2) as play:
        play >> client(Basic.Recover, requeue=True)
        play << released(1, 0, 1) << sent(Basic.RecoverOk)
        play >> client(Basic.RecoverAsync, requeue=True)


def test_recover_without_requeue_is_not_implemented() -> None:
    with consuming() as play:
        play >> client(Basic.Recover, requeue=False)
        play << sent(Connection.Close, 0, reply_code=540) << EndConnection()


def test_without_acks_nothing_is_kept_but_tags_are_counted() -> None:
    with opened() as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="c", no_ack=True)
        assert play.effect(Consume).wanted.no_ack
        play >> RequestDone() << sent(Basic.ConsumeOk)
        delivered(play, 2)
        consuming(play, "d")
        play >> Delivered(2, run_of(5, 1)) << sent(Basic.Deliver, delivery_tag=3)
        play >> client(Basic.Ack, delivery_tag=0, multiple=True) << acknowledged(2, 5)


def test_deliveries_wait_for_the_answer_to_consume() -> None:
    with opened() as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="c")
        play.effect(Consume)
        play >> Delivered(1, run_of(0, 1))
        play >> RequestDone() << sent(Basic.ConsumeOk) << sent(Basic.Deliver, delivery_tag=1)


def test_a_consumer_without_a_tag_is_given_one() -> None:
    with opened() as play:
        play >> client(Basic.Consume, queue="q")
        assert play.effect(Consume).wanted.tag == "amq.ctag-name0"
        play >> RequestDone() << sent(Basic.ConsumeOk, consumer_tag="amq.ctag-name0")


def test_a_tag_in_use_is_refused() -> None:
    with consuming() as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="c")
        text = "NOT_ALLOWED - attempt to reuse consumer tag 'c'"
        play << sent(Connection.Close, 0, reply_code=530, reply_text=text) << EndConnection()


def test_answers_go_to_one_consumer_whatever_it_asks_for() -> None:
    with opened() as play:
        play >> client(
            Basic.Consume, queue=REPLY_TO, consumer_tag="r", no_ack=True,
            arguments={"x-priority": longstr("x")},
        )  # fmt: skip
        assert play.effect(Consume).wanted.arguments == {}
        play >> RequestDone() << sent(Basic.ConsumeOk, consumer_tag="r")
        play >> client(Basic.Consume, queue=REPLY_TO, consumer_tag="r", no_ack=True)
        text = "PRECONDITION_FAILED - reply consumer already set"
        play << sent(Channel.Close, reply_code=406, reply_text=text) << Leave(CHANNEL, (FIRST,))


def test_a_refused_consumer_leaves_nothing_behind() -> None:
    with opened() as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="c")
        play.effect(Consume)
        play >> RequestFailed(access_refused("queue 'q' in vhost '/' in exclusive use"))
        play << sent(Channel.Close, reply_code=403, class_id=60, method_id=20)
        play << Leave(CHANNEL, (FIRST,))
        play >> Delivered(1, run_of(0, 1))


def test_cancelling_returns_nothing() -> None:
    """What was delivered before can still be acknowledged after cancel-ok."""
    with delivered(consuming(), 1) as play:
        play >> client(Basic.Cancel, consumer_tag="c") << Cancel(FIRST)
        play >> RequestDone() << sent(Basic.CancelOk, consumer_tag="c")
        play >> Delivered(1, run_of(1, 1))
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0)


def test_cancelling_an_unknown_consumer_is_answered_too() -> None:
    with opened() as play:
        play >> client(Basic.Cancel, consumer_tag="c") << sent(Basic.CancelOk, consumer_tag="c")


def test_nowait_is_not_answered() -> None:
    with opened() as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="c", nowait=True)
        play.effect(Consume)
        play >> RequestDone()
        delivered(play, 1)
        play >> client(Basic.Cancel, consumer_tag="c", nowait=True) << Cancel(FIRST)
        play >> RequestDone()


def test_the_client_is_notified_when_a_queue_is_deleted() -> None:
    with delivered(consuming(), 1) as play:
        play >> ConsumerClosed(FIRST) << sent(Basic.Cancel, consumer_tag="c", nowait=True)
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0)
        play >> ConsumerClosed(FIRST)
        consuming(play)


def test_cancelling_the_last_consumer_of_an_auto_delete_queue_sends_no_other_notice() -> None:
    with delivered(consuming(), 1) as play:
        play >> client(Basic.Cancel, consumer_tag="c") << Cancel(FIRST)
        delivered(play, 1, first=1)  # it was in flight
        play >> ConsumerClosed(FIRST)
        play >> RequestDone() << sent(Basic.CancelOk, consumer_tag="c")
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0)


def test_deliveries_of_a_deleted_queue_fill_the_prefetch_until_they_are_acknowledged() -> None:
    with delivered(consuming(), 3) as play:
        play >> client(Basic.Consume, queue="r", consumer_tag="d")
        window = play.effect(Consume).wanted.windows[-1]
        play >> RequestDone() << sent(Basic.ConsumeOk, consumer_tag="d")
        assert window.in_flight == 0, "only the core counts what is in flight"
        play >> ConsumerClosed(FIRST) << sent(Basic.Cancel, consumer_tag="c", nowait=True)
        play >> ConsumerClosed(FIRST)
        assert window.in_flight == 3
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0) << Wake((ConsumerId(2),))
        assert window.in_flight == 2
        play >> client(Basic.Nack, delivery_tag=3, multiple=True, requeue=True)
        play << released(1, 1, 2) << Wake((ConsumerId(2),))
        assert window.in_flight == 0


def test_the_client_that_deletes_a_queue_gets_the_cancellations_of_its_consumers_last() -> None:
    with consuming() as play:
        play >> client(Queue.Delete, queue="q")
        play.effect(Perform)
        play >> ConsumerClosed(FIRST)
        play >> RequestDone(3) << sent(Queue.DeleteOk, message_count=3)
        play << sent(Basic.Cancel, consumer_tag="c", nowait=True)
        consuming(play)


def test_closing_a_channel_returns_everything_that_it_holds() -> None:
    with delivered(consuming(), 2) as play:
        consuming(play, "d")
        close = client(Channel.Close, reply_code=200, class_id=0, method_id=0)
        play >> close << Leave(CHANNEL, (FIRST, ConsumerId(2)))
        play >> RequestDone() << sent(Channel.CloseOk)
        opened(play)


def test_a_closing_channel_hears_only_the_answer() -> None:
    with opened() as play:
        play >> client(Basic.Ack, delivery_tag=9) << sent(Channel.Close) << Leave(CHANNEL, ())
        play >> RequestDone()
        play >> client(Basic.Ack, delivery_tag=9)
        play >> client(Basic.Consume, queue="q")
        play >> client(Channel.Close, reply_code=200, class_id=0, method_id=0)
        play << sent(Channel.CloseOk)
        play >> client(Channel.CloseOk)
        opened(play)


# Prefetch.


def windows(play: Playbook, tag: str) -> tuple[int, ...]:
    play >> client(Basic.Consume, queue="q", consumer_tag=tag)
    consume: Consume = play.effect(Consume)
    play >> RequestDone() << sent(Basic.ConsumeOk)
    return tuple(window.limit for window in consume.wanted.windows)


def qos(play: Playbook, count: int, *, shared: bool = False) -> None:
    play >> client(Basic.Qos, prefetch_count=count, prefetch_size=0, global_=shared)
    play << sent(Basic.QosOk)


def test_prefetch_applies_to_later_consumers() -> None:
    with opened() as play:
        assert windows(play, "a") == (0, 0)
        qos(play, 10)
        assert windows(play, "b") == (10, 0)
        qos(play, 3)
        assert windows(play, "c") == (3, 0)


def test_global_prefetch_is_shared_by_the_channel() -> None:
    with opened() as play:
        play >> client(Basic.Consume, queue="q", consumer_tag="a")
        shared = play.effect(Consume).wanted.windows[-1]
        play >> RequestDone() << sent(Basic.ConsumeOk)
        qos(play, 7, shared=True)
        assert shared.limit == 7
        assert windows(play, "b") == (0, 7)
        qos(play, 9, shared=True)
        play << Wake((FIRST, ConsumerId(2)))
        qos(play, 2, shared=True)
        qos(play, 5)
        play << Wake((FIRST, ConsumerId(2)))
        assert shared.limit == 0, "a limit for each consumer lifts the channel's"


def test_prefetch_in_bytes_is_not_implemented() -> None:
    with opened() as play:
        play >> client(Basic.Qos, prefetch_size=10, prefetch_count=0)
        text = "NOT_IMPLEMENTED - prefetch_size!=0 (10)"
        play << sent(Connection.Close, 0, reply_code=540, reply_text=text) << EndConnection()


# Get.


def test_get_takes_one_message() -> None:
    with opened() as play:
        play >> client(Basic.Get, queue="q") << Get(FIRST, "q", no_ack=False)
        play >> RequestDone(Pulled(run_of(0, 1, b"hello"), 41, FIRST))
        play << sent(Basic.GetOk, delivery_tag=1, message_count=41, redelivered=False)
        assert play.contents[-1] == b"hello"
        play >> client(Basic.Get, queue="q") << Get(FIRST, "q", no_ack=False)
        play >> RequestDone(None) << sent(Basic.GetEmpty)
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0)


def test_get_without_acks_leaves_nothing_unacknowledged() -> None:
    with opened() as play:
        play >> client(Basic.Get, queue="q", no_ack=True) << Get(FIRST, "q", no_ack=True)
        play >> RequestDone(Pulled(run_of(0, 1), 0, FIRST)) << sent(Basic.GetOk, delivery_tag=1)
        play >> client(Basic.Ack, delivery_tag=1)
        play << sent(Channel.Close, reply_code=406) << Leave(CHANNEL, (FIRST,))


def test_get_of_a_missing_queue_closes_the_channel() -> None:
    with opened() as play:
        play >> client(Basic.Get, queue="nope") << Get(FIRST, "nope", no_ack=False)
        play >> RequestFailed(not_found("no queue 'nope' in vhost '/'"))
        play << sent(Channel.Close, reply_code=404, class_id=60, method_id=70)
        play << Leave(CHANNEL, (FIRST,))


# Messages that arrived through another protocol.


@dataclass
class Lines:
    """A codec whose batches are lines of text."""

    origin: Origin = Origin.PULSAR

    def decode(self, entry: bytes) -> list[Message]:
        if b"secret" in entry:
            raise ValueError("encrypted")
        return [
            Message(line, key=b"k", batch_index=index)
            for index, line in enumerate(entry[40:].split(b"\n"))
        ]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "arneb_amqp.session.consume.unbatching.codecs", lambda: {Origin.PULSAR: Lines()}
    )
    assert core_codec.codecs is not None


def batch(*payloads: bytes) -> bytes:
    header = EntryHeader(Origin.PULSAR, messages=len(payloads))
    return header.pack() + b"\n".join(payloads)


@pytest.mark.usefixtures("lines")
def test_a_batch_is_delivered_and_acknowledged_message_by_message() -> None:
    with consuming() as play:
        run = Deliveries(places(0, 1), [batch(b"a", b"b", b"c"), batch(b"d")])
        play >> Delivered(1, run)
        for tag in (1, 2, 3, 4):
            play << sent(Basic.Deliver, delivery_tag=tag)
        assert [each for each in play.contents if len(each) == 1] == [b"a", b"b", b"c", b"d"]
        play >> client(Basic.Ack, delivery_tag=2)
        play << Acknowledge(AnsweredDeliveries(FIRST, [], {places(0)[0]: 0b010}))
        play >> client(Basic.Ack, delivery_tag=0, multiple=True)
        play << Acknowledge(AnsweredDeliveries(FIRST, places(1), {places(0)[0]: 0b101}))


@pytest.mark.usefixtures("lines")
def test_only_the_messages_of_the_mask_are_delivered() -> None:
    with consuming() as play:
        place = places(0)[0]
        run = Deliveries([place], [batch(b"a", b"b", b"c")], masks={place: 0b110})
        play >> Delivered(1, run) << sent(Basic.Deliver) << sent(Basic.Deliver)
        assert [each for each in play.contents if len(each) == 1] == [b"b", b"c"]
        play >> client(Basic.Nack, delivery_tag=0, multiple=True, requeue=True)
        play << Release(AnsweredDeliveries(FIRST, [], {place: 0b110}))


@pytest.mark.usefixtures("lines")
def test_both_origins_mix_in_one_run() -> None:
    with consuming() as play:
        ours = run_of(0, 1, b"ours")
        run = Deliveries([*ours.positions, *places(1)], [*ours.entries, batch(b"theirs")])
        play >> Delivered(1, run) << sent(Basic.Deliver) << sent(Basic.Deliver)
        play >> client(Basic.Ack, delivery_tag=2, multiple=True) << acknowledged(1, 0, 1)


@pytest.mark.usefixtures("lines")
def test_an_unreadable_message_is_delivered_as_it_is() -> None:
    with consuming() as play:
        run = Deliveries(places(0), [batch(b"secret", b"text")])
        play >> Delivered(1, run) << sent(Basic.Deliver)
        assert play.contents[-1] == b"secret\ntext"
        assert UNREADABLE.encode() in play.contents[-2]
        play >> client(Basic.Ack, delivery_tag=1) << acknowledged(1, 0)


@pytest.mark.usefixtures("lines")
def test_get_takes_one_message_of_a_batch() -> None:
    with opened() as play:
        play >> client(Basic.Get, queue="q") << Get(FIRST, "q", no_ack=False)
        place = places(0)[0]
        run = Deliveries([place], [batch(b"a", b"b")], masks={place: 0b10})
        play >> RequestDone(Pulled(run, 0, FIRST)) << sent(Basic.GetOk)
        assert play.contents[-1] == b"b"
        play >> client(Basic.Ack, delivery_tag=1)
        play << Acknowledge(AnsweredDeliveries(FIRST, [], {place: 0b10}))
