"""Patterns: which topics of a namespace match a regular expression.

The rule: RE2, as in Pulsar's brokers, so that no client's pattern can take exponential time. It is
matched against the whole name without its domain and without a partition's index.
"""

from collections.abc import Callable, Iterable
from typing import Final

from arneb_pulsar.names import PARTITION

PATTERN_CHARACTERS_MAX: Final = 1000
"""The most characters of a pattern. Pulsar's default is 50; with RE2, longer ones cost little."""


COMPILED_BYTES_MAX: Final = 256 * 1024
"""The most memory that RE2 may use for one pattern. Its default is 8 MiB, and a client may have
many patterns."""


INSTRUCTIONS_AT_ONCE: Final = 300
"""The most instructions of compiled patterns, times names, that are matched without a pause: 2 ms
for the worst names."""


class InvalidPattern(ValueError):
    """Not a regular expression; the text says why."""


class TopicPattern:
    """One regular expression. Raises :class:`InvalidPattern`."""

    def __init__(self, text: str) -> None:
        # Imported only here: few clients use patterns.
        import re2

        text = _without_domain(text)
        if len(text) > PATTERN_CHARACTERS_MAX:
            raise InvalidPattern(f"Pattern longer than maximum: {PATTERN_CHARACTERS_MAX}")
        self._text = text
        options = re2.Options()
        options.log_errors = False
        options.max_mem = COMPILED_BYTES_MAX
        # The groups' matches are not needed, and finding them may take a thousand times as long.
        options.never_capture = True
        try:
            compiled = re2.compile(text, options)
        except re2.error as error:
            raise InvalidPattern(str(error)) from error
        self._matches: Callable[[str], object] = compiled.fullmatch
        self.matched_at_once = max(1, INSTRUCTIONS_AT_ONCE // compiled.programsize)
        """How many names to match before other tasks should run."""

    def __repr__(self) -> str:
        return f"<TopicPattern {self._text!r}>"

    def matches(self, topic: str) -> bool:
        """Whether it matches a topic's complete name."""
        name = _without_domain(topic)
        if partition := PARTITION.fullmatch(name):
            name = name[: -len(f"-partition-{partition[1]}")]
        return self._matches(name) is not None

    def choose(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that it matches."""
        return [topic for topic in topics if self.matches(topic)]


def _without_domain(name: str) -> str:
    _, separator, rest = name.partition("://")
    return rest if separator else name
