"""Patterns: which topics of a namespace a regular expression means.

The rule: RE2, as in Pulsar's brokers, so that no client's pattern can keep us busy. It is
matched against the whole name without its domain, and without the index of a partition.
"""

from collections.abc import Callable, Iterable
from typing import Final

from arneb_pulsar.names import PARTITION

PATTERN_CHARACTERS_MAX: Final = 1000
"""Pulsar's bound is 50 by default; with RE2 a longer one costs little."""


COMPILED_BYTES_MAX: Final = 256 * 1024
"""What RE2 may take for one pattern; by default 8 MiB, of which a client may have many."""


INSTRUCTIONS_AT_ONCE: Final = 300
"""Of compiled patterns, with one name each: at the worst, with names made for it, 2 ms."""


class InvalidPattern(ValueError):
    """No regular expression; the text says why."""


class TopicPattern:
    """One regular expression. Raises :class:`InvalidPattern`."""

    def __init__(self, text: str) -> None:
        # Imported where it is needed: few clients ask for it.
        import re2

        text = _without_domain(text)
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise InvalidPattern(f"Pattern longer than maximum: {PATTERN_CHARACTERS_MAX}")
        self._text = text
        options = re2.Options()
        options.log_errors = False
        options.max_mem = COMPILED_BYTES_MAX
        # Nobody asks what the groups match, and to find that out may take a thousand times as long.
        options.never_capture = True
        try:
            compiled = re2.compile(text, options)
        except re2.error as error:
            raise InvalidPattern(str(error)) from error
        self._matches: Callable[[str], object] = compiled.fullmatch
        self.matched_at_once = max(1, INSTRUCTIONS_AT_ONCE // compiled.programsize)
        """Names after which others should have their turn."""

    def __repr__(self) -> str:
        return f"<TopicPattern {self._text!r}>"

    def matches(self, topic: str) -> bool:
        """Does it mean that topic, a complete name?"""
        name = _without_domain(topic)
        if partition := PARTITION.fullmatch(name):
            name = name[: -len(f"-partition-{partition[1]}")]
        return self._matches(name) is not None

    def choose(self, topics: Iterable[str]) -> list[str]:
        """Those that it means."""
        return [topic for topic in topics if self.matches(topic)]


def _without_domain(name: str) -> str:
    _, separator, rest = name.partition("://")
    return rest if separator else name
