"""A producer's link: keeps its machine attached to the broker that serves its topic.

The rule: the machine's output is sent at once on the current connection; room that a receipt frees
is given back at once.
"""

from typing import Generic, TypeVar

import anyio

from arneb_pulsar.client.attachment import Attachment
from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import (
    ClientClosed,
    Disconnected,
    PulsarError,
    TimedOut,
)
from arneb_pulsar.client.producer.building import Builder
from arneb_pulsar.client.producer.machine import ProducerMachine
from arneb_pulsar.client.producer.options import AccessMode, ProducerOptions
from arneb_pulsar.client.producer.packing import pairs_of
from arneb_pulsar.client.tasks.room import Room
from arneb_pulsar.client.tasks.waiting import Bell
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandSendError,
    CommandSendReceipt,
)

T = TypeVar("T")


class ProducerLink(Generic[T]):
    """One producer at its broker, without the methods for applications."""

    def __init__(
        self,
        context: ClientContext,
        topic: TopicName,
        options: ProducerOptions,
        machine: ProducerMachine,
        builder: Builder[T],
        *,
        encrypted: bool = False,
    ) -> None:
        self._context = context
        self._topic = topic
        self._options = options
        self._machine = machine
        self._builder = builder
        self._encrypted = encrypted
        self._id = machine.producer_id
        self._room = Room(options.pending_max, "pending messages")
        self._room_taken = 0
        self._memory_taken = 0
        self._timer = context.clock.timer(self._tick)
        self._progress = Bell()
        self._failure: PulsarError | None = None
        self._epoch = 0
        self._topic_epoch: int | None = None
        self._made_at = context.clock.now()
        self._attachment = Attachment(
            context,
            topic,
            self._attach,
            self._end,
            own_connection=options.access is AccessMode.EXCLUSIVE_WITH_FENCING,
            patient=options.access is AccessMode.WAIT_FOR_EXCLUSIVE,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._topic}, {self._machine!r}>"

    async def start(self) -> None:
        """Create the producer at the broker; for ``Client.create_producer``."""
        try:
            await self._attachment.start()
        except BaseException as error:
            self._end(error if isinstance(error, PulsarError) else ClientClosed("cancelled"))
            raise

    async def _attach(self, connection: Connection) -> None:
        options, wire = self._options, connection.machine
        command = CommandProducer(
            topic=str(self._topic),
            producer_id=self._id,
            producer_name=self._machine.name or options.name or None,
            user_provided_producer_name=bool(options.name),
            epoch=self._epoch,
            encrypted=self._encrypted or None,
            metadata=pairs_of(options.properties),
            schema=self._builder.schema,
            producer_access_mode=options.access.value,
            topic_epoch=self._topic_epoch,
            txn_enabled=options.transactions or None,
            initial_subscription_name=options.initial_subscription or None,
        )
        wire.senders[self._id] = self
        waits = options.access is AccessMode.WAIT_FOR_EXCLUSIVE
        limit_s = float("inf") if waits else self._context.operation_timeout_s
        try:
            reply = await connection.request(command, f"producer of {self._topic}", limit_s)
        except BaseException as error:
            wire.senders.pop(self._id, None)
            if isinstance(error, TimedOut | anyio.get_cancelled_exc_class()):
                self._send_close(connection)
            raise
        if wire.senders.get(self._id) is not self:
            # The response and the broker's close were read together: the producer is gone already.
            raise Disconnected(f"producer of {self._topic}: expected to stay, was detached at once")
        if reply.HasField("topic_epoch"):
            self._topic_epoch = reply.topic_epoch
        self._machine.attach(reply, wire.message_bytes_max)
        self._changed()

    def _send_close(self, connection: Connection) -> None:
        close = CommandCloseProducer(producer_id=self._id)
        connection.machine.request(close, f"close of {self._topic}", lambda _reply, _error: None)
        connection.flush()

    async def _say_goodbye(self) -> None:
        connection = self._attachment.connection
        if connection is None or not self._machine.attached:
            return
        connection.machine.senders.pop(self._id, None)
        self._machine.detach()
        await connection.request(
            CommandCloseProducer(producer_id=self._id),
            f"close of {self._topic}",
            self._context.operation_timeout_s,
        )

    def _end(self, error: PulsarError) -> None:
        """End the producer for good."""
        if self._failure is not None:
            return
        self._failure = error
        if (connection := self._attachment.connection) is not None:
            connection.machine.senders.pop(self._id, None)
        self._attachment.stop()
        self._machine.detach()
        self._machine.fail(error)
        self._timer.set(None)
        self._changed()
        self._room.admit_all()

    # What its connection says

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        """See ``connection.machine.Sender``."""
        if not self._machine.on_receipt(receipt, self._context.clock.now()):
            connection = self._attachment.connection
            if connection is not None:
                connection.close(
                    Disconnected(f"{self._topic}: a receipt of {receipt.sequence_id}, not sent")
                )
            return
        self._changed()

    def on_send_error(self, error: CommandSendError) -> None:
        """See ``connection.machine.Sender``."""
        why = self._machine.on_send_error(error, self._context.clock.now())
        connection = self._attachment.connection
        if why is not None and not why.retriable:
            self._end(why)
        elif why is not None and connection is not None:
            connection.machine.senders.pop(self._id, None)
            self._send_close(connection)
            self.on_closed("")
        self._changed()

    def on_closed(self, hint: str) -> None:
        """See ``connection.machine.Sender``."""
        self._machine.detach()
        self._epoch += 1
        self._attachment.lost(hint)

    def on_lost(self, error: PulsarError) -> None:
        """See ``connection.machine.Sender``."""
        if isinstance(error, ClientClosed):
            self._end(error)
        else:
            self.on_closed("")

    # Helpers

    def _tick(self, now: float) -> None:
        self._machine.tick(now, self._context.wall_ms())
        self._changed()

    def _changed(self) -> None:
        """Send the machine's output, give back freed room, and set the timer."""
        machine = self._machine
        if machine.output and (connection := self._attachment.connection) is not None:
            connection.machine.send_frames(machine.output)
            machine.output.clear()
            connection.flush()
        if (freed := self._room_taken - machine.pending_messages) > 0:
            self._room_taken -= freed
            self._room.give_back(freed)
            self._progress.ring()
        if (freed := self._memory_taken - machine.pending_bytes) > 0:
            self._memory_taken -= freed
            self._context.memory.give_back(freed)
        self._timer.set(machine.due())

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
