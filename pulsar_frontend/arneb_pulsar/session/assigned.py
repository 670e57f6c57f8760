"""Assigned brokers: where a client is told to come again when its topic is served elsewhere.

The rule: what is not known is not told, and the client looks its topic up.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Assigned:
    """The broker that a client is to come to, as far as that is known."""

    url: str = ""
    url_tls: str = ""


NOWHERE: Final = Assigned()
"""The client looks it up."""
