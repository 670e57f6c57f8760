"""The output: what a session sends to its client and asks of the server."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from arneb_pulsar.session.client import ClientTraits
from arneb_pulsar.session.interface.effects import Effect
from arneb_pulsar.session.translation import TranslatedRun

TRANSLATED_UNITS: Final = 4_000
"""Units translated before others have their turn: some 4 ms, a hundred small messages."""


class Output:
    """Collects frames and effects until the connection takes them.

    Invariants: ``waiting_bytes`` is the size of ``frames`` and of ``_waiting``, which is empty or
    begins with a run that is to be translated.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        """The time of the input that is being handled."""
        self.client = ClientTraits()
        """The client that it goes to."""
        self.frames: list[bytes] = []
        self.effects: list[Effect] = []
        self.waiting_bytes = 0
        self.unrequested_bytes = 0
        """How many of those bytes the client did not ask for."""
        self.pieces: Iterator[Effect] | None = None
        """The rest of a request that is carried out in pieces."""
        self._waiting: deque[bytes | TranslatedRun] = deque()

    def __repr__(self) -> str:
        return f"<Output {self.waiting_bytes} bytes, {len(self._waiting)} behind a translation>"

    def send(self, frames: bytes) -> None:
        """Send one or more whole frames to the client."""
        if self._waiting:
            self._waiting.append(frames)
        else:
            self.frames.append(frames)
        self.waiting_bytes += len(frames)

    def deliver(self, frames: bytes | TranslatedRun) -> None:
        """Send messages, which may have to be translated first, to the client."""
        if isinstance(frames, bytes):
            self.send(frames)
        else:
            self._waiting.append(frames)
            self.waiting_bytes += frames.waiting_bytes

    def notify(self, frames: bytes) -> None:
        """Send what the client did not ask for, however much waits already."""
        self.send(frames)
        self.unrequested_bytes += len(frames)

    def do(self, effect: Effect) -> None:
        """Ask the server for an effect."""
        self.effects.append(effect)

    def do_in_pieces(self, effects: Iterator[Effect]) -> None:
        """Ask for many effects: the first now, each other by a call of :meth:`next_piece`."""
        assert self.pieces is None, "nothing is handled behind a request in pieces"
        self.pieces = effects
        self.next_piece()

    def next_piece(self) -> None:
        """Ask for the next of :attr:`pieces`, if there is another."""
        assert self.pieces is not None, "a request is carried out in pieces"
        piece = next(self.pieces, None)
        if piece is None:
            self.pieces = None
        else:
            self.effects.append(piece)

    @property
    def has_untranslated(self) -> bool:
        """:meth:`take_frames` did not give everything: there was too much to translate at once."""
        return bool(self._waiting)

    def take_frames(self) -> list[bytes]:
        """Return what was sent to the client since the last call, or one turn's part of it."""
        frames, self.frames, self.unrequested_bytes = self.frames, [], 0
        if not self._waiting:
            self.waiting_bytes = 0
            return frames
        self.waiting_bytes -= sum(map(len, frames))
        units = TRANSLATED_UNITS
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, bytes):
                self.waiting_bytes -= len(first)
                frames.append(first)
            elif units <= 0:
                break
            else:
                before = first.waiting_bytes
                translated, units = first.translate_some(units)
                self.waiting_bytes -= before - first.waiting_bytes
                frames.append(translated)
                if first.has_more:
                    break
            self._waiting.popleft()
        return frames

    def take_effects(self) -> list[Effect]:
        """Return everything asked of the server since the last call."""
        effects, self.effects = self.effects, []
        return effects
