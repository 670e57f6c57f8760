"""A client that consumes what it publishes gets the message first, then its confirm, in one
write."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Queue, Tx
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.session.playbook import publishes

from arneb_amqp.server.transport.flusher import Flusher
from arneb_amqp.server.transport.link import Link
from arneb_amqp.wire.constants import FRAME_METHOD
from arneb_amqp.wire.frames import ChannelId, cut_frame
from arneb_amqp.wire.methods import decode_method, encode_method
from arneb_core.engine.scheduling import maintenance
from arneb_core.engine.scheduling.steps import Steps

TIMES = 40
"""Independent of which task the event loop happens to run first."""

Written = list[bytes]


def kinds(data: bytes) -> list[str]:
    """The methods in one write."""
    found: list[str] = []
    while data:
        frame: Any = cut_frame(data, 0, 1 << 30)
        assert not isinstance(frame, int), "each write is whole frames"
        if frame.type == FRAME_METHOD:
            found.append(f"{decode_method(frame.payload).name} on {frame.channel}")
        data = data[frame.bytes_on_wire :]
    return found


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    """What connections write, one item per write."""
    writes: Written = []
    send = Link.send

    def record(link: Link, data: bytes, *, leased: bool = False) -> None:
        writes.append(data)
        send(link, data, leased=leased)

    monkeypatch.setattr(Link, "send", record)
    return writes


def ready(client: RawClient, queue: str, *, durable: bool = True) -> RawClient:
    """Channel 1 publishes with confirms, and channel 2 consumes."""
    client.open()
    client.send(Queue.Declare, 1, queue=queue, durable=durable)
    client.expect(Queue.DeclareOk)
    client.send(Confirm.Select, 1)
    client.expect(Confirm.SelectOk)
    client.send(Channel.Open, 2)
    client.expect(Channel.OpenOk)
    return client


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("consuming", [1, 2])
def test_a_message_and_its_confirm_are_one_write_with_the_message_first(
    broker: Broker, written: Written, durable: bool, consuming: int
) -> None:
    with RawClient(broker.port) as client:
        queue = f"own-{consuming}-{durable}"
        ready(client, queue, durable=durable)
        client.send(Basic.Consume, consuming, queue=queue, consumer_tag="c", no_ack=True)
        client.expect(Basic.ConsumeOk)
        del written[:]
        for _ in range(TIMES):
            client.socket.sendall(publishes(b"x", key=queue).data)
            client.expect(Basic.Deliver)
            client.skip_delivery(frames=2)
            client.expect(Basic.Ack)
    wanted = [f"Basic.Deliver on {consuming}", "Basic.Ack on 1"]
    assert [kinds(each) for each in written] == [wanted] * TIMES


def test_messages_sent_together_are_followed_by_one_confirm(
    broker: Broker, written: Written
) -> None:
    with RawClient(broker.port) as client:
        ready(client, "together")
        client.consume("together")
        client.expect(Basic.ConsumeOk)
        del written[:]
        for _ in range(TIMES):
            client.socket.sendall(publishes(*[b"x"] * 10, key="together").data)
            for _ in range(10):
                client.expect(Basic.Deliver)
                client.skip_delivery(frames=2)
            assert client.expect(Basic.Ack).multiple
    wanted = ["Basic.Deliver on 1"] * 10 + ["Basic.Ack on 1"]
    assert [kinds(each) for each in written] == [wanted] * TIMES


def test_a_single_publishers_turn_also_writes_to_the_other_consumer(
    tmp_path: Path, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in a later pass of the loop, where it may have to wait for long turns of others. Messages
    published during a takeover of the journal do wait for another pass, so the test prevents
    takeovers."""
    monkeypatch.setattr(maintenance, "TAKEOVER_S", 3600.0)
    monkeypatch.setattr(maintenance, "CURSOR_FLUSH_S", 3600.0)
    late, flush = list[int](), Flusher._flush

    def flushed(flusher: Flusher) -> None:
        late.append(flusher.count)
        flush(flusher)

    for broker in serve_in_thread(tmp_path, inline=True):
        with RawClient(broker.port) as client, RawClient(broker.port) as consumer:
            ready(client, "another's")
            consumer.open()
            consumer.send(Basic.Consume, 1, queue="another's", consumer_tag="c", no_ack=True)
            consumer.expect(Basic.ConsumeOk)
            for number in range(2 * TIMES):
                if number == TIMES:
                    del written[:]
                    monkeypatch.setattr(Flusher, "_flush", flushed)
                client.socket.sendall(publishes(b"x", key="another's").data)
                client.expect(Basic.Ack)
                consumer.expect(Basic.Deliver)
                consumer.skip_delivery(frames=2)
    assert not any(late)
    assert [kinds(each) for each in written] == [["Basic.Ack on 1"], ["Basic.Deliver on 1"]] * TIMES


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "in a thread"])
@pytest.mark.parametrize("bodies", [[b"x"], [b"x", b"y"]], ids=len)
def test_a_committed_message_comes_before_its_commit_ok_in_one_write(
    tmp_path: Path, written: Written, bodies: list[bytes], *, inline: bool
) -> None:
    for broker in serve_in_thread(tmp_path, inline=inline):
        commit_again_and_again(broker, written, bodies)


