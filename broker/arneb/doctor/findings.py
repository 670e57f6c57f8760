"""Findings: what ``arneb doctor`` says, each with what to do.

The rule: a finding is something that an operator can change, said in one sentence with the figure,
and one with the remedy; what is as it should be is no finding.
"""

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How soon somebody has to do something."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    check: str
    """Which look found it."""
    severity: Severity
    what: str
    do: str
    subject: str = ""
    """What it is about: a queue, a file, a port."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "severity": self.severity.word}


def warning(check: str, what: str, do: str, subject: str = "") -> Finding:
    """Something that will be trouble."""
    return Finding(check, Severity.WARNING, what, do, subject)


def error(check: str, what: str, do: str, subject: str = "") -> Finding:
    """Something that is trouble."""
    return Finding(check, Severity.ERROR, what, do, subject)


def note(check: str, what: str, do: str, subject: str = "") -> Finding:
    """Something to know."""
    return Finding(check, Severity.NOTE, what, do, subject)
