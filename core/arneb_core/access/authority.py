"""The authority: logs principals in, through the first backend that knows them, and slows guessing.

The rule: the backends are asked in order, and the first that knows the user decides. A client never
learns why it was refused; the log does, without the password. Refusals of an address take longer
the more there are, and few of its logins are checked at a time, so that no dictionary is worked
through in a day; a right password at the first try is not delayed.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from arneb_core.access.guesses import Guesses
from arneb_core.access.principals import Backend, Credentials, LoginRefused, Principal

logger = logging.getLogger(__name__)

OVER_HTTP: Final = "HTTP"
"""The mechanism of logins over HTTP."""


@dataclass(slots=True)
class Outcomes:
    """How many logins succeeded and failed since the broker started."""

    succeeded: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """All logins."""
        return self.succeeded + self.failed


@dataclass(slots=True)
class Attempts:
    """Logins over HTTP, where each request is one, and over all other connections."""

    http: Outcomes = field(default_factory=Outcomes)
    others: Outcomes = field(default_factory=Outcomes)

    def by(self, mechanism: str) -> Outcomes:
        """Return the outcomes that a mechanism counts to."""
        return self.http if mechanism == OVER_HTTP else self.others


class Authority:
    """The logins of one node."""

    def __init__(
        self, backends: Sequence[Backend], is_loopback_only: Callable[[str], bool]
    ) -> None:
        self._backends = tuple(backends)
        self._is_loopback_only = is_loopback_only
        self._guesses = Guesses()
        self.attempts = Attempts()

    def __repr__(self) -> str:
        return (
            f"<Authority of {len(self._backends)} backends, {self.attempts.others.failed} refused>"
        )

    async def log_in(self, credentials: Credentials) -> Principal:
        """Return the principal. Raises :class:`.LoginRefused`, late after many refusals."""
        async with self._guesses.looking(credentials.address) as guesser:
            try:
                principal = await self._asked(credentials)
            except LoginRefused as refused:
                self.refused(credentials.mechanism, credentials.address, str(refused))
                await guesser.refused()
                raise
        guesser.forgive()
        self.attempts.by(credentials.mechanism).succeeded += 1
        return principal

    def refused(self, mechanism: str, address: str, reason: str) -> None:
        """Count a refused login, and log the reason."""
        self.attempts.by(mechanism).failed += 1
        logger.warning(
            "%s login refused: %s (from %s)", mechanism, reason, address or "this process"
        )

    async def _asked(self, credentials: Credentials) -> Principal:
        if credentials.password == "":
            raise LoginRefused(
                f"user '{credentials.name}' attempted to log in with a blank password, which is "
                "prohibited by the internal authN backend"
            )
        refused = LoginRefused(f"user '{credentials.name}' - no backend knows anybody")
        for backend in self._backends:
            try:
                principal = await backend.log_in(credentials)
            except LoginRefused as error:
                refused = error
                continue
            if self._is_loopback_only(principal.name) and not credentials.loopback:
                raise LoginRefused(f"user '{principal.name}' can only connect via localhost")
            return principal
        raise refused
