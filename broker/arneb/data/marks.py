"""Marks: the last batch that each query has committed, and the query's owner.

The rule: a mark is stored in the commit of its batch's rows, and known here when that is done. It
is kept for as long as the batch may be sent again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from arneb.data.errors import DataError
from arneb.settings.data_limits import DataLimits

PREFIX: Final = "data/mark/"
"""The prefix of the marks' keys; the query's name follows."""

MARKS_MAX: Final = 10_000
"""The most queries whose last batch is known."""

ENDED_MARK_S: Final = 600.0
"""How long the mark of an ended query is kept, since the client may ask again if the answer was
lost."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last batch that a query has committed."""

    batch: int
    at_ms: int
    is_last: bool = False
    """Whether the query has ended with it."""
    owner: str = ""
    """The query's owner; empty without authentication."""

    @classmethod
    def unpack(cls, value: bytes) -> "Mark":
        """Return a stored mark."""
        return cls(**json.loads(value))

    def pack(self) -> bytes:
        """Return the mark as stored."""
        fields = {"batch": self.batch, "at_ms": self.at_ms, "owner": self.owner}
        return json.dumps(fields | ({"is_last": True} if self.is_last else {})).encode()


class Marks:
    """The marks of one broker.

    Invariant: ``_counts`` is the number of each owner's marks, including those being committed, and
    has no owner without marks: owners may be roles of tokens, whose number has no bound.
    """

    def __init__(self, kept: Mapping[str, bytes], limits: DataLimits) -> None:
        self._limits = limits
        self._marks = {key.removeprefix(PREFIX): Mark.unpack(value) for key, value in kept.items()}
        self._counts = Counter(each.owner for each in self._marks.values())

    def __repr__(self) -> str:
        return f"<Marks of {len(self._marks)} queries>"

    def find(self, query: str) -> Mark | None:
        """Return the mark of a query."""
        return self._marks.get(query)

    def expect_room(self, query: str, owner: str) -> None:
        """Raise ``busy`` or ``not_allowed`` if one more mark would be too many."""
        if query in self._marks:
            return
        if self._counts.total() >= MARKS_MAX:
            raise DataError(503, "busy", f"expected at most {MARKS_MAX} queries that commit")
        most = self._limits.queries_per_user_max
        if owner and self._counts[owner] >= most:
            reason = f"expected at most {most} queries that commit by {owner}"
            raise DataError(409, "not_allowed", f"{reason} (data.queries_per_user_max)")

    @contextmanager
    def changing(self, query: str, mark: Mark) -> Iterator[None]:
        """Set a query's mark unless the block fails. Raises as :meth:`expect_room`."""
        self.expect_room(query, mark.owner)
        before = self._marks.get(query)
        self._counts[mark.owner] += 1
        try:
            yield
        except BaseException:
            self._discount(mark.owner)
            raise
        self._marks[query] = mark
        if before is not None:
            self._discount(before.owner)

    def old(self, now_ms: int) -> list[str]:
        """Return the queries whose marks have expired."""
        return [query for query in self._marks if self.is_old(query, now_ms)]

    def is_old(self, query: str, now_ms: int) -> bool:
        """Whether a query's last batch was committed too long ago to be sent again."""
        mark = self._marks[query]
        kept_s = ENDED_MARK_S if mark.is_last else self._limits.mark_expiry_s
        return mark.at_ms <= now_ms - int(1000 * kept_s)

    def forget(self, query: str) -> None:
        """Forget the mark of a query."""
        self._discount(self._marks.pop(query).owner)

    def _discount(self, owner: str) -> None:
        self._counts[owner] -= 1
        if not self._counts[owner]:
            del self._counts[owner]
