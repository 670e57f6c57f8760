"""Offsets: where in each topic a read begins or ends, as its user wrote it.

The rule: a start is the first entry read, an end the first entry not read (Kafka's convention), so
that the end of one read is the start of the next. An offset may include the topic's id, because the
positions of a recreated topic start over: ``"12:400@7"`` is ledger 12, entry 400 of the topic whose
id is 7.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from arneb_core.api.entries.position import AFTER_ALL, Position, position_at, render
from pyspark_arneb.log.topics import full_name, partition_index, short_name, without_partition
from pyspark_arneb.option_values import TIME_MS_MAX

EARLIEST: Final = Position(0)
"""Before every log; distinct from ``1:0``, which a user asked for and which may be lost."""
LATEST: Final = AFTER_ALL

ENTRY_MAX: Final = (1 << 32) - 2
LEDGER_MAX: Final = (1 << 31) - 1

_EDGES: Final = {"earliest": EARLIEST, "latest": LATEST}
_PLACE: Final = re.compile(r"(\d{1,10}):(-1|\d{1,10})(?:@(\d{1,10}))?")
_KAFKAS: Final = {-2: EARLIEST, -1: LATEST}
"""Earliest and latest as Kafka's source writes them inside JSON."""
_FORMS: Final = '"ledger:entry", "ledger:entry@topic id", earliest or latest'

Bound = TypeVar("Bound")


@dataclass(frozen=True, slots=True)
class ByTopic(Generic[Bound]):
    """A bound in every topic: ``topics`` by the given name, ``default`` for all others.

    The name of a partitioned topic stands for all its partitions; ``partitions`` has the bounds of
    single ones, by that name and their number.
    """

    default: Bound
    topics: Mapping[str, Bound] = field(default_factory=dict)
    partitions: Mapping[tuple[str, int], Bound] = field(default_factory=dict)

    def of(self, topic: str) -> Bound:
        """Return the bound in the log ``topic``."""
        name, numbered = without_partition(topic), _numbered(topic)
        if topic in self.topics:
            return self.topics[topic]
        if numbered in self.partitions:
            return self.partitions[numbered]
        return self.topics.get(name, self.default)

    def bounds(self) -> Iterator[Bound]:
        """Yield all bounds, the default first."""
        yield self.default
        yield from self.topics.values()
        yield from self.partitions.values()

    def unread(self, topics: Collection[str]) -> Iterator[str]:
        """Yield the names that match none of ``topics``, in words for the user."""
        known = {*topics, *map(without_partition, topics)}
        numbered = set(map(_numbered, topics))
        yield from (f"topic {name}" for name in self.topics if name not in known)
        for name, number in self.partitions:
            if (name, number) not in numbered:
                yield f"partition {number} of topic {name}"


@dataclass(frozen=True, slots=True)
class Times(ByTopic[int | None]):
    """Bounds as times in ms since the epoch; None where there is no bound."""


NO_TIMES: Final = Times(None)


@dataclass(frozen=True, slots=True)
class Offsets(ByTopic[Position]):
    """Bounds as positions."""

    topic_ids: Mapping[str | tuple[str, int], int] = field(default_factory=dict)
    """The topic ids that were given with some of the bounds."""

    def topic_id_of(self, topic: str) -> int | None:
        """Return the id that the log ``topic`` must have for its bound to be valid."""
        for key in (topic, _numbered(topic), without_partition(topic)):
            if key in self.topic_ids:
                return self.topic_ids[key]
        return None

    def crossed(self, end: "Offsets") -> Iterator[str]:
        """Yield, in words, each name given here and in ``end`` that would end before it begins."""
        for name, begin in self.topics.items():
            if begin > end.topics.get(name, LATEST):
                places = f"{render(begin)} to {render(end.topics[name])}"
                yield f"topic {short_name(name)} from {places}"
        for (name, number), begin in self.partitions.items():
            if begin > end.partitions.get((name, number), LATEST):
                places = f"{render(begin)} to {render(end.partitions[name, number])}"
                yield f"partition {number} of topic {short_name(name)} from {places}"


def _numbered(topic: str) -> tuple[str, int]:
    """A log as Kafka names it: a topic without partitions is its own partition 0."""
    return without_partition(topic), max(0, partition_index(topic))


def offsets(default: Position) -> Callable[[str], Offsets]:
    """Return the parser of an option that says where to begin or end; ``default`` is for topics
    that it does not name. The parser raises :class:`ValueError`."""

    def parse(text: str) -> Offsets:
        if text.lower() in _EDGES:
            return Offsets(_EDGES[text.lower()])
        given = _object(text)
        if given is None:
            raise ValueError(
                f'expected earliest, latest or {{"topic": "ledger:entry"}}, got {text!r}'
            )
        topics, partitions = _by_topic(given, _place)
        ids: dict[str | tuple[str, int], int] = {}
        ids.update((key, found) for key, (_, found) in topics.items() if found is not None)
        ids.update((key, found) for key, (_, found) in partitions.items() if found is not None)
        return Offsets(
            default,
            {topic: place for topic, (place, _) in topics.items()},
            {key: place for key, (place, _) in partitions.items()},
            ids,
        )

    return parse


def times(text: str) -> Times:
    """Parse an option that has a time for each topic. Raises :class:`ValueError`."""
    given = _object(text)
    if given is None:
        raise ValueError(f'expected {{"topic": {{"0": 1767225600000}}}}, got {text!r}')
    return Times(None, *_by_topic(given, _time_ms))


def _object(text: str) -> Mapping[str, object] | None:
    try:
        given = json.loads(text)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None


def _by_topic(
    given: Mapping[str, object], parse: Callable[[object, str], Bound]
) -> tuple[dict[str, Bound], dict[tuple[str, int], Bound]]:
    """Return the bounds of topics and of partitions; ``parse`` is given the name of the bound that
    it parses."""
    topics: dict[str, Bound] = {}
    partitions: dict[tuple[str, int], Bound] = {}
    for topic, names in _spellings(given).items():
        if len(names) > 1:
            raise ValueError(f"expected each topic once, got {' and '.join(names)}")
        bound = given[names[0]]
        if not isinstance(bound, dict):
            topics[topic] = parse(bound, f"topic {short_name(topic)}")
            continue
        for number, each in bound.items():
            if not number.isdecimal() or len(number) > 9:
                raise ValueError(
                    f"expected the number of a partition of topic {short_name(topic)}, "
                    f"got {number!r}"
                )
            where = f"partition {number} of topic {short_name(topic)}"
            partitions[topic, int(number)] = parse(each, where)
    return topics, partitions


def _spellings(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the named topics by full name, each with the spellings used."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(full_name(name), []).append(name)
    return found


def _time_ms(given: object, where: str) -> int:
    if type(given) is not int or not 0 <= given <= TIME_MS_MAX:
        raise ValueError(f"expected ms since the epoch for {where}, got {given!r}")
    return given


def _place(given: object, where: str) -> tuple[Position, int | None]:
    """Return a bound, and the topic's id if it was given."""
    if type(given) is int and given in _KAFKAS:
        return _KAFKAS[given], None
    text = given.strip().lower() if isinstance(given, str) else ""
    if text in _EDGES:
        return _EDGES[text], None
    found = _PLACE.fullmatch(text)
    if not found or int(found[1]) > LEDGER_MAX or int(found[2]) > ENTRY_MAX:
        raise ValueError(f"expected {_FORMS} for {where}, got {given!r}")
    # The position before a ledger's first entry means that first entry.
    place = position_at(int(found[1]), max(int(found[2]), 0))
    return place, None if found[3] is None else int(found[3])
