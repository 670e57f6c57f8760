"""Publisher confirms of one channel: which publishes are unanswered, and how to answer them.

The rule: every publish is answered exactly once, by an ack or a nack, in publishing order, and with
as few answers as possible. Runs of publishes may become durable in any order; an answer waits for
all before it, because only then can one cumulative answer cover them.
"""

from dataclasses import dataclass
from enum import Enum
from itertools import groupby


class RunState(Enum):
    """The fate of a run of publishes."""

    PENDING = "pending"
    STORED = "stored"
    LOST = "lost"


@dataclass(slots=True)
class Confirm:
    """One ``basic.ack`` or ``basic.nack`` to send. Never modified; not frozen, because one is made
    for every commit and freezing it would cost more than everything else here."""

    tag: int
    multiple: bool
    stored: bool


class Confirms:
    """Counts the publishes of a channel in confirm mode.

    Invariant: the tags 1 to ``last_answered`` have been answered; every tag above it lies in
    exactly one run of ``_runs``, which are in tag order and keyed by their last tag.
    """

    __slots__ = ("_runs", "confirmed", "last_answered", "last_expected")

    def __init__(self) -> None:
        self.last_expected = 0
        self.last_answered = 0
        self.confirmed = 0
        """The answered publishes that are stored."""
        self._runs: dict[int, RunState] = {}

    def expect(self, count: int) -> int:
        """Note a run of ``count`` publishes; return its last tag, which names it from now on."""
        self.last_expected += count
        self._runs[self.last_expected] = RunState.PENDING
        return self.last_expected

    def complete(self, last_tag: int, *, stored: bool) -> None:
        """Note what became of the run that ends with ``last_tag``."""
        assert self._runs[last_tag] is RunState.PENDING, "a run is completed once"
        self._runs[last_tag] = RunState.STORED if stored else RunState.LOST

    def complete_each(self, last_tag: int, refused: tuple[bool, ...]) -> None:
        """Note what became of each publish of the run that ends with ``last_tag``, of which a full
        queue refused some."""
        assert self._runs[last_tag] is RunState.PENDING, "a run is completed once"
        runs: dict[int, RunState] = {}
        for tag, state in self._runs.items():
            if tag != last_tag:
                runs[tag] = state
                continue
            through = last_tag - len(refused)
            for is_lost, neighbours in groupby(refused):
                through += len(list(neighbours))
                runs[through] = RunState.LOST if is_lost else RunState.STORED
        self._runs = runs

    def due(self) -> list[Confirm]:
        """Return the answers that can be sent now; they count as sent."""
        runs = self._runs
        if len(runs) == 1:  # the case of a client that awaits each confirm
            ((last_tag, state),) = runs.items()
            if state is RunState.PENDING:
                return []
            runs.clear()
            return [self._confirm(last_tag, state)]
        ready: list[tuple[int, RunState]] = []
        for last_tag, state in self._runs.items():
            if state is RunState.PENDING:
                break
            ready.append((last_tag, state))
        for last_tag, _ in ready:
            del self._runs[last_tag]
        return self._merged(ready)

    def _merged(self, ready: list[tuple[int, RunState]]) -> list[Confirm]:
        confirms = []
        for index, (last_tag, state) in enumerate(ready):
            if index + 1 < len(ready) and ready[index + 1][1] is state:
                continue
            confirms.append(self._confirm(last_tag, state))
        return confirms

    def _confirm(self, last_tag: int, state: RunState) -> Confirm:
        """Return the answer for all unanswered tags up to this one; it counts as sent."""
        count, stored = last_tag - self.last_answered, state is RunState.STORED
        if stored:
            self.confirmed += count
        self.last_answered = last_tag
        return Confirm(last_tag, count > 1, stored)

    def __repr__(self) -> str:
        return f"<Confirms {self.last_answered}/{self.last_expected}, {len(self._runs)} runs>"
