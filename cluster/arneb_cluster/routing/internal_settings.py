"""Internal settings: by what the nodes of a cluster know each other.

The rule: a secret, or TLS in which both sides show a certificate of the cluster's own authority, or
both; never neither. What tells secrets of clients goes by TLS only.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from arneb_cluster.routing.internal_protocol import Secret

NO_SECRET: Final = Secret(b"")


@dataclass(frozen=True, slots=True)
class InternalSettings:
    """Of one node. Raises :class:`ValueError` for settings by which nobody proves anything."""

    node: str
    """The name of this node."""
    secret: Secret = NO_SECRET
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = field(default=None, repr=False)
    """For who comes here, and for who is called."""

    def __post_init__(self) -> None:
        if not self.secret.value and self.tls is None:
            raise ValueError(
                "expected a secret, or certificates for TLS, by which nodes prove who they are"
            )


def tls_of(certificate: Path, key: Path, authority: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS by which both sides show certificates that ``authority`` has signed. Raises
    :class:`OSError` and :class:`ssl.SSLError` for files that cannot be used."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (serving, calling):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_REQUIRED
    # Half closes and resumption are TLS 1.3's; a ticket would say nothing of the certificate.
    serving.num_tickets = 0
    return serving, calling
