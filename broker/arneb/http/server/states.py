"""States of an HTTP connection.

The rule: a connection is in one state at a time, which says who waits for whom.
"""

from enum import Enum
from typing import Final


class State(Enum):
    """The state of a connection."""

    IDLE = "idle"
    """Waiting for a request."""
    READING = "reading"
    """Reading a request."""
    WAITING = "waiting"
    """Waiting for the turn of a long answer; nothing has been done yet."""
    ANSWERING = "answering"
    """The application is working."""
    WRITING = "writing"
    """Writing an answer."""
    STREAMING = "streaming"
    """A piece of an endless answer was written; the next is written when it exists."""


STOPPED: Final = frozenset({State.IDLE, State.READING, State.WAITING, State.STREAMING})
"""The states that end at once when the server stops."""
