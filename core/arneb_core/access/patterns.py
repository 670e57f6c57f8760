"""Patterns: the regular expressions of permissions and policies, searched in names.

The rule: whatever the pattern, and whatever name a client makes up for it, a search takes a bounded
time. RE2 does it in time linear in the name; what only backtracking can do (mostly
look-ahead) is searched with a deadline, after which the pattern does not match. An empty pattern
matches only the empty name, as in RabbitMQ.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from arneb_core.access.errors import InvalidAccess

logger = logging.getLogger(__name__)

CHARACTERS_MAX: Final = 4096
"""Characters of a pattern: nobody writes longer ones, and RE2 takes some bytes per character."""

COMPILED_BYTES_MAX: Final = 1024 * 1024
"""Memory that RE2 may take for one pattern."""

SEARCH_S_MAX: Final = 0.002
"""For one search by backtracking; sensible patterns take microseconds."""

ONE_OF_MANY_S_MAX: Final = 0.0005
"""For one of very many searches, between which no other task runs."""

COMPILED_MAX: Final = 2048
"""Compiled patterns that are cached: those of a thousand users in one vhost."""

Search = Callable[[str], bool]


def check_pattern(text: str) -> None:
    """Raise :class:`InvalidAccess` for an invalid regular expression."""
    compiled(text)


@lru_cache(COMPILED_MAX)
def compiled(text: str) -> Search:
    """Return a function that finds the pattern in a name. Raises :class:`InvalidAccess`."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidAccess(f"expected a pattern of at most {CHARACTERS_MAX} characters")
    if text == ".*":
        return _always
    return _by_re2(text or "^$") or _by_backtracking(text)


def compiled_for_many(text: str) -> Search:
    """Return a function for searching very many names while somebody waits: as :func:`compiled`,
    but a search that takes too long raises :class:`InvalidAccess`."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidAccess(f"expected a pattern of at most {CHARACTERS_MAX} characters")
    return _by_re2(text) or _by_backtracking(text, ONE_OF_MANY_S_MAX)


def _always(_: str) -> bool:
    return True


def _by_re2(text: str) -> Search | None:
    # Imported here and below only when needed: most brokers have one user, who may do anything.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = COMPILED_BYTES_MAX
    options.never_capture = True
    try:
        search = re2.compile(text, options).search
    except (re2.error, UnicodeEncodeError):
        return None

    def found(name: str) -> bool:
        try:
            return search(name) is not None
        except UnicodeEncodeError:  # octets that are no text: no pattern can match them
            return False

    return found


def _by_backtracking(text: str, one_of_many_s: float | None = None) -> Search:
    import regex

    try:
        search = regex.compile(text).search
    except (regex.error, ValueError, OverflowError, RecursionError) as error:
        raise InvalidAccess(f"invalid regular expression {text!r}: {error}") from None

    def found(name: str) -> bool:
        try:
            return search(name, timeout=one_of_many_s or SEARCH_S_MAX) is not None
        except TimeoutError:
            if one_of_many_s is not None:
                raise InvalidAccess(f"pattern {text!r} takes too long") from None
            logger.warning("pattern %r takes too long with %.80r, so it does not match", text, name)
            return False

    return found
