"""The options of a streaming read, checked once.

The rule: they are the options of a batch read, but for where it ends, and those that say how a
query goes on: how much a micro-batch takes, and which cursor keeps what it has not read yet.
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
"""What the broker takes."""

TRIGGER_DELAY_S: Final = 15 * 60
"""Kafka's default."""

STREAM_OPTIONS: Final = (
    Option("maxOffsetsPerTrigger", "no limit",
           "messages of a micro-batch at most, shared out over the topics by what they have; a "
           "topic that has something gets one entry at least"),
    Option("maxBytesPerTrigger", "no limit",
           "bytes of a micro-batch at most, as 1048576, `64m` or `1g`; both limits may be given"),
    Option("minOffsetsPerTrigger", "none", "a micro-batch waits for so many messages,"),
    Option("maxTriggerDelay", "`15m`", "but no longer than this"),
    Option("subscription", "a new one",
           "the cursor that keeps what the query has not read yet; a new query goes on where it "
           "stands, unless it is said where to begin", ("predefinedSubscription",)),
    Option("subscriptionPrefix", "`spark`", "what the names of new cursors begin with"),
    Option("cursorLease", "`7 days`",
           "how long the cursor stays while nobody runs the query: 10 seconds to 10 years"),
)  # fmt: skip
"""What only a streaming read takes."""

STREAM_ALIASES: Final = aliases_of(STREAM_OPTIONS)

STARTS: Final = ("startingOffsets", "startingTime", "startingOffsetsByTimestamp")

CURSOR_ONLY: Final = ("subscription", "subscriptionPrefix", "cursorLease")
"""What is said of the cursor, which is the broker's."""

BATCH_ONLY: Final = (
    "endingOffsets", "endingTime", "endingOffsetsByTimestamp", "pushdown", "snapshot"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What a streaming read was asked for; see :class:`pyspark_arneb.DefaultSource`."""

    read: ReadOptions
    limits: Limits = NO_LIMITS
    messages_min: int | None = None
    """A micro-batch waits for so many messages,"""
    trigger_delay_s: int = TRIGGER_DELAY_S
    """but no longer than this."""
    subscription: str | None = None
    subscription_prefix: str = "spark"
    lease_s: int = LEASE_S
    start_is_given: bool = False
    """Where the read begins was said, and not left to the default."""


def stream_options(given: Mapping[str, str]) -> StreamOptions:
    """Raises :class:`.OptionError`."""
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
    """What a batch or a streaming read is about, before it is known which of them it is. Raises
    :class:`.OptionError`; of what a stream is told that already here, for Spark buries under an
    error of its own what is wrong with a stream's reader."""
    options = GivenOptions(given, {**ALIASES, **STREAM_ALIASES})
    is_stream = any(name in options for name in STREAM_ALIASES)
    if is_stream and not any(name in options for name in BATCH_ONLY):
        stream_options(given)
    return read_options_of(options, EARLIEST)


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises :class:`.OptionError`, and says so of an option that only streaming reads take."""
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
    """A span of time: a number with a unit."""
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
