"""The options of one read, checked once.

The rule: every wrong option is refused here, by name, before anything is read; the rest of the
package sees only the frozen :class:`ReadOptions`. The names that Kafka's source and pulsar-spark
use are accepted beside our own, so that existing jobs run unchanged.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import Enum
from typing import Final

from arneb_core.access.namespaces import DEFAULT_VHOST
from arneb_core.api.entries.position import Position
from pyspark_arneb.errors import DataLossError
from pyspark_arneb.log.block_source import Location
from pyspark_arneb.log.directory import Directory
from pyspark_arneb.log.remote import Remote
from pyspark_arneb.log.topics import TopicSelection, full_name
from pyspark_arneb.offsets import EARLIEST, LATEST, NO_TIMES, Offsets, Times, offsets, times
from pyspark_arneb.option_table import GivenOptions, Option, OptionError, aliases_of
from pyspark_arneb.option_values import (
    boolean,
    certificates,
    choice,
    count,
    directory,
    is_naive,
    names,
    niceness,
    sealed_tier,
    time_ms,
    time_zone,
)
from pyspark_arneb.service.connection import Address
from pyspark_arneb.target import Target
from pyspark_arneb.values.forms import ValueForm

log = logging.getLogger(__name__)


class ColumnStyle(Enum):
    """Whose column names the table has."""

    ARNEB = "arneb"
    KAFKA = "kafka"
    PULSAR = "pulsar"


class SnapshotTime(Enum):
    """When the end of the log is fixed."""

    QUERY = "query"
    """When Spark plans: at a DataFrame's first query; with ``pushdown`` at every query."""
    LOAD = "load"
    """By ``load()`` itself."""


class ValueAs(Enum):
    """What the column ``value`` holds."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    """A struct of the fields in the option ``valueSchema``, parsed from JSON."""
    SCHEMA = "schema"
    """The type that the topic's own schema defines."""


class OnCorrupt(Enum):
    """What happens to stored entries that can no longer be read."""

    FAIL = "fail"
    SKIP = "skip"
    RAW = "raw"
    """One row for each damaged block, with the stored bytes as its value."""


FROM_EARLIEST: Final = Offsets(EARLIEST)
TO_LATEST: Final = Offsets(LATEST)

UTC_ZONE: Final[tzinfo] = UTC

NICE: Final = 10
"""Niceness that leaves a reader a tenth of a contended processor, enough that no read takes long.
At 19 a saturated broker keeps 84 % of its rate instead of 67, see docs/internals/spark.md."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options of one read, see :data:`READ_OPTIONS`."""

    location: Location
    topics: TopicSelection
    start: Offsets = FROM_EARLIEST
    end: Offsets = TO_LATEST
    starting_times: Times = NO_TIMES
    ending_times: Times = NO_TIMES
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
    """The sealed tier, which has the entries that retention removes from the log."""
    value_as: ValueAs = ValueAs.BINARY
    value_schema: str = ""
    """The fields of JSON documents, as Spark writes them."""
    value_form: ValueForm | None = None
    """How values are converted; with ``valueAs=schema`` looked up in the topics' schemas."""
    nice: int = NICE
    zone: str = "UTC"
    """The time zone of times that were given without one."""
    assumes_zone: bool = False
    """A time was given without a zone, and ``timeZone`` was not given either."""

    @property
    def has_time_bounds(self) -> bool:
        """Whether rows are chosen by their publish time too."""
        return self.starting_times != NO_TIMES or self.ending_times != NO_TIMES

    def lose(self, loss: object) -> None:
        """Raise :class:`.DataLossError`, or log the loss if losses are allowed."""
        if self.fail_on_data_loss:
            raise DataLossError(loss)
        log.warning("data loss, which is passed over: %s", loss)


