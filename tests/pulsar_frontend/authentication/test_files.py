"""The files of authentication, and settings that cannot be."""

from pathlib import Path
from typing import Any

import pytest
from passlib.hash import apr_md5_crypt

from arneb_pulsar.authentication.files import read_proofs
from arneb_pulsar.config import AuthenticationConfig

SECRET = bytes(range(32))


def test_files_are_read_where_methods_ask_for_them(tmp_path: Path) -> None:
    secret, users = tmp_path / "secret", tmp_path / "users"
    secret.write_bytes(SECRET)
    users.write_text(f"a:{apr_md5_crypt.hash('x')}\n")
    assert not read_proofs(AuthenticationConfig(token_secret_key=secret)).required
    config = AuthenticationConfig(("token", "basic"), token_secret_key=secret, basic_file=users)
    proofs = read_proofs(config)
    assert proofs.token and proofs.passwords and not proofs.certificates
    missing = AuthenticationConfig(("token",), token_public_key=tmp_path / "none")
    with pytest.raises(ValueError, match="token_public_key: cannot read"):
        read_proofs(missing)
    with pytest.raises(ValueError, match="token_public_key: .*expected a public key"):
        read_proofs(AuthenticationConfig(("token",), token_public_key=secret))


@pytest.mark.parametrize(
    "settings",
    [
        {"methods": ("kerberos",)},
        {"methods": ("token",)},
        {"methods": ("token",), "token_secret_key": Path("a"), "token_public_key": Path("b")},
        {"methods": ("basic",)},
    ],
)
def test_settings_that_cannot_be_are_refused(settings: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        AuthenticationConfig(**settings)
