"""The OAuth backend: the password is a token, whose scopes say what its bearer may do.

The rule: a token is checked once and counts until it expires; then everything is denied until
``update_secret`` brings another token of the same user. The user name that a client sends is
ignored.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import jwt

from arneb.logins.keys import Keys, NoKey
from arneb.logins.scopes import Scopes, parse_scopes
from arneb.logins.settings import OAuthTable
from arneb_core.access.principals import Credentials, LoginRefused, Principal, Question
from arneb_core.api.encoding.json_text import is_text

TOKEN_CHARACTERS_MAX: Final = 64 * 1024
"""The longest token; no sensible one is longer, and checking one costs time."""


TIME_S_MAX: Final = 2**53
"""The latest time, in seconds since the epoch: up to here a float is exact for whole seconds."""


class TokenVerdicts:
    """The rights of one token's bearer."""

    may_be_kept = False

    def __init__(self, backend: "OAuthBackend", scopes: Scopes, expires_s: float) -> None:
        self._backend = backend
        self._scopes = scopes
        self._expires_s = expires_s

    def __repr__(self) -> str:
        return f"<TokenVerdicts of {len(self._scopes.scopes)} scopes>"

    def may(self, vhost: str, question: Question) -> bool:
        """Whether the token allows it and has not expired."""
        return not self._has_expired and self._scopes.allows(vhost, question)

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """Return True: scopes may name routing keys."""
        return True

    async def ask(self, vhost: str, question: Question) -> None:
        """Do nothing: the token says everything."""

    async def renew(self, user: str, secret: str) -> None:
        """Replace the token by another of the same user. Raises :class:`.LoginRefused`."""
        name, scopes, expires_s = await self._backend.read(secret)
        if name != user:
            raise LoginRefused(f"the new token of user '{user}' is that of user '{name}'")
        self._scopes, self._expires_s = scopes, expires_s

    async def admits(self, vhost: str, address: str) -> bool:
        """Whether the token has not expired and some scope matches the vhost."""
        return not self._has_expired and self._scopes.reaches(vhost)

    @property
    def _has_expired(self) -> bool:
        return self._backend.now_s() >= self._expires_s


class OAuthBackend:
    """Logs in the bearers of tokens."""

    def __init__(self, settings: OAuthTable, now_s: Callable[[], float]) -> None:
        """``now_s`` returns the seconds since the epoch. Raises :class:`ValueError` for a key that
        cannot be read."""
        self._settings = settings
        self.now_s = now_s
        self._keys = Keys(settings)

    def __repr__(self) -> str:
        return f"<OAuthBackend of {self._keys!r}>"

    async def log_in(self, credentials: Credentials) -> Principal:
        """Log a token's bearer in. Raises :class:`.LoginRefused`."""
        if credentials.password is None:
            raise LoginRefused(f"user '{credentials.name}' - sent no token")
        name, scopes, expires_s = await self.read(credentials.password)
        verdicts = TokenVerdicts(self, scopes, expires_s)
        return Principal(name, verdicts, scopes.tags, credentials.password)

    async def read(self, token: str) -> tuple[str, Scopes, float]:
        """Return user, scopes and expiry of a token. Raises :class:`.LoginRefused`."""
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise LoginRefused(f"expected a token of at most {TOKEN_CHARACTERS_MAX} characters")
        try:
            header = jwt.get_unverified_header(token)
            key = await self._keys.key(header.get("kid"))
            claims = jwt.decode(
                token, key.key, algorithms=list(key.algorithms), options=_TIMES_ARE_OURS
            )
        except (jwt.PyJWTError, NoKey, ValueError, TypeError) as error:
            raise LoginRefused(f"bad token: {error}") from None
        except RecursionError:
            raise LoginRefused("bad token: brackets nested too deeply") from None
        expires_s = self._check(claims)
        name = next(
            (claims[each] for each in self._settings.username_claims if claims.get(each)), None
        )
        if not isinstance(name, str) or not is_text(name):
            named = ", ".join(self._settings.username_claims)
            raise LoginRefused(f"expected the user's name in one of {named} of the token")
        texts = [*_texts(claims.get("scope")), *self._additional(claims)]
        return name, parse_scopes(texts, self._settings.resource_server_id), expires_s

    async def close(self) -> None:
        """Close the connections for fetching keys."""
        await self._keys.close()

    def _check(self, claims: Mapping[str, Any]) -> float:
        """Check the claims; return when the token expires."""
        settings, now_s = self._settings, self.now_s()
        audience = _texts(claims.get("aud"))
        if settings.verify_audience and settings.resource_server_id not in audience:
            raise LoginRefused(f"expected '{settings.resource_server_id}' as audience of the token")
        if settings.issuer and claims.get("iss") != settings.issuer:
            raise LoginRefused(f"expected '{settings.issuer}' as issuer of the token")
        expires, begins = claims.get("exp", float("inf")), claims.get("nbf", 0)
        for each in (expires, begins):
            if isinstance(each, bool) or not isinstance(each, int | float) or not _is_time(each):
                raise LoginRefused(f"expected times in the token, got {each!r:.40}")
        if now_s >= expires:
            raise LoginRefused(f"the token expired at {expires}")
        if now_s < begins:
            raise LoginRefused(f"the token is not valid before {begins}")
        return float(expires)

    def _additional(self, claims: Mapping[str, Any]) -> list[str]:
        key = self._settings.additional_scopes_key
        return _texts(claims.get(key)) if key else []


def _is_time(number: float) -> bool:
    """Whether a number can be a time: infinity, for a token without expiry, or one in range."""
    return number == float("inf") or abs(number) <= TIME_S_MAX


def _texts(claim: Any) -> list[str]:
    """Return the texts of a claim that is a list, or one text with spaces between them."""
    if isinstance(claim, str):
        return claim.split()
    if isinstance(claim, list):
        return [each for each in claim if isinstance(each, str)]
    return []


_TIMES_ARE_OURS: Final[Any] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
}
"""We check times ourselves, against ``now_s`` and with our own error texts."""
