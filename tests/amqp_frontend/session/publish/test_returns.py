"""What comes back to whoever published it as mandatory in a transaction."""

from pamqp.commands import Basic, Tx
from tests.amqp_frontend.session.playbook import Playbook, client, connected, publishes, sent
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


def test_a_queue_that_went_before_the_commit_gives_its_mandatory_messages_back() -> None:
    with transactional() as play:
        play >> publishes(b"nobody's") >> publishes(b"late", mandatory=True)
        play.vhost.queues.clear()
        play >> client(Tx.Commit)
        play << sent(Basic.Return, reply_code=312, reply_text="NO_ROUTE", routing_key="q")
        assert play.contents[1::2] == [b"late"], "a header stands before each"
        committed(play)
        play >> client(Tx.Commit)
        committed(play)


def test_what_comes_back_does_so_in_the_order_in_which_it_was_published() -> None:
    with transactional() as play:
        for number, key in enumerate(("nowhere", "q", "nowhere", "q")):
            play >> publishes(b"%d" % number, key=key, mandatory=True)
        play.vhost.queues.clear()
        play >> client(Tx.Commit)
        for key in ("nowhere", "q", "nowhere", "q"):
            play << sent(Basic.Return, routing_key=key)
        assert play.contents[1::2] == [b"0", b"1", b"2", b"3"]
        committed(play)


def test_one_queue_that_is_there_is_enough() -> None:
    with transactional() as play:
        play.vhost.router.add_queue("q2")
        play.vhost.queues.add("q2")
        play >> publishes(b"x", mandatory=True, headers={"CC": CC})
        play.vhost.queues.remove("q")
        play >> client(Tx.Commit)
        committed(play)


def test_a_topic_that_nobody_declared_is_there() -> None:
    with transactional() as play:
        play.vhost.foreign.add("pulsars")
        play >> publishes(b"x", key="pulsars", mandatory=True) >> client(Tx.Commit)
        committed(play)


def test_an_answer_comes_back_once() -> None:
    with transactional() as play:
        play.vhost.router.add_queue(REPLY_QUEUE)
        play >> publishes(b"answer", key=REPLY_QUEUE, mandatory=True)
        play >> client(Tx.Commit) << sent(Basic.Return, routing_key=REPLY_QUEUE)
        committed(play)


def test_a_rollback_gives_nothing_back() -> None:
    with transactional() as play:
        play >> publishes(b"x", mandatory=True)
        play.vhost.queues.clear()
        play >> client(Tx.Rollback) << sent(Tx.RollbackOk)
        play >> client(Tx.Commit)
        committed(play)


def test_very_many_come_back_in_turns() -> None:
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
