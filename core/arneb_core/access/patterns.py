"""Patterns: the regular expressions of permissions and policies, searched in names.

The rule: whatever somebody wrote as a pattern, and whatever name a client makes up for it, a search
is over in a moment. So RE2 does it, in time with the length of the name; what only backtracking can
do (looking ahead, mostly) is searched with a deadline, after which the pattern does not match.
An empty pattern matches the empty name and no other, as in RabbitMQ.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from arneb_core.access.errors import InvalidAccess

LOGGER: Final = logging.getLogger(__name__)

CHARACTERS_MAX: Final = 4096
"""Of a pattern: nobody writes longer ones, and RE2's take some bytes a character."""

COMPILED_BYTES_MAX: Final = 1024 * 1024
"""What RE2 may take for one pattern."""

SEARCH_S_MAX: Final = 0.002
"""For one search by backtracking; those of sensible patterns take microseconds."""

ONE_OF_MANY_S_MAX: Final = 0.0005
"""The same for one search of very many, between which nobody else has a turn."""

COMPILED_MAX: Final = 2048
"""Patterns kept compiled: a thousand users' in one vhost."""

Search = Callable[[str], bool]


def check_pattern(text: str) -> None:
    """Raises :class:`InvalidAccess` for what is no regular expression."""
    compiled(text)


@lru_cache(COMPILED_MAX)
def compiled(text: str) -> Search:
    """Says whether the pattern is found in a name. Raises :class:`InvalidAccess`."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidAccess(f"expected a pattern of at most {CHARACTERS_MAX} characters")
    if text == ".*":
        return _always
    return _by_re2(text or "^$") or _by_backtracking(text)


def compiled_for_many(text: str) -> Search:
    """For a search in very many names that somebody waits for: as :func:`compiled`, but what takes
    too long raises :class:`InvalidAccess` too, when it is searched."""
    if len(text) > CHARACTERS_MAX:
        raise InvalidAccess(f"expected a pattern of at most {CHARACTERS_MAX} characters")
    return _by_re2(text) or _by_backtracking(text, ONE_OF_MANY_S_MAX)


def _always(_: str) -> bool:
    return True


def _by_re2(text: str) -> Search | None:
    # Imported where it is needed, as below: most brokers have one user, who may do everything.
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
        except UnicodeEncodeError:  # octets that are no text: no pattern can mean them
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
            LOGGER.warning("pattern %r takes too long with %.80r, so it does not match", text, name)
            return False

    return found
