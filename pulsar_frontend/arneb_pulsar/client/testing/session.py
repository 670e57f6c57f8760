"""A broker's end of one connection: bytes in, frames out.

The rule: it answers as Pulsar's brokers do, and closes the connection where they do. It refuses
unknown commands by name, so that a test never waits for an answer that will not come.
"""

from collections.abc import Callable
from functools import partial, singledispatchmethod
from typing import Any, Final

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Command

from arneb_pulsar.client.connection.commands import command_of, frame_of
from arneb_pulsar.client.errors import (
    NotAllowed,
    ServerRefused,
    ServiceNotReady,
    TransactionNotFound,
)
from arneb_pulsar.client.ids import EntryId, MessageId
from arneb_pulsar.client.messages import TransactionId
from arneb_pulsar.client.testing.answers import Broker, answer_of
from arneb_pulsar.client.testing.subscription import Entry, FakeConsumer, FakeSubscription
from arneb_pulsar.client.testing.topic import FakeProducer, FakeTopic
from arneb_pulsar.client.testing.transactions import coordinated
from arneb_pulsar.client.testing.watchers import FakeWatchers
from arneb_pulsar.wire.ack_sets import mask_of, words_of
from arneb_pulsar.wire.commands import FIELD_OF, PROTOCOL_VERSION, parse_command
from arneb_pulsar.wire.errors import ChecksumMismatch, WireError
from arneb_pulsar.wire.frame import MESSAGE_BYTES_MAX, FrameReader, payload_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandAck,
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnect,
    CommandConnected,
    CommandError,
    CommandFlow,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSubscribe,
    CommandSuccess,
    CommandUnsubscribe,
    FeatureFlags,
    MessageIdData,
    ProducerAccessMode,
    ServerError,
)

NO_REQUEST: Final = (1 << 64) - 1
UNSIGNED: Final = 1 << 64
NO_ENTRY: Final[EntryId] = (-1, -1)
"""The entry in the receipt of a duplicate."""


