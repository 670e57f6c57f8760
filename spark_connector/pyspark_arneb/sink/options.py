"""The options of a write, checked once.

The rule: a wrong option is refused here by name, before a row is sent. What only the broker can
know (whether a queue exists, who may publish) is in its answer, and the error names the option too.
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
    """What happens to rows when a task is run again."""

    EXACTLY_ONCE = "exactly-once"
    """Tasks stage their rows, and one commit of the broker publishes all of them, once."""
    AT_LEAST_ONCE = "at-least-once"
    """Tasks publish as they go: rows are not stored twice on the way, but a task that is run again
    publishes them again."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The parsed options of a write, see :data:`SINK_OPTIONS`."""

    address: Address
    target: Target | None = None
    """None: the column ``topic`` has it."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    idempotence_id: str | None = None
    idempotence_version: int | None = None
    """The number of a batch write among those with the same name."""
    mandatory: bool = True


SINK_OPTIONS: Final = (
    *(each for each in READ_OPTIONS if each.name.startswith("service.")),
    Option("topic", "the column `topic`", "the topic for all rows"),
    Option("queue", "the column `topic`", "the AMQP queue for all rows"),
    Option("exchange", "the column `topic`",
           "the AMQP exchange for all rows; the column `key` is the routing key"),
    Option("vhost", "`/`", "the virtual host of the queue or exchange"),
    Option("routingKey", "empty", "the routing key of rows without a key, with `exchange`"),
    Option("mandatory", "`true`",
           "fail the write if a row is routed to no queue; `false`: drop such rows and log their "
           "number"),
    Option("delivery", "`exactly-once`",
           "or `at-least-once`: tasks publish rows as they go, so a task that is run again may "
           "publish its rows twice"),
    Option("idempotenceId", "the query's id",
           "the name under which the broker remembers the last batch that it committed: choose "
           "another one for each new checkpoint. A batch write needs `idempotenceVersion` with it"),
    Option("idempotenceVersion", "none",
           "for a batch write with an `idempotenceId`: a number that grows with each write of that "
           "name. The write is one commit, and changes nothing if the broker has committed this "
           "version or a later one (Delta's `txnVersion`)"),
)  # fmt: skip
"""Every option of a write."""

SPARK_S_OWN: Final = ("checkpointLocation", "queryName", "path")
"""Options that Spark itself passes to a sink; a path is refused by name."""

SINK_ALIASES: Final = aliases_of(SINK_OPTIONS) | dict.fromkeys(SPARK_S_OWN, ())

TARGETS: Final = ("topic", "queue", "exchange")

IDENTIFIER: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}")
"""Names of queries that the broker accepts."""

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
"""The option to name in the error, by the code of the broker's answer."""


def for_writing(table: Mapping[str, str]) -> dict[str, str]:
    """Return those options of a catalogue table that are also options of a write."""
    known = {each.lower() for name, more in SINK_ALIASES.items() for each in (name, *more)}
    return {name: value for name, value in table.items() if name.lower() in known}


def sink_options(
    given: Mapping[str, str], *, overwrite: bool, is_stream: bool = False
) -> SinkOptions:
    """Return the options of a write.

    Raises :class:`.OptionError`, and :class:`ValueError` on an overwrite.
    """
    if overwrite:
        raise ValueError(
            'a log is only appended to: expected mode "append" (of a stream, outputMode "append"), '
            'got "overwrite" or "complete"'
        )
    misplaced = {name: () for name in {**ALIASES, **STREAM_ALIASES} if name not in SINK_ALIASES}
    options = GivenOptions(given, {**SINK_ALIASES, **misplaced})
    options.refuse(misplaced, "is for reads")
    if "service.url" not in options:
        raise OptionError(
            "service.url",
            'is required: rows are written through a broker, "path" is only for reading',
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
        # The broker would take another write's pieces with the same numbers for pieces of this one.
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
    """Return the error with the option that it concerns, if it concerns one."""
    option = _OPTION_OF.get(error.code)
    return error if option is None else OptionError(option, error.reason)


def _exactly(options: GivenOptions, option: str, default: str = "") -> str:
    """Return a name as it was given: AMQP names may begin or end with blanks."""
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
