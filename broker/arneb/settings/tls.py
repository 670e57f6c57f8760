"""TLS: the files of a listener, whatever its protocol.

The rule: files are read and checked once; an error is a :class:`ValueError` that names the setting.
"""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Final

from arneb_core.api.connections.verification import make_context

NO_FILE: Final = Path()
"""No file is configured."""


class TlsVersion(Enum):
    """A minimum version of TLS."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


_VERSIONS: Final = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """A TLS listener's files, in PEM."""

    certificate: Path = NO_FILE
    """The file with the certificate and its chain."""

    key: Path = NO_FILE
    """The file with the private key, if it is not in the certificate's file."""

    client_ca: Path = NO_FILE
    """The file with the authorities that sign clients' certificates. If set, clients are asked for
    a certificate."""

    require_client_certificate: bool = False
    """Refuse clients without a certificate; needs ``client_ca``."""

    minimum_version: TlsVersion = TlsVersion.TLS_1_2
    """The oldest TLS version accepted: ``TLSv1.2`` or ``TLSv1.3``."""

    ciphers: str = ""
    """The ciphers for TLS 1.2, as an OpenSSL cipher list (``ECDHE+AESGCM``); those of TLS 1.3 need
    no choice. Empty: Python's default."""

    def __post_init__(self) -> None:
        if self.require_client_certificate and self.client_ca == NO_FILE:
            raise ValueError("expected client_ca beside require_client_certificate")


def expiring(certificates: Sequence[Path], within: timedelta) -> list[str]:
    """Return the files with a certificate that expires within that time, or cannot be read."""
    from cryptography.x509 import load_pem_x509_certificates

    found: list[str] = []
    end = datetime.now(UTC) + within
    for file in certificates:
        try:
            parsed = load_pem_x509_certificates(file.read_bytes())
        except (OSError, ValueError):
            found.append(str(file))
            continue
        if any(each.not_valid_after_utc <= end for each in parsed):
            found.append(str(file))
    return found


def expires_at(certificate: Path) -> datetime | None:
    """Return when the first certificate in a file to expire does. Raises :class:`ValueError`."""
    from cryptography.x509 import load_pem_x509_certificates

    try:
        parsed = load_pem_x509_certificates(certificate.read_bytes())
    except OSError as error:
        raise ValueError(f"certificate and key: {error}") from error
    return min((each.not_valid_after_utc for each in parsed), default=None)


def read_tls(config: TlsConfig) -> ssl.SSLContext:
    """Make the context of a TLS listener. Raises :class:`ValueError`."""
    context = make_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = _VERSIONS[config.minimum_version]
    if config.ciphers:
        try:
            context.set_ciphers(config.ciphers)
        except ssl.SSLError as error:
            raise ValueError(f"ciphers: OpenSSL knows none in {config.ciphers!r}") from error
    key = config.key if config.key != NO_FILE else None
    try:
        context.load_cert_chain(config.certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"certificate and key: {error}") from error
    if config.client_ca != NO_FILE:
        try:
            context.load_verify_locations(config.client_ca)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"client_ca: {error}") from error
        required = config.require_client_certificate
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context
