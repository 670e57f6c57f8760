"""Tokens: JSON Web Tokens, signed with a secret or a private key.

The rule: the key decides which algorithms are accepted, never the token; otherwise a public key
could be passed off as a secret.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from arneb_pulsar.authentication.grants import Grant, Unauthentic

SECRET_ALGORITHMS: Final = ("HS256", "HS384", "HS512")
RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
CURVE_ALGORITHMS: Final = ("ES256", "ES384", "ES512")

TOKEN_BYTES_MAX: Final = 64 * 1024
"""The most bytes of a token. No sensible token is longer, and checking one costs time."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """A key that signatures are checked with."""

    key: Any
    algorithms: tuple[str, ...]

    def __post_init__(self) -> None:
        # Imported only if tokens are used, and with the key: at the first token, the import would
        # block the event loop for tens of milliseconds.
        import_module("jwt")


def secret_key(data: bytes) -> TokenKey:
    """Read the key in a file of Pulsar's ``create-secret-key``. Raises :class:`ValueError`."""
    if len(data) < 32:
        raise ValueError(f"expected a secret of at least 32 bytes, got {len(data)}")
    return TokenKey(data, SECRET_ALGORITHMS)


def public_key(data: bytes) -> TokenKey:
    """Read the key in a file of Pulsar's ``create-key-pair`` (DER), or in PEM. Raises
    :class:`ValueError`."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import (
        load_der_public_key,
        load_pem_public_key,
    )

    load = load_pem_public_key if data.lstrip().startswith(b"-----") else load_der_public_key
    try:
        key = load(data)
    except Exception as error:  # the library raises various errors for invalid files
        raise ValueError(f"expected a public key in PEM or DER: {error}") from error
    if isinstance(key, RSAPublicKey):
        return TokenKey(key, RSA_ALGORITHMS)
    if isinstance(key, EllipticCurvePublicKey):
        return TokenKey(key, CURVE_ALGORITHMS)
    raise ValueError(f"expected an RSA or elliptic curve key, got {type(key).__name__}")


def grant_token(token: bytes, key: TokenKey, now_s: float) -> Grant:
    """Grant the role of a token that is valid at ``now_s``. Raises :class:`Unauthentic`. A token
    from a file may end in a newline, as in Apache Pulsar, whose library trims it."""
    import jwt

    if len(token) > TOKEN_BYTES_MAX:
        raise Unauthentic(f"expected a token of at most {TOKEN_BYTES_MAX} bytes")
    try:
        claims = jwt.decode(
            token.strip(),
            key.key,
            algorithms=list(key.algorithms),
            # Times are checked below, against ``now_s``.
            options={
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_sub": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise Unauthentic(f"bad token: {error}") from error
    role = claims.get("sub")
    if not isinstance(role, str) or not role:
        raise Unauthentic("expected a subject in the token")
    expires = _time(claims, "exp")
    if expires is not None and now_s >= expires:
        raise Unauthentic(f"the token of {role!r} expired at {expires}")
    begins = _time(claims, "nbf")
    if begins is not None and now_s < begins:
        raise Unauthentic(f"the token of {role!r} is not valid before {begins}")
    return Grant(role, expires)


def _time(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value < 1e18:
        raise Unauthentic(f"expected a time in {name}, got {value!r}")
    return float(value)
