"""The options of a streaming read, checked once.

The rule: they are the options of a batch read without those for its end, and options for the
query's progress: the size of a micro-batch, and the cursor that keeps what is not read yet.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark_arneb.log.directory import Directory
from pyspark_arneb.offsets import EARLIEST, LATEST, NO_TIMES
from pyspark_arneb.option_table import GivenOptions, Option, OptionError, aliases_of
from pyspark_arneb.option_values import count
from pyspark_arneb.options import ALIASES, ReadOptions, read_options_of
from pyspark_arneb.stream.admission import NO_LIMITS, Limits

LEASE_S: Final = 7 * 24 * 3600
LEASE_S_MIN: Final = 10
LEASE_S_MAX: Final = 10 * 365 * 24 * 3600
"""The longest and, above, the shortest lease that the broker accepts."""

TRIGGER_DELAY_S: Final = 15 * 60
"""Kafka's default."""

STREAM_OPTIONS: Final = (
    Option("maxOffsetsPerTrigger", "no limit",
           "maximum number of messages in a micro-batch, shared among the topics in proportion to "
           "their backlogs; a topic with a backlog gets at least one entry"),
    Option("maxBytesPerTrigger", "no limit",
           "maximum size of a micro-batch in bytes, such as 1048576, `64m` or `1g`; both limits "
           "may be given"),
    Option("minOffsetsPerTrigger", "none",
           "minimum number of messages for which a micro-batch waits"),
    Option("maxTriggerDelay", "`15m`", "maximum time for which it waits for them"),
    Option("subscription", "a new one",
           "the cursor, which keeps the entries that the query has not read yet; a new query "
           "continues at an existing cursor unless a start is given", ("predefinedSubscription",)),
    Option("subscriptionPrefix", "`spark`", "prefix of the names of new cursors"),
    Option("cursorLease", "`7 days`",
           "how long the cursor is kept while the query is not running: 10 seconds to 10 years"),
)  # fmt: skip
"""The options that only a streaming read accepts."""

STREAM_ALIASES: Final = aliases_of(STREAM_OPTIONS)

STARTS: Final = ("startingOffsets", "startingTime", "startingOffsetsByTimestamp")

CURSOR_ONLY: Final = ("subscription", "subscriptionPrefix", "cursorLease")
"""The options of the cursor, which needs a broker."""

BATCH_ONLY: Final = (
    "endingOffsets", "endingTime", "endingOffsetsByTimestamp", "pushdown", "snapshot"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The parsed options of a streaming read, see :data:`STREAM_OPTIONS`."""

    read: ReadOptions
    limits: Limits = NO_LIMITS
    messages_min: int | None = None
    """A micro-batch waits until there are this many messages,"""
    trigger_delay_s: int = TRIGGER_DELAY_S
    """but no longer than this."""
    subscription: str | None = None
    subscription_prefix: str = "spark"
    lease_s: int = LEASE_S
    start_is_given: bool = False
    """An option says where the read begins."""


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Return the options of a streaming read. Raises :class:`.OptionError`."""
    options = GivenOptions(given, {**ALIASES, **STREAM_ALIASES})
    options.refuse(BATCH_ONLY, "is for batch reads: a stream has no end")
    read = read_options_of(options, LATEST)
    if isinstance(read.location, Directory):
        options.refuse(CURSOR_ONLY, 'a cursor needs "service.url"; "path" reads without a broker')
    messages_max = options.parse("maxOffsetsPerTrigger", count, None)
    messages_min = options.parse("minOffsetsPerTrigger", count, None)
    if messages_max is not None and messages_min is not None and messages_min > messages_max:
        raise OptionError(
            "minOffsetsPerTrigger",
            f"expected no more than maxOffsetsPerTrigger, {messages_max}, got {messages_min}",
        )
    return StreamOptions(
        read,
        Limits(messages_max, options.parse("maxBytesPerTrigger", _bytes, None)),
        messages_min,
        options.parse("maxTriggerDelay", seconds, TRIGGER_DELAY_S),
        options.parse("subscription", _name, None),
        options.parse("subscriptionPrefix", _name, "spark"),
        options.parse("cursorLease", _lease_s, LEASE_S),
        any(name in options for name in STARTS),
    )


def any_read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options of a read that may be a batch or a stream. Raises :class:`.OptionError`,
    for a stream's options too: Spark would bury an error of the stream's reader under its own."""
    options = GivenOptions(given, {**ALIASES, **STREAM_ALIASES})
    is_stream = any(name in options for name in STREAM_ALIASES)
    if is_stream and not any(name in options for name in BATCH_ONLY):
        stream_options(given)
    return read_options_of(options, EARLIEST)


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options of a batch read. Raises :class:`.OptionError`, also on an option that only
    streaming reads accept."""
    options = GivenOptions(given, {**ALIASES, **STREAM_ALIASES})
    options.refuse(STREAM_ALIASES, "is for streaming reads (readStream)")
    read = read_options_of(options, EARLIEST)
    if LATEST in read.start.bounds() and read.starting_times == NO_TIMES:
        raise OptionError(
            "startingOffsets", "latest would read nothing; expected earliest or JSON, or readStream"
        )
    for crossed in read.start.crossed(read.end):
        raise OptionError("endingOffsets", f"expected no end before its start, got {crossed}")
    return read


_BYTES: Final = re.compile(r"(\d{1,15})\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_UNIT_BYTES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _bytes(text: str) -> int:
    found = _BYTES.fullmatch(text)
    if not found or not int(found[1]):
        raise ValueError(f"expected bytes such as 1048576, 64m or 1g, got {text!r}")
    return int(found[1]) * (_UNIT_BYTES[found[2].lower()] if found[2] else 1)


_SECONDS: Final = re.compile(
    r"(\d{1,9})\s*(s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?|w|weeks?)", re.IGNORECASE
)
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def seconds(text: str) -> int:
    """Parse a duration: a number with a unit."""
    found = _SECONDS.fullmatch(text)
    if not found:
        raise ValueError(
            f"expected a time with its unit, such as 90s, 15m, 12h or 7 days, got {text!r}"
        )
    return int(found[1]) * _UNIT_S[found[2][0].lower()]


def _lease_s(text: str) -> int:
    lease_s = seconds(text)
    if not LEASE_S_MIN <= lease_s <= LEASE_S_MAX:
        raise ValueError(f"expected a time of 10 seconds to 10 years, got {text!r}")
    return lease_s


_NAME: Final = re.compile(r"[^/\s\x00-\x1f]{1,200}")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            "expected a subscription's name, without spaces and slashes and of at most 200 "
            f"characters, got {text!r}"
        )
    return text
