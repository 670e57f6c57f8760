"""Policy keys: the keys of a policy's definition, and which setting wins where several apply.

The rule: a key is one row of :data:`POLICY_KEYS`. Keys that are known but have no meaning here
(those of clusters and of federation) have a row, too, so that foreign definitions can be imported
whole.

Sources: ``rabbit_policies``, the ``capabilities`` of the queue types and their
``args_policy_lookup``, RabbitMQ 3.13.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from arneb_amqp.topology.queue_types import (
    DeadLetterStrategy,
    OverflowPolicy,
    QueueType,
    age_in_ms,
    is_age,
)

SEGMENT_BYTES_MAX: Final = 3_000_000_000
"""RabbitMQ's bound for one segment of a stream."""

Check = Callable[[Any], bool]


class Wins(Enum):
    """What wins when a policy and a queue's arguments set the same key."""

    LEAST = "the lesser of both"
    ARGUMENT = "the argument"
    POLICY = "the policy"


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """One key of a definition."""

    name: str
    is_valid: Check
    words: str = ""
    """RabbitMQ's words for its value; empty: its name."""
    unknown_to: frozenset[QueueType] = frozenset()
    """A policy with this key does not apply to queues of these types, whatever else it has."""
    by_operators: bool = False
    """Whether operator policies may set it, too."""
    is_limit: bool = False
    """Whether the lesser of the policy's and the operator's value counts; else the operator's."""
    option: str = ""
    """The field of the queue's options that it sets; empty = it has no meaning for queues here."""
    wins: Mapping[QueueType, Wins] = field(default_factory=dict)
    """The queue types to which it applies, and what wins over an argument."""
    read: Callable[[Any], object] = lambda value: value
    """Returns the option for a value."""


def whole(least: int, most: int | None = None) -> Check:
    """Return a check for a whole number within these bounds."""

    def check(value: Any) -> bool:
        return type(value) is int and value >= least and (most is None or value <= most)

    return check


def one_of(*allowed: Any) -> Check:
    """Return a check for one of these values; a truth value is not a number."""
    return lambda value: type(value) is not bool and value in allowed


def text(value: Any) -> bool:
    """Whether the value is text."""
    return isinstance(value, str)


def anything(_: Any) -> bool:
    """Accept any value."""
    return True


def _age(value: Any) -> bool:
    return isinstance(value, str) and is_age(value)


def _wins(
    *, classic: Wins | None = None, quorum: Wins | None = None, stream: Wins | None = None
) -> Mapping[QueueType, Wins]:
    found = {QueueType.CLASSIC: classic, QueueType.QUORUM: quorum, QueueType.STREAM: stream}
    return {kind: wins for kind, wins in found.items() if wins is not None}


_STREAM: Final = frozenset({QueueType.STREAM})
_NOT_CLASSIC: Final = frozenset({QueueType.QUORUM, QueueType.STREAM})
_NOT_QUORUM: Final = frozenset({QueueType.CLASSIC, QueueType.STREAM})
_NOT_STREAM: Final = frozenset({QueueType.CLASSIC, QueueType.QUORUM})
_LEAST: Final = _wins(classic=Wins.LEAST, quorum=Wins.LEAST)
_ARGUMENT: Final = _wins(classic=Wins.ARGUMENT, quorum=Wins.ARGUMENT)
_POLICY: Final = _wins(stream=Wins.POLICY)

