"""Faults: what goes wrong, and when, drawn from a seeded random generator."""

from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class Faults:
    """The faults of a :class:`~arneb_pulsar.client.testing.broker.FakeBroker`; by default none."""

    seed: int = 0
    delay_s_max: float = 0.0
    """The longest time that a write of either side takes to arrive; each connection keeps the
    order."""
    cut_bytes_mean: int = 0
    """The mean number of bytes in either direction after which a connection is cut, at any byte;
    0 = never."""
    silent: float = 0.0
    """The share of such cuts that nobody notices: the connection stays open, but carries
    nothing."""
    doubled: float = 0.0
    """The share of receipts that are sent twice."""
    refused: float = 0.0
    """The share of connections that are refused."""
    not_ready: float = 0.0
    """The share of producers and consumers that are told to try again later."""
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def __repr__(self) -> str:
        return f"<Faults of seed {self.seed}>"

    def delay_s(self) -> float:
        """Return how long the next write takes to arrive."""
        return self.random.uniform(0, self.delay_s_max) if self.delay_s_max else 0.0

    def bytes_until_cut(self) -> int | None:
        """Return how many bytes the next connection carries in one direction; None = all."""
        if not self.cut_bytes_mean:
            return None
        return int(self.random.expovariate(1 / self.cut_bytes_mean))

    def is_doubled(self) -> bool:
        """Return whether the next receipt is sent twice."""
        return self.random.random() < self.doubled

    def is_silent(self) -> bool:
        """Return whether the next cut goes unnoticed."""
        return self.random.random() < self.silent

    def is_not_ready(self) -> bool:
        """Return whether the next producer or consumer is told to try again later."""
        return self.random.random() < self.not_ready

    def is_refused(self) -> bool:
        """Return whether the next connection is refused."""
        return self.random.random() < self.refused

    def stop(self) -> None:
        """Stop all faults; connections that are open may still be cut."""
        self.delay_s_max = self.doubled = self.refused = self.not_ready = self.silent = 0.0
        self.cut_bytes_mean = 0
