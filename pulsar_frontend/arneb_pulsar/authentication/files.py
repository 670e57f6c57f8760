"""The files that the settings name: keys and passwords.

The rule: each is read and checked once; an error is a :class:`ValueError` that names the setting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from arneb_pulsar.authentication.passwords import Passwords
from arneb_pulsar.authentication.tokens import TokenKey, public_key, secret_key
from arneb_pulsar.config import NO_FILE, AuthenticationConfig

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Proofs:
    """What proofs are checked with; None = that kind is not accepted."""

    token: TokenKey | None = None
    passwords: Passwords | None = None
    certificates: bool = False

    @property
    def required(self) -> bool:
        """Whether clients must authenticate."""
        return bool(self.token or self.passwords or self.certificates)


def read_proofs(config: AuthenticationConfig) -> Proofs:
    """Read the files that ``config`` names. Raises :class:`ValueError`."""
    token = passwords = None
    if "token" in config.methods:
        if config.token_secret_key != NO_FILE:
            token = _read("token_secret_key", config.token_secret_key, secret_key)
        else:
            token = _read("token_public_key", config.token_public_key, public_key)
    if "basic" in config.methods:
        passwords = _read("basic_file", config.basic_file, Passwords)
    return Proofs(token, passwords, "tls" in config.methods)


def _read(setting: str, file: Path, parse: Callable[[bytes], Value]) -> Value:
    try:
        return parse(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{setting}: cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{setting}: {file}: {error}") from error
