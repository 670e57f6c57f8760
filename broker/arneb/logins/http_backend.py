"""The HTTP backend: the operator's own server decides about users.

The rule: requests and answers are those of RabbitMQ's ``rabbitmq_auth_backend_http``. Without an
answer everything is denied; the log names the server, and the next question asks it again.
"""

import logging
from collections.abc import Mapping
from hashlib import sha256
from secrets import token_bytes
from typing import Final

from arneb.logins.fetching import Fetcher, Unanswered
from arneb.logins.remembered import Remembered
from arneb.logins.settings import HttpLoginTable
from arneb_core.access.principals import Credentials, Kind, LoginRefused, Principal, Question

logger = logging.getLogger(__name__)

UNANSWERED_S: Final = 1.0
"""How long a missing answer counts as a denial before the server is asked again."""

INSTANT_S: Final = 0.05
"""How long an answer counts that must not be cached: until it is used."""

SHOWN: Final = 40


class HttpVerdicts:
    """The server's decisions about one user."""

    may_be_kept = False

    def __init__(self, backend: "HttpBackend", user: str, tags: frozenset[str]) -> None:
        self._backend = backend
        self._user = user
        self._tags = " ".join(sorted(tags))

    def __repr__(self) -> str:
        return f"<HttpVerdicts of {self._user!r}>"

    def may(self, vhost: str, question: Question) -> bool | None:
        """Return the server's cached decision; None if there is none."""
        return self._backend.verdicts.get((self._user, vhost, question))

    def limits_keys(self, vhost: str, exchange: str) -> bool:
        """Return True: the server decides about each key."""
        return True

    async def ask(self, vhost: str, question: Question) -> None:
        """Have the server decide, so that :meth:`may` knows. A server that does not answer has
        refused."""
        settings = self._backend.settings
        fields = {
            "username": self._user, "vhost": vhost, "resource": question.kind.value,
            "name": question.name, "permission": question.right.value, "tags": self._tags,
        }  # fmt: skip
        url = settings.resource_url
        if question.kind is Kind.TOPIC:
            url = settings.topic_url
            fields |= {
                "routing_key": question.routing_key,
                "variable_map.username": self._user, "variable_map.vhost": vhost,
            }  # fmt: skip
        await self._backend.find_out((self._user, vhost, question), url, fields)

    async def renew(self, user: str, secret: str) -> None:
        """Do nothing: nothing expires."""

    async def admits(self, vhost: str, address: str) -> bool:
        """Return whether the server lets the user into the vhost from that address. A server that
        does not answer has refused."""
        asked = self._user, vhost, address
        if (known := self._backend.verdicts.get(asked)) is not None:
            return known
        fields = {
            "username": self._user, "vhost": vhost, "ip": address, "tags": self._tags,
        }  # fmt: skip
        return await self._backend.find_out(asked, self._backend.settings.vhost_url, fields)


class HttpBackend:
    """Logs in the users that the server knows."""

    def __init__(self, settings: HttpLoginTable) -> None:
        self.settings = settings
        self.verdicts: Remembered[bool] = Remembered(settings.cache_s or INSTANT_S)
        self._logins: Remembered[frozenset[str]] = Remembered(settings.cache_s)
        self._salt = token_bytes(16)
        self._fetcher = Fetcher(settings.timeout_s)

    def __repr__(self) -> str:
        return f"<HttpBackend at {self.settings.user_url}>"

    async def log_in(self, credentials: Credentials) -> Principal:
        """Log a user in. Raises :class:`.LoginRefused`."""
        name, password = credentials.name, credentials.password or ""
        both = f"{name}\0{password}".encode("utf-8", "surrogateescape")
        proof = sha256(self._salt + both).digest()
        tags = self._logins.get(proof)
        if tags is None:
            tags = await self._asked(name, password)
            if self.settings.cache_s:
                self._logins.put(proof, tags)
        verdicts = HttpVerdicts(self, name, tags)
        return Principal(name, verdicts, tags, credentials.password)

    async def _asked(self, name: str, password: str) -> frozenset[str]:
        fields = {"username": name, "password": password}
        try:
            answer = await self._answer(self.settings.user_url, fields)
        except Unanswered as error:
            raise LoginRefused(f"user '{name}' - {error}") from None
        verdict, *tags = answer.split() or [""]
        if verdict == "allow":
            return frozenset(tags)
        if verdict == "deny":
            raise LoginRefused(f"user '{name}' - denied by {self.settings.user_url}")
        raise LoginRefused(
            f"user '{name}' - expected allow or deny from {self.settings.user_url}, "
            f"got {answer[:SHOWN]!r}"
        )

    async def find_out(
        self, asked: tuple[str, str, object], url: str, fields: Mapping[str, str]
    ) -> bool:
        """Ask the server, cache its decision and return it."""
        try:
            answer = await self._answer(url, fields)
        except Unanswered as error:
            logger.warning("refusing user '%s' in vhost '%s': %s", *asked[:2], error)
            self.verdicts.put(asked, False, UNANSWERED_S)
            return False
        if answer not in ("allow", "deny"):
            logger.warning("expected allow or deny from %s, got %.40r", url, answer)
        allowed = answer == "allow"
        self.verdicts.put(asked, allowed)
        return allowed

    async def close(self) -> None:
        """Close the connections to the server."""
        await self._fetcher.close()

    async def _answer(self, url: str, fields: Mapping[str, str]) -> str:
        body = await self._fetcher.fetch(url, fields, post=self.settings.post)
        return body.decode("utf-8", "replace").strip().lower()
