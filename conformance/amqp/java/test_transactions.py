"""Java's Transactions: publishes and acknowledgements that take effect when they are committed."""

from collections.abc import Callable
from typing import Any

import pytest
from conformance.amqp.conftest import Connect
from conformance.amqp.helpers import refused, take
from pika.adapters.blocking_connection import BlockingChannel

Refuse = Callable[[BlockingChannel, int, bool], None]


class Tx:
    """A queue, and a channel that may be put into transaction mode."""

    def __init__(self, connect: Connect, queue: str) -> None:
        self.queue = queue
        self.connection = connect()
        self.channel: BlockingChannel = self.connection.channel()
        self.latest = 0

    def publish(self, count: int = 1) -> None:
        for _ in range(count):
            self.channel.basic_publish("", self.queue, b"Tx message")

    def get(self, **how: bool) -> bool:
        """Whether there was a message; its tag becomes ``latest``."""
        method = self.channel.basic_get(self.queue, **how)[0]
        if method is not None:
            self.latest = method.delivery_tag
        return method is not None

    def ack(self, tag: int | None = None, **how: bool) -> None:
        self.channel.basic_ack(self.latest if tag is None else tag, **how)

    def published_and_got(self, count: int) -> list[int]:
        """Publish outside a transaction and get inside one; the result is the delivery tags."""
        self.publish(count)
        self.channel.tx_select()
        return [method.delivery_tag for method, _, _ in take(self.channel, self.queue, count)]

    def reopen(self) -> None:
        self.channel.close()
        self.channel = self.connection.channel()


@pytest.fixture
def tx(connect: Connect, queue: str) -> Tx:
    return Tx(connect, queue)


def _nack(channel: BlockingChannel, tag: int, requeue: bool) -> None:
    channel.basic_nack(tag, requeue=requeue)


def _reject(channel: BlockingChannel, tag: int, requeue: bool) -> None:
    channel.basic_reject(tag, requeue=requeue)


@pytest.fixture(params=[_nack, _reject], ids=["nack", "reject"])
def refuse(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_transactions_commit_publish(tx: Tx) -> None:
    tx.channel.tx_select()
    tx.publish()
    assert not tx.get()
    tx.channel.tx_commit()
    assert tx.get()
    tx.channel.tx_commit()


def test_transactions_rollback_publish(tx: Tx) -> None:
    tx.channel.tx_select()
    tx.publish()
    tx.channel.tx_rollback()
    assert not tx.get()


def test_transactions_rollback_publish_on_close(tx: Tx) -> None:
    tx.channel.tx_select()
    tx.publish()
    tx.reopen()
    assert not tx.get()


def test_transactions_requeue_on_close(tx: Tx) -> None:
    """Messages acknowledged in a transaction that was never committed are requeued like the
    rest."""
    tx.publish(2)
    tx.channel.tx_select()
    assert tx.get()
    tx.ack()
    assert tx.get()
    tx.reopen()
    for _ in range(2):
        assert tx.get()
        tx.ack()


def test_transactions_commit_acks(tx: Tx) -> None:
    tx.publish(2)
    tx.channel.tx_select()
    assert tx.get()
    tx.ack()
    assert tx.get()
    tx.channel.tx_commit()
    assert not tx.get()
    tx.reopen()
    assert tx.get()
    tx.ack()
    assert not tx.get()


def test_transactions_commit_acks_out_of_order(tx: Tx) -> None:
    tags = tx.published_and_got(4)
    for tag in (tags[3], tags[2]):
        tx.channel.basic_nack(tag, requeue=False)
    for tag in (tags[1], tags[0]):
        tx.ack(tag)
    tx.channel.tx_commit()
    tx.reopen()
    assert not tx.get()


def test_transactions_rollback_acks_and_re_ack(tx: Tx) -> None:
    tx.publish()
    tx.channel.tx_select()
    assert tx.get()
    for _ in range(2):
        tx.ack()
        tx.channel.tx_rollback()
    tx.reopen()
    assert tx.get()
    tx.ack()


def test_transactions_unknown_tag_ack(tx: Tx) -> None:
    """Reported immediately, not at the commit."""
    tx.publish()
    tx.channel.tx_select()
    assert tx.get()
    tx.ack()
    tx.ack(tx.latest + 1, multiple=True)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tx.latest + 1}"):
        tx.get()


def test_transactions_no_requeue_on_rollback(tx: Tx) -> None:
    tx.publish(2)
    tx.channel.tx_select()
    assert tx.get()
    tx.ack()
    assert tx.get()
    tx.channel.tx_rollback()
    assert not tx.get()


def test_transactions_auto_ack(tx: Tx) -> None:
    tx.publish()
    tx.channel.tx_select()
    assert tx.get(auto_ack=True)
    tx.reopen()
    assert not tx.get()


def test_transactions_ack_all(tx: Tx) -> None:
    tx.publish(2)
    tx.channel.tx_select()
    assert tx.get()
    assert tx.get()
    tx.ack(0, multiple=True)
    tx.channel.tx_commit()
    tx.reopen()
    assert not tx.get()


@pytest.mark.parametrize("method", ["tx_commit", "tx_rollback"])
def test_transactions_non_transacted(tx: Tx, method: str) -> None:
    with refused(406, "PRECONDITION_FAILED - channel is not transactional"):
        getattr(tx.channel, method)()


def test_transactions_redeliver_acked_uncommitted(tx: Tx) -> None:
    tx.channel.tx_select()
    tx.publish()
    tx.channel.tx_commit()
    assert tx.get()
    tx.ack()
    tx.channel.basic_recover(requeue=True)
    assert not tx.get(auto_ack=True)


def test_transactions_commit_with_deleted_queue(tx: Tx) -> None:
    tx.channel.tx_select()
    tx.publish()
    tx.channel.queue_delete(tx.queue)
    tx.channel.tx_commit()


def test_transactions_shuffle_acks_before_rollback(tx: Tx) -> None:
    tags = tx.published_and_got(3)
    tx.ack(tags[2])
    tx.ack(tags[1])
    tx.channel.tx_rollback()
    tx.ack(tags[0], multiple=True)
    tx.ack(tags[1])
    tx.ack(tags[2])
    tx.channel.tx_commit()
    tx.reopen()
    assert not tx.get()


def test_transactions_commit_nacks(tx: Tx, refuse: Refuse) -> None:
    tx.publish(2)
    tx.channel.tx_select()
    assert tx.get()
    refuse(tx.channel, tx.latest, True)
    assert tx.get()
    refuse(tx.channel, tx.latest, False)
    assert not tx.get()
    tx.channel.tx_commit()
    assert tx.get()
    assert not tx.get()


def test_transactions_rollback_nacks(tx: Tx, refuse: Refuse) -> None:
    tx.publish()
    tx.channel.tx_select()
    assert tx.get()
    refuse(tx.channel, tx.latest, True)
    tx.channel.tx_rollback()
    assert not tx.get()


def test_transactions_commit_acks_and_nacks(tx: Tx, refuse: Refuse) -> None:
    tags = tx.published_and_got(3)
    tx.ack(tags[1])
    tx.ack(tags[0])
    refuse(tx.channel, tags[2], False)
    tx.channel.tx_rollback()
    tx.ack(tags[2])
    refuse(tx.channel, tags[0], True)
    refuse(tx.channel, tags[1], False)
    tx.channel.tx_commit()
    assert tx.get()
    assert not tx.get()