def commit_again_and_again(broker: Broker, written: Written, bodies: list[bytes]) -> None:
    with RawClient(broker.port) as client:
        client.open()
        client.send(Queue.Declare, 1, queue="committed", durable=True)
        client.expect(Queue.DeclareOk)
        client.send(Tx.Select, 1)
        client.expect(Tx.SelectOk)
        client.consume("committed")
        client.expect(Basic.ConsumeOk)
        del written[:]
        for _ in range(TIMES):
            committing = encode_method(ChannelId(1), Tx.Commit())
            client.socket.sendall(publishes(*bodies, key="committed").data + committing)
            for _ in bodies:
                client.expect(Basic.Deliver)
                client.skip_delivery(frames=2)
            client.expect(Tx.CommitOk)
    wanted = ["Basic.Deliver on 1"] * len(bodies) + ["Tx.CommitOk on 1"]
    assert [kinds(each) for each in written] == [wanted] * TIMES


@pytest.mark.parametrize("durable", [True, False])
def test_messages_published_before_a_cancel_are_still_delivered(
    broker: Broker, durable: bool
) -> None:
    """As from RabbitMQ, where the queue learns of both in the order in which they were sent."""
    with RawClient(broker.port) as client:
        queue = f"cancelled-{durable}"
        client.open()
        client.send(Queue.Declare, 1, queue=queue, durable=durable)
        client.expect(Queue.DeclareOk)
        cancelling = encode_method(ChannelId(1), Basic.Cancel(consumer_tag="c"))
        for _ in range(TIMES):
            client.send(Basic.Consume, 1, queue=queue, consumer_tag="c", no_ack=True)
            client.expect(Basic.ConsumeOk)
            client.socket.sendall(publishes(*[b"x"] * 10, key=queue).data + cancelling)
            for _ in range(10):
                client.expect(Basic.Deliver)
                client.skip_delivery(frames=2)
            client.expect(Basic.CancelOk)


@pytest.mark.parametrize("durable", [True, False])
def test_messages_published_before_another_consumer_came_go_to_the_first(
    broker: Broker, durable: bool
) -> None:
    with RawClient(broker.port) as client:
        queue = f"came-later-{durable}"
        client.open()
        client.send(Queue.Declare, 1, queue=queue, durable=durable)
        client.expect(Queue.DeclareOk)
        client.send(Basic.Consume, 1, queue=queue, consumer_tag="first", no_ack=True)
        client.expect(Basic.ConsumeOk)
        coming = encode_method(
            ChannelId(1), Basic.Consume(queue=queue, consumer_tag="second", no_ack=True)
        )
        for _ in range(TIMES):
            client.socket.sendall(publishes(*[b"x"] * 10, key=queue).data + coming)
            for _ in range(10):
                assert client.expect(Basic.Deliver).consumer_tag == "first"
                client.skip_delivery(frames=2)
            client.expect(Basic.ConsumeOk)
            client.send(Basic.Cancel, 1, consumer_tag="second")
            client.expect(Basic.CancelOk)


