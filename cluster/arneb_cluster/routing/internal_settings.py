"""Internal settings: how the nodes of a cluster authenticate each other.

The rule: by a secret, by TLS with certificates of the cluster's own authority on both sides, or by
both; never by neither. Clients' secrets go over TLS only.
"""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from arneb_cluster.routing.internal_protocol import Secret

NO_SECRET: Final = Secret(b"")


@dataclass(frozen=True, slots=True)
class InternalSettings:
    """The internal settings of one node. Raises :class:`ValueError` if nodes would prove
    nothing."""

    node: str
    """The name of this node."""
    secret: Secret = NO_SECRET
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = field(default=None, repr=False)
    """The contexts for incoming and for outgoing connections."""

    def __post_init__(self) -> None:
        if not self.secret.value and self.tls is None:
            raise ValueError(
                "expected a secret, or certificates for TLS, by which nodes prove who they are"
            )


def tls_of(certificate: Path, key: Path, authority: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return TLS contexts in which both sides must show certificates signed by ``authority``.
    Raises :class:`OSError` and :class:`ssl.SSLError` for files that cannot be used."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    calling = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (serving, calling):
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate, key)
        context.load_verify_locations(authority)
        context.verify_mode = ssl.CERT_REQUIRED
    # Half closes and resumption are TLS 1.3's; a resumption ticket would prove no certificate.
    serving.num_tickets = 0
    return serving, calling
