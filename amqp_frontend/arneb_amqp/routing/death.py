"""A death: what the headers of a message say once it has been dead-lettered.

The rule: pure, message in and message out. The headers are RabbitMQ's: ``x-death`` has one
table for each queue and reason, the latest first, and counts; ``x-first-death-*`` are set
once and ``x-last-death-*`` each time. What a client sends as ``x-death`` is believed: those who
publish a dead letter again, headers and all, count how often it was tried by it.

Sources: RabbitMQ's documentation of dead letter exchanges, ``rabbit_dead_letter`` (3.10) and
``mc`` (3.13, from 3.13.3 on; 4.0 believes no client), and what 3.10.8 was seen to send.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.route import Route
from arneb_amqp.wire.tables import Field, FieldType, array, long, longstr, table, timestamp
from arneb_core.api.limits import Departure

DEATHS: Final = "x-death"
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
"""The argument that names where a queue's dead letters go."""
CARBON_COPY: Final = "CC"

FIRST: Final = "x-first-death-"
LAST: Final = "x-last-death-"
FIRST_DEATH_QUEUE: Final = f"{FIRST}queue"

COUNT_MAX: Final = (1 << 63) - 1
"""A client may send any number; more does not fit into the field."""

_REASON: Final = "reason"
_QUEUE: Final = "queue"
_COUNT: Final = "count"

REASONS: Final[Mapping[Departure, str]] = {
    Departure.REJECTED: "rejected",
    Departure.EXPIRED: "expired",
    Departure.MAX_LENGTH: "maxlen",
    Departure.DELIVERY_LIMIT: "delivery_limit",
}

CHANGED: Final = frozenset(
    {DEATHS, CARBON_COPY}
    | {f"{when}{what}" for when in (FIRST, LAST) for what in ("exchange", _QUEUE, _REASON)}
)
"""The headers that a death looks at or writes; it leaves all others as they are."""

_REJECTED: Final = longstr(REASONS[Departure.REJECTED])

Death = Mapping[str, Field]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message on its way from the queue in which it died."""

    properties: Properties
    routing_key: str
    copies: tuple[str, ...]
    """Further routing keys."""
    deaths: Sequence[Death]

    def closes_circle(self, queue: str) -> bool:
        """The message has been in ``queue`` before and has come back by itself: nobody rejected
        it on the way. Then it would go round for ever."""
        name = longstr(queue)
        for index, death in enumerate(self.deaths):
            if death.get(_QUEUE) == name:
                return all(each.get(_REASON) != _REJECTED for each in self.deaths[: index + 1])
        return False


def without_deaths(headers: Mapping[str, Field]) -> dict[str, Field]:
    """The headers of a message that is to live again: as they were before it died."""
    return {
        name: field
        for name, field in headers.items()
        if name != DEATHS and not name.startswith((FIRST, LAST))
    }


def dead_letter_of(
    properties: Properties,
    route: Route,
    *,
    queue: str,
    reason: Departure,
    now_s: int,
    routing_key: str | None,
) -> DeadLetter:
    """The message as it is published to the dead letter exchange.

    ``routing_key``: the queue's own; None keeps those of the message.
    """
    headers = dict(properties.headers or {})
    copies = _texts(headers.get(CARBON_COPY))
    is_first, has_list = DEATHS not in headers, _is_list(headers.get(DEATHS))
    deaths = _deaths(headers.get(DEATHS))
    why, where = longstr(REASONS[reason]), longstr(queue)
    same = [each for each in deaths if each.get(_QUEUE) == where and each.get(_REASON) == why]
    others = [each for each in deaths if each not in same]
    if same:
        count = min(_number(same[0].get(_COUNT)), COUNT_MAX - 1)
        latest = {**same[0], _COUNT: long(count + 1)}
    else:
        latest = {
            _COUNT: long(1),
            _REASON: why,
            _QUEUE: where,
            "time": timestamp(now_s),
            "exchange": longstr(route.exchange),
            "routing-keys": array([longstr(key) for key in (route.routing_key, *copies)]),
        }
        if properties.expiration is not None:
            latest["original-expiration"] = longstr(properties.expiration)
    if has_list:
        latest = dict(sorted(latest.items()))  # as in RabbitMQ, of all but the first
    deaths = [latest, *others]
    headers[DEATHS] = array([table(each) for each in deaths])
    facts = {"exchange": longstr(route.exchange), _QUEUE: where, _REASON: why}
    for name, field in facts.items():
        if is_first:
            headers[f"{FIRST}{name}"] = field
        headers[f"{LAST}{name}"] = field
    if routing_key is not None:
        headers.pop(CARBON_COPY, None)
        copies = ()
    return DeadLetter(
        replace(properties, headers=headers, expiration=None),
        route.routing_key if routing_key is None else routing_key,
        copies,
        deaths,
    )


def _deaths(field: Field | None) -> list[Death]:
    """One for each queue and reason, with a count. What names neither, or is no list, says
    nothing; brokers before RabbitMQ 3.5 wrote a table for each death, without a count."""
    if field is None or not _is_list(field):
        return []
    grouped: dict[tuple[str, str], list[Death]] = {}
    for each in field.value:
        if not isinstance(each.value, Mapping):
            continue
        queue, reason = each.value.get(_QUEUE), each.value.get(_REASON)
        if (
            queue is not None
            and reason is not None
            and queue.type is reason.type is FieldType.LONGSTR
        ):
            grouped.setdefault((queue.text, reason.text), []).append(each.value)
    return [
        alike[0] if _COUNT in alike[0] else {_COUNT: long(len(alike)), **alike[0]}
        for alike in grouped.values()
    ]


def _is_list(field: Field | None) -> bool:
    return field is not None and isinstance(field.value, tuple)


def _texts(field: Field | None) -> tuple[str, ...]:
    if field is None or not isinstance(field.value, tuple):
        return ()
    return tuple(each.text for each in field.value if each.type is FieldType.LONGSTR)


def _number(field: Field | None) -> int:
    return field.value if field is not None and isinstance(field.value, int) else 0
