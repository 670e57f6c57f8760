"""The options of one read, checked once.

The rule: every option that can be wrong is refused here, by name, before anything is
read; the rest of the package meets only the frozen :class:`ReadOptions`. Kafka's and
pulsar-spark's names are accepted beside our own, so that existing jobs run unchanged.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeVar
from urllib.parse import unquote, urlsplit

from arneb_core.api.position import AFTER_ALL, Position, position
from pyspark_arneb.log.block_source import Location
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.log.topics import TopicSelection, full_name
from pyspark_arneb.service.connection import Address
from pyspark_arneb.target import LakeError, Target

EARLIEST: Final = Position(0)
"""Before every log; apart from ``1:0``, which someone asked for and which may be lost."""
LATEST: Final = AFTER_ALL

ENTRY_MAX: Final = (1 << 32) - 2
LEDGER_MAX: Final = (1 << 31) - 1

Value = TypeVar("Value")


class OptionError(ValueError):
    """An option is missing, unknown or not of its form; the text names it."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f'option "{option}": {problem}')
        self.option = option
        self.problem = problem


class ColumnStyle(Enum):
    """Whose column names the table has."""

    ARNEB = "arneb"
    KAFKA = "kafka"
    PULSAR = "pulsar"


class SnapshotTime(Enum):
    """When the end of the log is fixed."""

    QUERY = "query"
    """When Spark plans: once a DataFrame, at its first query; with ``pushdown`` at every query."""
    LOAD = "load"
    """By ``load()`` itself."""


class OnCorrupt(Enum):
    """What becomes of entries that are stored and cannot be read any more."""

    FAIL = "fail"
    SKIP = "skip"
    RAW = "raw"
    """One row each, with what is stored as its value."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """A bound in every topic: ``positions`` by full topic name, ``default`` for the others.

    A start is the first entry read, an end the first entry not read (Kafka's convention),
    so that the end of one read is the start of the next.
    """

    default: Position
    positions: Mapping[str, Position] = field(default_factory=dict)

    def of(self, topic: str) -> Position:
        """The bound in the log ``topic``."""
        return self.positions.get(topic, self.default)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What one read was asked for; see the table in :class:`pyspark_arneb.DefaultSource`."""

    location: Location
    topics: TopicSelection
    start: Offsets = Offsets(EARLIEST)
    end: Offsets = Offsets(LATEST)
    starting_time_ms: int | None = None
    ending_time_ms: int | None = None
    partitions_min: int | None = None
    records_per_partition_max: int | None = None
    fail_on_data_loss: bool = True
    on_corrupt: OnCorrupt = OnCorrupt.FAIL
    include_properties: bool = False
    columns: tuple[str, ...] | None = None
    style: ColumnStyle = ColumnStyle.ARNEB
    pushdown: bool = False
    snapshot: SnapshotTime = SnapshotTime.QUERY
    sealed: Target | None = None
    """The sealed tier, which has what retention removes."""

    @property
    def has_time_bounds(self) -> bool:
        """Whether rows are chosen by their publish time too."""
        return self.starting_time_ms is not None or self.ending_time_ms is not None


ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "path": (),
    "service.url": (),
    "service.user": (),
    "service.password": (),
    "service.token": (),
    "service.caFile": (),
    "topic": (),
    "topics": ("subscribe",),
    "topicsPattern": ("subscribePattern",),
    "startingOffsets": (),
    "endingOffsets": (),
    "startingTime": ("startingTimestamp",),
    "endingTime": ("endingTimestamp",),
    "minPartitions": (),
    "maxRecordsPerPartition": (),
    "failOnDataLoss": (),
    "onCorrupt": (),
    "includeProperties": ("includeHeaders",),
    "columns": (),
    "columnStyle": (),
    "pushdown": (),
    "snapshot": (),
    "sealed": (),
}
"""Every option of a read, with the other names under which it is known."""

SERVICE_ONLY: Final = ("service.user", "service.password", "service.token", "service.caFile")
"""Mean nothing without a broker's address."""

