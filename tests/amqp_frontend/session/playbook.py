"""Playbooks: scripts of what a session receives and what it must do and send.

``play >> input`` gives the session an input. ``play << expected`` takes the next effect, or the
next frame that was sent, and compares it. ``with Playbook() as play: ...`` fails if any effect or
frame is left at its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from warnings import catch_warnings

from pamqp.base import Frame as Command
from pamqp.commands import Basic, Channel, Connection

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import not_allowed
from arneb_amqp.routing.router import Router
from arneb_amqp.routing.routes import Routes
from arneb_amqp.session.connection.handshake import BY_PASSWORD, login_refused
from arneb_amqp.session.connection.session import ConnectionSession
from arneb_amqp.session.context import BrokerContext, Entered
from arneb_amqp.session.effects import Append, Effect, Enter, LogIn, Renew
from arneb_amqp.session.events import Event, RequestDone, RequestFailed
from arneb_amqp.session.rights import Rights
from arneb_amqp.traffic import QueueTraffic
from arneb_amqp.wire.constants import FRAME_METHOD, PROTOCOL_HEADER, ChannelId
from arneb_amqp.wire.content import compose
from arneb_amqp.wire.frames import cut_frame
from arneb_amqp.wire.methods import decode_method, encode_method
from arneb_amqp.wire.properties import Properties, encode_properties
from arneb_amqp.wire.tables import boolean, table
from arneb_core.access.principals import Principal, Question
from arneb_core.api.entries.position import position_at
from arneb_core.api.subscriptions.deliveries import Deliveries

CHANNEL = ChannelId(1)
NOW = 1000.0
NOW_MS = 1_700_000_000_000

PLAIN = b"\0guest\0guest"
CAPABILITIES = {
    "capabilities": table(
        {"authentication_failure_close": boolean(True), "consumer_cancel_notify": boolean(True)}
    )
}


def make(kind: type[Command], **fields: object) -> Command:
    """A command; fields that are not given have pamqp's defaults."""
    with catch_warnings(action="ignore"):  # pamqp warns of methods that AMQP deprecates
        command = kind()
    for name, value in fields.items():
        setattr(command, name, value)
    return command


@dataclass(frozen=True)
class Sent:
    """A method frame that the session sent; only the given fields are compared."""

    kind: type[Command]
    channel: int = 1
    fields: dict[str, object] = field(default_factory=dict)

    def matches(self, channel: int, command: Command) -> bool:
        return (
            type(command) is self.kind
            and channel == self.channel
            and all(getattr(command, name) == value for name, value in self.fields.items())
        )


def sent(kind: type[Command], channel: int = 1, **fields: object) -> Sent:
    return Sent(kind, channel, fields)


@dataclass(frozen=True)
class Bytes:
    """Raw bytes from the client."""

    data: bytes


@dataclass(frozen=True)
class Client:
    """A method from the client."""

    command: Command
    channel: int = 1


def client(kind: type[Command], channel: int = 1, **fields: object) -> Client:
    return Client(make(kind, **fields), channel)


@dataclass(frozen=True)
class Delivered:
    """The core assigns messages to a consumer."""

    consumer: int
    run: Deliveries


@dataclass(frozen=True)
class Tick:
    """Time passes."""

    now: float


class FakeVhost:
    """A vhost with one queue ``q`` on the default exchange."""

    def __init__(self) -> None:
        self.router = Router("/")
        self.router.add_queue("q")
        self.routes = Routes(self.router)
        self.queues = {"q"}
        self.foreign: set[str] = set()
        self.refusing: set[str] = set()
        self.timeouts_s: dict[str, float] = {}
        self.is_traced = False
        self.traffic: dict[str, QueueTraffic] = {}

    def foreign_topic(self, queue: str) -> bool:
        return queue in self.foreign

    def has_queue(self, name: str) -> bool:
        return name in self.queues

    def queue_traffic(self, queue: str) -> QueueTraffic:
        return self.traffic.setdefault(queue, QueueTraffic())

    def passes_refused_on(self, queues: Sequence[str]) -> bool:
        return not self.refusing.isdisjoint(queues)

    def ack_timeout_s(self, queue: str) -> float | None:
        return self.timeouts_s.get(queue)


