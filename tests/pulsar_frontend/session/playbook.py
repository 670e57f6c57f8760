"""A language for session tests: what comes in, and what must go out for it.

::

    play = Playbook()
    play >> received(CommandProducer(...)) << OpenProducer(...)
    play >> ProducerOpened(key, "name") << said(CommandProducerSuccess(...))

``>>`` gives the session bytes of commands or an event; ``<<`` expects the next thing that went
out, frames and effects each in their own order. :meth:`Playbook.over` says that nothing else
went out.
"""

from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.session.connection.connection import ConnectionSession
from arneb_pulsar.session.interface.effects import Effect
from arneb_pulsar.session.interface.events import Event
from arneb_pulsar.wire.commands import FIELD_OF
from arneb_pulsar.wire.frame import FrameReader, payload_frame, simple_frame
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand, CommandConnect

_TYPE_OF = {
    BaseCommand.DESCRIPTOR.fields_by_number[number].message_type.name: (number, name)
    for number, name in FIELD_OF.items()
}

CLOCK_MS = 1_700_000_000_000


@dataclass(frozen=True)
class Received:
    """Bytes from the client."""

    data: bytes


@dataclass(frozen=True)
class Sent:
    """A command to the client, with its payload."""

    command: Message
    payload: bytes = b""


def base(command: Message) -> BaseCommand:
    """The envelope of ``command``."""
    number, field = _TYPE_OF[command.DESCRIPTOR.name]
    return BaseCommand(type=number, **{field: command})


def received(*commands: Message, body: bytes | None = None) -> Received:
    """The frames of ``commands``, of which each has ``body`` if there is one."""
    frames = [base(command).SerializeToString() for command in commands]
    if body is None:
        return Received(b"".join(map(simple_frame, frames)))
    return Received(b"".join(payload_frame(frame, body) for frame in frames))


def sent(command: Message, payload: bytes = b"") -> Sent:
    return Sent(command, payload)


class Playbook:
    """Plays one connection; it is connected unless ``connected`` is off."""

    def __init__(self, *, connected: bool = True, config: PulsarConfig | None = None) -> None:
        self.now = 1000.0
        self.clock_ms = CLOCK_MS
        self.session = ConnectionSession(config or PulsarConfig(), "Arneb test", self.now)
        self._reader = FrameReader()
        self._frames: list[Sent] = []
        self._effects: list[Effect] = []
        if connected:
            self >> received(CommandConnect(client_version="test", protocol_version=20))
            self._frames.clear()

    def __rshift__(self, given: Received | Event) -> "Playbook":
        if isinstance(given, Received):
            effects = self.session.receive_data(given.data, self.now, CLOCK_MS)
            while self.session.has_more:
                effects += self.session.handle_more(self.now, CLOCK_MS)
        else:
            effects = self.session.handle(given, self.now)
        self._note(effects)
        return self

    def pass_time(self, seconds: float) -> "Playbook":
        """Let the timer run, each time that it wants to."""
        end, end_ms = self.now + seconds, self.clock_ms + int(seconds * 1000)
        looked_at = -1.0
        while looked_at < (due := self.session.next_timer()) <= end:
            looked_at = due
            self.now, self.clock_ms = due, end_ms - int((end - due) * 1000)
            self._note(self.session.handle_timer(self.now, self.clock_ms))
        self.now, self.clock_ms = end, end_ms
        return self

    def __lshift__(self, expected: Sent | Effect) -> "Playbook":
        waiting: list[Any] = self._frames if isinstance(expected, Sent) else self._effects
        assert waiting, f"expected {expected}, nothing went out"
        found = waiting.pop(0)
        assert found == expected, f"expected {expected}, got {found}"
        return self

    def take(self, kind: type) -> Any:
        """The next effect, which must be of that kind."""
        assert self._effects, f"expected {kind.__name__}, nothing was asked for"
        found = self._effects.pop(0)
        assert isinstance(found, kind), f"expected {kind.__name__}, got {found}"
        return found

    def heard(self) -> Sent:
        """The next frame that went out."""
        assert self._frames, "expected a frame, nothing went out"
        return self._frames.pop(0)

    def over(self) -> None:
        """Nothing else went out."""
        assert not self._frames, f"also said {self._frames}"
        assert not self._effects, f"also asked for {self._effects}"

    def _note(self, effects: list[Effect]) -> None:
        self._effects += effects
        frames = self.session.data_to_send()
        while self.session.has_unsent:
            frames += self.session.data_to_send()
        for data in frames:
            for command, payload in zip(*self._reader.receive(data), strict=True):
                envelope = BaseCommand.FromString(command)
                self._frames.append(Sent(getattr(envelope, FIELD_OF[envelope.type]), payload))
