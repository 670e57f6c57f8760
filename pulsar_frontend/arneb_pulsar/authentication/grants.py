"""A grant: what a client that proved who it is gets, and for how long.

A certificate is a proof that TLS has checked already; it says itself who the client is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

UNAUTHENTIC: Final = "Failed to authenticate"
"""What a client hears whose proof is refused; Pulsar's words."""

Certificate = Mapping[str, Any]
"""As :meth:`ssl.SSLSocket.getpeercert` gives it: empty if the client showed none."""


NO_CERTIFICATE: Final[Certificate] = {}


class Unauthentic(Exception):
    """The proof does not hold; the text is for the log."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The role that was proved."""

    role: str
    expires_s: float | None = None
    """When the proof ends, in seconds since the epoch; None = never."""


def grant_certificate(certificate: Certificate) -> Grant:
    """The role is the common name. Raises :class:`Unauthentic`."""
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName" and value:
                return Grant(value)
    raise Unauthentic("expected a certificate with a common name")