class FakeSession:
    """A client's connection to the broker at ``url``."""

    def __init__(
        self,
        broker: Broker,
        url: str,
        write: Callable[[bytes], None],
        cut: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._url = url
        self._write = write
        self._cut = cut
        self._reader = FrameReader(MESSAGE_BYTES_MAX + 1024 * 1024)
        self._producers: dict[int, tuple[FakeTopic, FakeProducer]] = {}
        self._consumers: dict[int, tuple[FakeTopic, FakeSubscription, FakeConsumer]] = {}
        self._watchers = FakeWatchers(broker, self._say)
        self._is_closed = False
        self.commands: list[str] = []
        """The names of all commands received, for tests that count."""

    def __repr__(self) -> str:
        return (
            f"<FakeSession at {self._url}, {len(self._producers)} producers,"
            f" {len(self._consumers)} consumers>"
        )

    def receive(self, data: bytes) -> None:
        """Handle bytes from the client."""
        self._broker.expire()
        commands, bodies = self._reader.receive(data)
        try:
            for raw, body in zip(commands, bodies, strict=True):
                if self._is_closed:
                    return
                base = parse_command(raw)
                name = FIELD_OF[base.type]
                self.commands.append(name)
                self._take(getattr(base, name), body)
            if self._reader.error is not None:
                raise self._reader.error
        except (WireError, DecodeError):
            self._cut()

    def closed(self) -> None:
        """Note the end of the connection."""
        self._is_closed = True
        producers, self._producers = self._producers, {}
        consumers, self._consumers = self._consumers, {}
        for topic, producer in producers.values():
            topic.dismiss(producer)
        for topic, subscription, consumer in consumers.values():
            topic.leave(subscription, consumer)
        self._watchers.end_all()

    def _take(self, command: Any, body: bytes) -> None:
        try:
            if isinstance(command, CommandSend):
                self._send(command, body)
                return
            reply = answer_of(self._broker, self._url, command)
            reply = reply or self._watchers.answer(command)
            reply = reply or coordinated(self._broker, self._url, command)
            if reply is not None:
                self._say(reply)
            else:
                self._handle(command)
        except ServerRefused as error:
            self._refuse(command, error)

    def _refuse(self, command: Any, error: ServerRefused) -> None:
        number = getattr(command, "request_id", NO_REQUEST)
        code = ServerError.ValueType(error.code)
        self._say(CommandError(request_id=number, error=code, message=str(error)))

    def _say(self, command: Command) -> None:
        self._write(frame_of(command))

    @singledispatchmethod
    def _handle(self, command: Any) -> None:
        name = command.DESCRIPTOR.name
        number = getattr(command, "request_id", NO_REQUEST)
        text = f"the fake broker does not know {name}"
        self._say(CommandError(request_id=number, error=ServerError.NotAllowedError, message=text))

    @_handle.register
    def _(self, command: CommandConnect) -> None:
        self._say(
            CommandConnected(
                server_version="Fake-Broker",
                protocol_version=PROTOCOL_VERSION,
                max_message_size=MESSAGE_BYTES_MAX,
                feature_flags=FeatureFlags(supports_topic_watchers=True),
            )
        )

    @_handle.register
    def _(self, command: CommandPong) -> None: ...

    def _topic_here(self, name: str) -> FakeTopic:
        if (owner := self._broker.owner(name)) != self._url:
            raise ServiceNotReady(f"{name} is served by {owner}")
        if self._broker.is_not_ready():
            raise ServiceNotReady(f"{name} is being loaded")
        return self._broker.topic(name)

    # Producers

    @_handle.register
    def _(self, command: CommandProducer) -> None:
        topic = self._topic_here(command.topic)
        number, request = command.producer_id, command.request_id
        if (known := self._producers.pop(number, None)) is not None:
            known[0].dismiss(known[1])
        producer = FakeProducer(
            command.producer_name,
            command.producer_access_mode,
            partial(self._producer_ended, number),
            partial(self._producer_ready, topic, number, request),
        )
        epoch = command.topic_epoch if command.HasField("topic_epoch") else None
        topic.admit(producer, epoch)
        self._producers[number] = topic, producer
        version = topic.schema_version(command.schema) if command.HasField("schema") else b""
        self._producer_success(topic, producer, request, version)

    def _producer_success(
        self, topic: FakeTopic, producer: FakeProducer, request: int, version: bytes
    ) -> None:
        reply = CommandProducerSuccess(
            request_id=request,
            producer_name=producer.name,
            last_sequence_id=topic.last_sequence_id(producer.name),
            schema_version=version,
            producer_ready=producer.is_ready,
        )
        if producer.mode != ProducerAccessMode.Shared and producer.is_ready:
            reply.topic_epoch = topic.epoch
        self._say(reply)

    def _producer_ready(self, topic: FakeTopic, number: int, request: int, epoch: int) -> None:
        if number in self._producers:
            self._producer_success(topic, self._producers[number][1], request, b"")

    def _producer_ended(self, number: int) -> None:
        if self._producers.pop(number, None) is not None:
            self._say(CommandCloseProducer(producer_id=number, request_id=NO_REQUEST))

    def _send(self, command: CommandSend, body: bytes) -> None:
        if (found := self._producers.get(command.producer_id)) is None:
            return  # the producer was closed, and has not noticed yet
        topic, producer = found
        number, highest = command.sequence_id, command.highest_sequence_id
        try:
            entry = topic.append(producer.name, number, highest, body, self._broker.now_ms())
        except (ChecksumMismatch, NotAllowed) as error:
            is_over = isinstance(error, NotAllowed)
            refused = CommandSendError(producer_id=command.producer_id, sequence_id=number)
            refused.error = ServerError.NotAllowedError if is_over else ServerError.ChecksumError
            refused.message = str(error)
            self._say(refused)
            return
        receipt = CommandSendReceipt(
            producer_id=command.producer_id,
            sequence_id=number,
            highest_sequence_id=highest,
            message_id=_wire(entry or NO_ENTRY),
        )
        self._say(receipt)
        if self._broker.is_doubled():
            self._say(receipt)

    @_handle.register
    def _(self, command: CommandCloseProducer) -> None:
        if (found := self._producers.pop(command.producer_id, None)) is not None:
            found[0].dismiss(found[1])
        self._say(CommandSuccess(request_id=command.request_id))

    # Consumers

    @_handle.register
    def _(self, command: CommandSubscribe) -> None:
        topic = self._topic_here(command.topic)
        number = command.consumer_id
        if (known := self._consumers.pop(number, None)) is not None:
            known[0].leave(known[1], known[2])
        if command.HasField("schema"):
            topic.schema_version(command.schema)
        consumer = FakeConsumer(
            command.consumer_name,
            command.priority_level,
            partial(self._deliver, number, command),
            partial(self._active, number),
            partial(self._consumer_ended, number),
            epoch=command.consumer_epoch,
        )
        subscription = topic.subscribe(command, consumer, self._broker.now_ms())
        self._consumers[number] = topic, subscription, consumer
        if self._is_closed:
            self.closed()  # the connection was cut by the first deliveries
        self._say(CommandSuccess(request_id=command.request_id))

    def _deliver(
        self,
        number: int,
        subscribe: CommandSubscribe,
        entry: Entry,
        left: int,
        redelivered: int,
        epoch: int,
    ) -> None:
        message = CommandMessage(
            consumer_id=number, message_id=_wire(entry.id), redelivery_count=redelivered
        )
        if left != (1 << entry.messages) - 1:
            message.ack_set.extend(words_of(left))
        if subscribe.HasField("consumer_epoch"):
            message.consumer_epoch = epoch
        self._write(payload_frame(command_of(message), entry.body))

    def _active(self, number: int, is_active: bool) -> None:
        self._say(CommandActiveConsumerChange(consumer_id=number, is_active=is_active))

    def _consumer_ended(self, number: int) -> None:
        if self._consumers.pop(number, None) is not None:
            self._say(CommandCloseConsumer(consumer_id=number, request_id=NO_REQUEST))

    @_handle.register
    def _(self, command: CommandFlow) -> None:
        if (found := self._consumers.get(command.consumer_id)) is not None:
            found[1].flow(found[2], command.messagePermits)

    @_handle.register
    def _(self, command: CommandAck) -> None:
        found = self._consumers.get(command.consumer_id)
        if found is None:
            return
        topic, subscription, _ = found
        reply = CommandAckResponse(consumer_id=command.consumer_id)
        try:
            for each in command.message_id:
                self._acknowledge(topic, subscription, command, each)
        except ServerRefused as error:
            code = ServerError.ValueType(error.code)
            reply = CommandAckResponse(
                consumer_id=command.consumer_id, error=code, message=str(error)
            )
        if command.HasField("request_id"):
            reply.request_id = command.request_id
            self._say(reply)

    def _acknowledge(
        self,
        topic: FakeTopic,
        subscription: FakeSubscription,
        command: CommandAck,
        place: MessageIdData,
    ) -> None:
        left, entry = mask_of(place.ack_set), MessageId.from_wire(place).entry
        index = topic.index_of(entry)
        is_there = index < len(topic.entries) and topic.entries[index].id == entry
        is_cumulative = command.ack_type == CommandAck.Cumulative
        if command.HasField("txnid_least_bits"):
            transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
            if not self._broker.transactions.is_open(transaction):
                raise TransactionNotFound(f"no transaction {transaction}")
            claim = subscription.claim_up_to if is_cumulative else subscription.claim
            claim(transaction, index, left if is_there else -1)
        elif is_cumulative:
            subscription.acknowledge_up_to(index, left if is_there else -1)
        elif is_there:
            subscription.acknowledge(index, left)

    @_handle.register
    def _(self, command: CommandRedeliverUnacknowledgedMessages) -> None:
        found = self._consumers.get(command.consumer_id)
        if found is None:
            return
        topic, subscription, consumer = found
        if command.HasField("consumer_epoch"):
            consumer.epoch = command.consumer_epoch
        indexes = [topic.index_of(MessageId.from_wire(each).entry) for each in command.message_ids]
        subscription.redeliver(consumer, indexes or None)

    @_handle.register
    def _(self, command: CommandSeek) -> None:
        topic, subscription, _ = self._consumer(command.consumer_id)
        if command.HasField("message_id"):
            index = topic.start_index_of(MessageId.from_wire(command.message_id))
        else:
            index = topic.index_at(command.message_publish_time)
        subscription.end_all()
        subscription.reset(index)
        self._say(CommandSuccess(request_id=command.request_id))

    @_handle.register
    def _(self, command: CommandGetLastMessageId) -> None:
        topic, subscription, _ = self._consumer(command.consumer_id)
        last = MessageIdData(ledgerId=UNSIGNED - 1, entryId=UNSIGNED - 1)
        if (entry := topic.last) is not None:
            last = _wire(entry.id)
            last.batch_index = entry.messages - 1 if entry.is_batch else -1
        reply = CommandGetLastMessageIdResponse(request_id=command.request_id, last_message_id=last)
        done = subscription.mark_delete
        before = topic.entries[done - 1].id if done else topic.before_first
        reply.consumer_mark_delete_position.CopyFrom(_wire(before))
        self._say(reply)

    @_handle.register
    def _(self, command: CommandUnsubscribe) -> None:
        topic, subscription, consumer = self._consumer(command.consumer_id)
        del self._consumers[command.consumer_id]
        topic.leave(subscription, consumer)
        topic.subscriptions.pop(subscription.name, None)
        self._say(CommandSuccess(request_id=command.request_id))

    @_handle.register
    def _(self, command: CommandCloseConsumer) -> None:
        if (found := self._consumers.pop(command.consumer_id, None)) is not None:
            found[0].leave(found[1], found[2])
        self._say(CommandSuccess(request_id=command.request_id))

    def _consumer(self, number: int) -> tuple[FakeTopic, FakeSubscription, FakeConsumer]:
        if (found := self._consumers.get(number)) is None:
            raise ServiceNotReady(f"no consumer {number} on this connection")
        return found


def _wire(entry: EntryId) -> MessageIdData:
    return MessageIdData(ledgerId=entry[0] % UNSIGNED, entryId=entry[1] % UNSIGNED)
