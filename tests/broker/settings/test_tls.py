"""TLS files: what is wrong with them is reported with the name of the setting."""

from pathlib import Path

import pytest

from arneb.settings.tls import TlsConfig, read_tls


def test_an_invalid_certificate_is_reported(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"no certificate")
    with pytest.raises(ValueError, match="certificate and key"):
        read_tls(TlsConfig(certificate=secret))
    with pytest.raises(ValueError, match="certificate and key"):
        read_tls(TlsConfig(certificate=tmp_path / "missing"))


def test_client_certificates_need_an_authority() -> None:
    with pytest.raises(ValueError, match="client_ca"):
        TlsConfig(require_client_certificate=True)
