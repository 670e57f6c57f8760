"""Fitness: whether a directory and a topic belong together.

The rule: a directory never follows a topic of another history, nor one that ends before what the
directory has; it is refused with advice. A topic that was ever written is never empty: its leader
does not trim the last record. What a topic has lost in between is visible from the numbers.
"""

from enum import Enum

from arneb_cluster.protocol.values import NOWHERE, Applied, Place


class Unfit(Enum):
    """Why a directory and a topic do not belong together."""

    FOREIGN = (
        "the topic has another history than the directory: move the directory away, and the node "
        "takes a copy; or delete the topic, if the directory has begun a new history"
    )
    BEHIND = (
        "the topic ends before what the directory has: it was recreated, or has lost entries; see "
        "`arneb ctl cluster re-found`"
    )
    NO_HISTORY = (
        "the directory holds what is in no shard, and the topic has records: move it away, and the "
        "node takes a copy"
    )


def judge(
    applied: Applied | None, history: str | None, last: Place, *, holds_something: bool
) -> Unfit | None:
    """Return why they do not belong together; None: they do. ``applied``: None for a directory that
    was never part of a shard; ``holds_something`` then says whether it has content. ``history``:
    from the topic's first TAKE or heartbeat, None if there is none to read; ``last``: the topic's
    end, :data:`.NOWHERE` if it is empty."""
    if applied is None:
        return Unfit.NO_HISTORY if holds_something and last != NOWHERE else None
    if history is not None and history != applied.history:
        return Unfit.FOREIGN
    return Unfit.BEHIND if last < applied.place else None
