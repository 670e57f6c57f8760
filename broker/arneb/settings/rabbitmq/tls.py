"""TLS in rabbitmq.conf: the options of a listener, whose names are the same for each.

The rule: without ``verify_peer`` no client is asked for a certificate, whatever other keys say.
"""

from collections.abc import Mapping
from typing import Final

from arneb.settings.rabbitmq.file import ConfFile, Take, setting
from arneb.settings.rabbitmq.values import flag_in, one_of, path_in

VERSIONS: Final[Mapping[str, str]] = {
    "tlsv1.3": "TLSv1.3", "tlsv1.2": "TLSv1.2", "tlsv1.1": "TLSv1.1", "tlsv1": "TLSv1",
}  # fmt: skip

OLD: Final = frozenset({"TLSv1", "TLSv1.1"})
"""Versions that are not supported here."""


def tls_options(table: str) -> dict[str, Take]:
    """Return how to take the options of a TLS listener."""

    def verify(file: ConfFile, _: str, value: str) -> None:
        if one_of({"verify_peer": "peer", "verify_none": "none"})(value) == "peer":
            file.verifies.add(table)
        else:
            file.verifies.discard(table)

    def version(file: ConfFile, _: str, value: str) -> None:
        file.versions.setdefault(table, set()).add(one_of(VERSIONS)(value))

    def cipher(file: ConfFile, _: str, value: str) -> None:
        if not value.startswith("TLS_"):  # all ciphers of TLS 1.3 are always on
            file.ciphers.setdefault(table, []).append(value)

    return {
        "cacertfile": setting(f"{table}.client_ca", path_in),
        "certfile": setting(f"{table}.certificate", path_in),
        "keyfile": setting(f"{table}.key", path_in),
        "password": _key_password,
        "verify": verify,
        "fail_if_no_peer_cert": setting(f"{table}.require_client_certificate", flag_in),
        "versions.*": version,
        "ciphers.*": cipher,
    }


def finish_tls(file: ConfFile, table: str) -> None:
    """Set what follows from a TLS listener's options together."""
    tls = file.get(table)
    if not tls:
        return
    if table not in file.verifies:
        # Without verify_peer the authorities are not used.
        tls.pop("client_ca", None)
        tls.pop("require_client_certificate", None)
    if tls.get("listen", "off") == "off":
        tls.pop("listen", None)
    if versions := file.versions.get(table):
        if old := sorted(versions & OLD):
            file.note(f"{', '.join(old)} for {table}", "TLS 1.2 and 1.3 are spoken")
        if spoken := sorted(versions - OLD):
            tls["minimum_version"] = spoken[0]
    if ciphers := file.ciphers.get(table):
        tls["ciphers"] = ":".join(ciphers)


def _key_password(file: ConfFile, _: str, value: str) -> None:
    raise ValueError("keys with a passphrase are not read: keep the key in a file without one")
