"""Room: how much is staged, in all and by each user, and whether there is room for more.

The rule: a piece is counted before it is stored, so that concurrent requests get no more room than
one after the other. Without authentication, only the total is bounded.
"""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from arneb.data.errors import DataError
from arneb.settings.data_limits import DataLimits

STAGES_MAX: Final = 20_000
"""The most stages. Each takes half a KiB of memory, and more with its pieces."""

PIECES_IN_ALL_MAX: Final = 100_000
"""The most pieces. Each takes 200 bytes of memory, however few rows it has."""

PIECES_OF_USER_MAX: Final = 50_000
"""The most pieces of one user, so that nobody takes all."""


@dataclass(slots=True)
class Staged:
    """Amounts of staged rows."""

    stages: int = 0
    pieces: int = 0
    bytes: int = 0

    def add(self, stages: int, pieces: int, size: int) -> None:
        """Add amounts, which may be negative."""
        self.stages += stages
        self.pieces += pieces
        self.bytes += size


class Room:
    """The room of one broker.

    Invariant: ``used`` is the sum over all users, and ``_by_user`` has no user with nothing staged.
    """

    def __init__(self, limits: DataLimits) -> None:
        self._limits = limits
        self.used = Staged()
        self._by_user: defaultdict[str, Staged] = defaultdict(Staged)

    def __repr__(self) -> str:
        return f"<Room: {self.used} by {len(self._by_user)} users>"

    def of(self, user: str) -> Staged:
        """Return how much a user has staged; the empty name is for clients without one."""
        return self._by_user.get(user, Staged())

    def expect(self, user: str, stages: int, size: int) -> None:
        """Raise ``staged_too_much`` if the user may not stage one more piece of ``size`` bytes, and
        this many ``stages`` with it."""
        limits = self._limits
        _expect(self.used, stages, size, "in all", (
            (STAGES_MAX, ""),
            (PIECES_IN_ALL_MAX, ""),
            (limits.staged_bytes_max, "staged_bytes_max"),
        ))  # fmt: skip
        if user:
            _expect(self.of(user), stages, size, f"by {user}", (
                (limits.stages_per_user_max, "stages_per_user_max"),
                (PIECES_OF_USER_MAX, ""),
                (limits.staged_bytes_per_user_max, "staged_bytes_per_user_max"),
            ))  # fmt: skip

    def count(self, user: str, stages: int, pieces: int, size: int) -> None:
        """Add amounts, which may be negative, to a user's."""
        self.used.add(stages, pieces, size)
        his = self._by_user[user]
        his.add(stages, pieces, size)
        if his == Staged():
            del self._by_user[user]

    @contextmanager
    def taken(self, user: str, stages: int, size: int) -> Iterator[None]:
        """Count one more piece of a user, unless the block fails."""
        self.count(user, stages, 1, size)
        try:
            yield
        except BaseException:
            self.count(user, -stages, -1, -size)
            raise


def _expect(
    used: Staged, stages: int, size: int, whose: str, bounds: tuple[tuple[int, str], ...]
) -> None:
    wanted = used.stages + stages, used.pieces + 1, used.bytes + size
    for found, (most, setting), what in zip(
        wanted, bounds, ("stages", "pieces of stages", "bytes staged"), strict=True
    ):
        if found > most:
            named = f" (data.{setting})" if setting else ""
            reason = f"expected at most {most} {what} {whose}{named}"
            raise DataError(413, "staged_too_much", reason)
