"""The machine of a connection: bytes in; bytes and callbacks out.

The rule: it does no I/O and knows no tasks. Each request, producer, consumer and watcher is told
exactly once what came for it, or the error that ended the connection.

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
"""As in all clients: after this long without a byte the broker is pinged, and given as long to
answer."""

GRACE_S: Final = 1.0
"""Time for a process that was suspended to read waiting input before it gives the broker up."""

HEADROOM_BYTES: Final = FRAME_BYTES_MAX - MESSAGE_BYTES_MAX + 128 * 1024
"""Room for headers beside the largest message. A broker with a larger bound on messages announces
it, and its frames may exceed ours."""

ANNOUNCED_BYTES_MAX: Final = UNCOMPRESSED_BYTES_MAX
"""The cap on the bound that a broker announces: larger messages would not be unpacked anyway."""

STRANGERS: Final = (
    (b"HTTP", "speaks HTTP: a URL that begins with http:// is asked for the brokers"),
    (b"AMQP", "speaks AMQP, not Pulsar's protocol"),
    (b"\x15\x03", "speaks TLS: its URL begins with pulsar+ssl://"),
)
"""How servers of other protocols answer CONNECT, and the error text for each."""

HEAD_BYTES: Final = 8
"""Bytes that suffice to recognise one of :data:`STRANGERS`."""

Reply = Callable[[Any, PulsarError | None], None]
"""Called with the response, or with the error if there is none."""


class State(Enum):
    """The state of a connection."""

    HANDSHAKE = auto()
    OPEN = auto()
    CLOSED = auto()


MOVES: Final = {
    State.HANDSHAKE: frozenset({State.OPEN, State.CLOSED}),
    State.OPEN: frozenset({State.CLOSED}),
    State.CLOSED: frozenset[State](),
}
"""The legal transitions; any other is ignored."""


class Sender(Protocol):
    """A producer, as its connection sees it."""

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        """A message is stored."""

    def on_send_error(self, error: CommandSendError) -> None:
        """A message is refused."""

    def on_closed(self, hint: str) -> None:
        """The broker closed the producer: look its topic up again, perhaps at ``hint``."""

    def on_lost(self, error: PulsarError) -> None:
        """The connection has ended."""


class Receiver(Protocol):
    """A consumer, as its connection sees it."""

    def on_message(self, message: CommandMessage, body: bytes) -> None:
        """An entry came."""

    def on_active(self, is_active: bool) -> None:
        """The consumer became, or is no longer, the active one of a Failover subscription."""

    def on_end_of_topic(self) -> None:
        """The topic was terminated, and all its messages are acknowledged."""

    def on_closed(self, hint: str) -> None:
        """The broker closed the consumer: look its topic up again, perhaps at ``hint``."""

    def on_lost(self, error: PulsarError) -> None:
        """The connection has ended."""


class Watcher(Protocol):
    """A watcher of a namespace's topics."""

    def on_update(self, update: CommandWatchTopicUpdate) -> None:
        """Topics came or went."""

    def on_lost(self, error: PulsarError) -> None:
        """The connection has ended."""


class ConnectionMachine:
    """One connection, from CONNECT on. :attr:`output` holds the frames to write."""

    def __init__(self, where: str, opening: Command, now: float, *, tls: bool = False) -> None:
        """``opening`` is the CONNECT; ``where`` names the broker in errors."""
        self.where = where
        self.state = State.HANDSHAKE
        self.output: list[bytes] = [frame_of(opening)]
        self.connected: CommandConnected | None = None
        """The broker's answer to CONNECT."""
        self.challenges: list[CommandAuthChallenge] = []
        """The broker's challenges, to be answered by :meth:`send` with an AUTH_RESPONSE."""
        self.message_bytes_max = MESSAGE_BYTES_MAX
        self.failure: PulsarError | None = None
        """Why the connection is closed; None while it is not."""
        self.senders: dict[int, Sender] = {}
        self.receivers: dict[int, Receiver] = {}
        self.watchers: dict[int, Watcher] = {}
        self._tls = tls
        self._reader = FrameReader(MESSAGE_BYTES_MAX + HEADROOM_BYTES)
        self._requests: dict[int, tuple[str, str, Reply]] = {}
        """For each request: its name in errors, the expected response, and the callback."""
        self._next_request = 0
        self._head = b""
        """The first bytes of the answer to CONNECT."""
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
        """Whether it has a producer, consumer, watcher or open request."""
        return bool(self.senders or self.receivers or self.watchers or self._requests)

    # What goes out

    def send(self, command: Command) -> None:
        """Send a command that has no response."""
        self.output.append(frame_of(command))

    def send_frames(self, frames: Iterable[bytes]) -> None:
        """Send packed frames."""
        self.output.extend(frames)

    def request(self, command: Any, what: str, reply: Reply) -> int:
        """Send a command whose response goes to ``reply``; return the request's number. ``what``
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
        """Send PING; ``reply`` is called when PONG comes."""
        if self.failure is not None:
            reply(None, self.failure)
            return
        self._pongs.append(reply)
        self.output.append(PING)

    def forget(self, number: int) -> None:
        """Ignore the response to a request from now on."""
        self._requests.pop(number, None)

    # Time

    def due(self) -> float:
        """Return when :meth:`tick` next has work."""
        if self._pinged_at is None:
            return self._heard_at + KEEP_ALIVE_S
        return self._pinged_at + KEEP_ALIVE_S + (GRACE_S if self._grace else 0)

    def tick(self, now: float) -> None:
        """Do what is due at ``now``."""
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
        """Handle bytes from the broker."""
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
            # A bug of ours that a broker's bytes trigger must cost only this connection, not all
            # tasks of the application.
            LOG.exception("what %s sent could not be taken", self.where)
            self.lost(Disconnected(f"{self.where} sent what could not be taken: {error!r}"))

    def lost(self, error: PulsarError) -> None:
        """End the connection, and tell all its users, once."""
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
                # A broker that pings without reading gets a single PONG.
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
                self.challenges = [command]  # it replaces an earlier one
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
            return  # queued for exclusive access: another response follows
        if (found := self._requests.pop(number, None)) is None:
            return  # the request was forgotten
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
"""The type MESSAGE and the tag of its field, as brokers encode them."""

RECEIPT_HEAD: Final = b"\x08\x07\x3a"
"""The same for SEND_RECEIPT."""


def _stranger(where: str, head: bytes) -> NotPulsar | None:
    """Return the error for a server that is not a broker; None if it may be one."""
    for known, what in STRANGERS:
        if head.startswith(known):
            return NotPulsar(f"expected a Pulsar broker at {where}, which {what}")
    return None
