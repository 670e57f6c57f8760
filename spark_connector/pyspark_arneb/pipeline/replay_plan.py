"""The plan of a replay: what is sent again, fixed when the replay begins and written down.

The rule: before a piece is sent to the broker, its bounds and its number are in the state file. A
run that continues with that file sends the same piece under the same number, and the broker knows
whether it has it; so a replay may be interrupted anywhere.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pyspark_arneb.pipeline.session import JobFailed
from pyspark_arneb.target import make_durable

STATE_FORMAT: Final = 2

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries of one ledger, both ends included."""

    topic: str
    """The log's full name."""
    ledger: int
    first: int
    last: int
    messages: int
    """The approximate number."""
    is_sealed: bool = False
    """The entries are read from the sealed tier."""

    @property
    def entries(self) -> int:
        return self.last - self.first + 1

    def messages_in(self, entries: int) -> int:
        """Return about how many messages ``entries`` of its entries have."""
        return self.messages * entries // self.entries


@dataclass(frozen=True, slots=True)
class Piece:
    """What one write sends: entries of one ledger, both ends included."""

    topic: str
    ledger: int
    first: int
    last: int
    is_sealed: bool = False

    def __str__(self) -> str:
        return f"{self.topic} {self.ledger}:{self.first} to {self.ledger}:{self.last}"


@dataclass(slots=True)
class Plan:
    """A replay as it is written down; it moves on with each piece, and so is not frozen.

    Invariant: everything before :attr:`piece` is in its target; nothing after it is. Of the piece
    itself only the broker knows, by :attr:`name` and :attr:`number`.
    """

    name: str
    choice: dict[str, Any]
    target: dict[str, str]
    stretches: list[Stretch]
    at: int = 0
    """The index of the piece's stretch."""
    piece: Piece | None = None
    """None: the replay is done."""
    number: int = 0
    """The piece's number, never used twice."""
    read: int = 0
    """About how many messages of the log come before the piece."""
    written: int = 0
    """How many of them were written to the target."""

    def __repr__(self) -> str:
        return f"<Plan {self.name}, {self.read} of {self.messages} messages, at {self.piece}>"

    @classmethod
    def begin(
        cls,
        name: str,
        choice: dict[str, Any],
        target: dict[str, str],
        stretches: list[Stretch],
        messages_a_piece: int,
    ) -> "Plan":
        """Return a plan of which nothing is done yet."""
        plan = cls(name, choice, target, stretches)
        if stretches:
            plan.piece = plan._piece_from(stretches[0].first, messages_a_piece)
        return plan

    @property
    def messages(self) -> int:
        """About how many messages of the log the replay reads, before the condition."""
        return sum(each.messages for each in self.stretches)

    def move_on(self, written: int, messages_a_piece: int) -> None:
        """Record that the piece is in its target, with ``written`` messages; the next one has about
        ``messages_a_piece``."""
        assert self.piece is not None, "something was written"
        stretch, piece = self.stretches[self.at], self.piece
        self.read += stretch.messages_in(piece.last - stretch.first + 1)
        self.read -= stretch.messages_in(piece.first - stretch.first)
        self.written += written
        self.number += 1
        start = piece.last + 1
        if start > stretch.last:
            self.at += 1
            if self.at == len(self.stretches):
                self.piece = None
                return
            start = self.stretches[self.at].first
        self.piece = self._piece_from(start, messages_a_piece)

    def halve(self) -> None:
        """Halve the piece, which the broker refused as a whole because it is too large.

        Raises :class:`JobFailed` when it is a single entry.
        """
        assert self.piece is not None, "something was offered"
        piece = self.piece
        if piece.first == piece.last:
            raise JobFailed(f"{piece}: a single entry is larger than a broker accepts at once")
        middle = (piece.first + piece.last) // 2
        self.piece = Piece(piece.topic, piece.ledger, piece.first, middle, piece.is_sealed)

    def _piece_from(self, first: int, messages: int) -> Piece:
        stretch = self.stretches[self.at]
        entries = max(1, messages * stretch.entries // max(1, stretch.messages))
        last = min(stretch.last, first + entries - 1)
        return Piece(stretch.topic, stretch.ledger, first, last, stretch.is_sealed)

    @classmethod
    def load(cls, file: Path) -> "Plan | None":
        """Read the plan in ``file``; None if there is none. Raises :class:`JobFailed`."""
        try:
            document = json.loads(file.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise JobFailed(f"--state: cannot read {file}: {error}") from None
        try:
            if document.pop("format") != STATE_FORMAT:
                raise ValueError("it is of another version")
            document["stretches"] = [Stretch(*each) for each in document["stretches"]]
            piece = document["piece"]
            document["piece"] = None if piece is None else Piece(**piece)
            plan = cls(**document)
            if plan.piece is not None:
                plan._expect_piece(plan.piece)
            return plan
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise JobFailed(f"--state: {file} is not the state of a replay: {error}") from None

    def _expect_piece(self, piece: Piece) -> None:
        stretch = self.stretches[self.at]
        inside = stretch.first <= piece.first <= piece.last <= stretch.last
        if (piece.topic, piece.ledger) != (stretch.topic, stretch.ledger) or not inside:
            raise ValueError(f"{piece} is not in its stretch")

    def create(self, file: Path) -> "Plan":
        """Write the plan for the first time; return the existing plan if somebody else was
        first."""
        draft = self._write(file)
        try:
            _wrote(file, lambda: os.link(draft, file))
        except FileExistsError:
            known = Plan.load(file)
            assert known is not None, "it is there, and nobody removes it"
            return known
        finally:
            draft.unlink()
        _wrote(file, lambda: make_durable(file))
        return self

    def save(self, file: Path) -> None:
        """Write the plan atomically; it is on disk when this returns."""
        draft = self._write(file)
        _wrote(file, lambda: draft.replace(file))
        _wrote(file, lambda: make_durable(file))

    def _write(self, file: Path) -> Path:
        draft = file.with_name(f"{file.name}.{os.getpid()}.new")
        document = {
            "format": STATE_FORMAT,
            **asdict(self),
            "stretches": [astuple(each) for each in self.stretches],
        }

        def write() -> None:
            with draft.open("w") as out:
                json.dump(document, out)
                out.flush()
                os.fsync(out.fileno())

        _wrote(file, write)
        return draft


def _wrote(file: Path, write: Callable[[], Value]) -> Value:
    try:
        return write()
    except FileExistsError:
        raise
    except OSError as error:
        raise JobFailed(f"--state: cannot write {file}: {error.strerror}") from None
