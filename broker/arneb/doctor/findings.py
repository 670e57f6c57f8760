"""Findings: what ``arneb doctor`` reports, each with what to do.

The rule: a finding is something that an operator can change, with one sentence that gives the
figure and one that gives the remedy; what is in order is no finding.
"""

from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any


class Severity(IntEnum):
    """How urgent a finding is."""

    NOTE = 0
    WARNING = 1
    ERROR = 2

    @property
    def word(self) -> str:
        """Its name in texts and JSON: ``note``, ``warning`` or ``error``."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, and what to do about it."""

    check: str
    """The check that found it."""
    severity: Severity
    what: str
    """What is wrong, with the figure that shows it; one sentence."""
    do: str
    """The remedy, for an operator; one sentence."""
    subject: str = ""
    """What it is about: a queue, a file, a port."""

    def document(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {**asdict(self), "severity": self.severity.word}


def warning(check: str, what: str, do: str, subject: str = "") -> Finding:
    """Return a finding about something that will cause trouble."""
    return Finding(check, Severity.WARNING, what, do, subject)


def error(check: str, what: str, do: str, subject: str = "") -> Finding:
    """Return a finding about something that causes trouble now."""
    return Finding(check, Severity.ERROR, what, do, subject)


def note(check: str, what: str, do: str, subject: str = "") -> Finding:
    """Return a finding that is good to know."""
    return Finding(check, Severity.NOTE, what, do, subject)