def publishes(
    *payloads: bytes,
    exchange: str = "",
    key: str = "q",
    channel: int = 1,
    mandatory: bool = False,
    immediate: bool = False,
    **properties: Any,
) -> Bytes:
    """``basic.publish`` of each payload."""
    frames = []
    for payload in payloads:
        method = make(
            Basic.Publish,
            exchange=exchange,
            routing_key=key,
            mandatory=mandatory,
            immediate=immediate,
        )
        method.ticket = 0  # type: ignore[attr-defined]
        raw = encode_properties(Properties(**properties))
        body = compose(ChannelId(channel), raw, payload)
        frames.append(encode_method(ChannelId(channel), method) + body[1:])
    return Bytes(b"".join(frames))


class FakeVerdicts:
    """Everything is allowed unless it is refused; what is unknown has to be asked for."""

    may_be_kept = True

    def __init__(self) -> None:
        self.refused: set[Question] = set()
        self.unknown: set[Question] = set()
        self.limited: set[str] = set()
        self.asked: list[Question] = []

    def may(self, vhost: str, question: Question) -> bool | None:
        self.asked.append(question)
        return None if question in self.unknown else question not in self.refused

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        return exchange in self.limited

    async def ask(self, vhost: str, question: Question) -> None:
        raise NotImplementedError

    async def renew(self, user: str, secret: str) -> None:
        raise NotImplementedError

    async def admits(self, vhost: str, address: str) -> bool:
        raise NotImplementedError


class FakeCounts:
    """Counts channels."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 1_000_000

    def opening(self, user: str, id_: ChannelId) -> None:
        if self.open >= self.most:
            raise not_allowed(f"no more for '{user}'")
        self.open += 1

    def ended(self, user: str, ids: Collection[ChannelId]) -> None:
        self.open -= len(ids)


class Playbook:
    """A session and its output so far."""

    def __init__(self, config: AmqpConfig | None = None) -> None:
        self.vhost = FakeVhost()
        self.names = iter(f"name{number}" for number in range(1000))
        self.users = {("guest", "guest"), ("app", "secret")}
        self.tags: frozenset[str] = frozenset()
        self.verdicts = FakeVerdicts()
        self.counts = FakeCounts()
        around = BrokerContext(
            config or AmqpConfig(), lambda: next(self.names), self.counts, BY_PASSWORD
        )
        self.now = NOW
        self.later_ms = NOW_MS
        """The date, which stands still until a scenario moves it."""
        self.session = ConnectionSession(around, self.now)
        self.effects: deque[Effect] = deque()
        self.frames: deque[tuple[int, Command]] = deque()
        self.contents: list[bytes] = []
        self.raw = b""
        self.pauses = 0
        """How often other tasks would have had a turn before all input was handled."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is None:
            assert not self.frames, f"frames nobody expected: {list(self.frames)}"
            assert not self.effects, f"effects nobody expected: {list(self.effects)}"

    def __rshift__(self, given: object) -> Playbook:
        match given:
            case Bytes(data):
                self.session.receive_data(data, self.now, self.later_ms)
            case Client(command, channel):
                data = encode_method(ChannelId(channel), command)
                self.session.receive_data(data, self.now, self.later_ms)
            case Delivered(consumer, run):
                self.session.deliver(consumer, run)  # type: ignore[arg-type]
            case Tick(now):
                self.now = now
                self.session.handle_timer(now)
            case _:
                event: Event = given  # type: ignore[assignment]
                self.session.handle(event, self.now, self.later_ms)
        self._take()
        while self.session.has_more:
            self.pauses += 1
            self.session.handle_more(self.now, self.later_ms)
            self._take()
        self._read(self.session.data_to_send(self.now))
        return self

    def _take(self) -> None:
        """Take the effects. A login, and the opening of a vhost, are answered at once."""
        effects = self.session.take_effects()
        self.effects.extend(each for each in effects if not isinstance(each, LogIn | Enter | Renew))
        for each in effects:
            if isinstance(each, LogIn):
                answer: Event = RequestFailed(login_refused(each.mechanism))
                if (each.name, each.password) in self.users:
                    answer = RequestDone(Principal(each.name, self.verdicts, self.tags))
            elif isinstance(each, Enter):
                answer = RequestFailed(not_allowed(f"vhost {each.vhost} not found"))
                if each.vhost == "/":
                    answer = RequestDone(Entered(self.vhost, Rights(each.principal, "/")))
            elif isinstance(each, Renew):
                answer = RequestDone()
                if each.secret == "wrong":
                    answer = RequestFailed(not_allowed("New secret was refused"))
            else:
                continue
            self.session.handle(answer, self.now, self.later_ms)
            self._take()

    def __lshift__(self, expected: object) -> Playbook:
        if isinstance(expected, Sent):
            assert self.frames, f"expected {expected}, but nothing was sent"
            channel, command = self.frames.popleft()
            assert expected.matches(channel, command), (
                f"expected {expected}, got {dict(command)} of {command.name} on channel {channel}"
            )
        else:
            assert self.effects, f"expected {expected}, but there was no effect"
            got = self.effects.popleft()
            assert got == expected, f"expected {expected}, got {got}"
        return self

    def effect(self, kind: type[Any]) -> Any:
        """Take the next effect, which must be of that kind."""
        assert self.effects, f"expected {kind.__name__}, but there was no effect"
        got = self.effects.popleft()
        assert isinstance(got, kind), f"expected {kind.__name__}, got {got}"
        return got

    def appended(self) -> Append:
        """Take the next effect, which must be an append."""
        append: Append = self.effect(Append)
        return append

    def frame(self, kind: type[Any], channel: int = 1) -> Any:
        """Take the next frame, which must be of that kind."""
        assert self.frames, f"expected {kind.name}, but nothing was sent"
        on, command = self.frames.popleft()
        assert (type(command), on) == (kind, channel), f"expected {kind.name}, got {command.name}"
        return command

    def _read(self, data: bytes) -> None:
        self.raw += data
        if data == PROTOCOL_HEADER:
            return
        at = 0
        while at < len(data):
            frame = cut_frame(data, at, 1 << 30)
            assert not isinstance(frame, int), "every write ends with a frame"
            at += frame.bytes_on_wire
            if frame.type == FRAME_METHOD:
                self.frames.append((frame.channel, decode_method(frame.payload)))
            else:
                self.contents.append(frame.payload)


