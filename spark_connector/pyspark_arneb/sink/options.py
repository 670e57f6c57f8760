"""The options of a write, checked once.

The rule: what can be wrong is refused here by name, before a row is sent; what only the broker can
know (whether a queue is there, who may publish) comes back from it and is given its name too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pyspark_arneb.log.remote import Remote
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.option_table import GivenOptions, Option, OptionError, aliases_of
from pyspark_arneb.option_values import boolean, choice
from pyspark_arneb.options import ALIASES, READ_OPTIONS, location_of
from pyspark_arneb.service.connection import Address
from pyspark_arneb.service.errors import ServiceError
from pyspark_arneb.sink.rows import Target
from pyspark_arneb.stream.options import STREAM_ALIASES


class Delivery(Enum):
    """What becomes of rows when a task is run again."""

    EXACTLY_ONCE = "exactly-once"
    """Tasks stage their rows, and one commit of the broker publishes all of them, once."""
    AT_LEAST_ONCE = "at-least-once"
    """Tasks publish as they go: nothing is kept twice on the way, and a task that is run again
    publishes again."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a write was asked for; see :class:`pyspark_arneb.DefaultSource`."""

    address: Address
    target: Target | None = None
    """None: the column ``topic`` says it."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    idempotence_id: str | None = None
    idempotence_version: int | None = None
    """Of a batch write: which of those under its name it is."""
    mandatory: bool = True


SINK_OPTIONS: Final = (
    *(each for each in READ_OPTIONS if each.name.startswith("service.")),
    Option("topic", "the column `topic`", "a topic that all rows go to"),
    Option("queue", "the column `topic`", "an AMQP queue that all rows go to"),
    Option("exchange", "the column `topic`",
           "an AMQP exchange that all rows go to; the column `key` is the routing key"),
    Option("vhost", "`/`", "the queue's or the exchange's"),
    Option("routingKey", "empty", "of rows without a key, to an exchange"),
    Option("mandatory", "`true`",
           "a row that no queue takes fails the write; `false`: it is dropped, and counted in the "
           "log"),
    Option("delivery", "`exactly-once`",
           "or `at-least-once`: rows are published as the tasks go, and what a task that is run "
           "again has written is there twice"),
    Option("idempotenceId", "the query's id",
           "under which name the broker remembers which batches it has: another one whenever the "
           "checkpoint is a new one. A batch write has it with `idempotenceVersion`"),
    Option("idempotenceVersion", "none",
           "of a batch write with an `idempotenceId`: a number that is higher with each write of "
           "that name. The write is one commit, and one that the broker has already, or a later "
           "one of, changes nothing (Delta's `txnVersion`)"),
)  # fmt: skip
"""Every option of a write."""

SPARK_S_OWN: Final = ("checkpointLocation", "queryName", "path")
"""What Spark gives a sink beside them; a path is refused by name."""

SINK_ALIASES: Final = aliases_of(SINK_OPTIONS) | dict.fromkeys(SPARK_S_OWN, ())

TARGETS: Final = ("topic", "queue", "exchange")

IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
"""What the broker takes as the name of a query."""

VERSION_MAX: Final = (1 << 63) - 1

_OPTION_OF: Final[Mapping[str, str]] = {
    "topic_not_found": "topic",
    "queue_not_found": "queue",
    "exchange_not_found": "exchange",
    "unroutable": "mandatory",
    "unauthorized": "service.user",
    "unreachable": "service.url",
    "no_data_api": "service.url",
}
"""Which option is to blame for an answer of the broker."""


def for_writing(table: Mapping[str, str]) -> dict[str, str]:
    """Of the options of a table in the catalogue those that say where its rows go."""
    known = {each.lower() for name, more in SINK_ALIASES.items() for each in (name, *more)}
    return {name: value for name, value in table.items() if name.lower() in known}


def sink_options(
    given: Mapping[str, str], *, overwrite: bool, is_stream: bool = False
) -> SinkOptions:
    """Raises :class:`.OptionError`, and :class:`ValueError` when what is there should be
    overwritten."""
    if overwrite:
        raise ValueError(
            'a log is only appended to: expected mode "append", or outputMode "append" or "update" '
            'of a stream, got "overwrite" or "complete"'
        )
    misplaced = {name: () for name in {**ALIASES, **STREAM_ALIASES} if name not in SINK_ALIASES}
    options = GivenOptions(given, {**SINK_ALIASES, **misplaced})
    options.refuse(misplaced, "is for reads")
    if "service.url" not in options:
        raise OptionError(
            "service.url", 'is required: a broker takes the rows, "path" is only for reading'
        )
    location = location_of(options)
    assert isinstance(location, Remote), "it was looked at above"
    if is_stream:
        options.refuse(["idempotenceVersion"], "is for batch writes: a stream has its batches")
    elif "idempotenceId" not in options:
        options.refuse(["idempotenceVersion"], 'is for "idempotenceId"')
    delivery = options.parse("delivery", choice(Delivery), Delivery.EXACTLY_ONCE)
    if delivery is Delivery.AT_LEAST_ONCE:
        options.refuse(["idempotenceId", "idempotenceVersion"], 'is for delivery "exactly-once"')
    elif not is_stream and "idempotenceVersion" not in options:
        # The pieces of another write, under the same numbers, would be taken for those of this one.
        options.refuse(["idempotenceId"], 'of a batch write needs "idempotenceVersion" as well')
    return SinkOptions(
        location.address,
        _target(options),
        delivery,
        options.parse("idempotenceId", _identifier, None),
        options.parse("idempotenceVersion", _version, None),
        options.parse("mandatory", boolean, True),
    )


def _target(options: GivenOptions) -> Target | None:
    ways = [name for name in TARGETS if name in options]
    if len(ways) > 1:
        raise OptionError(ways[1], f"give at most one of topic, queue, exchange; got {ways}")
    way = ways[0] if ways else None
    if way != "exchange":
        options.refuse(["routingKey"], 'is for "exchange"')
    if way is None or way == "topic":
        options.refuse(["vhost"], 'is for "queue" and "exchange"')
    match way:
        case "topic":
            return {"topic": options.parse("topic", full_name, "")}
        case "queue":
            return {"queue": _exactly(options, "queue"), "vhost": _exactly(options, "vhost", "/")}
        case "exchange":
            found = {
                "exchange": options.parse("exchange", str, "", strip=False),
                "vhost": _exactly(options, "vhost", "/"),
            }
            if "routingKey" in options:
                found["routing_key"] = options.parse("routingKey", str, "", strip=False)
            return found
    return None


def named(error: ServiceError) -> Exception:
    """The error with the option that it is about, if it is about one."""
    option = _OPTION_OF.get(error.code)
    return error if option is None else OptionError(option, error.reason)


def _exactly(options: GivenOptions, option: str, default: str = "") -> str:
    """A name as it was given: AMQP's may begin or end with blanks."""
    return options.parse(option, _name, default, strip=False)


def _name(text: str) -> str:
    if not text:
        raise ValueError("expected a name, got an empty text")
    return text


def _identifier(text: str) -> str:
    if not IDENTIFIER.fullmatch(text):
        raise ValueError(f"expected 1 to 200 letters, digits and signs of . _ : -, got {text!r}")
    return text


def _version(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) > VERSION_MAX:
        raise ValueError(f"expected a whole number of 0 to {VERSION_MAX}, got {text!r}")
    return int(text)
