"""Queues that reject what they have no room for: each message of a run has its own answer, and the
run is one commit."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx
from pika.adapters.blocking_connection import BlockingChannel
from tests.amqp_frontend.server.conftest import Broker
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.server.test_turns import turns_taken
from tests.amqp_frontend.session.playbook import publishes

from arneb_amqp.topology import overflow
from arneb_core.api.core import Unit
from arneb_core.engine.engine import Engine

DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[Unit]:
    """What was committed."""
    seen: list[Unit] = []
    commit = Engine.commit

    def noted(self: Engine, unit: Unit, *rest: Any) -> bool:
        seen.append(unit)
        return commit(self, unit, *rest)

    monkeypatch.setattr(Engine, "commit", noted)
    return seen


@pytest.fixture
def publisher(broker: Broker) -> Iterator[RawClient]:
    """In confirm mode."""
    with RawClient(broker.port).open() as client:
        client.send(Confirm.Select, 1)
        client.expect(Confirm.SelectOk)
        yield client


def send_as_one(broker: Broker, publisher: RawClient, bodies: list[bytes]) -> None:
    """Send everything before the broker reads any of it."""

    async def send(sock: socket.socket) -> None:
        sock.sendall(publishes(*bodies, key="q").data)

    broker.call(send, publisher.socket)


def fresh(
    channel: BlockingChannel, queue: str, arguments: dict[str, Any], *, durable: bool = True
) -> None:
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=durable, arguments=arguments)


def held(channel: BlockingChannel, queue: str) -> list[bytes | None]:
    """Take everything out of the queue."""
    count = channel.queue_declare(queue, passive=True).method.message_count
    return [channel.basic_get(queue, auto_ack=True)[2] for _ in range(count)]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("durable", [True, False])
def test_messages_of_a_run_that_had_room_are_acknowledged_and_the_others_nacked(
    broker: Broker,
    channel: BlockingChannel,
    publisher: RawClient,
    commits: list[Unit],
    *,
    durable: bool,
) -> None:
    arguments = DEAD | {"x-max-length": 4, "x-overflow": "reject-publish-dlx"}
    fresh(channel, "dead", {}, durable=durable)
    fresh(channel, "q", arguments, durable=durable)
    commits.clear()
    send_as_one(broker, publisher, numbered(10))
    stored = publisher.expect(Basic.Ack)
    assert (stored.delivery_tag, stored.multiple) == (4, True)
    refused = publisher.expect(Basic.Nack)
    assert (refused.delivery_tag, refused.multiple) == (10, True)
    assert len(commits) == 1
    assert held(channel, "q") == numbered(10)[:4]
    assert held(channel, "dead") == numbered(10)[4:]


def test_a_run_for_which_there_is_room_is_one_commit_and_one_answer(
    broker: Broker, channel: BlockingChannel, publisher: RawClient, commits: list[Unit]
) -> None:
    arguments = {"x-max-length": 100, "x-overflow": "reject-publish"}
    fresh(channel, "q", arguments)
    commits.clear()
    for last in (50, 100):
        send_as_one(broker, publisher, numbered(50))
        assert publisher.expect(Basic.Ack).delivery_tag == last
    send_as_one(broker, publisher, numbered(50))
    assert publisher.expect(Basic.Nack).delivery_tag == 150
    assert [sum(len(entries) for _, entries in unit.appends) for unit in commits] == [50, 50, 0]
    assert held(channel, "q") == 2 * numbered(50)


def test_each_message_is_judged_by_its_own_size(
    broker: Broker, channel: BlockingChannel, publisher: RawClient
) -> None:
    """One that is too large is refused, and a small enough one behind it is stored."""
    arguments = {"x-max-length-bytes": 10, "x-overflow": "reject-publish"}
    fresh(channel, "q", arguments)
    send_as_one(broker, publisher, [b"12345", b"1234567", b"123", b"12345", b"12"])
    answers = [Basic.Ack, Basic.Nack, Basic.Ack, Basic.Nack, Basic.Ack]
    for tag, kind in enumerate(answers, 1):
        answer = publisher.expect(kind)
        assert (answer.delivery_tag, answer.multiple) == (tag, False)
    assert held(channel, "q") == [b"12345", b"123", b"12"]


def test_the_dead_letters_of_a_refused_transaction_are_made_in_many_turns(
    broker: Broker,
    channel: BlockingChannel,
    commits: list[Unit],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # otherwise these turns are lost among the others
    monkeypatch.setattr(overflow, "DEAD_LETTERS_PER_STEP", 2)
    fresh(channel, "dead", {})
    fresh(channel, "q", DEAD | {"x-max-length": 1, "x-overflow": "reject-publish-dlx"})
    count = 1_000
    with RawClient(broker.port).open() as client:
        client.send(Tx.Select, 1)
        client.expect(Tx.SelectOk)
        send_as_one(broker, client, numbered(count))
        client.send(Queue.Declare, 1, queue="q", passive=True)
        assert client.expect(Queue.DeclareOk).message_count == 0
        commits.clear()

        def commit() -> None:
            client.send(Tx.Commit, 1)
            client.expect(Channel.Close)  # 406: RabbitMQ's "partial tx completion"

        turns = turns_taken(broker, commit)
    assert len(commits) == 1, "all of it is one commit"
    assert turns >= count // 2
    assert held(channel, "q") == numbered(1)
    assert held(channel, "dead") == numbered(count)[1:]
