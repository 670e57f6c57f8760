"""Rows: the columns that clients write, parsed from a body and checked.

The rule: every length is checked against the bytes received before anything is allocated, so that a
body costs no more than its own bytes. Parsing runs in a thread.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from struct import unpack_from
from typing import Any, Final

from arneb.data.errors import DataError, bad_request
from arneb_amqp.topology.row_entries import Scalar

MAGIC: Final = b"ARW1"
HEAD_AT: Final = 8
NO_INDEX: Final = 0xFFFFFFFF

ROWS_MAX: Final = 65_536
TARGETS_MAX: Final = 1_000
PROPERTIES_MAX: Final = 200
"""The most properties of one row."""

BYTES_COLUMNS: Final = frozenset({"value", "key", "ordering_key"})
NUMBER_COLUMNS: Final = {
    "target": ("I", 4),
    "properties": ("I", 4),
    "event_time_ms": ("q", 8),
    "deliver_at_ms": ("q", 8),
    "priority": ("B", 1),
}
TIME_MS_MAX: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go: a topic, or an exchange of a vhost. ``queue`` is the routing key of the
    default exchange."""

    topic: str | None = None
    vhost: str = "/"
    exchange: str = ""
    queue: str | None = None
    routing_key: str = ""


@dataclass(slots=True)
class Rows:
    """The rows of one body; an absent column is None."""

    count: int
    targets: list[Target]
    properties: list[Mapping[str, Scalar]]
    columns: dict[str, Sequence[Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Rows: {self.count} for {len(self.targets)} targets>"

    def column(self, name: str, default: object) -> Iterator[Any]:
        """Return an iterator over a column, or over as many defaults."""
        found = self.columns.get(name)
        return iter(found) if found is not None else iter([default] * self.count)


def parse_rows(body: bytes) -> Rows:
    """Parse the rows in ``body``. Raises :class:`.DataError`."""
    if body[:4] != MAGIC or len(body) < HEAD_AT:
        raise bad_request(f"expected rows that begin with {MAGIC!r}, got {body[:8]!r}")
    (size,) = unpack_from("<I", body, 4)
    at = HEAD_AT + size
    if at > len(body):
        raise bad_request(f"expected a head of {size} bytes, got {len(body) - HEAD_AT}")
    head = _head(body[HEAD_AT:at])
    count = _number(head, "rows", ROWS_MAX)
    names = head.get("columns")
    if not isinstance(names, list) or "value" not in names:
        raise bad_request("expected a list of columns with value among them")
    rows = Rows(count, _targets(head), _properties(head))
    for name in names:
        if not isinstance(name, str) or name in rows.columns:
            raise bad_request(f"expected each column once, got {names!r}"[:300])
        if name in BYTES_COLUMNS:
            rows.columns[name], at = _texts(body, at, count, name)
        elif name in NUMBER_COLUMNS:
            rows.columns[name], at = _numbers(body, at, count, name)
        else:
            raise bad_request(f"no such column: {name!r}"[:300])
    if at != len(body):
        raise bad_request(f"expected the end at byte {at}, got {len(body) - at} more")
    _check_indexes(rows)
    if set(head) - {"rows", "columns", "targets", "properties"}:
        raise bad_request(f"expected nothing else in the head, got {sorted(head)}"[:300])
    return rows


def _head(data: bytes) -> dict[str, Any]:
    try:
        head = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"expected a head in JSON: {type(error).__name__}") from error
    if not isinstance(head, dict):
        raise bad_request("expected an object as head")
    return head


def _number(head: Mapping[str, Any], name: str, most: int) -> int:
    value = head.get(name)
    if type(value) is not int or not value >= 0:
        raise bad_request(f"expected a number in {name!r} of the head")
    if value > most:
        raise DataError(413, "body_too_large", f"expected at most {most} rows, got {value}")
    return value


def _targets(head: Mapping[str, Any]) -> list[Target]:
    given = head.get("targets")
    if not isinstance(given, list) or not 0 < len(given) <= TARGETS_MAX:
        raise bad_request(f"expected 1 to {TARGETS_MAX} targets")
    return [_target(each) for each in given]


def _target(given: object) -> Target:
    if not isinstance(given, dict) or not all(_is_text(each) for each in given.values()):
        raise bad_request(f"expected a target with texts, got {given!r}"[:300])
    keys = set(given)
    if keys == {"topic"}:
        return Target(topic=given["topic"])
    if "queue" in keys and keys <= {"queue", "vhost"}:
        return Target(vhost=given.get("vhost", "/"), queue=given["queue"])
    if "exchange" in keys and keys <= {"exchange", "vhost", "routing_key"}:
        return Target(
            vhost=given.get("vhost", "/"),
            exchange=given["exchange"],
            routing_key=given.get("routing_key", ""),
        )
    raise bad_request(f"expected topic, queue and vhost, or exchange, got {sorted(keys)}"[:300])


def _properties(head: Mapping[str, Any]) -> list[Mapping[str, Scalar]]:
    given = head.get("properties", [])
    if not isinstance(given, list) or len(given) > ROWS_MAX:
        raise bad_request(f"expected at most {ROWS_MAX} sets of properties")
    for each in given:
        if not isinstance(each, dict) or len(each) > PROPERTIES_MAX:
            raise bad_request(f"expected at most {PROPERTIES_MAX} properties, got {each!r}"[:300])
        for key, value in each.items():
            if not _is_text(key) or not (
                value is None or isinstance(value, bool | int | float) or _is_text(value)
            ):
                raise bad_request(f"expected texts and numbers, got {each!r}"[:300])
    return given


def _is_text(value: object) -> bool:
    """Whether a value is a text without lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _texts(body: bytes, at: int, count: int, name: str) -> tuple[list[bytes | None], int]:
    end = at + 4 * count
    if end > len(body):
        raise bad_request(f"expected {count} lengths of {name}, got {len(body) - at} bytes")
    lengths = unpack_from(f"<{count}i", body, at)
    if count and min(lengths) < -1:
        raise bad_request(f"expected lengths of {name} from -1 on, got {min(lengths)}")
    has_null = count > 0 and min(lengths) < 0
    sizes = [max(each, 0) for each in lengths] if has_null else lengths
    ends = list(accumulate(sizes, initial=end))
    if ends[-1] > len(body):
        raise bad_request(f"expected {ends[-1] - end} bytes of {name}, got {len(body) - end}")
    found: list[bytes | None] = [body[start:stop] for start, stop in pairwise(ends)]
    if has_null:
        found = [
            None if length < 0 else value for length, value in zip(lengths, found, strict=True)
        ]
    return found, ends[-1]


def _numbers(body: bytes, at: int, count: int, name: str) -> tuple[Sequence[int], int]:
    code, size = NUMBER_COLUMNS[name]
    end = at + size * count
    if end > len(body):
        raise bad_request(f"expected {count} numbers of {name}, got {len(body) - at} bytes")
    found = unpack_from(f"<{count}{code}", body, at)
    if code == "q" and count and not 0 <= min(found) <= max(found) <= TIME_MS_MAX:
        raise bad_request(f"expected times of {name} from 0 to {TIME_MS_MAX}")
    return found, end


def _check_indexes(rows: Rows) -> None:
    targets = rows.columns.get("target")
    if targets and max(targets) >= len(rows.targets):
        raise bad_request(f"expected targets up to {len(rows.targets) - 1}, got {max(targets)}")
    properties = rows.columns.get("properties")
    if properties is not None:
        named = [each for each in properties if each != NO_INDEX]
        if named and max(named) >= len(rows.properties):
            raise bad_request(
                f"expected properties up to {len(rows.properties) - 1}, got {max(named)}"
            )
        rows.columns["properties"] = [-1 if each == NO_INDEX else each for each in properties]
