"""Assigned brokers: where a client is told to go when its topic is served elsewhere.

The rule: if the broker is not known, none is named, and the client looks its topic up.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Assigned:
    """The broker that a client is to connect to, as far as it is known."""

    url: str = ""
    url_tls: str = ""


NOWHERE: Final = Assigned()
"""No broker is named: the client looks its topic up."""
