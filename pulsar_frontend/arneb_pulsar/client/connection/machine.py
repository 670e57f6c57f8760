"""The machine of a connection: bytes in, bytes and calls of those who wait for them out.

The rule: it does no I/O and knows no task. Requests are told their answers, producers and consumers
what concerns them, each exactly once: with what came, or with the error that ended the connection.

::

    HANDSHAKE --CONNECTED--> OPEN --lost--> CLOSED
        `--------ERROR, lost---------------^
"""

import logging
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any, Final, Protocol

from google.protobuf.message import DecodeError
from google.protobuf.message import Message as Command

from arneb_pulsar.client.connection.commands import ANSWERS, frame_of, refusal_in
from arneb_pulsar.client.errors import (
    Disconnected,
    NotPulsar,
    PulsarError,
    ServerRefused,
    UnexpectedAnswer,
    refusal,
)
from arneb_pulsar.wire.commands import FIELD_OF, NO_REQUEST, PING, PONG, parse_command
from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX
from arneb_pulsar.wire.errors import WireError
from arneb_pulsar.wire.frame import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, FrameReader
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAuthChallenge,
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandConnected,
    CommandMessage,
    CommandProducerSuccess,
    CommandSendError,
    CommandSendReceipt,
    CommandWatchTopicUpdate,
)
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandError as ErrorCommand

LOG = logging.getLogger("arneb_pulsar.client")

KEEP_ALIVE_S: Final = 30.0
"""As all clients: without a byte for so long the broker is asked for a sign of life, and given as
long to answer."""

GRACE_S: Final = 1.0
"""A process that stood still reads first what lies unread before it gives its broker up."""

HEADROOM_BYTES: Final = FRAME_BYTES_MAX - MESSAGE_BYTES_MAX + 128 * 1024
"""Room for headers beside the largest message; brokers whose bound on messages was raised announce
it, and their frames may be larger than ours."""

ANNOUNCED_BYTES_MAX: Final = UNCOMPRESSED_BYTES_MAX
"""A broker that announces larger messages gets no more room for its frames: nothing larger would
be unpacked either."""

STRANGERS: Final = (
    (b"HTTP", "speaks HTTP: a URL that begins with http:// is asked for the brokers"),
    (b"AMQP", "speaks AMQP, not Pulsar's protocol"),
    (b"\x15\x03", "speaks TLS: its URL begins with pulsar+ssl://"),
)
"""How others answer CONNECT, and what is said of them."""

HEAD_BYTES: Final = 8
"""Shows which of them it is."""

Reply = Callable[[Any, PulsarError | None], None]
"""Told the answer, or why there is none."""


class State(Enum):
    """Where a connection stands."""

    HANDSHAKE = auto()
    OPEN = auto()
    CLOSED = auto()


MOVES: Final = {
    State.HANDSHAKE: frozenset({State.OPEN, State.CLOSED}),
    State.OPEN: frozenset({State.CLOSED}),
    State.CLOSED: frozenset[State](),
}
"""From where to where; whatever would lead elsewhere changes nothing."""


class Sender(Protocol):
    """A producer, as its connection sees it."""

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        """A message is stored."""

    def on_send_error(self, error: CommandSendError) -> None:
        """A message is refused."""

    def on_closed(self, hint: str) -> None:
        """The broker has it look its topic up again; ``hint`` is where it may be."""

    def on_lost(self, error: PulsarError) -> None:
        """The connection is gone."""


class Receiver(Protocol):
    """A consumer, as its connection sees it."""

    def on_message(self, message: CommandMessage, body: bytes) -> None:
        """An entry."""

    def on_active(self, is_active: bool) -> None:
        """It became the active consumer of a Failover subscription, or is it no more."""

    def on_end_of_topic(self) -> None:
        """All is acknowledged, and the topic will get nothing more."""

    def on_closed(self, hint: str) -> None:
        """The broker has it look its topic up again; ``hint`` is where it may be."""

    def on_lost(self, error: PulsarError) -> None:
        """The connection is gone."""


class Watcher(Protocol):
    """Whoever watches the topics of a namespace."""

    def on_update(self, update: CommandWatchTopicUpdate) -> None:
        """Topics came or went."""

    def on_lost(self, error: PulsarError) -> None:
        """The connection is gone."""