ROWS: Final = (
    PolicyKey(
        "message-ttl", whole(0), "message TTL", _STREAM,
        by_operators=True, is_limit=True, option="message_ttl_ms", wins=_LEAST,
    ),
    PolicyKey(
        "expires", whole(1), "queue expiry", _STREAM,
        by_operators=True, is_limit=True, option="expires_ms",
        wins=_wins(classic=Wins.LEAST, quorum=Wins.POLICY),
    ),
    PolicyKey(
        "max-length", whole(0), "maximum length", _STREAM,
        by_operators=True, is_limit=True, option="messages_max", wins=_LEAST,
    ),
    PolicyKey(
        "max-length-bytes", whole(0), "maximum length in bytes",
        by_operators=True, is_limit=True, option="bytes_max",
        wins={**_LEAST, **_POLICY},
    ),
    # The log decides for itself where and how messages are stored.
    PolicyKey(
        "max-in-memory-length", whole(0), "maximum memory in bytes", _NOT_QUORUM,
        by_operators=True, is_limit=True,
    ),
    PolicyKey(
        "max-in-memory-bytes", whole(0), "maximum memory in bytes", _NOT_QUORUM,
        by_operators=True, is_limit=True,
    ),
    PolicyKey(
        "delivery-limit", whole(0), "delivery limit", _NOT_QUORUM,
        by_operators=True, is_limit=True, option="delivery_limit", wins=_wins(quorum=Wins.LEAST),
    ),
    PolicyKey(
        "overflow", one_of(*(each.value for each in OverflowPolicy)), "overflow value", _STREAM,
        by_operators=True, option="overflow", read=OverflowPolicy,
        wins=_wins(classic=Wins.ARGUMENT, quorum=Wins.POLICY),
    ),
    PolicyKey("queue-version", one_of(1, 2), "queue-version value", by_operators=True),
    PolicyKey("queue-mode", one_of("default", "lazy"), "queue-mode value", _NOT_CLASSIC),
    PolicyKey(
        "dead-letter-exchange", text, "dead letter exchange name", _STREAM,
        option="dead_letter_exchange", wins=_ARGUMENT,
    ),
    PolicyKey(
        "dead-letter-routing-key", text, "dead letter routing key", _STREAM,
        option="dead_letter_routing_key", wins=_ARGUMENT,
    ),
    PolicyKey(
        "dead-letter-strategy", one_of(*(each.value for each in DeadLetterStrategy)),
        "dead letter strategy", _NOT_QUORUM,
        option="dead_letter_strategy", read=DeadLetterStrategy,
        wins=_wins(quorum=Wins.ARGUMENT),
    ),
    PolicyKey(
        "consumer-timeout", whole(0), "consumer timeout",
        option="consumer_timeout_ms", wins=_LEAST,
    ),
    PolicyKey(
        "max-age", _age, "max age", _NOT_STREAM,
        option="max_age_ms", wins=_POLICY, read=age_in_ms,
    ),
    PolicyKey(
        "stream-max-segment-size-bytes", whole(0, SEGMENT_BYTES_MAX), "segment size", _NOT_STREAM,
        option="segment_bytes_max", wins=_POLICY,
    ),
    PolicyKey("stream-filter-size-bytes", whole(16, 255), "filter size"),
    PolicyKey(
        "queue-leader-locator", one_of("client-local", "balanced", "random", "least-leaders"),
        "queue leader locator value",
    ),
    PolicyKey("initial-cluster-size", whole(0), "cluster size", _NOT_STREAM),
    PolicyKey("target-group-size", whole(1), "target group size", _NOT_QUORUM, by_operators=True),
    # What mirrors need to know depends on the mode: whoever takes policies checks it as a whole.
    *(
        PolicyKey(name, check, f"{name} value", _NOT_CLASSIC, by_operators=by_operators)
        for name, check, by_operators in (
            ("ha-mode", one_of("all", "exactly", "nodes"), True),
            ("ha-params", anything, True),
            ("ha-sync-mode", anything, True),
            ("ha-sync-batch-size", anything, False),
            ("ha-promote-on-shutdown", anything, False),
            ("ha-promote-on-failure", anything, False),
            ("queue-master-locator", one_of("client-local", "min-masters", "random"), False),
        )
    ),
    # For exchanges; a policy for everything may have it.
    PolicyKey("alternate-exchange", text, "alternate exchange name"),
    PolicyKey("federation-upstream", text, "federation upstream name"),
    PolicyKey("federation-upstream-set", text, "federation upstream set name"),
    PolicyKey("federation-upstream-pattern", text, "federation upstream pattern name"),
)  # fmt: skip
"""Every key of RabbitMQ and the plugins that come with it."""

POLICY_KEYS: Final[Mapping[str, PolicyKey]] = {row.name: row for row in ROWS}


def merged(definition: Mapping[str, Any], by_operator: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the combined definition of a policy and an operator policy."""
    both = {**definition, **by_operator}
    for name in definition.keys() & by_operator.keys():
        row = POLICY_KEYS.get(name)
        if row is not None and row.is_limit:
            both[name] = min(definition[name], by_operator[name])
    return both


def is_for(definition: Mapping[str, Any], kind: QueueType) -> bool:
    """Whether queues of that type know every key of the definition; else it does not apply to
    them."""
    rows = (POLICY_KEYS.get(name) for name in definition)
    return all(row is None or kind not in row.unknown_to for row in rows)
