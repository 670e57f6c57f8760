"""What a broker's answers mean to a shard."""

from typing import Any

import pytest
import trio
from tests.pulsar_frontend.client.in_memory import client_of

from arneb_cluster.protocol.values import NOWHERE, Place
from arneb_cluster.protocol.window import SendError
from arneb_cluster.pulsar.producer import FencingProducer
from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.testing import FakeBroker
from arneb_pulsar.names import parse_topic
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandSendError,
    CommandSendReceipt,
    MessageIdData,
    ServerError,
)

TOPIC = parse_topic("persistent://public/default/orders-log")


class FakeOwner:
    """Records what it was told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.gone = trio.Event()

    def attached(self) -> None:
        self.calls.append(("attached",))

    def detached(self) -> None:
        self.calls.append(("detached",))

    def receipt(self, sequence: int, place: Place) -> None:
        self.calls.append(("receipt", sequence, place))

    def refused(self, sequence: int, error: SendError, why: str) -> None:
        self.calls.append(("refused", sequence, error))

    def gave_up(self, why: str) -> None:
        self.calls.append(("gave up",))
        self.gone.set()


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (ServerError.ProducerFenced, "fenced", SendError.FENCED),
        (ServerError.PersistenceError, "Producer is closed", SendError.FENCED),
        (
            ServerError.UnknownError,
            "Cannot determine whether the message is a duplicate at this time",
            SendError.UNKNOWN_DUPLICATE,
        ),
        (ServerError.UnknownError, "", SendError.OTHER),
        (ServerError.PersistenceError, "Bookie operation timeout", SendError.OTHER),
    ],
)
async def test_a_refusal_says_whether_anything_after_it_may_be_stored(
    code: Any, text: str, expected: SendError
) -> None:
    async with client_of(FakeBroker()) as client:
        owner = FakeOwner()
        producer = FencingProducer(client.context, TOPIC, "orders", owner)
        producer.on_send_error(
            CommandSendError(producer_id=1, sequence_id=7, error=code, message=text)
        )
        assert owner.calls == [("refused", 7, expected)]


@pytest.mark.parametrize(
    ("ledger", "entry", "place"),
    [(3, 4, Place(3, 4)), ((1 << 64) - 1, (1 << 64) - 1, NOWHERE)],
)
async def test_the_receipt_of_a_duplicate_has_no_place(
    ledger: int, entry: int, place: Place
) -> None:
    async with client_of(FakeBroker()) as client:
        owner = FakeOwner()
        producer = FencingProducer(client.context, TOPIC, "orders", owner)
        where = MessageIdData(ledgerId=ledger, entryId=entry)
        producer.on_receipt(CommandSendReceipt(producer_id=1, sequence_id=7, message_id=where))
        assert owner.calls == [("receipt", 7, place)]


async def test_a_record_is_written_in_the_turn_that_makes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader's client waits for it."""
    async with client_of(FakeBroker()) as client:
        producer = FencingProducer(client.context, TOPIC, "orders", FakeOwner())
        await producer.open()
        written: list[int] = []
        monkeypatch.setattr(
            Connection, "flush_now", lambda made: written.append(len(made.machine.output))
        )
        producer.send(1, b"one")
        producer.send(2, b"two")
        assert len(written) == 2
        assert written[0] > 0
        producer.close()
        producer.send(3, b"three")
        assert len(written) == 2


async def test_an_expelled_producer_reconnects_only_to_learn_that_another_leads() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client, client_of(broker) as other:
        owner = FakeOwner()
        first = FencingProducer(client.context, TOPIC, "orders", owner)
        await first.open()
        second = FencingProducer(other.context, TOPIC, "orders", FakeOwner())
        await second.open()
        assert first.epoch is not None
        assert second.epoch == first.epoch + 1
        await owner.gone.wait()
        assert ("attached",) not in owner.calls
        second.close()
        second.close()
