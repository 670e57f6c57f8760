"""Verification: the TLS context of who verifies certificates, alike on every Python.

The rule: a certificate that one Python accepts, all accept. From 3.13 on, Python asks for every
extension that RFC 5280 wants; the authorities that people make for a broker and its clients with a
few lines of ``openssl`` often lack some, and RabbitMQ, Pulsar and their clients accept them.
"""

import ssl
from pathlib import Path


def make_context(
    purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH,
    *,
    cafile: Path | str | None = None,
    cadata: str | None = None,
) -> ssl.SSLContext:
    """Return a context with Python's defaults that trusts the system's authorities, or these.
    Raises :class:`OSError`."""
    context = ssl.create_default_context(purpose, cafile=cafile, cadata=cadata)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
