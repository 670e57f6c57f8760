"""Faults: what goes wrong, and when, drawn by lot from a seed."""

from dataclasses import dataclass, field
from random import Random


@dataclass(slots=True)
class Faults:
    """How a :class:`~arneb_pulsar.client.testing.broker.FakeBroker` behaves; by default well."""

    seed: int = 0
    delay_s_max: float = 0.0
    """What either side writes takes up to so long to arrive; in order, on each connection."""
    cut_bytes_mean: int = 0
    """Each connection is cut after about so many bytes in either direction, in the middle of
    whatever goes over it; 0 = never."""
    silent: float = 0.0
    """The part of such cuts that nobody is told of: the connection is there, and carries nothing
    any more."""
    doubled: float = 0.0
    """The part of receipts that come twice."""
    refused: float = 0.0
    """The part of connections that nobody accepts."""
    not_ready: float = 0.0
    """The part of producers and consumers that are told to try again later."""
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def __repr__(self) -> str:
        return f"<Faults of seed {self.seed}>"

    def delay_s(self) -> float:
        """How long the next write is under way."""
        return self.random.uniform(0, self.delay_s_max) if self.delay_s_max else 0.0

    def bytes_until_cut(self) -> int | None:
        """How many bytes the next connection carries in one direction; None = all."""
        if not self.cut_bytes_mean:
            return None
        return int(self.random.expovariate(1 / self.cut_bytes_mean))

    def is_doubled(self) -> bool:
        """The next receipt comes twice."""
        return self.random.random() < self.doubled

    def is_silent(self) -> bool:
        """Nobody is told of the next cut."""
        return self.random.random() < self.silent

    def is_not_ready(self) -> bool:
        """The next producer or consumer is to try again later."""
        return self.random.random() < self.not_ready

    def is_refused(self) -> bool:
        """The next connection is refused."""
        return self.random.random() < self.refused

    def stop(self) -> None:
        """Nothing goes wrong from now on, on new connections."""
        self.delay_s_max = self.doubled = self.refused = self.not_ready = self.silent = 0.0
        self.cut_bytes_mean = 0