class ConnectionMachine:
    """One connection, from CONNECT on. :attr:`output` is what to write."""

    def __init__(self, where: str, opening: Command, now: float, *, tls: bool = False) -> None:
        """``opening`` is the CONNECT; ``where`` names the broker in errors."""
        self.where = where
        self.state = State.HANDSHAKE
        self.output: list[bytes] = [frame_of(opening)]
        self.connected: CommandConnected | None = None
        """The broker's answer to CONNECT."""
        self.challenges: list[CommandAuthChallenge] = []
        """What the broker asks for; whoever takes one says :meth:`send` with the answer."""
        self.message_bytes_max = MESSAGE_BYTES_MAX
        self.failure: PulsarError | None = None
        """Why it is closed."""
        self.senders: dict[int, Sender] = {}
        self.receivers: dict[int, Receiver] = {}
        self.watchers: dict[int, Watcher] = {}
        self._tls = tls
        self._reader = FrameReader(MESSAGE_BYTES_MAX + HEADROOM_BYTES)
        self._requests: dict[int, tuple[str, str, Reply]] = {}
        """Of each: what names it, the command that answers it, and who is told."""
        self._next_request = 0
        self._head = b""
        """What the answer to CONNECT begins with."""
        self._pongs: list[Reply] = []
        self._heard_at = now
        self._pinged_at: float | None = None
        self._grace = False

    def __repr__(self) -> str:
        return (
            f"<ConnectionMachine to {self.where}, {self.state.name}, "
            f"{len(self._requests)} requests, {len(self.senders)} producers, "
            f"{len(self.receivers)} consumers>"
        )

    @property
    def is_used(self) -> bool:
        """Somebody needs it, or waits for an answer."""
        return bool(self.senders or self.receivers or self.watchers or self._requests)

    # What goes out

    def send(self, command: Command) -> None:
        """A command without an answer."""
        self.output.append(frame_of(command))

    def send_frames(self, frames: Iterable[bytes]) -> None:
        """Frames that are packed already."""
        self.output.extend(frames)

    def request(self, command: Any, what: str, reply: Reply) -> int:
        """A command with an answer, which ``reply`` is told; the number of the request. ``what``
        names it in errors."""
        self._next_request += 1
        number = command.request_id = self._next_request
        if self.failure is not None:
            reply(None, self.failure)
            return number
        self._requests[number] = what, ANSWERS[command.DESCRIPTOR.name], reply
        self.output.append(frame_of(command))
        return number

    def ping(self, reply: Reply) -> None:
        """Ask for a sign of life, which ``reply`` is told."""
        if self.failure is not None:
            reply(None, self.failure)
            return
        self._pongs.append(reply)
        self.output.append(PING)

    def forget(self, number: int) -> None:
        """Nobody waits for that answer any more."""
        self._requests.pop(number, None)

    # Time

    def due(self) -> float:
        """When :meth:`tick` is wanted."""
        if self._pinged_at is None:
            return self._heard_at + KEEP_ALIVE_S
        return self._pinged_at + KEEP_ALIVE_S + (GRACE_S if self._grace else 0)

    def tick(self, now: float) -> None:
        """Time has gone by."""
        if self.state is not State.OPEN or now < self.due():
            return
        if self._pinged_at is None:
            self._pinged_at = now
            self.output.append(PING)
        elif not self._grace:
            self._grace = True
        else:
            self.lost(
                Disconnected(
                    f"expected a sign of life from {self.where}, got none in {KEEP_ALIVE_S} s"
                )
            )

    # What comes in

    def receive(self, data: bytes, now: float) -> None:
        """Bytes of the broker."""
        self._heard_at, self._pinged_at, self._grace = now, None, False
        if self.state is State.HANDSHAKE:
            self._head = (self._head + data)[:HEAD_BYTES]
            if (error := _stranger(self.where, self._head)) is not None:
                self.lost(error)
                return
        commands, bodies = self._reader.receive(data)
        try:
            for command, body in zip(commands, bodies, strict=True):
                if self.state is State.CLOSED:
                    return
                self._take(command, body)
            if self._reader.error is not None:
                raise self._reader.error
        except (WireError, DecodeError) as error:
            self.lost(Disconnected(f"{self.where} sent what is not Pulsar's protocol: {error}"))
        except Exception as error:
            # A mistake of ours that a broker's bytes have found costs their connection, and not
            # the application all its tasks.
            LOG.exception("what %s sent could not be taken", self.where)
            self.lost(Disconnected(f"{self.where} sent what could not be taken: {error!r}"))

    def lost(self, error: PulsarError) -> None:
        """The connection has ended; tells everybody. Once."""
        if State.CLOSED not in MOVES[self.state]:
            return
        self.state, self.failure = State.CLOSED, error
        requests, self._requests = self._requests, {}
        pongs, self._pongs = self._pongs, []
        for reply in [*(each for _, _, each in requests.values()), *pongs]:
            reply(None, error)
        attached: list[Sender | Receiver | Watcher] = [
            *self.senders.values(),
            *self.receivers.values(),
            *self.watchers.values(),
        ]
        self.senders, self.receivers, self.watchers = {}, {}, {}
        for each in attached:
            each.on_lost(error)

    def _take(self, data: bytes, body: bytes) -> None:
        if data[:3] == MESSAGE_HEAD and data[3] == len(data) - 4 and data[3] < 0x80:
            message = CommandMessage.FromString(data[4:])
            if (receiver := self.receivers.get(message.consumer_id)) is not None:
                receiver.on_message(message, body)
            return
        if data[:3] == RECEIPT_HEAD and data[3] == len(data) - 4 and data[3] < 0x80:
            receipt = CommandSendReceipt.FromString(data[4:])
            if (sender := self.senders.get(receipt.producer_id)) is not None:
                sender.on_receipt(receipt)
            return
        base = parse_command(data)
        self._take_command(getattr(base, FIELD_OF[base.type]), base.type, body)

    def _take_command(self, command: Any, kind: int, body: bytes) -> None:
        match kind:
            case BaseCommand.PING:
                # A broker that asks and does not read gets one answer.
                if not self.output or self.output[-1] is not PONG:
                    self.output.append(PONG)
            case BaseCommand.PONG:
                pongs, self._pongs = self._pongs, []
                for reply in pongs:
                    reply(command, None)
            case BaseCommand.MESSAGE:
                if (receiver := self.receivers.get(command.consumer_id)) is not None:
                    receiver.on_message(command, body)
            case BaseCommand.SEND_RECEIPT:
                if (sender := self.senders.get(command.producer_id)) is not None:
                    sender.on_receipt(command)
            case BaseCommand.SEND_ERROR:
                if (sender := self.senders.get(command.producer_id)) is not None:
                    sender.on_send_error(command)
            case BaseCommand.CONNECTED:
                self._opened(command)
            case BaseCommand.AUTH_CHALLENGE:
                self.challenges = [command]  # an earlier one is out of date
            case BaseCommand.ERROR:
                self._refused(command)
            case BaseCommand.CLOSE_PRODUCER:
                if (sender := self.senders.pop(command.producer_id, None)) is not None:
                    sender.on_closed(self._hint(command))
            case BaseCommand.CLOSE_CONSUMER:
                if (receiver := self.receivers.pop(command.consumer_id, None)) is not None:
                    receiver.on_closed(self._hint(command))
            case BaseCommand.TOPIC_MIGRATED:
                self._migrated(command)
            case BaseCommand.ACTIVE_CONSUMER_CHANGE:
                if (receiver := self.receivers.get(command.consumer_id)) is not None:
                    receiver.on_active(command.is_active)
            case BaseCommand.REACHED_END_OF_TOPIC:
                if (receiver := self.receivers.get(command.consumer_id)) is not None:
                    receiver.on_end_of_topic()
            case BaseCommand.WATCH_TOPIC_UPDATE:
                if (watcher := self.watchers.get(command.watcher_id)) is not None:
                    watcher.on_update(command)
            case _:
                self._answer(command)

    def _opened(self, command: CommandConnected) -> None:
        if State.OPEN not in MOVES[self.state]:
            return
        self.state, self.connected = State.OPEN, command
        if command.max_message_size > 0:
            self.message_bytes_max = min(command.max_message_size, ANNOUNCED_BYTES_MAX)
            self._reader.allow(self.message_bytes_max + HEADROOM_BYTES)

    def _refused(self, command: ErrorCommand) -> None:
        if command.request_id in self._requests:
            what, _, reply = self._requests.pop(command.request_id)
            reply(None, refusal(command.error, command.message, what))
        elif self.state is State.HANDSHAKE or command.request_id == NO_REQUEST:
            self.lost(refusal(command.error, command.message, self.where))

    def _answer(self, command: Any) -> None:
        number = getattr(command, "request_id", NO_REQUEST)
        if isinstance(command, CommandProducerSuccess) and not command.producer_ready:
            return  # queued for exclusive access: another answer follows
        if (found := self._requests.pop(number, None)) is None:
            return  # nobody waits any more
        what, expected, reply = found
        if (name := command.DESCRIPTOR.name) != expected:
            wrong = UnexpectedAnswer(f"{what}: expected {expected} of {self.where}, got {name}")
            reply(None, wrong)
            return
        error: ServerRefused | None = refusal_in(command, what)
        reply(None if error else command, error)

    def _migrated(self, command: Any) -> None:
        hint = self._hint(command, "brokerServiceUrl")
        if command.resource_type == command.Producer:
            if (sender := self.senders.pop(command.resource_id, None)) is not None:
                sender.on_closed(hint)
        elif (receiver := self.receivers.pop(command.resource_id, None)) is not None:
            receiver.on_closed(hint)

    def _hint(
        self,
        command: "CommandCloseProducer | CommandCloseConsumer",
        name: str = "assignedBrokerServiceUrl",
    ) -> str:
        hint: str = getattr(command, f"{name}Tls" if self._tls else name)
        return hint


MESSAGE_HEAD: Final = b"\x08\x09\x4a"
"""Type MESSAGE and the tag of its field, as brokers write them."""

RECEIPT_HEAD: Final = b"\x08\x07\x3a"
"""The same of SEND_RECEIPT."""


def _stranger(where: str, head: bytes) -> NotPulsar | None:
    """The error of a peer that is no broker; None if its answer could be one's."""
    for known, what in STRANGERS:
        if head.startswith(known):
            return NotPulsar(f"expected a Pulsar broker at {where}, which {what}")
    return None
