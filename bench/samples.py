"""Samples: every figure that was measured, round by round.

The rule: nothing is left out or aggregated here; medians are made by the report. So figures from
several runs, on one machine and at one commit, can be reported as one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

ByBroker = dict[str, dict[str, list[float]]]
"""By line or row, then by broker: a figure for each round."""


@dataclass(slots=True)
class Samples:
    """The samples of one or more runs."""

    figures: ByBroker = field(default_factory=dict)
    """By line, which is a row and one of its figures."""
    cpu_us: ByBroker = field(default_factory=dict)
    """CPU time of the broker per message; by row, like everything below."""
    written: ByBroker = field(default_factory=dict)
    """Bytes that the broker wrote per message."""
    limits: ByBroker = field(default_factory=dict)
    """What the store alone can do."""
    flush_us: list[float] = field(default_factory=list)
    """The time of a small synchronous write to disk: a median for each run."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """The samples kept in a result."""
        return cls(**{each.name: record[each.name] for each in fields(cls)})

    @property
    def rounds(self) -> tuple[int, int]:
        """The smallest and the largest number of rounds of any row."""
        counts = [len(values) for by in self.figures.values() for values in by.values()]
        return min(counts, default=0), max(counts, default=0)

    def has(self, row: str) -> bool:
        """Whether anything of this row was measured."""
        return any(each == row or each.startswith(f"{row} ") for each in self.figures)

    def take(self, other: "Samples") -> None:
        """Append the samples of ``other``."""
        for name in ("figures", "cpu_us", "written", "limits"):
            for line, by_broker in getattr(other, name).items():
                for broker, values in by_broker.items():
                    add(getattr(self, name), line, broker, values)
        self.flush_us += other.flush_us


def add(to: ByBroker, line: str, broker: str, values: Sequence[float]) -> None:
    """Append ``values`` of one broker."""
    to.setdefault(line, {}).setdefault(broker, []).extend(values)
