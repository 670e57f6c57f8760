"""The bound of what transactions hold, on all channels of a connection together, and what is not
subject to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic, Channel, Connection, Tx
from tests.amqp_frontend.session.playbook import (
    Delivered,
    Playbook,
    client,
    connected,
    opened,
    publishes,
    run_of,
    sent,
)
from tests.amqp_frontend.session.publish.test_publisher import consume

from arneb_amqp.config import AmqpConfig
from arneb_amqp.session.effects import Commit, EndConnection, Leave
from arneb_amqp.session.events import RequestDone
from arneb_amqp.session.transaction import ITEM_BYTES

MOST = 100 * ITEM_BYTES
CONFIG = AmqpConfig(message_bytes_max=MOST, partial_bytes_max=MOST, transaction_bytes_max=MOST)
TEXT = f"RESOURCE_ERROR - expected at most {MOST} octets in the transactions of a connection, got"


def transactional(*channels: int) -> Playbook:
    play = connected(Playbook(CONFIG))
    for channel in channels or (1,):
        opened(play, channel) >> client(Tx.Select, channel) << sent(Tx.SelectOk, channel)
    return play


def expect_the_end(play: Playbook, class_id: int, method_id: int) -> None:
    close = play.frame(Connection.Close, 0)
    assert (close.reply_code, close.class_id, close.method_id) == (506, class_id, method_id)
    assert close.reply_text.startswith(TEXT)
    assert play.session.transaction_bytes.held == 0, "bytes held for the channels must be released"
    play.effect(EndConnection)


def test_an_endless_transaction_closes_the_connection() -> None:
    with transactional() as play:
        for _ in range(99):
            play >> publishes(b"")
            if play.frames:
                break
        expect_the_end(play, 60, 40)


def test_all_channels_share_one_bound() -> None:
    with transactional(1, 2, 3) as play:
        for number in range(99):
            play >> publishes(b"", channel=1 + number % 3)
            if play.frames:
                break
        expect_the_end(play, 60, 40)


def test_unroutable_messages_count_if_they_will_be_returned() -> None:
    with transactional() as play:
        for _ in range(99):
            play >> publishes(b"lost", key="nowhere", mandatory=True)
            if play.frames:
                break
        expect_the_end(play, 60, 40)


def test_unroutable_messages_do_not_count_if_they_are_dropped() -> None:
    with transactional() as play:
        play >> publishes(*[b"lost"] * 1000, key="nowhere")
        assert play.session.transaction_bytes.held == 0


@pytest.mark.parametrize("multiple", [True, False])
@pytest.mark.parametrize("answer", [Basic.Ack, Basic.Nack])
def test_acknowledgements_count(answer: Any, multiple: bool) -> None:
    with transactional() as play:
        consume(play)
        play >> publishes(b"x")
        play >> Delivered(1, run_of(0, 101))
        play.frames.clear()
        if multiple:
            play >> client(answer, delivery_tag=101, multiple=True)
        else:
            for tag in range(1, 102):
                play >> client(answer, delivery_tag=tag, multiple=False)
                if play.frames:
                    break
        expect_the_end(play, 60, 80 if answer is Basic.Ack else 120)


def test_one_message_may_be_as_large_as_messages_may_be() -> None:
    with transactional() as play:
        play >> publishes(bytes(MOST)) >> client(Tx.Commit)
        play.effect(Commit)
        play >> RequestDone() << sent(Tx.CommitOk)


def test_committed_messages_count_until_they_are_durable() -> None:
    with transactional() as play:
        play >> publishes(b"x") >> client(Tx.Commit)
        play.effect(Commit)
        assert play.session.transaction_bytes.held > 0
        play >> RequestDone() << sent(Tx.CommitOk)
        assert play.session.transaction_bytes.held == 0


GOODBYE = {"reply_code": 200, "reply_text": "", "class_id": 0, "method_id": 0}
Act = tuple[str, int, int]
ACTS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "commit", "rollback", "close", "fail", "open"]),
        st.integers(1, 3),
        st.integers(0, 3 * ITEM_BYTES),
    ),
    max_size=40,
)


@given(ACTS)
def test_exactly_what_open_transactions_hold_is_counted(acts: list[Act]) -> None:
    """Whatever ends a transaction releases all that it held and nothing else."""
    play = transactional(1, 2, 3)
    held: dict[int, int] = {1: 0, 2: 0, 3: 0}
    for act, channel, size in acts:
        if act == "open":
            if channel not in held:
                opened(play, channel) >> client(Tx.Select, channel) << sent(Tx.SelectOk, channel)
                held[channel] = 0
        elif channel not in held:
            continue
        elif act == "publish":
            before = play.session.transaction_bytes.held
            play >> publishes(bytes(size), channel=channel)
            if play.frames:
                assert before > MOST - 5 * ITEM_BYTES, "it was refused before the limit was reached"
                expect_the_end(play, 60, 40)
                return
            held[channel] += play.session.transaction_bytes.held - before
            assert play.session.transaction_bytes.held >= before + size + ITEM_BYTES
        elif act == "commit":
            play >> client(Tx.Commit, channel)
            play.effect(Commit)
            play >> RequestDone() << sent(Tx.CommitOk, channel)
            held[channel] = 0
        elif act == "rollback":
            play >> client(Tx.Rollback, channel) << sent(Tx.RollbackOk, channel)
            held[channel] = 0
        elif act == "close":
            play >> client(Channel.Close, channel, **GOODBYE)
            play.effect(Leave)
            play >> RequestDone() << sent(Channel.CloseOk, channel)
            del held[channel]
        else:
            play >> client(Basic.Ack, channel, delivery_tag=7, multiple=False)
            play << sent(Channel.Close, channel, reply_code=406)
            play.effect(Leave)
            play >> RequestDone() >> client(Channel.CloseOk, channel)
            del held[channel]
        assert play.session.transaction_bytes.held == sum(held.values()) <= MOST
