"""Limits of the data API: what its clients may make the broker keep.

The rule: whatever a client can make larger has a bound here, and every bound is a setting.
"""

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class DataLimits:
    """Keys of the table ``[data]``. Raises :class:`ValueError`."""

    body_bytes_max: int = 8 * 1024 * 1024
    """The maximum size of a body of rows; also that of one message."""

    batch_bytes_max: int = 128 * 1024 * 1024
    """The maximum bytes of rows in one batch of a query. A batch is one commit, for which others
    wait, and is in memory while it is made."""

    staged_bytes_max: int = 8 * 1024 * 1024 * 1024
    """The maximum bytes of staged, uncommitted rows of all queries."""

    staged_bytes_per_user_max: int = 4 * 1024 * 1024 * 1024
    """The same for the queries of one user or role."""

    stages_per_user_max: int = 10_000
    """The maximum number of stages of the queries of one user or role. A Spark task makes one for
    each micro-batch that it writes, or for each 8 MiB of a batch write."""

    queries_per_user_max: int = 5_000
    """The maximum number of queries of one user or role whose last batch is remembered. A finished
    query counts until it is forgotten: ten minutes for a batch write."""

    stage_expiry_s: float = 86_400.0
    """A batch's stages are removed after this long without additions."""

    mark_expiry_s: float = 90 * 86_400.0
    """A query that commits nothing for this long is forgotten; if it then repeated its last batch,
    that would be published again."""

    def __post_init__(self) -> None:
        for each in fields(DataLimits):
            if not getattr(self, each.name) > 0:
                raise ValueError(
                    f"{each.name}: expected more than 0, got {getattr(self, each.name)}"
                )


DEFAULT_DATA_LIMITS: Final = DataLimits()