READ_OPTIONS: Final = (
    Option("path", "this or `service.url`",
           "the data directory of the broker or of a follower, on this machine or a shared file "
           "system; `~` is the home directory. Also `load(path)`"),
    Option("service.url", "this or `path`",
           "the broker's HTTP port, `http://host:15672`: reads without its directory"),
    Option("service.user", "`guest`",
           "the user's name; `guest` is accepted from the broker's machine as long as no other "
           "user was created there"),
    Option("service.password", "`guest`", "the user's password"),
    Option("service.token", "none", "a token, instead of user and password"),
    Option("service.caFile", "the system's",
           "a PEM file of CA certificates, to verify a broker at `https://`. Only the driver reads "
           "it"),
    Option("topic", "one of these five",
           "one topic: `orders` (of `public/default`), `tenant/namespace/topic` or the full name; "
           "a partitioned topic's name selects all its partitions"),
    Option("topics", "one of these five", "several topics, separated by commas", ("subscribe",)),
    Option("topicsPattern", "one of these five",
           "a regular expression that must match the whole name, in any of the forms above",
           ("subscribePattern",)),
    Option("queue", "one of these five",
           "an AMQP queue, by its AMQP name, which may contain any character, such as `/` and `%`"),
    Option("assign", "one of these five",
           "single partitions by number, `{\"orders\": [0, 2]}`; a topic without partitions has "
           "partition 0"),
    Option("vhost", "`/`", "the virtual host of the queue"),
    Option("internalTopics", "`false`", "let a pattern also select the broker's own logs"),
    Option("startingOffsets", "`earliest`; for a stream `latest`",
           "first entry read: `earliest`, `latest` (streams only), or JSON: "
           "`{\"orders\": \"12:400\"}` (ledger:entry), for a partitioned topic "
           "`{\"pt\": {\"0\": \"12:400\"}}` or one place for all its partitions. "
           "`\"12:400@7\"` also gives the topic's id; -2 and -1 mean earliest and latest, as in "
           "Kafka. Topics that the JSON does not name start at the earliest entry"),
    Option("endingOffsets", "`latest`",
           "first entry not read: `latest`, or JSON as above; batch only"),
    Option("startingTime", "none",
           "earliest publish time read, by the broker's clock: ms since the epoch or ISO 8601; "
           "overrides offsets", ("startingTimestamp",)),
    Option("endingTime", "none", "publish time at which reading ends, exclusive; batch only",
           ("endingTimestamp",)),
    Option("startingOffsetsByTimestamp", "none",
           "such times for single topics or partitions, in ms: "
           "`{\"orders\": {\"0\": 1767225600000}}`; they override offsets, and "
           "`startingTime` overrides them"),
    Option("endingOffsetsByTimestamp", "none", "the same for the end of the read; batch only"),
    Option("timeZone", "`UTC`",
           "the time zone of times given without one, such as `Europe/Berlin`. Spark does not pass "
           "the session's time zone to a Python source"),
    Option("minPartitions", "cores", "hint: minimum number of Spark partitions"),
    Option("maxRecordsPerPartition", "none",
           "hint: maximum number of messages in a Spark partition"),
    Option("failOnDataLoss", "`true`",
           "fail the read if entries are no longer in the log; `false`: skip and log them"),
    Option("onCorrupt", "`fail`",
           "what to do with damaged entries: `fail` the read; `skip` and log them; or `raw`: "
           "return each damaged block as a row with its stored bytes as the value"),
    Option("includeProperties", "`false`; with `columnStyle` `pulsar` `true`",
           "add the column `properties` (for `kafka`: `headers`), the slowest to decode",
           ("includeHeaders",)),
    Option("columns", "all but those on request",
           "read only these columns: names separated by commas, in any case; `*` stands for the "
           "default columns. `.schema(\"topic string, value binary\")` does the same"),
    Option("valueAs", "`binary`",
           "type of `value`: `binary`; `string`; `json`, a struct of the fields in `valueSchema`; "
           "or `schema`, the type in the topic's own schema (JSON, Avro or a primitive type). "
           "Values that do not fit are null"),
    Option("valueSchema", "none",
           "the fields of the JSON documents, such as `amount double, tags array<string>`"),
    Option("columnStyle", "`arneb`", "which column names to use: `arneb`, `kafka` or `pulsar`"),
    Option("pushdown", "`false`",
           "let Spark push filters down; needs `spark.sql.python.filterPushdown.enabled`; batch "
           "only. Call `load()` for every query, because Spark 4.3 keeps a table's filters for "
           "later queries. Spark refuses times after the year 9999 then"),
    Option("snapshot", "`query`",
           "when the end of the log is fixed: `query`, when Spark plans the DataFrame's "
           "first query; or `load`, at once; batch only"),
    Option("sealed", "none",
           "the sealed tier, which supplies entries that the offsets ask for and retention has "
           "removed; needs "
           "`columnStyle` `arneb` or `pulsar`, and `valueAs` `binary`"),
    Option("nice", "`10`",
           "niceness, 1 to 19, of the Python workers that read a `path` and of their JVM; while "
           "others work there, readers also leave them up to half of the processors; `0`: neither"),
)  # fmt: skip
"""Every option of a read."""

