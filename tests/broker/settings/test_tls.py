"""TLS files: what is wrong with them is told by the name of the setting."""

from pathlib import Path

import pytest

from arneb.settings.tls import TlsConfig, read_tls


def test_a_certificate_that_is_none_is_told(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"no certificate")
    with pytest.raises(ValueError, match="certificate and key"):
        read_tls(TlsConfig(certificate=secret))
    with pytest.raises(ValueError, match="certificate and key"):
        read_tls(TlsConfig(certificate=tmp_path / "missing"))


def test_clients_certificates_need_an_authority() -> None:
    with pytest.raises(ValueError, match="client_ca"):
        TlsConfig(require_client_certificate=True)
