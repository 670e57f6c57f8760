"""Certificates for the TLS listeners of both brokers, valid for a day and for 127.0.0.1."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

HERE: Final = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


def make_certificate(
    directory: Path,
    name: str,
    issuer: "tuple[Any, Any] | None" = None,
    *,
    organization: str = "",
    dns: Sequence[str] = (),
) -> Any:
    """Write a certificate and its key as ``name.crt`` and ``name.key``, and both together as
    ``name.p12`` with the password ``secret``. The result is the certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    subject = x509.Name(attributes)
    now = dt.datetime.now(dt.UTC)
    signer, above = (key, subject) if issuer is None else (issuer[1], issuer[0].subject)
    identifier, of_issuer = x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(identifier.from_public_key(key.public_key()), critical=False)
        .add_extension(of_issuer.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(is_authority=issuer is None), critical=True)
        .add_extension(x509.SubjectAlternativeName([HERE, *map(x509.DNSName, dns)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    kind = serialization.PrivateFormat.PKCS8
    (directory / f"{name}.crt").write_bytes(certificate.public_bytes(encoding))
    (directory / f"{name}.key").write_bytes(key.private_bytes(encoding, kind, plain))
    packed = serialization.BestAvailableEncryption(b"secret")
    together = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, packed)
    (directory / f"{name}.p12").write_bytes(together)
    return certificate, key


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    """Strict clients, as Python's from 3.13 on, want to be told what a key is for."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
