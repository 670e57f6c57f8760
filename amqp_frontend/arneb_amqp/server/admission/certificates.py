"""Certificates: the user name in a client's certificate.

The rule: only a certificate that TLS has verified counts, and only if it contains a name. The ways
to find the name are RabbitMQ's ``ssl_cert_login_from``.
"""

from enum import Enum
from typing import TYPE_CHECKING

from arneb_amqp.config import CertificateLogin, SanType

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


class NoName(Exception):
    """The certificate has no name of the requested kind; the text says why."""


def name_of(certificate: bytes, login: CertificateLogin, san: SanType, index: int) -> str:
    """Return the user named by a certificate in DER. Raises :class:`NoName`."""
    # Imported late: it takes longer than everything else a broker starts with.
    from cryptography.x509 import load_der_x509_certificate
    from cryptography.x509.oid import NameOID

    try:
        parsed = load_der_x509_certificate(certificate)
        if login is CertificateLogin.DISTINGUISHED_NAME:
            name = parsed.subject.rfc4514_string()
        elif login is CertificateLogin.COMMON_NAME:
            names = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
            name = ",".join(str(each.value) for each in names)
        else:
            name = _alternative(parsed, san, index)
    except ValueError as error:
        raise NoName(f"expected a certificate, got what cannot be read: {error}") from error
    if not name:
        raise NoName(f"expected a {login.value} in the certificate, got none")
    return name


def _alternative(parsed: "Certificate", kind: SanType, index: int) -> str:
    from cryptography import x509

    kinds: dict[Enum, type[x509.GeneralName]] = {
        SanType.DNS: x509.DNSName,
        SanType.IP: x509.IPAddress,
        SanType.EMAIL: x509.RFC822Name,
        SanType.URI: x509.UniformResourceIdentifier,
        SanType.OTHER_NAME: x509.OtherName,
    }
    try:
        extension = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ""
    found = [each for each in extension.value if isinstance(each, kinds[kind])]
    if index >= len(found):
        return ""
    value = found[index].value
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