def started(play: Playbook) -> Playbook:
    """Up to ``connection.start``."""
    return play >> Bytes(PROTOCOL_HEADER) << sent(Connection.Start, 0)


def start_ok(mechanism: str = "PLAIN", response: bytes = PLAIN, **fields: object) -> Client:
    fields = {"client_properties": CAPABILITIES, "locale": "en_US"} | fields
    return client(Connection.StartOk, 0, mechanism=mechanism, response=response, **fields)


def tune_ok(channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 60) -> Client:
    return client(
        Connection.TuneOk, 0, channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat
    )


def connected(play: Playbook | None = None, **limits: int) -> Playbook:
    """Up to an open connection."""
    play = started(play or Playbook())
    play >> start_ok() << sent(Connection.Tune, 0)
    play >> tune_ok(**limits) >> client(Connection.Open, 0) << sent(Connection.OpenOk, 0)
    return play


def opened(play: Playbook | None = None, channel: int = 1) -> Playbook:
    """Up to an open channel."""
    play = connected() if play is None else play
    return play >> client(Channel.Open, channel) << sent(Channel.OpenOk, channel)


def _entry(payload: bytes, key: str) -> bytes:
    play = opened()
    play.vhost.router.add_queue(key)
    play >> publishes(payload, key=key)
    return play.appended().entries[0]


def run_of(first: int, count: int, payload: bytes = b"x", **fields: Any) -> Deliveries:
    """Deliveries of ``count`` messages, beginning with entry ``first`` of ledger 1."""
    places = [position_at(1, number) for number in range(first, first + count)]
    return Deliveries(places, [_cached(payload)] * count, **fields)


_ENTRIES: dict[bytes, bytes] = {}


def _cached(payload: bytes) -> bytes:
    if payload not in _ENTRIES:
        _ENTRIES[payload] = _entry(payload, "q")
    return _ENTRIES[payload]
