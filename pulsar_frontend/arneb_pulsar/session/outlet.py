"""The outlet: what a session wants to say, to its peer and to its shell."""

from arneb_pulsar.session.client import Client
from arneb_pulsar.session.effects import Effect


class Outlet:
    """Collects frames and effects until the connection takes them.

    Invariant: ``waiting_bytes`` is the size of ``frames``.
    """

    def __init__(self, now: float) -> None:
        self.now = now
        """The time of the input that is being handled."""
        self.client = Client()
        """Who hears it."""
        self.frames: list[bytes] = []
        self.effects: list[Effect] = []
        self.waiting_bytes = 0
        self.unasked_bytes = 0
        """How much of it the peer did not ask for."""

    def send(self, frames: bytes) -> None:
        """Say one or more whole frames to the peer."""
        self.frames.append(frames)
        self.waiting_bytes += len(frames)

    def notify(self, frames: bytes) -> None:
        """Say what the peer did not ask for: it comes however much waits already."""
        self.send(frames)
        self.unasked_bytes += len(frames)

    def do(self, effect: Effect) -> None:
        """Ask the shell for an effect."""
        self.effects.append(effect)

    def take_frames(self) -> list[bytes]:
        """Everything said to the peer since the last call."""
        frames, self.frames, self.waiting_bytes, self.unasked_bytes = self.frames, [], 0, 0
        return frames

    def take_effects(self) -> list[Effect]:
        """Everything asked of the shell since the last call."""
        effects, self.effects = self.effects, []
        return effects
