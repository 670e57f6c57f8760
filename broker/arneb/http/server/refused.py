"""Refused: a request that the application does not see.

The rule: its reason says what was expected, and the client gets to read it.
"""


class Refused(Exception):
    """Is answered with a ``status`` of its own."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def too_large(bytes_max: int) -> Refused:
    """The body is."""
    return Refused(413, f"expected a body of at most {bytes_max} bytes")


def too_late(what: str, within_s: float) -> Refused:
    """Some of it came after so many seconds, or never."""
    return Refused(408, f"expected {what} within {within_s:g} s")
