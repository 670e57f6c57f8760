"""Verification: how the client verifies a broker's certificate, alike on every Python.

The rule: a certificate that one Python accepts, all accept. From 3.13 on, Python asks for every
extension that RFC 5280 wants; the authorities that people make with a few lines of ``openssl``
often lack some, and the official clients accept them.
"""

import ssl


def make_context(*, cafile: str | None = None) -> ssl.SSLContext:
    """Return a context with Python's defaults that trusts the system's authorities, or these.
    Raises :class:`OSError`."""
    context = ssl.create_default_context(cafile=cafile)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
