"""States of an HTTP connection.

The rule: it does one thing at a time, and what it does says who waits for whom.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """What a connection does."""

    IDLE = "idle"
    """It waits for a request."""
    READING = "reading"
    """A request is on its way."""
    WAITING = "waiting"
    """It is a long answer's turn soon; nothing has been done yet."""
    ANSWERING = "answering"
    """The application is at work."""
    WRITING = "writing"
    """An answer is on its way."""
    STREAMING = "streaming"
    """A piece of an answer that has no end was written; the next comes when there is one."""


STOPPED: Final = frozenset({State.IDLE, State.READING, State.WAITING, State.STREAMING})
"""What ends at once when no more requests are taken."""
