"""Parsers for the values of options.

The rule: each function takes the given text and raises :class:`ValueError` with what it expected
and what it got; the caller adds the option's name.
"""

import os
import re
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from enum import Enum
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark_arneb.target import LakeError, Target

TIME_MS_MAX: Final = (1 << 63) - 1
"""The largest time that fits Spark's and Kafka's 64-bit integers."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def directory(text: str) -> str:
    """Return an absolute path, because executors need not share the driver's working directory."""
    found = _SCHEME.match(text)
    if found and found[1].lower() == "file":
        text = unquote(urlsplit(text).path)
    elif found and not os.path.exists(text):
        raise ValueError(
            f"expected the broker's data directory on this machine or a shared file system, got "
            f"{text!r}; to read from elsewhere give service.url instead"
        )
    if not text:
        raise ValueError("expected the broker's data directory, got an empty text")
    return os.path.abspath(_at_home(text))


def _at_home(text: str) -> str:
    """Expand a leading ``~`` as a shell does, also after the working directory, which SQL
    prepends."""
    home = os.path.join(os.getcwd(), "~")
    if text == home or text.startswith(home + os.sep):
        text = text[len(os.getcwd()) + 1 :]
    return os.path.expanduser(text)


def certificates(text: str) -> str:
    """Return the content of a PEM file of certificates."""
    try:
        with open(os.path.expanduser(text), encoding="ascii") as file:
            found = file.read()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it holds none"
        raise ValueError(f"expected a file of certificates in PEM, got {text!r}: {why}") from None
    return found


def time_zone(text: str) -> tzinfo:
    """Return a time zone by its IANA name."""
    try:
        return UTC if text.upper() in ("UTC", "Z") else ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as Europe/Berlin, got {text!r}") from None


def is_naive(text: str) -> bool:
    """Return whether the text is a time without a zone."""
    try:
        return datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        return False


def time_ms(zone: tzinfo) -> Callable[[str], int]:
    """Return a parser of times: ms since the epoch, or ISO 8601, in ``zone`` if the text has
    none."""

    def parse(text: str) -> int:
        if text.isdecimal() and int(text) <= TIME_MS_MAX:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(
                "expected ms since the epoch or an ISO 8601 time such as 2026-01-31T12:00:00Z, "
                f"got {text!r}"
            ) from None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return round(zoned.timestamp() * 1000)

    return parse


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise ValueError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def niceness(text: str) -> int:
    """Parse a number from 0 to 19."""
    if not text.isdecimal() or int(text) > 19:
        raise ValueError(f"expected a number of 0 to 19, got {text!r}")
    return int(text)


def boolean(text: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {text!r}")
    return text.lower() == "true"


def sealed_tier(text: str) -> Target:
    """Parse a directory or the URI of an object store."""
    try:
        return Target.of(text)
    except LakeError as problem:
        raise ValueError(str(problem)) from None


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas."""
    found = tuple(name.strip() for name in text.split(","))
    if not all(found):
        raise ValueError(f"expected names separated by commas, got {text!r}")
    return found


Choice = TypeVar("Choice", bound=Enum)


def choice(choices: type[Choice]) -> Callable[[str], Choice]:
    """Return a parser of an enumeration's values, in any case."""

    def parse(text: str) -> Choice:
        try:
            return choices(text.lower())
        except ValueError:
            expected = ", ".join(each.value for each in choices)
            raise ValueError(f"expected one of {expected}, got {text!r}") from None

    return parse
