"""Refused: requests refused before the application sees them.

The rule: the reason says what was expected, and is sent to the client.
"""


class Refused(Exception):
    """A request to be answered with ``status``."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def too_large(bytes_max: int) -> Refused:
    """Return the refusal of a body that is too large."""
    return Refused(413, f"expected a body of at most {bytes_max} bytes")


def too_late(what: str, within_s: float) -> Refused:
    """Return the refusal of a request that did not arrive in time."""
    return Refused(408, f"expected {what} within {within_s:g} s")
