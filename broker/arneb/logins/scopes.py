"""Scopes: what a token allows, as RabbitMQ writes it.

The rule: ``<resource server>.<right>:<vhost>/<name>`` or ``…/<name>/<routing key>``, each part a
pattern whose ``*`` is anything and whose ``%HH`` is an octet; ``<resource server>.tag:<tag>``.
A scope of another form, or of another server, is ignored. Source: ``rabbit_oauth2_scope`` and
``wildcard`` of RabbitMQ 3.13.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from arneb_core.access.patterns import Search, compiled
from arneb_core.access.principals import Kind, Question
from arneb_core.access.rights import Right

SCOPES_MAX: Final = 1_000
"""The most scopes of one token; each is a pattern that may have to be matched."""

PATTERN_CHARACTERS_MAX: Final = 1_000
"""The most characters of one part of a scope: names have 255 octets, each maybe encoded."""

ANYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class Scope:
    """One right that a token gives."""

    right: Right
    vhost: str
    name: str
    routing_key: str

    def allows(self, vhost: str, question: Question) -> bool:
        """Whether the scope allows what is asked."""
        if question.right is not self.right:
            return False
        if not glob(self.vhost)(vhost) or not glob(self.name)(question.name):
            return False
        return question.kind is not Kind.TOPIC or glob(self.routing_key)(question.routing_key)


@dataclass(frozen=True, slots=True)
class Scopes:
    """The scopes of one token."""

    scopes: tuple[Scope, ...] = ()
    tags: frozenset[str] = frozenset()

    def allows(self, vhost: str, question: Question) -> bool:
        """Whether one of them allows what is asked."""
        return any(each.allows(vhost, question) for each in self.scopes)

    def reaches(self, vhost: str) -> bool:
        """Whether one of them matches the vhost."""
        return any(glob(each.vhost)(vhost) for each in self.scopes)


def parse_scopes(texts: Iterable[str], server: str) -> Scopes:
    """Parse those of ``texts`` that are for this resource server."""
    scopes: list[Scope] = []
    tags: set[str] = set()
    for text in texts:
        prefix, dot, rest = text.partition(f"{server}.")
        what, colon, pattern = rest.partition(":")
        if prefix or not dot or not colon:
            continue
        if what == "tag":
            tags.add(pattern)
            continue
        parts = pattern.split("/")
        if what not in _RIGHTS or len(parts) not in (2, 3) or len(scopes) >= SCOPES_MAX:
            continue
        if max(map(len, parts)) > PATTERN_CHARACTERS_MAX:
            continue
        vhost, name, *key = parts
        scopes.append(Scope(_RIGHTS[what], vhost, name, key[0] if key else ANYTHING))
    return Scopes(tuple(scopes), frozenset(tags))


@lru_cache(4096)
def glob(pattern: str) -> Search:
    """Return a function that tells whether a scope's pattern matches a whole text."""
    quoted = (re.escape(unquote(part)) for part in pattern.split(ANYTHING))
    return compiled(f"(?s)^{'.*'.join(quoted)}\\z" if pattern != ANYTHING else ".*")


_RIGHTS: Final = {right.value: right for right in Right}
