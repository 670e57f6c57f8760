"""A consumer's link: keeps its machine attached to the broker that serves its topic.

The rule: the machine's output is sent at once on the current connection; what the connection
reports goes to the machine, and waiting tasks are woken.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio

from arneb_pulsar.client.attachment import Attachment
from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.consumer.acknowledging import AckRequest
from arneb_pulsar.client.consumer.dead_letters import DeadLetters
from arneb_pulsar.client.consumer.machine import ConsumerMachine
from arneb_pulsar.client.consumer.options import ConsumerOptions
from arneb_pulsar.client.consumer.receiving import Receiving
from arneb_pulsar.client.consumer.versions import SchemaVersions
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import (
    ClientClosed,
    Disconnected,
    PulsarError,
    TimedOut,
)
from arneb_pulsar.client.ids import LATEST, MessageId
from arneb_pulsar.client.interceptors import ConsumerInterceptor, guarded
from arneb_pulsar.client.producer.packing import pairs_of
from arneb_pulsar.client.tasks.waiting import Bell
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseConsumer,
    CommandGetLastMessageId,
    CommandMessage,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    Schema,
)

T = TypeVar("T")


class ConsumerLink(Receiving[T]):
    """One consumer at its broker, without the methods for applications."""

    def __init__(
        self,
        context: ClientContext,
        topic: TopicName,
        subscription: str,
        options: ConsumerOptions,
        machine: ConsumerMachine[T],
        schema: Schema | None,
        letters: DeadLetters[T] | None = None,
        versions: SchemaVersions[T] | None = None,
        interceptors: Sequence[ConsumerInterceptor] = (),
    ) -> None:
        super().__init__()
        self.on_arrival: Callable[[], None] = lambda: None
        """Called whenever messages have come; for consumers of several topics."""
        self.has_reached_end = False
        """The topic was terminated, and all its messages are acknowledged."""
        self.is_active: bool | None = None
        """Whether it is the active consumer of a Failover subscription; None = not told."""
        self._context = context
        self._topic = topic
        self._subscription = subscription
        self._options = options
        self._machine = machine
        self._schema = schema
        self._letters = letters
        self._versions = versions
        self._interceptors = interceptors
        if versions is not None:
            versions.known = self._woken
        self._id = machine.consumer_id
        self._timer = context.clock.timer(self._tick)
        self._arrived = Bell()
        self._attached = Bell()
        self._failure: PulsarError | None = None
        self._seeking = False
        self._seeks: anyio.Lock | None = None
        """Serialises seeks; made for the first one."""
        self._closed_while_seeking: str | None = None
        self._made_at = context.clock.now()
        self._subscribed = False
        if options.auto_scaled_queue:
            context.memory.on_short.add(machine.shrink)
        self._attachment = Attachment(context, topic, self._attach, self._end)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._topic} {self._subscription!r}, {self._machine!r}>"

    @property
    def is_connected(self) -> bool:
        """Whether it is attached to its broker."""
        return self._machine.attached

    async def start(self) -> None:
        """Subscribe at the broker; for ``Client.subscribe``."""
        try:
            await self._attachment.start()
        except BaseException as error:
            self._end(error if isinstance(error, PulsarError) else ClientClosed("cancelled"))
            raise

    async def _attach(self, connection: Connection) -> None:
        wire = connection.machine
        wire.receivers[self._id] = self
        what = f"subscription {self._subscription!r} to {self._topic}"
        limit_s = self._context.operation_timeout_s
        is_there = False
        try:
            await connection.request(self._subscribe(), what, limit_s)
            is_there = True
            rolls_back = self._options.start_rollback_s and not self._subscribed
            if not self._options.durable and (self._machine.start == LATEST or rolls_back):
                ask = CommandGetLastMessageId(consumer_id=self._id)
                found = await connection.request(ask, what, limit_s)
                if found.HasField("consumer_mark_delete_position"):
                    mark_delete = found.consumer_mark_delete_position
                    self._machine.anchor(MessageId.from_wire(mark_delete, str(self._topic)))
        except BaseException as error:
            # Otherwise it would be told of events on a connection that it has left, and the broker
            # would keep the consumer.
            wire.receivers.pop(self._id, None)
            if is_there or isinstance(error, TimedOut | anyio.get_cancelled_exc_class()):
                close = CommandCloseConsumer(consumer_id=self._id)
                wire.request(close, what, lambda _reply, _error: None)
                connection.flush()
            raise
        self._subscribed = True
        if wire.receivers.get(self._id) is not self:
            # The response and the broker's close were read together: the consumer is gone already.
            raise Disconnected(f"{what}: expected to stay, was detached at once")
        self._machine.attach(self._context.clock.now())
        self._attached.ring()
        self._changed()

    def _subscribe(self) -> CommandSubscribe:
        options, start = self._options, self._machine.start
        command = CommandSubscribe(
            topic=str(self._topic),
            subscription=self._subscription,
            subType=options.type.value,
            consumer_id=self._id,
            consumer_name=options.name or None,
            priority_level=options.priority_level or None,
            durable=options.durable,
            initialPosition=options.initial_position.value,
            force_topic_creation=options.create_topic,
            metadata=pairs_of(options.properties),
            subscription_properties=pairs_of(options.subscription_properties),
            read_compacted=options.read_compacted or None,
            replicate_subscription_state=options.replicate_subscription_state or None,
            schema=self._schema,
            consumer_epoch=self._machine.epoch,
        )
        if not options.durable and start is not None:
            command.start_message_id.CopyFrom(self._machine.first_id_of(start).to_wire())
        if options.start_rollback_s and not self._subscribed:
            command.start_message_rollback_duration_sec = options.start_rollback_s
        if options.type.value == CommandSubscribe.Key_Shared:
            keys = options.key_shared
            sticky = bool(keys.sticky_ranges)
            command.keySharedMeta.CopyFrom(
                KeySharedMeta(
                    keySharedMode=pb.STICKY if sticky else pb.AUTO_SPLIT,
                    hashRanges=[IntRange(start=low, end=high) for low, high in keys.sticky_ranges],
                    allowOutOfOrderDelivery=keys.allow_out_of_order,
                )
            )
        return command

    def _end(self, error: PulsarError) -> None:
        """End the consumer for good."""
        if self._failure is not None:
            return
        self._failure = error
        if (connection := self._attachment.connection) is not None:
            connection.machine.receivers.pop(self._id, None)
        self._attachment.stop()
        self._timer.set(None)
        self._context.memory.on_short.discard(self._machine.shrink)
        if self._letters is not None:
            self._letters.close()
        for receipt in self._machine.close():
            receipt(error)
        self._arrived.ring()
        self._attached.ring()
        self.on_arrival()

    # What its connection says

    def on_message(self, message: CommandMessage, body: bytes) -> None:
        """See ``connection.machine.Receiver``."""
        machine = self._machine
        if machine.on_message(message, body, self._context.clock.now()):
            if self._versions is not None:
                self._versions.need(machine.last_version)
            self._arrived.ring()
            self.on_arrival()
            if machine.acks.output:
                self._changed()
        else:
            self._changed()  # chunks of a message, and skipped messages, may have set timers
        if machine.given_up and self._letters is not None:
            self._letters.bury(machine, self._changed)

    def _woken(self) -> None:
        self._arrived.ring()
        self.on_arrival()

    def on_active(self, is_active: bool) -> None:
        """See ``connection.machine.Receiver``."""
        self.is_active = is_active
        if self._options.on_active is not None:
            guarded(self._options.on_active, self, is_active)

    def on_end_of_topic(self) -> None:
        """See ``connection.machine.Receiver``."""
        self.has_reached_end = True
        if self._options.on_end_of_topic is not None:
            guarded(self._options.on_end_of_topic, self)

    def on_closed(self, hint: str) -> None:
        """See ``connection.machine.Receiver``."""
        self._machine.detach()
        if self._seeking:
            # Where to resume is known only when the broker has answered the seek.
            self._closed_while_seeking = hint
        else:
            self._attachment.lost(hint)

    def on_lost(self, error: PulsarError) -> None:
        """See ``connection.machine.Receiver``."""
        if isinstance(error, ClientClosed):
            self._end(error)
        else:
            self.on_closed("")

    # Helpers

    async def _request(self, command: Any, what: str) -> Any:
        """Send a request once attached. Raises the broker's error or :class:`TimedOut`."""
        connection, left_s = await self._connection(what)
        return await connection.request(command, what, left_s)

    async def _connection(self, what: str) -> tuple[Connection, float]:
        """Wait until attached; return the connection and the rest of the operation's time in s.
        Raises :class:`Disconnected` when that time is up."""
        limit_s = self._context.operation_timeout_s
        end = self._context.clock.now() + limit_s
        with anyio.move_on_after(limit_s):
            while not self._machine.attached and self._failure is None:
                await self._attached.wait()
        self._check_open()
        connection = self._attachment.connection
        if connection is None or not self._machine.attached:
            raise Disconnected(f"{what}: expected a connection within {limit_s} s, got none")
        return connection, max(end - self._context.clock.now(), 0.0)

    def _tick(self, now: float) -> None:
        self._machine.tick(now)
        self._changed()

    def _changed(self) -> None:
        """Send the machine's output, and set the timer."""
        machine = self._machine
        if machine.acks.output:
            self._write()
        self._timer.set(machine.due())

    def _write(self) -> None:
        output, self._machine.acks.output = self._machine.acks.output, []
        connection = self._attachment.connection
        if connection is None:
            return
        wire = connection.machine
        for each in output:
            if isinstance(each, AckRequest):
                wire.request(each.command, f"acknowledgement to {self._topic}", _answering(each))
            else:
                wire.send(each)
        connection.flush()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure


def _answering(request: AckRequest) -> Callable[[Any, PulsarError | None], None]:
    def answered(_reply: Any, error: PulsarError | None) -> None:
        for receipt in request.receipts:
            receipt(error)

    return answered