PARTITIONS_MAX: Final = 10**9
"""Partition numbers are smaller: a log's name has at most nine digits for them."""

ALIASES: Final = aliases_of(READ_OPTIONS)

SERVICE_ONLY: Final = ("service.user", "service.password", "service.token", "service.caFile")
"""Options that mean nothing without a broker's address."""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the options of a batch read.

    Raises :class:`OptionError`, which names the option, what it accepts and what it got.
    """
    return read_options_of(GivenOptions(given, ALIASES), EARLIEST)


def read_options_of(options: "GivenOptions", start: Position) -> ReadOptions:
    """Return the options that say what to read and how its rows look; ``start`` is where the read
    begins by default."""
    style = options.parse("columnStyle", choice(ColumnStyle), ColumnStyle.ARNEB)
    # pulsar-spark's tables always have the properties; the other styles have them on request.
    properties_by_default = style is ColumnStyle.PULSAR
    zone = options.parse("timeZone", time_zone, UTC_ZONE)
    return ReadOptions(
        location=location_of(options),
        topics=_topics(options),
        start=options.parse("startingOffsets", offsets(EARLIEST), Offsets(start)),
        end=_ending(options),
        starting_times=_times(options, "startingTime", "startingOffsetsByTimestamp", zone),
        ending_times=_times(options, "endingTime", "endingOffsetsByTimestamp", zone),
        partitions_min=options.parse("minPartitions", count, None),
        records_per_partition_max=options.parse("maxRecordsPerPartition", count, None),
        fail_on_data_loss=options.parse("failOnDataLoss", boolean, True),
        on_corrupt=options.parse("onCorrupt", choice(OnCorrupt), OnCorrupt.FAIL),
        include_properties=options.parse("includeProperties", boolean, properties_by_default),
        columns=options.parse("columns", names, None),
        style=style,
        pushdown=options.parse("pushdown", boolean, False),
        snapshot=options.parse("snapshot", choice(SnapshotTime), SnapshotTime.QUERY),
        sealed=_sealed(options, style),
        value_as=_value_as(options),
        value_schema=options.parse("valueSchema", str, ""),
        nice=options.parse("nice", niceness, NICE),
        zone=str(zone),
        assumes_zone="timeZone" not in options and _has_naive_times(options),
    )


def _sealed(options: GivenOptions, style: ColumnStyle) -> Target | None:
    found = options.parse("sealed", sealed_tier, None)
    if found is not None and style is ColumnStyle.KAFKA:
        raise OptionError("columnStyle", "the sealed tier has no columns of Kafka's")
    if found is not None and _value_as(options) is not ValueAs.BINARY:
        raise OptionError("valueAs", "the sealed tier has bytes: cast or parse the column value")
    return found


def _value_as(options: GivenOptions) -> ValueAs:
    found = options.parse("valueAs", choice(ValueAs), ValueAs.BINARY)
    if found is ValueAs.JSON and "valueSchema" not in options:
        raise OptionError("valueSchema", 'is required with valueAs "json"')
    if found is not ValueAs.JSON:
        options.refuse(["valueSchema"], 'is for valueAs "json"')
    return found


def location_of(options: GivenOptions) -> Location:
    """Return where the log is: in a directory, or at a broker. Raises :class:`OptionError`."""
    if "service.url" not in options:
        options.refuse(SERVICE_ONLY, 'is for "service.url"')
        if "path" not in options:
            raise OptionError("path", 'give "path" or "service.url"')
        return Directory(options.required("path", directory))
    options.refuse(["path"], 'give "path" or "service.url", not both')
    try:
        address = Address(
            options.required("service.url", str),
            options.parse("service.user", str, ""),
            options.parse("service.password", str, ""),
            options.parse("service.token", str, ""),
            options.parse("service.caFile", certificates, ""),
        )
    except ValueError as problem:
        if isinstance(problem, OptionError):
            raise
        raise OptionError("service.url", str(problem)) from None
    return Remote(address)


TOPIC_WAYS: Final = ("topic", "topics", "topicsPattern", "queue", "assign")


def _topics(options: GivenOptions) -> TopicSelection:
    ways = [name for name in TOPIC_WAYS if name in options]
    if len(ways) != 1:
        got = " and ".join(ways) or "none of them"
        raise OptionError("topic", f"give exactly one of {', '.join(TOPIC_WAYS)}; got {got}")
    (way,) = ways
    if way != "queue":
        options.refuse(("vhost",), "is for the option queue; a topic's name has its namespace")
    internal = options.parse("internalTopics", boolean, False)
    parsers: Mapping[str, Callable[[str], TopicSelection]] = {
        "topic": _one_topic,
        "topics": _topic_list,
        "topicsPattern": _topic_pattern(internal),
        "queue": _queue(options.parse("vhost", str, DEFAULT_VHOST, strip=False)),
        "assign": _assigned,
    }
    return options.parse(way, parsers[way], TopicSelection(), strip=way != "queue")


def _ending(options: GivenOptions) -> Offsets:
    end = options.parse("endingOffsets", offsets(LATEST), Offsets(LATEST))
    if EARLIEST in end.bounds():
        raise OptionError("endingOffsets", "earliest would read nothing; expected latest or JSON")
    return end


def _times(options: GivenOptions, one: str, by_topic: str, zone: tzinfo) -> Times:
    """A time for all topics overrides those of single topics, as in Kafka's source."""
    by_name = options.parse(by_topic, times, NO_TIMES)
    time = options.parse(one, time_ms(zone), None)
    return by_name if time is None else Times(time)


