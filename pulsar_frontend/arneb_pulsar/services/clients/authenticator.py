"""The authenticator: checks the credentials of clients.

The rule: a refused client gets one sentence, whatever the reason; the log has the rest.
"""

import logging
from base64 import b64decode
from functools import partial
from typing import Final

import trio

from arneb_core.access.guesses import Guesses
from arneb_pulsar.authentication.files import Proofs
from arneb_pulsar.authentication.grants import (
    NO_CERTIFICATE,
    Certificate,
    Grant,
    Unauthentic,
    grant_certificate,
)
from arneb_pulsar.authentication.tokens import grant_token
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.services.clock import Clock

METHODS: Final = {"bearer": "token", "basic": "basic", "": "tls"}
"""Methods by the scheme of the HTTP header with the proof; a certificate needs no header."""

GUESSED: Final = frozenset({"token", "basic"})
"""Methods whose proofs could be guessed."""

logger = logging.getLogger(__name__)


class Authenticator:
    """Checks proofs."""

    def __init__(self, proofs: Proofs, clock: Clock | None = None, anonymous: str = "") -> None:
        """``anonymous``: the role of clients without a valid method; empty = they are refused."""
        self._proofs = proofs
        self._anonymous = anonymous
        self._clock = clock or Clock()
        self._guesses = Guesses()
        self._crowd = trio.CapacityLimiter(4)
        """Passwords are slow to check; guessing must not keep all threads busy."""

    def __repr__(self) -> str:
        return f"<Authenticator by {', '.join(_kinds(self._proofs)) or 'nothing'}>"

    def use(self, proofs: Proofs) -> None:
        """Check by these from now on; connected clients stay. Raises :class:`ValueError` for other
        methods than before, which need a restart."""
        if _kinds(proofs) != _kinds(self._proofs):
            raise ValueError("other methods of authentication need a restart")
        self._proofs = proofs

    @property
    def asks(self) -> bool:
        """Clients must prove who they are."""
        return self._proofs.required

    async def grant(
        self, method: str, proof: bytes, certificate: Certificate, address: str = ""
    ) -> Grant:
        """Return what a client from ``address``, if known, is granted. Raises
        :class:`Unauthentic`, with a delay after failed guesses: a client without a proof does not
        guess, and getting the anonymous role forgives no guesses."""
        if not (address and method in GUESSED):
            return await self._look(method, proof, certificate)
        async with self._guesses.looking(address) as guesser:
            try:
                grant = await self._look(method, proof, certificate)
            except Unauthentic:
                await guesser.refused()
                raise
        guesser.forgive()
        return grant

    async def _look(self, method: str, proof: bytes, certificate: Certificate) -> Grant:
        proofs = self._proofs
        if method == "token" and proofs.token is not None:
            return grant_token(proof, proofs.token, self._clock.wall_ms() / 1000)
        if method == "basic" and proofs.passwords is not None:
            check = partial(proofs.passwords.grant, proof)
            return await trio.to_thread.run_sync(check, limiter=self._crowd)
        if method == "tls" and proofs.certificates:
            return grant_certificate(certificate)
        if self._anonymous:
            return Grant(self._anonymous)
        raise Unauthentic(f"expected a method that is configured, got {method!r}")

    async def caller(
        self,
        authorization: str,
        original: str = "",
        certificate: Certificate = NO_CERTIFICATE,
        address: str = "",
        method: str = "",
    ) -> Caller | None:
        """Return who sends these HTTP headers from ``address``, or shows that certificate; None if
        it is not let in. ``method``: if the caller names one, no other counts, as in Pulsar."""
        if not self.asks:
            return NOBODY
        scheme, _, proof = authorization.partition(" ")
        try:
            if method and method != METHODS.get(scheme.lower()):
                raise Unauthentic(f"expected headers of method {method!r}, got {scheme!r}")
            if not scheme:
                method = "tls" if certificate and self._proofs.certificates else ""
                grant = await self._look(method, b"", certificate)  # nothing to be guessed
            elif scheme.lower() == "bearer":
                grant = await self.grant("token", proof.strip().encode(), {}, address)
            else:
                grant = await self.grant(scheme.lower(), b64decode(proof), {}, address)
        except (Unauthentic, ValueError) as error:
            logger.warning("authentication of an administrator failed: %s", error)
            return None
        # A proxy that passes on the client's own proof names the client's role as well.
        return Caller(grant.role, "" if original == grant.role else original)


def _kinds(proofs: Proofs) -> list[str]:
    found = {
        "token": proofs.token is not None,
        "basic": proofs.passwords is not None,
        "tls": proofs.certificates,
    }
    return [name for name, is_taken in found.items() if is_taken]
