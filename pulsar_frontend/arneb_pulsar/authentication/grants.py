"""A grant: what a client that proved who it is gets, and for how long."""

from dataclasses import dataclass
from typing import Final

UNAUTHENTIC: Final = "Unable to authenticate"
"""What a client hears whose proof is refused; Pulsar's words."""


class Unauthentic(Exception):
    """The proof does not hold; the text is for the log."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The role that was proved."""

    role: str
    expires_s: float | None = None
    """When the proof ends, in seconds since the epoch; None = never."""
