"""Mandatory messages of a transaction that are returned to their publisher."""

import pytest
from pamqp.commands import Basic, Tx
from tests.amqp_frontend.session.playbook import Bytes, Playbook, client, connected, publishes, sent
from tests.amqp_frontend.session.playbook import opened as open_channel
from tests.amqp_frontend.session.publish.test_publisher import CC

from arneb_amqp.session.connection.session import TURN_WORK
from arneb_amqp.session.effects import Commit
from arneb_amqp.session.events import RequestDone

REPLY_QUEUE = "amq.rabbitmq.reply-to.x"


def transactional() -> Playbook:
    return open_channel(connected(Playbook())) >> client(Tx.Select) << sent(Tx.SelectOk)


def committed(play: Playbook) -> None:
    play.effect(Commit)
    play >> RequestDone() << sent(Tx.CommitOk)


def test_mandatory_messages_are_returned_if_their_queue_is_deleted_before_the_commit() -> None:
    with transactional() as play:
        play >> publishes(b"nobody's") >> publishes(b"late", mandatory=True)
        play.vhost.queues.clear()
        play >> client(Tx.Commit)
        play << sent(Basic.Return, reply_code=312, reply_text="NO_ROUTE", routing_key="q")
        assert play.contents[1::2] == [b"late"], "each body follows a header"
        committed(play)
        play >> client(Tx.Commit)
        committed(play)


def test_messages_are_returned_in_the_order_in_which_they_were_published() -> None:
    with transactional() as play:
        for number, key in enumerate(("nowhere", "q", "nowhere", "q")):
            play >> publishes(b"%d" % number, key=key, mandatory=True)
        play.vhost.queues.clear()
        play >> client(Tx.Commit)
        for key in ("nowhere", "q", "nowhere", "q"):
            play << sent(Basic.Return, routing_key=key)
        assert play.contents[1::2] == [b"0", b"1", b"2", b"3"]
        committed(play)


@pytest.mark.parametrize("keys", [("q", "q"), ("q", "nowhere"), ("nowhere", "q")])
def test_mandatory_messages_that_are_read_together_are_returned_alike(keys: list[str]) -> None:
    with transactional() as play:
        play >> publishes(b"the routes are known") >> publishes(b"", key="nowhere")
        read = (publishes(key.encode(), key=key, mandatory=True).data for key in keys)
        play >> Bytes(b"".join(read))
        play.vhost.queues.clear()
        play >> client(Tx.Commit)
        for key in keys:
            play << sent(Basic.Return, routing_key=key)
        committed(play)


def test_one_existing_queue_is_enough() -> None:
    with transactional() as play:
        play.vhost.router.add_queue("q2")
        play.vhost.queues.add("q2")
        play >> publishes(b"x", mandatory=True, headers={"CC": CC})
        play.vhost.queues.remove("q")
        play >> client(Tx.Commit)
        committed(play)


def test_a_topic_that_nobody_declared_counts_as_existing() -> None:
    with transactional() as play:
        play.vhost.foreign.add("pulsars")
        play >> publishes(b"x", key="pulsars", mandatory=True) >> client(Tx.Commit)
        committed(play)


def test_a_reply_is_returned_once() -> None:
    with transactional() as play:
        play.vhost.router.add_queue(REPLY_QUEUE)
        play >> publishes(b"answer", key=REPLY_QUEUE, mandatory=True)
        play >> client(Tx.Commit) << sent(Basic.Return, routing_key=REPLY_QUEUE)
        committed(play)


def test_a_rollback_returns_nothing() -> None:
    with transactional() as play:
        play >> publishes(b"x", mandatory=True)
        play.vhost.queues.clear()
        play >> client(Tx.Rollback) << sent(Tx.RollbackOk)
        play >> client(Tx.Commit)
        committed(play)


def test_very_many_messages_are_returned_in_turns() -> None:
    count = TURN_WORK
    with transactional() as play:
        for _ in range(10):
            play >> publishes(*[b"x"] * (count // 10), mandatory=True)
        play.vhost.queues.clear()
        play.pauses = 0
        play >> client(Tx.Commit)
        assert play.pauses >= 3
        for _ in range(count):
            play << sent(Basic.Return)
        committed(play)
