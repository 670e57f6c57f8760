"""A grant: the role of an authenticated client, and for how long it counts.

A certificate is a proof that TLS has checked already; it names the client's role.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

UNAUTHENTIC: Final = "Failed to authenticate"
"""The error text for a refused proof; Pulsar's words."""

Certificate = Mapping[str, Any]
"""A certificate as :meth:`ssl.SSLSocket.getpeercert` returns it; empty if the client has none."""


NO_CERTIFICATE: Final[Certificate] = {}


class Unauthentic(Exception):
    """The proof is not valid; the text is for the log."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A proved role."""

    role: str
    expires_s: float | None = None
    """When the proof expires, in seconds since the epoch; None = never."""


def grant_certificate(certificate: Certificate) -> Grant:
    """Grant the certificate's common name as the role. Raises :class:`Unauthentic`."""
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName" and value:
                return Grant(value)
    raise Unauthentic("expected a certificate with a common name")