FOREIGN_PREFIXES: Final = ("kafka.", "pulsar.")
"""Client settings of the Kafka and Pulsar sources: meaningless for a directory, so ignored."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a batch read.

    Raises :class:`OptionError`, which names the option, what it takes and what it got.
    """
    return read_options_of(GivenOptions(given, ALIASES), EARLIEST)


def read_options_of(options: "GivenOptions", start: Position) -> ReadOptions:
    """The options that say what to read, and how its rows look; ``start`` is where a read begins
    that does not say it."""
    style = options.parse("columnStyle", choice(ColumnStyle), ColumnStyle.ARNEB)
    # pulsar-spark's table always has the properties; the other styles have them on request.
    properties_by_default = style is ColumnStyle.PULSAR
    return ReadOptions(
        location=location_of(options),
        topics=_topics(options),
        start=options.parse("startingOffsets", _offsets(EARLIEST), Offsets(start)),
        end=_ending(options),
        starting_time_ms=options.parse("startingTime", _time_ms, None),
        ending_time_ms=options.parse("endingTime", _time_ms, None),
        partitions_min=options.parse("minPartitions", count, None),
        records_per_partition_max=options.parse("maxRecordsPerPartition", count, None),
        fail_on_data_loss=options.parse("failOnDataLoss", boolean, True),
        on_corrupt=options.parse("onCorrupt", choice(OnCorrupt), OnCorrupt.FAIL),
        include_properties=options.parse("includeProperties", boolean, properties_by_default),
        columns=options.parse("columns", _names, None),
        style=style,
        pushdown=options.parse("pushdown", boolean, False),
        snapshot=options.parse("snapshot", choice(SnapshotTime), SnapshotTime.QUERY),
        sealed=options.parse("sealed", _target, None),
    )


def location_of(options: "GivenOptions") -> Location:
    """Where the log is: in a directory, or behind a broker. Raises :class:`OptionError`."""
    if "service.url" not in options:
        options.refuse(SERVICE_ONLY, 'is for "service.url"')
        return Directory(options.required("path", _directory))
    options.refuse(["path"], 'give "path" or "service.url", not both')
    try:
        address = Address(
            options.required("service.url", str),
            options.parse("service.user", str, ""),
            options.parse("service.password", str, ""),
            options.parse("service.token", str, ""),
            options.parse("service.caFile", str, ""),
        )
    except ValueError as problem:
        if isinstance(problem, OptionError):
            raise
        raise OptionError("service.url", str(problem)) from None
    return Remote(address)


