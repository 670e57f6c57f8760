"""TLS fields: the result of a TLS handshake in RabbitMQ's words.

The rule: OpenSSL's names in, Erlang's out; a cipher suite of unknown form is shown under its own
name.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from arneb_amqp.server.transport.remote import Remote

Fields = Mapping[str, str | None]

CERTIFICATES_MAX: Final = 2_000
"""Certificates remembered in displayed form: parsing one takes longer than everything else of a
connection, and lists are requested again and again."""

_NONE: Final = ("", "", "")
_PLAIN: Final[Fields] = dict.fromkeys(
    (
        "ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject",
        "peer_cert_issuer", "peer_cert_validity",
    )
)  # fmt: skip

# TLS 1.3: TLS_AES_256_GCM_SHA384. Before: ECDHE-RSA-AES256-GCM-SHA384, ECDHE-RSA-AES128-SHA.
_SUITE: Final = re.compile(
    r"(?:TLS_)?(?:(?P<exchange>(?:ECDHE|DHE|ECDH|DH)-(?:RSA|ECDSA|DSS)|"
    r"(?:(?:ECDHE|DHE|RSA)-)?PSK|SRP(?:-(?:RSA|DSS))?)-)?"
    r"(?P<cipher>AES[_-]?(?:128|256)|CHACHA20)[_-]?"
    r"(?P<mode>GCM|CCM8?|POLY1305|CBC)?[_-]?(?P<hash>SHA(?:256|384)?)?"
)


def tls_fields(peer: Remote) -> Fields:
    """Return the TLS fields of a connection; all None without TLS."""
    if not peer.secured:
        return _PLAIN
    suite, version = peer.cipher
    exchange, cipher, digest = cipher_terms(suite, version)
    subject, issuer, validity = _NONE if peer.certificate is None else shown(peer.certificate)
    return {
        "ssl_protocol": version.lower(),
        "ssl_key_exchange": exchange,
        "ssl_cipher": cipher,
        "ssl_hash": digest,
        "peer_cert_subject": subject,
        "peer_cert_issuer": issuer,
        "peer_cert_validity": validity,
    }


def cipher_terms(suite: str, version: str) -> tuple[str, str, str]:
    """Return key exchange, cipher and hash of one of OpenSSL's suites."""
    found = _SUITE.fullmatch(suite)
    if found is None:
        return "", suite.lower(), ""
    exchange = (found["exchange"] or "rsa").replace("-", "_").lower()
    if version == "TLSv1.3":
        exchange = "any"
    cipher = re.sub(r"aes[_-]?(\d+)", r"aes_\1", found["cipher"].lower())
    mode = (found["mode"] or "cbc").lower().replace("ccm8", "ccm_8")
    digest = (found["hash"] or "").lower() if mode == "cbc" else "aead"
    exchange = "srp_anon" if exchange == "srp" else exchange
    return exchange, f"{cipher}_{mode}", digest


@lru_cache(CERTIFICATES_MAX)
def shown(certificate: bytes) -> tuple[str, str, str]:
    """Return subject, issuer and validity of a certificate in DER; empty if it cannot be read."""
    # Imported late: it takes longer than everything else a broker starts with.
    from cryptography.x509 import load_der_x509_certificate

    try:
        parsed = load_der_x509_certificate(certificate)
        begin, end = parsed.not_valid_before_utc, parsed.not_valid_after_utc
        validity = f"{begin:%Y-%m-%dT%H:%M:%SZ} - {end:%Y-%m-%dT%H:%M:%SZ}"
        return parsed.subject.rfc4514_string(), parsed.issuer.rfc4514_string(), validity
    except ValueError:
        return _NONE
