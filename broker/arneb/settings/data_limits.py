"""Limits of the data API: what its clients may make the broker keep.

The rule: whatever a client can make larger has a bound here, and every bound is a setting.
"""

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class DataLimits:
    """Keys of the table ``[data]``. Raises :class:`ValueError`."""

    body_bytes_max: int = 8 * 1024 * 1024
    """The largest body with rows. One message cannot be larger either."""

    batch_bytes_max: int = 128 * 1024 * 1024
    """The most bytes of rows in one batch of a query: it is one commit, which others wait for, and
    is in memory while it is made."""

    staged_bytes_max: int = 8 * 1024 * 1024 * 1024
    """The most bytes of rows that are staged and not committed, of all queries together."""

    staged_bytes_per_user_max: int = 4 * 1024 * 1024 * 1024
    """The most of these of the queries of one user or role."""

    stages_per_user_max: int = 10_000
    """The most stages of the queries of one user or role. A task of Spark makes one for each
    micro-batch that it writes, or for each 8 MiB of a batch write."""

    queries_per_user_max: int = 5_000
    """The most queries of one user or role of which the last batch is known. One that is not
    there any more counts until it is forgotten: ten minutes if it was a batch write."""

    stage_expiry_s: float = 86_400.0
    """Stages of a batch to which nothing was added for so long are removed."""

    mark_expiry_s: float = 90 * 86_400.0
    """A query that has committed nothing for so long is forgotten: its last batch, if it came
    again, would be published again."""

    def __post_init__(self) -> None:
        for each in fields(DataLimits):
            if not getattr(self, each.name) > 0:
                raise ValueError(
                    f"{each.name}: expected more than 0, got {getattr(self, each.name)}"
                )


DEFAULT_DATA_LIMITS: Final = DataLimits()