class GivenOptions:
    """The options as given: Spark hands them over without regard to case.

    ``aliases`` are all options that there are, each with its other names. Raises
    :class:`OptionError` on any other.
    """

    def __init__(self, given: Mapping[str, str], aliases: Mapping[str, tuple[str, ...]]) -> None:
        self._values: dict[str, tuple[str, str]] = {}
        canonical = {
            spelling.lower(): name
            for name, others in aliases.items()
            for spelling in (name, *others)
        }
        for spelling, value in given.items():
            if spelling.lower().startswith(FOREIGN_PREFIXES):
                continue
            name = canonical.get(spelling.lower())
            if name is None:
                raise OptionError(spelling, "no such option" + _suggestion(spelling, canonical))
            if name in self._values:
                other = self._values[name][0]
                raise OptionError(spelling, f'is another name of "{other}": give one of them')
            self._values[name] = (_spelling(spelling, (name, *aliases[name])), value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def refuse(self, names: Iterable[str], why: str) -> None:
        """None of these options may be given."""
        for name in names:
            if name in self._values:
                raise OptionError(self._values[name][0], why)

    def parse(self, name: str, parser: Callable[[str], Value], default: Value) -> Value:
        """The option's value, or ``default`` if it is not given."""
        if name not in self._values:
            return default
        spelling, text = self._values[name]
        try:
            return parser(text.strip())
        except ValueError as problem:
            raise OptionError(spelling, str(problem)) from None

    def required(self, name: str, parser: Callable[[str], str]) -> str:
        """The option's value; it must be given."""
        if name not in self._values:
            raise OptionError(name, "is required")
        return self.parse(name, parser, "")


def _spelling(given: str, known: Iterable[str]) -> str:
    """How to name the option to its user: Spark may have lowered the case of what they wrote."""
    return next(spelling for spelling in known if spelling.lower() == given.lower())


def _suggestion(spelling: str, canonical: Mapping[str, str]) -> str:
    close = get_close_matches(spelling.lower(), canonical, n=1)
    return f'; did you mean "{canonical[close[0]]}"?' if close else ""


def _topics(options: GivenOptions) -> TopicSelection:
    ways = [name for name in ("topic", "topics", "topicsPattern") if name in options]
    if len(ways) != 1:
        got = " and ".join(ways) or "none of them"
        raise OptionError("topic", f"give exactly one of topic, topics, topicsPattern; got {got}")
    return options.parse(ways[0], _SELECTIONS[ways[0]], TopicSelection())


def _ending(options: GivenOptions) -> Offsets:
    end = options.parse("endingOffsets", _offsets(LATEST), Offsets(LATEST))
    if end.default == EARLIEST:
        raise OptionError("endingOffsets", "earliest would read nothing; expected latest or JSON")
    return end


def _one_topic(text: str) -> TopicSelection:
    return TopicSelection(names=(full_name(text),))


def _topic_list(text: str) -> TopicSelection:
    return TopicSelection(names=tuple(dict.fromkeys(map(full_name, _names(text)))))


def _topic_pattern(text: str) -> TopicSelection:
    try:
        re.compile(text)
    except re.error as problem:
        raise ValueError(f"expected a regular expression, got {text!r}: {problem}") from None
    return TopicSelection(pattern=text)


_SELECTIONS: Final[Mapping[str, Callable[[str], TopicSelection]]] = {
    "topic": _one_topic,
    "topics": _topic_list,
    "topicsPattern": _topic_pattern,
}


def _directory(text: str) -> str:
    """An absolute path, because executors need not share the driver's working directory."""
    if text.startswith("file:"):
        text = unquote(urlsplit(text).path)
    if not text:
        raise ValueError("expected the broker's data directory, got an empty text")
    return os.path.abspath(text)


def _target(text: str) -> Target:
    try:
        return Target.of(text)
    except LakeError as problem:
        raise ValueError(str(problem)) from None


def _offsets(default: Position) -> Callable[[str], Offsets]:
    def parse(text: str) -> Offsets:
        if text.lower() in _EDGES:
            return Offsets(_EDGES[text.lower()])
        try:
            given = json.loads(text)
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise ValueError(
                f'expected earliest, latest or {{"topic": "ledger:entry"}}, got {text!r}'
            )
        return Offsets(default, {full_name(topic): _place(at) for topic, at in given.items()})

    return parse


_EDGES: Final = {"earliest": EARLIEST, "latest": LATEST}


def _place(given: object) -> Position:
    text = given.strip().lower() if isinstance(given, str) else ""
    if text in _EDGES:
        return _EDGES[text]
    found = re.fullmatch(r"(\d{1,10}):(-1|\d{1,10})", text)
    if not found or int(found[1]) > LEDGER_MAX or int(found[2]) > ENTRY_MAX:
        raise ValueError(f'expected "ledger:entry", earliest or latest, got {given!r}')
    # The bound before a ledger's first entry means that first entry.
    return position(int(found[1]), max(int(found[2]), 0))


def _time_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "expected ms since the epoch or an ISO 8601 time such as 2026-01-31T12:00:00Z, "
            f"got {text!r}"
        ) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or not int(text):
        raise ValueError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"expected true or false, got {text!r}")
    return text.lower() == "true"


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"expected names separated by commas, got {text!r}")
    return names


Choice = TypeVar("Choice", bound=Enum)


def choice(choices: type[Choice]) -> Callable[[str], Choice]:
    def parse(text: str) -> Choice:
        try:
            return choices(text.lower())
        except ValueError:
            expected = ", ".join(each.value for each in choices)
            raise ValueError(f"expected one of {expected}, got {text!r}") from None

    return parse
