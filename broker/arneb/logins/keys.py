"""Keys: the public keys that verify tokens, from a file or from the URL where they are published.

The rule: the key decides which algorithms are accepted, never the token. Published keys are fetched
when a token names an unknown one, but at limited intervals whatever tokens arrive; while they
cannot be fetched, the known ones stay valid.
"""

import logging
from dataclasses import dataclass
from typing import Any, Final

import trio
from jwt import PyJWK, PyJWTError

from arneb.logins.fetching import Fetcher, Unanswered
from arneb.logins.settings import NO_FILE, OAuthTable
from arneb_core.api.encoding.json_text import parse_json

logger = logging.getLogger(__name__)

PATIENCE_S: Final = 1.0
"""How long a login with a known key waits for a fetch that is due."""

FETCHED_S_MIN: Final = 10.0
"""The least time between two fetches, so that forged tokens cannot cause constant requests."""

KEYS_MAX: Final = 100

ALGORITHMS: Final = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512", "ES256K"),
    "OKP": ("EdDSA",),
}
"""Algorithms by kind of key; symmetric keys are excluded, as a published secret is none."""


class NoKey(Exception):
    """A token cannot be checked; the text says why."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key that verifies signatures, with its algorithms."""

    key: Any
    algorithms: tuple[str, ...]


class Keys:
    """The public keys of one issuer of tokens: one of the settings, and those that it publishes."""

    def __init__(self, settings: OAuthTable) -> None:
        self._settings = settings
        self._fetcher = Fetcher(settings.timeout_s)
        self._own = _of_file(settings)
        self._published: dict[str, SigningKey] = {}
        self._fetched_s = self._tried_s = float("-inf")
        self._lock = trio.Lock()

    def __repr__(self) -> str:
        return f"<Keys of {self._settings.jwks_url or self._settings.public_key}>"

    async def key(self, name: str | None) -> SigningKey:
        """Return the key that a token names, or the default one if it names none. Raises
        :class:`NoKey`."""
        if name is None and self._own is not None:
            return self._own
        if self._settings.jwks_url:
            await self._refresh(name)
        if name is None and len(self._published) == 1:
            (only,) = self._published.values()
            return only
        found = self._published.get(name or "")
        if found is None:
            found = self._own
        if found is None:
            raise NoKey(f"no key {name!r} at {self._settings.jwks_url}")
        return found

    async def close(self) -> None:
        """Close the connections for fetching."""
        await self._fetcher.close()

    async def _refresh(self, name: str | None) -> None:
        """Fetch the keys if that is due, or ``name`` is unknown."""
        is_known = self._is_known(name)
        if is_known and (not self._is_time(name) or self._lock.locked()):
            return  # a fetch for an unknown key must not delay known ones
        async with self._lock:
            if not self._is_time(name):
                return
            self._tried_s = trio.current_time()
            patience_s = PATIENCE_S if is_known else float("inf")
            with trio.move_on_after(patience_s) as waiting:
                await self._fetch()
            if waiting.cancelled_caught:
                logger.warning(
                    "%s has not answered yet: known keys stay valid", self._settings.jwks_url
                )

    def _is_known(self, name: str | None) -> bool:
        return name in self._published if name is not None else bool(self._published)

    def _is_time(self, name: str | None) -> bool:
        now = trio.current_time()
        is_fresh = now - self._fetched_s < self._settings.keys_s
        if self._is_known(name) and is_fresh:
            return False
        return now - self._tried_s >= FETCHED_S_MIN

    async def _fetch(self) -> None:
        try:
            self._published = _published(await self._fetcher.fetch(self._settings.jwks_url))
            self._fetched_s = trio.current_time()
        except (Unanswered, ValueError) as error:
            logger.warning("cannot fetch the keys for tokens: %s", error)


def _of_file(settings: OAuthTable) -> SigningKey | None:
    if settings.public_key == NO_FILE:
        return None
    from arneb_pulsar.authentication.tokens import public_key

    try:
        read = public_key(settings.public_key.read_bytes())
    except OSError as error:
        raise ValueError(f"cannot read {settings.public_key}: {error.strerror}") from error
    return SigningKey(read.key, read.algorithms)


def _published(data: bytes) -> dict[str, SigningKey]:
    """Parse a set of keys. Raises :class:`ValueError`."""
    document = parse_json(data)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("expected a set of JSON Web Keys")
    keys: dict[str, SigningKey] = {}
    for each in listed[:KEYS_MAX]:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        algorithms = ALGORITHMS.get(str(each.get("kty")))
        if algorithms is None:
            continue
        try:
            made: PyJWK = PyJWK.from_dict(each)
        except (PyJWTError, ValueError, TypeError, KeyError, OverflowError) as error:
            logger.warning("cannot use a key for tokens: %s", error)
            continue
        keys[str(each.get("kid", ""))] = SigningKey(made.key, algorithms)
    return keys
