"""Brokers that authenticate clients by token, password or certificate, also on a TLS port.

:func:`make_files` makes the files that they and their clients need.
"""

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate
from conformance.brokers.pulsar_standalone import PulsarStandalone

SECRET = bytes(range(32))
USERS = "me:$apr1$arneb123$pMgERRWPzAMjnVuL4g.Fi.\n"
"""The password is ``right``, in the format of ``htpasswd``."""


def token(expires_in_s: float | None = None, secret: bytes = SECRET) -> str:
    """A JSON Web Token for the role ``me``, made by hand."""
    return token_of("me", expires_in_s, secret)


def token_of(role: str, expires_in_s: float | None = None, secret: bytes = SECRET) -> str:
    """A JSON Web Token for any role."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    claims: dict[str, Any] = {"sub": role}
    if expires_in_s is not None:
        claims["exp"] = int(time.time() + expires_in_s)
    signed = part(b'{"alg":"HS256"}') + "." + part(json.dumps(claims).encode())
    return f"{signed}.{part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def make_files(directory: Path) -> Path:
    """Write the secret key of tokens, the users and their passwords, and the certificates of a
    root, of the broker and of ``me``; the result is ``directory``."""
    (directory / "secret.key").write_bytes(SECRET)
    (directory / "users").write_text(USERS)
    root = make_certificate(directory, "root")
    make_certificate(directory, "server", root)
    make_certificate(directory, "me", root)
    return directory


def guarded_arneb(place: Path, files: Path, more: str = "") -> Arneb:
    settings = f"""
[pulsar.authentication]
methods = ["token", "basic", "tls"]
token_secret_key = "{files}/secret.key"
basic_file = "{files}/users"

[http_pulsar.tls]
listen = "127.0.0.1:0"
certificate = "{files}/server.crt"
key = "{files}/server.key"

[pulsar.tls]
listen = "127.0.0.1:0"
certificate = "{files}/server.crt"
key = "{files}/server.key"
client_ca = "{files}/root.crt"
"""
    listeners = ["pulsar", "pulsar-tls", "http-pulsar", "http-pulsar-tls"]
    return Arneb(place, listeners=listeners, settings=settings + more).start()


def open_arneb(place: Path, files: Path) -> Arneb:
    """Like :func:`guarded_arneb`, but clients without credentials are admitted as ``anonymous``,
    and roles need rights."""
    rights = """
[access.authorization]
enabled = true
super_user_roles = ["me", "anonymous"]
anonymous_role = "anonymous"
"""
    return guarded_arneb(place, files, rights)


def guarded_pulsar(place: Path, files: Path, **settings: object) -> PulsarStandalone:
    providers = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
    return PulsarStandalone(
        place,
        token=token(),
        tls=True,
        authenticationEnabled="true",
        authenticationProviders=",".join(providers + kind for kind in ("Token", "Basic", "Tls")),
        authenticationRefreshCheckSeconds=1,
        tokenSecretKey=f"file://{files}/secret.key",
        basicAuthConf=f"file://{files}/users",
        tlsCertificateFilePath=f"{files}/server.crt",
        tlsKeyFilePath=f"{files}/server.key",
        tlsTrustCertsFilePath=f"{files}/root.crt",
        brokerClientAuthenticationPlugin="org.apache.pulsar.client.impl.auth.AuthenticationToken",
        brokerClientAuthenticationParameters=f"token:{token()}",
        **settings,
    ).start()


def arneb_with_rights(place: Path) -> Arneb:
    """An Arneb on which only ``root`` may do anything until rights are granted, and ``proxy`` acts
    for others."""
    (place / "secret.key").write_bytes(SECRET)
    settings = f"""
[pulsar.authentication]
methods = ["token"]
token_secret_key = "{place}/secret.key"

[access.authorization]
enabled = true
super_user_roles = ["root"]
proxy_roles = ["proxy"]
"""
    return Arneb(place / "arneb", listeners=["pulsar", "http-pulsar"], settings=settings).start()


def pulsar_with_rights(place: Path) -> PulsarStandalone:
    """The same for Apache Pulsar."""
    (place / "secret.key").write_bytes(SECRET)
    return PulsarStandalone(
        place / "pulsar",
        token=token_of("root"),
        authenticationEnabled="true",
        authorizationEnabled="true",
        superUserRoles="root",
        proxyRoles="proxy",
        authenticationRefreshCheckSeconds=1,
        authenticationProviders="org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        tokenSecretKey=f"file://{place}/secret.key",
        brokerClientAuthenticationPlugin="org.apache.pulsar.client.impl.auth.AuthenticationToken",
        brokerClientAuthenticationParameters=f"token:{token_of('root')}",
    ).start()
