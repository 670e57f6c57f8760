"""The TLS details that are shown: OpenSSL's names of cipher suites in Erlang's terms."""

import ssl

import pytest

from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.tls_fields import cipher_terms, shown, tls_fields


@pytest.mark.parametrize(
    ("suite", "version", "terms"),
    [
        ("TLS_AES_256_GCM_SHA384", "TLSv1.3", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", "TLSv1.3", ("any", "chacha20_poly1305", "aead")),
        ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", ("ecdhe_ecdsa", "aes_256_gcm", "aead")),
        ("ECDHE-RSA-CHACHA20-POLY1305", "TLSv1.2", ("ecdhe_rsa", "chacha20_poly1305", "aead")),
        ("DHE-RSA-AES128-CCM8", "TLSv1.2", ("dhe_rsa", "aes_128_ccm_8", "aead")),
        ("ECDHE-RSA-AES256-SHA384", "TLSv1.2", ("ecdhe_rsa", "aes_256_cbc", "sha384")),
        ("AES128-SHA", "TLSv1.2", ("rsa", "aes_128_cbc", "sha")),
        ("PSK-AES128-CBC-SHA256", "TLSv1.2", ("psk", "aes_128_cbc", "sha256")),
        ("ECDHE-PSK-CHACHA20-POLY1305", "TLSv1.2", ("ecdhe_psk", "chacha20_poly1305", "aead")),
        ("SRP-AES-256-CBC-SHA", "TLSv1.2", ("srp_anon", "aes_256_cbc", "sha")),
        ("SRP-RSA-AES-128-CBC-SHA", "TLSv1.2", ("srp_rsa", "aes_128_cbc", "sha")),
        ("ARIA-OF-TOMORROW", "TLSv1.2", ("", "aria-of-tomorrow", "")),
    ],
)
def test_a_suite_has_erlangs_name(suite: str, version: str, terms: tuple[str, str, str]) -> None:
    assert cipher_terms(suite, version) == terms


def test_every_aes_or_chacha_suite_of_this_openssl_can_be_named() -> None:
    context = ssl.create_default_context()
    named = [each["name"] for each in context.get_ciphers()]
    known = [each for each in named if "AES" in each or "CHACHA" in each]
    assert known and all(cipher_terms(each, "TLSv1.2")[0] for each in known)


def test_without_tls_nothing_is_known() -> None:
    assert set(tls_fields(Remote()).values()) == {None}


def test_a_client_without_a_certificate_has_no_names() -> None:
    found = tls_fields(Remote(secured=True, cipher=("TLS_AES_128_GCM_SHA256", "TLSv1.3")))
    assert found["ssl_protocol"] == "tlsv1.3"
    assert (found["peer_cert_subject"], found["peer_cert_validity"]) == ("", "")


def test_a_malformed_certificate_is_shown_as_none() -> None:
    assert shown(b"\x30\x00") == ("", "", "")
