"""Certificates: what TLS has checked already says who the client is."""

from collections.abc import Mapping
from typing import Any

from arneb_pulsar.authentication.grants import Grant, Unauthentic

Certificate = Mapping[str, Any]
"""As :meth:`ssl.SSLSocket.getpeercert` gives it: empty if the client showed none."""


def grant_certificate(certificate: Certificate) -> Grant:
    """The role is the common name. Raises :class:`Unauthentic`."""
    for part in certificate.get("subject", ()):
        for name, value in part:
            if name == "commonName" and value:
                return Grant(value)
    raise Unauthentic("expected a certificate with a common name")
