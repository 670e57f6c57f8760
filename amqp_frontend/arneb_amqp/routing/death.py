"""A death: the headers of a message that has been dead-lettered.

The rule: pure, message in and message out. The headers are RabbitMQ's: ``x-death`` has one counted
table for each queue and reason, the latest first; ``x-first-death-*`` are set once and
``x-last-death-*`` each time. A client's own ``x-death`` is trusted: clients that publish a dead
letter again, headers and all, count their attempts with it.

Sources: RabbitMQ's documentation of dead letter exchanges, ``rabbit_dead_letter`` (3.10) and
``mc`` (3.13, from 3.13.3 on; 4.0 believes no client), and what 3.10.8 was seen to send.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from arneb_amqp.wire.properties import Properties
from arneb_amqp.wire.route import Route
from arneb_amqp.wire.tables import Field, FieldType, array, long, longstr, table, timestamp
from arneb_core.api.subscriptions.limits import Departure

DEATHS: Final = "x-death"
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
"""The queue argument that names its dead letter exchange."""
CARBON_COPY: Final = "CC"

FIRST: Final = "x-first-death-"
LAST: Final = "x-last-death-"
FIRST_DEATH_QUEUE: Final = f"{FIRST}queue"

COUNT_MAX: Final = (1 << 63) - 1
"""The largest value of the field: a client may send any number."""

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
"""The headers that a death reads or writes; all others stay unchanged."""

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
    passed: frozenset[object]
    """The queues in which it has died since somebody rejected it."""

    def closes_circle(self, queue: str) -> bool:
        """Whether the message has already died in ``queue`` and nobody has rejected it since: then
        it would circulate forever."""
        return longstr(queue).value in self.passed


def without_deaths(headers: Mapping[str, Field]) -> dict[str, Field]:
    """Return the headers without those that deaths have added."""
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
    """Return the message as it is published to the dead letter exchange.

    ``routing_key`` is the queue's own; None keeps the message's.
    """
    headers = dict(properties.headers or {})
    copies = _texts(headers.get(CARBON_COPY))
    is_first, history = DEATHS not in headers, _list(headers.get(DEATHS))
    deaths = _deaths(history or ())
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
    if history is not None:
        latest = dict(sorted(latest.items()))  # as in RabbitMQ, for all but the first
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
        # Once, not for each queue it may go to: both the history and the exchange may be long.
        frozenset(each[_QUEUE].value for each in takewhile(_was_not_rejected, deaths)),
    )


def _deaths(history: Sequence[Field]) -> list[Death]:
    """Return one death for each queue and reason. Tables without either are dropped; brokers before
    RabbitMQ 3.5 wrote a table for each death, without a count. As in RabbitMQ, a table that is
    the only one stays as it is."""
    grouped: dict[tuple[str, str], list[Death]] = {}
    for each in history:
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
        alike[0]
        if _COUNT in alike[0] or len(history) == 1
        else {_COUNT: long(len(alike)), **alike[0]}
        for alike in grouped.values()
    ]


def _was_not_rejected(death: Death) -> bool:
    return death[_REASON] != _REJECTED


def _list(field: Field | None) -> Sequence[Field] | None:
    """Return the members of a list field; None if it is not a list."""
    value = None if field is None else field.value
    return value if isinstance(value, tuple) else None


def _texts(field: Field | None) -> tuple[str, ...]:
    return tuple(each.text for each in _list(field) or () if each.type is FieldType.LONGSTR)


def _number(field: Field | None) -> int:
    return field.value if field is not None and isinstance(field.value, int) else 0
