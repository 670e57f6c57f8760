"""The fencing producer of a shard's topic, on a connection of its own.

The rule: it decides nothing. Entries are written unchanged while it is attached, and dropped while
it is not; every answer is passed on. It reconnects by itself with its epoch, until a broker says
that another producer has a higher one.
"""

import time
from typing import Final, Protocol
from uuid import uuid4

from arneb_cluster.protocol.values import NOWHERE, Place
from arneb_cluster.protocol.window import SendError
from arneb_pulsar.client.attachment import Attachment
from arneb_pulsar.client.connection.commands import command_of
from arneb_pulsar.client.connection.connection import Connection
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import Disconnected, PulsarError
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.names import TopicName
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.frame import payload_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    MessageMetadata,
    ProducerAccessMode,
    ServerError,
)

NOT_KNOWN_YET: Final = "whether the message is a duplicate"
"""Part of the text with which a broker refuses an entry that it may be writing just now
(``MessageDeduplication.MessageDupUnknownException``); the error code is that of any other
failure."""

CLOSED: Final = "Producer is closed"
"""The text with which a broker refuses entries after it has closed the producer, because another
has fenced it off: neither that entry nor any later one is written."""


class Owner(Protocol):
    """Receives the producer's events."""

    def attached(self) -> None:
        """The producer has reconnected."""

    def detached(self) -> None:
        """Its connection is gone; it reconnects."""

    def receipt(self, sequence: int, place: Place) -> None:
        """An entry is stored, or was before."""

    def refused(self, sequence: int, error: SendError, why: str) -> None:
        """An entry is not stored."""

    def gave_up(self, why: str) -> None:
        """It does not reconnect."""


class FencingProducer:
    """One producer, with a name that was never used before."""

    def __init__(self, context: ClientContext, topic: TopicName, shard: str, owner: Owner) -> None:
        self.epoch: int | None = None
        self.entry_bytes_max = 0
        self._name = f"{shard}/{uuid4()}"
        self._context = context
        self._topic = topic
        self._owner = owner
        self._id = next(context.numbers)
        self._is_closed = False
        self._attempt = 0
        self._attachment = Attachment(
            context, topic, self._attach, self._ended, own_connection=True
        )

    def __repr__(self) -> str:
        return f"<FencingProducer {self._name}, epoch {self.epoch}>"

    async def open(self) -> None:
        """Fence off any other producer of the topic; :attr:`epoch` is known then. Raises
        :class:`PulsarError`."""
        await self._attachment.start()

    def send(self, sequence: int, data: bytes) -> None:
        """Write an entry, if it is attached."""
        connection = self._attachment.connection
        if connection is None or connection.machine.senders.get(self._id) is not self:
            return
        metadata = MessageMetadata(
            producer_name=self._name,
            sequence_id=sequence,
            publish_time=time.time_ns() // 1_000_000,
            uncompressed_size=len(data),
        )
        command = CommandSend(producer_id=self._id, sequence_id=sequence, num_messages=1)
        body = join_body(metadata.SerializeToString(), data)
        connection.machine.send_frames([payload_frame(command_of(command), body)])
        connection.flush_now()

    def come_back(self) -> None:
        """Drop the connection and reconnect with the epoch."""
        if (connection := self._attachment.connection) is not None:
            connection.close(Disconnected(f"{self._topic}: a producer that was thrown out"))

    def close(self) -> None:
        """Write nothing more. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        if (connection := self._attachment.connection) is not None:
            connection.machine.senders.pop(self._id, None)
            connection.machine.request(
                CommandCloseProducer(producer_id=self._id), "close", lambda _reply, _error: None
            )
            connection.flush()
        self._attachment.stop()

    async def _attach(self, connection: Connection) -> None:
        wire = connection.machine
        command = CommandProducer(
            topic=str(self._topic),
            producer_id=self._id,
            producer_name=self._name,
            user_provided_producer_name=True,
            epoch=self._attempt,
            producer_access_mode=ProducerAccessMode.ExclusiveWithFencing,
            topic_epoch=self.epoch,
        )
        self._attempt += 1
        wire.senders[self._id] = self
        try:
            reply = await connection.request(
                command, f"producer of {self._topic}", self._context.operation_timeout_s
            )
        except BaseException:
            wire.senders.pop(self._id, None)
            raise
        if wire.senders.get(self._id) is not self:
            raise Disconnected(f"producer of {self._topic}: expected to stay, was detached at once")
        is_first = self.epoch is None
        self.epoch, self.entry_bytes_max = reply.topic_epoch, wire.message_bytes_max
        if not is_first:
            self._owner.attached()

    def _ended(self, error: PulsarError) -> None:
        if not self._is_closed:
            self._owner.gave_up(str(error))

    # Calls of its connection

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        """See ``connection.machine.Sender``."""
        found = MessageId.from_wire(receipt.message_id)
        place = Place(found.ledger_id, found.entry_id) if found.entry_id >= 0 else NOWHERE
        self._owner.receipt(receipt.sequence_id, place)

    def on_send_error(self, error: CommandSendError) -> None:
        """See ``connection.machine.Sender``."""
        kind = SendError.OTHER
        if error.error == ServerError.ProducerFenced or error.message == CLOSED:
            kind = SendError.FENCED
        elif NOT_KNOWN_YET in error.message:
            kind = SendError.UNKNOWN_DUPLICATE
        self._owner.refused(error.sequence_id, kind, error.message)

    def on_closed(self, hint: str) -> None:
        """See ``connection.machine.Sender``."""
        if not self._is_closed:
            self._owner.detached()
            self._attachment.lost(hint)

    def on_lost(self, error: PulsarError) -> None:
        """See ``connection.machine.Sender``."""
        self.on_closed("")
