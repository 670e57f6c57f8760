"""A broker in memory that does what no broker does, when an attack says so.

The rule: an attack sees each command before the broker does, and says whether it has taken it; what
it has not taken the broker answers as always.
"""

import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio
import trio.testing
from anyio.abc import ByteStream
from google.protobuf.message import Message as Command

from arneb_pulsar.client.connection.commands import frame_of
from arneb_pulsar.client.connection.dialling import Address
from arneb_pulsar.client.testing import FakeBroker
from arneb_pulsar.client.testing.stream import FakeStream, Session
from arneb_pulsar.wire.commands import FIELD_OF, parse_command
from arneb_pulsar.wire.frame import FrameReader, payload_frame, simple_frame

WITHIN_S: Final = 300.0
"""Of the clock that jumps: an operation's 30 s, and liveness' 61."""

DIALLED_MAX: Final = 2_000
"""Connections to one broker: whoever comes back without a pause would never let the clock jump."""

MEMORY_BYTES_MAX: Final = 48 * 1024 * 1024


class Line:
    """One connection, as an attack sees it."""

    def __init__(self, write: Callable[[bytes], None], cut: Callable[[], None]) -> None:
        self.write = write
        """Bytes to the client."""
        self.cut = cut

    def say(self, *commands: Command) -> None:
        """Commands to the client."""
        for each in commands:
            self.write(frame_of(each))


Attack = Callable[[Line, Any], bool]


class _HostileSession:
    def __init__(self, attack: Attack, line: Line, broker: Session) -> None:
        self._attack = attack
        self._line = line
        self._broker = broker
        self._reader = FrameReader(1 << 24)

    def receive(self, data: bytes) -> None:
        for raw, body in zip(*self._reader.receive(data), strict=True):
            base = parse_command(raw)
            if not self._attack(self._line, getattr(base, FIELD_OF[base.type])):
                self._broker.receive(payload_frame(raw, body) if body else simple_frame(raw))

    def closed(self) -> None:
        self._broker.closed()


class HostileBroker(FakeBroker):
    """At every address there is."""

    def __init__(self, attack: Attack) -> None:
        super().__init__()
        self.dialled = 0
        self._attack = attack

    async def dial(self, address: Address) -> ByteStream:
        self.dialled += 1
        assert self.dialled < DIALLED_MAX, "the client reconnects without a pause"
        stream = await super().dial(self._addresses[0])
        assert isinstance(stream, FakeStream)
        assert stream.session is not None
        line = Line(stream.write, stream.cut)
        stream.session = _HostileSession(self._attack, line, stream.session)
        return stream


def played(program: Callable[[], Awaitable[None]], within_s: float = WITHIN_S) -> None:
    """Play it on a clock that jumps; it must end in time, and leave no task."""

    async def main() -> None:
        before = trio.lowlevel.current_statistics().tasks_living
        with trio.fail_after(within_s):
            await program()
        assert trio.lowlevel.current_statistics().tasks_living == before

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@contextmanager
def little_memory(bytes_max: int = MEMORY_BYTES_MAX) -> Iterator[None]:
    """At no time more than that may be held beyond what was before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < bytes_max, f"{peak / (1 << 20):.0f} MiB"