def test_a_purge_leaves_earlier_messages_to_the_waiting_consumer(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge asks for the ready deliveries each time, although its connection consumes nothing.
    Mostly they have been made before it arrives."""
    asked, after_dispatch = list[bool](), Steps.after_dispatch

    def record(steps: Steps, back: Callable[[], None]) -> bool:
        asked.append(after_dispatch(steps, back))
        return asked[-1]

    monkeypatch.setattr(Steps, "after_dispatch", record)
    with RawClient(broker.port) as client, RawClient(broker.port) as consumer:
        client.open()
        client.send(Queue.Declare, 1, queue="purged", durable=True)
        client.expect(Queue.DeclareOk)
        consumer.open()
        consumer.send(Basic.Consume, 1, queue="purged", consumer_tag="c", no_ack=True)
        consumer.expect(Basic.ConsumeOk)
        purging = encode_method(ChannelId(1), Queue.Purge(queue="purged"))
        for _ in range(TIMES):
            client.socket.sendall(publishes(*[b"x"] * 10, key="purged").data + purging)
            assert client.expect(Queue.PurgeOk).message_count == 0
            for _ in range(10):
                consumer.expect(Basic.Deliver)
                consumer.skip_delivery(frames=2)
    assert len(asked) == 1 + TIMES


def test_a_message_that_is_delivered_to_no_queue_is_confirmed_at_once(
    broker: Broker, written: Written
) -> None:
    """Its queue has no consumer, though the connection consumes from another queue. The same holds
    for a queue whose consumer's prefetch is used up."""
    with RawClient(broker.port) as client:
        ready(client, "elsewhere")
        client.consume("elsewhere")
        client.expect(Basic.ConsumeOk)
        client.send(Queue.Declare, 1, queue="nobody's", durable=True)
        client.expect(Queue.DeclareOk)
        client.send(Queue.Declare, 1, queue="full", durable=True)
        client.expect(Queue.DeclareOk)
        client.send(Basic.Qos, 1, prefetch_count=1)
        client.expect(Basic.QosOk)
        client.send(Basic.Consume, 1, queue="full", consumer_tag="c")
        client.expect(Basic.ConsumeOk)
        client.socket.sendall(publishes(b"x", key="full").data)
        client.expect(Basic.Deliver)
        client.skip_delivery(frames=2)
        client.expect(Basic.Ack)
        del written[:]
        for key in ("nobody's", "full") * TIMES:
            client.socket.sendall(publishes(b"x", key=key).data)
            client.expect(Basic.Ack)
    assert [kinds(each) for each in written] == [["Basic.Ack on 1"]] * 2 * TIMES


def test_a_returned_message_comes_before_its_confirm(broker: Broker, written: Written) -> None:
    with RawClient(broker.port) as client:
        ready(client, "returned")
        client.consume("returned")
        client.expect(Basic.ConsumeOk)
        del written[:]
        client.socket.sendall(publishes(b"x", key="no such queue", mandatory=True).data)
        client.expect(Basic.Return)
        client.skip_delivery(frames=2)
        client.expect(Basic.Ack)
    assert [kinds(each) for each in written] == [["Basic.Return on 1", "Basic.Ack on 1"]]


def test_a_client_that_leaves_before_the_delivery_disturbs_nobody(tmp_path: Path) -> None:
    """The connection ends between the commit and the deliveries that its confirm waits for."""
    for broker in serve_in_thread(tmp_path):
        for _ in range(TIMES):
            with RawClient(broker.port) as client:
                ready(client, "left")
                client.consume("left")
                client.expect(Basic.ConsumeOk)
                client.socket.sendall(publishes(*[b"x"] * 10, key="left").data)
                client.socket.shutdown(socket.SHUT_RDWR)
        with RawClient(broker.port) as client:
            ready(client, "left").send(Queue.Purge, 1, queue="left")
            client.expect(Queue.PurgeOk)
            client.socket.sendall(publishes(b"x", key="left").data)
            client.expect(Basic.Ack)
