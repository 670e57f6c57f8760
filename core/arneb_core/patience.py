"""Patience: how long the event loop waits on the spot for a commit that it has just started.

The rule: only for a very small commit, never longer than :data:`PATIENCE_S`, and not at all
while the disk is slow. Being told of a commit's end through the event loop costs as long as a
small commit takes (some 0.2 ms from thread to socket); a publisher at window 1 waits for
nothing else, so this is half its rate. Everybody else waits half a millisecond at the worst,
once in :data:`PAUSE_COMMITS` commits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from arneb_core.committer import Request

PATIENCE_S: Final = 0.0005
"""Twice what a flush takes on a disk for which this is worth it."""

ENTRIES_MAX: Final = 4
BYTES_MAX: Final = 16 * 1024
"""More is no window of one; then there is work to do meanwhile."""

PAUSE_COMMITS: Final = 256
"""Commits before the next try when one took too long."""


class Patience:
    """Decides for each commit how long to wait for it on the spot."""

    def __init__(self) -> None:
        self._pause = 0

    def __repr__(self) -> str:
        return f"<Patience {f'none for {self._pause} commits' if self._pause else 'ready'}>"

    def seconds(self, requests: Sequence["Request"], *, has_cursors: bool) -> float:
        """How long to wait for a commit of these requests; 0.0 = not at all."""
        if has_cursors or len(requests) != 1:
            return 0.0
        if self._pause:
            self._pause -= 1
            return 0.0
        request = requests[0]
        small = 0 < request.entries <= ENTRIES_MAX and request.size <= BYTES_MAX
        return PATIENCE_S if small else 0.0

    def lost(self) -> None:
        """The commit took longer."""
        self._pause = PAUSE_COMMITS
