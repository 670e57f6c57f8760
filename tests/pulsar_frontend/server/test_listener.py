"""The server over a real core: what is durable when, and who pays for whose mistakes."""

import socket
import struct

import pytest
import trio
import trio.testing
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import Closed, RawClient, body_of, connected

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_core.api.errors import StoreFull
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.server.connection import Connection
from arneb_pulsar.server.listener import PulsarServer
from arneb_pulsar.session.consume.consumer import Consumer
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandAck, CommandSubscribe, MessageIdData

pytestmark = pytest.mark.real_time

NAME = "persistent://public/default/t"
EARLIEST = CommandSubscribe.Earliest
EXCLUSIVE = CommandSubscribe.Exclusive


def place_of(message_id: MessageIdData) -> int:
    return position_at(message_id.ledgerId, message_id.entryId)


async def test_a_receipt_waits_for_the_disk(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        running.store.hold()
        await client.publish(b"x")
        assert await client.silent()
        running.store.release()
        receipt = await client.expect(pb.CommandSendReceipt)
        assert place_of(receipt.message_id) == running.core.topic(NAME).last


async def test_what_was_sent_is_delivered_with_the_id_of_its_receipt(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe()
        await client.flow(100)
        await client.producer()
        await client.publish(*[b"%d" % number for number in range(50)])
        receipts, messages = [], []
        for _ in range(100):
            command, payload = await client.reply()
            if isinstance(command, pb.CommandSendReceipt):
                receipts.append(place_of(command.message_id))
            else:
                messages.append((place_of(command.message_id), payload))
        sent = [body_of(b"%d" % number, sequence_id=number) for number in range(50)]
        assert messages == list(zip(receipts, sent, strict=True))


@pytest.mark.parametrize("error", [None, StoreFull("no room")])
async def test_a_failed_commit_is_a_send_error_and_the_next_is_none(
    open_broker: OpenBroker, error: StoreFull | None
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        running.store.fail_until_healed(error=error)
        await client.publish(b"a", b"b")
        for sequence_id in (0, 1):
            answer = await client.expect(pb.CommandSendError)
            assert (answer.sequence_id, answer.error) == (sequence_id, pb.PersistenceError)
        assert (await client.expect(pb.CommandCloseProducer)).producer_id == 1
        running.store.heal()
        await client.producer()
        await client.publish(b"c", first=2)
        assert (await client.expect(pb.CommandSendReceipt)).sequence_id == 2
        assert running.core.topic(NAME).statistics().messages == 1


async def test_what_a_producer_sent_after_a_failed_message_is_not_stored_before_it(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        await client.producer()
        await other.producer("another")
        running.store.hold_each()
        await client.publish(b"a")
        while not running.store.holds_one:
            await trio.lowlevel.checkpoint()
        running.store.fail_next()
        await client.publish(b"b", first=1)
        await other.publish(b"x")
        assert await client.silent()
        running.store.stop_holding()
        assert (await client.expect(pb.CommandSendError)).sequence_id == 0
        await client.expect(pb.CommandCloseProducer)
        assert (await other.expect(pb.CommandSendReceipt)).sequence_id == 0
        await client.publish(b"c", first=2)  # it did not know yet
        assert await client.silent()
        assert running.core.topic(NAME).last is None
        await client.producer()
        await client.publish(b"a", b"b", b"c")
        for sequence_id in range(3):
            assert (await client.expect(pb.CommandSendReceipt)).sequence_id == sequence_id
        assert running.core.topic(NAME).statistics().messages == 3


async def test_a_damaged_message_is_refused_and_not_stored(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        send = pb.CommandSend(producer_id=1, sequence_id=0)
        await client.send(send, body=body_of(b"x")[:-1] + b"y")
        answer = await client.expect(pb.CommandSendError)
        assert (answer.sequence_id, answer.error) == (0, pb.ChecksumError)
        assert running.core.topic(NAME).last is None


async def test_an_ack_receipt_waits_for_the_disk(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe()
        await client.flow(10)
        await client.producer()
        await client.publish(b"x")
        ids = {type(each): each.message_id for each, _ in await client.take(2)}
        running.store.hold()
        await client.acknowledge(ids[pb.CommandMessage], request_id=7)
        assert await client.silent(0.2)
        running.store.release()
        answer = await client.expect(pb.CommandAckResponse)
        assert (answer.request_id, answer.HasField("error")) == (7, False)
        subscription = running.core.topic(NAME).subscriptions["s"]
        assert subscription.statistics().backlog_entries == 0


async def test_a_cumulative_ack_takes_what_is_before_it_and_of_the_batch_what_it_names(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        await client.producer()
        await client.subscribe(subType=EXCLUSIVE)
        await client.publish(b"first")
        for number in (1, 2):
            send = pb.CommandSend(producer_id=1, sequence_id=number, num_messages=3)
            await client.send(send, body=body_of(b"batch", num_messages_in_batch=3))
        ids = [(await client.expect(pb.CommandSendReceipt)).message_id for _ in range(3)]
        await client.acknowledge(ids[0], ack_type=CommandAck.Cumulative, request_id=6)
        await client.expect(pb.CommandAckResponse)
        subscription = running.core.topic(NAME).subscriptions["s"]
        assert subscription.statistics().backlog_entries == 2
        ids[2].ack_set.append(0b100)
        await client.acknowledge(ids[2], ack_type=CommandAck.Cumulative, request_id=7)
        await client.expect(pb.CommandAckResponse)
        await client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
        await client.expect(pb.CommandSuccess)
        await other.subscribe(subType=EXCLUSIVE)
        await other.flow(10)
        again = await other.expect(pb.CommandMessage)
        assert (place_of(again.message_id), list(again.ack_set)) == (place_of(ids[2]), [0b100])
        assert await other.silent()


async def test_a_failed_ack_is_reported(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe()
        await client.flow(10)
        await client.producer()
        await client.publish(b"x")
        message_id = (await client.take(2))[0][0].message_id
        running.store.fail_until_healed()
        await client.acknowledge(message_id, request_id=7)
        assert (await client.expect(pb.CommandAckResponse)).error == pb.PersistenceError
        running.store.heal()
        await client.acknowledge(message_id, request_id=8)
        assert not (await client.expect(pb.CommandAckResponse)).HasField("error")


async def test_parts_of_batches_and_whole_entries_in_one_ack(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        await client.subscribe()
        await client.flow(1000)
        await client.producer()
        send = pb.CommandSend(producer_id=1, sequence_id=0, num_messages=70)
        for _ in range(2):
            await client.send(send, body=body_of(b"batch", num_messages_in_batch=70))
        ids = [
            each.message_id
            for each, _ in await client.take(4)
            if isinstance(each, pb.CommandMessage)
        ]
        # Messages 64 to 69 are done: their word is zero, so it is left out.
        ids[0].ack_set.append(-1)
        await client.acknowledge(*ids, request_id=7)
        await client.expect(pb.CommandAckResponse)
        await client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
        await client.expect(pb.CommandSuccess)
        await other.subscribe()
        await other.flow(1000)
        again = await other.expect(pb.CommandMessage)
        assert (place_of(again.message_id), list(again.ack_set)) == (place_of(ids[0]), [-1])
        assert await other.silent()


async def test_acks_of_what_is_not_there_change_nothing(open_broker: OpenBroker) -> None:
    strange = [(0, 0), (1, 5), (9, 0), ((1 << 64) - 1, 3), (1, (1 << 64) - 1), (1, 1 << 31)]
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        await client.subscribe(subType=EXCLUSIVE)
        ids = [MessageIdData(ledgerId=ledger, entryId=entry) for ledger, entry in strange]
        for words in ([], [-1], [0]):
            for each in ids:
                del each.ack_set[:]
                each.ack_set.extend(words)
            await client.acknowledge(*ids, request_id=1)
            await client.expect(pb.CommandAckResponse)
            for each in ids:
                await client.acknowledge(each, ack_type=CommandAck.Cumulative, request_id=2)
                await client.expect(pb.CommandAckResponse)
        await client.flow(10)
        await client.publish(b"x")
        found = [type(command) for command, _ in await client.take(2)]
        assert set(found) == {pb.CommandSendReceipt, pb.CommandMessage}


async def test_a_lost_connection_gives_its_messages_back(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (lost, other):
        await lost.subscribe()
        await lost.flow(10)
        await lost.producer()
        await lost.publish(b"a", b"b")
        await lost.take(4)
        await other.subscribe()
        await other.flow(10)
        assert await other.silent()
        await lost.stream.aclose()
        again = await other.take(2)
        assert [each.redelivery_count for each, _ in again] == [0, 0]


async def test_redelivery_counts_start_over_when_the_last_consumer_has_left(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        await first.producer()
        await first.subscribe()
        await second.subscribe()
        await first.flow(10)
        await first.publish(b"x")
        await first.expect(pb.CommandSendReceipt)
        ((message, _),) = await first.take(1)
        back = pb.CommandRedeliverUnacknowledgedMessages(
            consumer_id=1, message_ids=[message.message_id]
        )
        await first.send(back)
        ((message, _),) = await first.take(1)
        assert message.redelivery_count == 1
        await first.stream.aclose()
        await second.flow(10)
        ((message, _),) = await second.take(1)
        assert message.redelivery_count == 1
        await second.send(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
        await second.expect(pb.CommandSuccess)
        await second.subscribe(subType=CommandSubscribe.Exclusive)
        await second.flow(10)
        ((message, _),) = await second.take(1)
        assert message.redelivery_count == 0


async def test_a_peer_that_breaks_the_protocol_ends_alone(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (bad, good):
        await bad.producer(producer_name="bad")
        await good.producer(producer_name="good")
        await bad.stream.send_all(b"\0\0\0\x02\xff\xff")
        await bad.stream.send_all(b"\xff\xff" * 10)
        error = await bad.expect(pb.CommandError)
        assert error.error == pb.UnknownError
        with pytest.raises(Closed):
            await bad.reply()
        await good.publish(b"x")
        await good.expect(pb.CommandSendReceipt)
        success = await good.producer(producer_id=2, producer_name="bad")
        assert isinstance(success, pb.CommandProducerSuccess)


async def test_a_defect_costs_one_connection(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async with open_broker() as running, connected(running.context, 2) as (bad, good):
        await good.producer()
        with monkeypatch.context() as patch:
            patch.setattr(running.context.topics, "named", broken)
            command = pb.CommandGetTopicsOfNamespace(request_id=1, namespace="public/default")
            await bad.send(command)
            with pytest.raises((Closed, trio.BrokenResourceError)):
                await bad.reply()
        await good.publish(b"x")
        await good.expect(pb.CommandSendReceipt)
        assert "ZeroDivisionError" in caplog.text


async def test_a_defect_in_a_delivery_does_not_reach_the_core(
    open_broker: OpenBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    async with open_broker() as running, connected(running.context, 2) as (bad, good):
        await bad.subscribe()
        await bad.flow(10)
        await good.producer()
        with monkeypatch.context() as patch:
            patch.setattr(Consumer, "messages", broken)
            await good.publish(b"x")
            await good.expect(pb.CommandSendReceipt)
            with pytest.raises((Closed, trio.BrokenResourceError)):
                await bad.reply()
        assert "ZeroDivisionError" in caplog.text
        await good.subscribe()
        await good.flow(10)
        await good.expect(pb.CommandMessage)


async def test_an_exclusive_place_is_taken(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        await first.subscribe(subType=EXCLUSIVE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_one_ping, first)
            refusal = await second.subscribe(subType=EXCLUSIVE)
        assert refusal.error == pb.ConsumerBusy
        refusal = await first.subscribe(subType=EXCLUSIVE, consumer_id=2)
        assert refusal.error == pb.ConsumerBusy, (
            "a consumer of the same connection is refused without a ping"
        )


async def answer_one_ping(client: RawClient) -> None:
    await client.expect(pb.CommandPing)
    await client.send(pb.CommandPong())


async def test_the_place_of_a_dead_connection_is_free(open_broker: OpenBroker) -> None:
    async with (
        open_broker(probe_timeout_s=0.05) as running,
        connected(running.context, 2) as (dead, living),
    ):
        await dead.subscribe(subType=EXCLUSIVE)
        await dead.producer(producer_name="me")
        success = await living.subscribe(subType=EXCLUSIVE)
        assert isinstance(success, pb.CommandSuccess)
        assert isinstance(await living.producer(producer_name="me"), pb.CommandProducerSuccess)


async def test_a_name_in_use_is_busy(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (first, second):
        await first.producer(producer_name="me")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_one_ping, first)
            refusal = await second.producer(producer_name="me")
        assert refusal.error == pb.ProducerBusy
        await first.send(pb.CommandCloseProducer(producer_id=1, request_id=9))
        await first.expect(pb.CommandSuccess)
        success = await second.producer(producer_name="me")
        assert success.producer_name == "me"


async def test_an_initial_subscription_is_made_for_a_dead_letter_topic(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer(initial_subscription_name="keep")
        await client.publish(b"x")
        await client.reply()
        kept = running.core.topic(NAME).subscriptions["keep"]
        assert kept.statistics().backlog_entries == 1


async def test_an_initial_subscription_that_may_not_be_is_refused_for_good(
    open_broker: OpenBroker,
) -> None:
    """Clients would try again for half a minute after SubscriptionNotFound."""
    settings = {"allow_auto_subscription_creation": False}
    async with open_broker(**settings) as running, connected(running.context) as (client,):
        answer = await client.producer(initial_subscription_name="keep")
        assert answer.error == pb.NotAllowedError
        assert "auto subscription creation is not allowed" in answer.message
        assert (await client.subscribe()).error == pb.SubscriptionNotFound
        assert isinstance(await client.producer(producer_id=2), pb.CommandProducerSuccess)


async def test_producers_of_a_deleted_topic_are_sent_away_and_come_back(
    open_broker: OpenBroker,
) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        await client.subscribe()
        await running.core.delete_topic(NAME)
        assert (await client.expect(pb.CommandCloseConsumer)).consumer_id == 1
        await client.publish(b"x")
        assert (await client.expect(pb.CommandCloseProducer)).producer_id == 1
        await client.producer()
        await client.publish(b"x")
        await client.expect(pb.CommandSendReceipt)


async def test_a_seek_sends_every_consumer_away_and_then_succeeds(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        await client.producer()
        await client.publish(b"a", b"b")
        await client.take(2)
        for each in (client, other):
            await each.subscribe()
        beginning = MessageIdData(ledgerId=(1 << 64) - 1, entryId=(1 << 64) - 1)
        await client.send(pb.CommandSeek(consumer_id=1, request_id=7, message_id=beginning))
        await client.expect(pb.CommandCloseConsumer)
        assert (await client.expect(pb.CommandSuccess)).request_id == 7
        await other.expect(pb.CommandCloseConsumer)
        await client.subscribe()
        await client.flow(10)
        assert len(await client.take(2)) == 2


async def test_a_failed_seek_is_an_unknown_error(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe()
        running.store.fail_until_healed()
        await client.send(pb.CommandSeek(consumer_id=1, request_id=7, message_publish_time=1))
        await client.expect(pb.CommandCloseConsumer)
        assert (await client.expect(pb.CommandError)).error == pb.UnknownError
        running.store.heal()


async def test_unsubscribing_needs_the_subscription_for_oneself(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as (client, other):
        for each in (client, other):
            await each.subscribe()
        await client.send(pb.CommandUnsubscribe(consumer_id=1, request_id=7))
        refusal = await client.expect(pb.CommandError)
        assert refusal.error == pb.MetadataError
        assert refusal.message == "Unconnected or shared consumer attempting to unsubscribe"
        await client.send(pb.CommandUnsubscribe(consumer_id=1, request_id=8, force=True))
        assert (await client.expect(pb.CommandSuccess)).request_id == 8
        await other.expect(pb.CommandCloseConsumer)
        assert not running.core.topic(NAME).subscriptions


async def test_the_subscription_of_an_amqp_queue_stays(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe(subscription="amqp")
        await client.send(pb.CommandUnsubscribe(consumer_id=1, request_id=7, force=True))
        assert (await client.expect(pb.CommandError)).error == pb.NotAllowedError
        assert "amqp" in running.core.topic(NAME).subscriptions


async def test_a_reader_leaves_no_trace(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.producer()
        await client.publish(b"a", b"b", b"c")
        ids = [each.message_id for each, _ in await client.take(3)]
        await client.subscribe(durable=False, start_message_id=ids[1], subType=EXCLUSIVE)
        await client.flow(10)
        messages = [each.message_id for each, _ in await client.take(2)]
        assert messages == ids[1:]
        await client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
        await client.expect(pb.CommandSuccess)
        assert not running.core.topic(NAME).subscriptions


async def test_a_topic_that_must_be_there_is_not_made(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        refusal = await client.subscribe(force_topic_creation=False)
        assert refusal.error == pb.TopicNotFound
        refusal = await client.producer("other/namespace/t")
        assert refusal.error == pb.TopicNotFound
        await client.send(
            pb.CommandPartitionedTopicMetadata(
                topic="t", request_id=1, metadata_auto_creation_enabled=False
            )
        )
        assert (await client.reply())[0].error == pb.TopicNotFound
        assert not running.core.topics


async def test_two_may_make_the_same_topic_at_once(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context, 2) as clients:
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.producer)
        assert list(running.core.topics) == [NAME]


async def test_entries_of_amqp_origin_are_translated(open_broker: OpenBroker) -> None:
    """Here one that no codec can read, which arrives as it is; see also the conformance suite."""
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe()
        await client.flow(10)
        entry = EntryHeader(Origin.AMQP).pack() + b"broken"
        running.core.append(running.core.topic(NAME), [entry], lambda error, first: None)
        command, payload = await client.reply()
        assert isinstance(command, pb.CommandMessage)
        assert payload.endswith(b"broken")
        await client.send(pb.CommandGetLastMessageId(consumer_id=1, request_id=3))
        answer = await client.expect(pb.CommandGetLastMessageIdResponse)
        assert place_of(answer.last_message_id) == place_of(command.message_id)
        assert answer.last_message_id.batch_index == -1


async def test_statistics_come_from_the_core(open_broker: OpenBroker) -> None:
    async with open_broker() as running, connected(running.context) as (client,):
        await client.subscribe(consumer_name="me")
        await client.send(pb.CommandConsumerStats(request_id=3, consumer_id=1))
        answer = await client.expect(pb.CommandConsumerStatsResponse)
        assert (answer.consumerName, answer.type, answer.msgBacklog) == ("me", "Shared", 0)


async def test_a_client_that_does_not_read_is_sent_no_more_and_disturbs_nobody(
    open_broker: OpenBroker,
) -> None:
    """What waits for its socket is bounded; what it was not sent, others get."""
    async with open_broker() as running, connected(running.context, 3) as (slow, other, sender):
        await slow.subscribe()
        (attached,) = running.context.consumers.of(running.core.topic(NAME))
        connection = attached.connection
        assert isinstance(connection, Connection)
        blockade = Blockade(connection)
        await slow.flow(1000)
        await sender.producer()
        for number in range(60):
            await sender.publish(bytes(100_000), first=number)
            await sender.expect(pb.CommandSendReceipt)
        waiting = connection._session.waiting_bytes + connection._writer._sending_bytes
        assert (
            PulsarConfig().outbox_bytes_max
            < waiting
            < PulsarConfig().outbox_bytes_max + 30 * 100_000
        )
        await other.subscribe()
        await other.flow(1000)
        (consumer, _) = running.core.topic(NAME).subscriptions["s"].consumers
        left = 60 - consumer.in_flight
        assert left > 10
        await other.take(left)
        assert await other.silent()
        blockade.open()
        await slow.take(60 - left)
        await other.send(pb.CommandCloseConsumer(consumer_id=1, request_id=9))
        await other.expect(pb.CommandSuccess)
        await slow.take(left)


class Blockade:
    """Lets nothing through to a connection until it is opened."""

    def __init__(self, connection: Connection) -> None:
        self._send_all = connection._stream.send_all
        self._opened = trio.Event()
        connection._stream.send_all = self._send  # type: ignore[method-assign]

    def open(self) -> None:
        self._opened.set()

    async def _send(self, data: bytes) -> None:
        await self._opened.wait()
        await self._send_all(data)


async def test_serving_ends_with_its_connections(open_broker: OpenBroker) -> None:
    async with open_broker() as running:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        host, port = listeners[0].socket.getsockname()
        async with trio.open_nursery() as nursery:
            await nursery.start(PulsarServer(running.context).serve, listeners)
            client = await RawClient(await trio.open_tcp_stream(host, port)).connect()
            await client.send(pb.CommandLookupTopic(topic="t", request_id=1))
            answer = await client.expect(pb.CommandLookupTopicResponse)
            assert answer.brokerServiceUrl == f"pulsar://{host}:{port}"
            nursery.cancel_scope.cancel()
        with pytest.raises(Closed):
            await client.reply()
        await client.stream.aclose()


async def test_clients_that_are_gone_again_when_they_are_accepted_disturb_nobody(
    open_broker: OpenBroker,
) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listeners[0].socket.getsockname()
    async with open_broker() as running, trio.open_nursery() as nursery:
        await nursery.start(PulsarServer(running.context).serve, listeners)
        for _ in range(20):
            with socket.create_connection(address) as gone:
                # Closing it resets the connection; nobody has accepted it yet.
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream = await trio.open_tcp_stream(*address)
        await RawClient(stream).connect()
        await stream.aclose()
        nursery.cancel_scope.cancel()
