"""Samples: every figure that was measured, round by round.

The rule: nothing is left out and nothing is put together here; medians are the report's. So what
was measured in several runs, on one machine and at one commit, can be told as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

ByBroker = dict[str, dict[str, list[float]]]
"""By line or row, then by broker: a figure for each round."""


@dataclass(slots=True)
class Samples:
    """Those of one run, or of some."""

    figures: ByBroker = field(default_factory=dict)
    """By line, which is a row and a figure of it."""
    cpu_us: ByBroker = field(default_factory=dict)
    """What a broker computed for a message; by row, as all below."""
    written: ByBroker = field(default_factory=dict)
    """The bytes that it had written for it."""
    limits: ByBroker = field(default_factory=dict)
    """What the store alone does."""
    flush_us: list[float] = field(default_factory=list)
    """How long the disk takes for a small synchronous write: a median for each run."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Those that a result has kept."""
        return cls(**{each.name: record[each.name] for each in fields(cls)})

    @property
    def rounds(self) -> tuple[int, int]:
        """The fewest and the most rounds of a row."""
        counts = [len(values) for by in self.figures.values() for values in by.values()]
        return min(counts, default=0), max(counts, default=0)

    def has(self, row: str) -> bool:
        """Whether something of this row was measured."""
        return any(each == row or each.startswith(f"{row} ") for each in self.figures)

    def take(self, other: "Samples") -> None:
        """Have what ``other`` has behind what is here."""
        for name in ("figures", "cpu_us", "written", "limits"):
            for line, by_broker in getattr(other, name).items():
                for broker, values in by_broker.items():
                    add(getattr(self, name), line, broker, values)
        self.flush_us += other.flush_us


def add(to: ByBroker, line: str, broker: str, values: Sequence[float]) -> None:
    """Note ``values`` of one broker."""
    to.setdefault(line, {}).setdefault(broker, []).extend(values)