def _one_topic(text: str) -> TopicSelection:
    return TopicSelection(names=(full_name(text),))


def _topic_list(text: str) -> TopicSelection:
    return TopicSelection(names=tuple(dict.fromkeys(map(full_name, names(text)))))


def _assigned(text: str) -> TopicSelection:
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not (given and isinstance(given, dict) and all(map(_are_numbers, given.values()))):
        raise ValueError(f'expected {{"topic": [0, 1]}}, the numbers of partitions, got {text!r}')
    wanted = [(full_name(name), number) for name, numbers in given.items() for number in numbers]
    return TopicSelection(partitions=tuple(dict.fromkeys(wanted)))


def _are_numbers(found: object) -> bool:
    return (
        isinstance(found, list)
        and bool(found)
        and all(type(each) is int and 0 <= each < PARTITIONS_MAX for each in found)
    )


def _queue(vhost: str) -> Callable[[str], TopicSelection]:
    def parse(text: str) -> TopicSelection:
        if not text:
            raise ValueError("expected the name of a queue, got an empty text")
        return TopicSelection(queue=(vhost, text))

    return parse


def _topic_pattern(internal: bool) -> Callable[[str], TopicSelection]:
    def parse(text: str) -> TopicSelection:
        if not text:
            raise ValueError("expected a regular expression, got an empty text")
        try:
            re.compile(text)
        except re.error as problem:
            raise ValueError(f"expected a regular expression, got {text!r}: {problem}") from None
        return TopicSelection(pattern=text, internal=internal)

    return parse


def _has_naive_times(options: GivenOptions) -> bool:
    return any(options.parse(name, is_naive, False) for name in ("startingTime", "endingTime"))
