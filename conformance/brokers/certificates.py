"""Certificates for the TLS listeners of both brokers, good for a day and for 127.0.0.1."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HERE: Final = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


def make_certificate(directory: Path, name: str, issuer: "tuple[Any, Any] | None" = None) -> Any:
    """Write a certificate and its key, ``name.crt`` and ``name.key``; the pair."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signer, above = (key, subject) if issuer is None else (issuer[1], issuer[0].subject)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(above)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([HERE]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    kind = serialization.PrivateFormat.PKCS8
    (directory / f"{name}.crt").write_bytes(certificate.public_bytes(encoding))
    (directory / f"{name}.key").write_bytes(key.private_bytes(encoding, kind, plain))
    return certificate, key
