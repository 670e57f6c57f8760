"""Policy checks: what may stand in the definition of a policy.

The rule: RabbitMQ's table of keys, and its words for what is wrong. A key that is known and means
nothing here (those of clusters) is taken, so that definitions from elsewhere come in whole.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from arneb.http.management.calls import bad_request
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import check_pattern

APPLY_TO: Final = ("all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams")

Check = Callable[[Any], bool]


def _whole(least: int, most: int | None = None) -> Check:
    def check(value: Any) -> bool:
        return type(value) is int and value >= least and (most is None or value <= most)

    return check


def _one_of(*allowed: Any) -> Check:
    return lambda value: value in allowed


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _anything(value: Any) -> bool:
    return True


_BY_OPERATORS: Final[Mapping[str, Check]] = {
    "message-ttl": _whole(0),
    "expires": _whole(1),
    "max-length": _whole(0),
    "max-length-bytes": _whole(0),
    "max-in-memory-length": _whole(0),
    "max-in-memory-bytes": _whole(0),
    "delivery-limit": _whole(0),
    "overflow": _one_of("drop-head", "reject-publish", "reject-publish-dlx"),
    "queue-version": _one_of(1, 2),
    "target-group-size": _whole(1),
    "ha-mode": _text,
    "ha-params": _anything,
    "ha-sync-mode": _text,
}

_BY_USERS: Final[Mapping[str, Check]] = {
    **_BY_OPERATORS,
    "dead-letter-exchange": _text,
    "dead-letter-routing-key": _text,
    "dead-letter-strategy": _one_of("at-most-once", "at-least-once"),
    "consumer-timeout": _whole(0),
    "queue-mode": _one_of("default", "lazy"),
    "max-age": _text,
    "stream-max-segment-size-bytes": _whole(0, 3_000_000_000),
    "stream-filter-size-bytes": _whole(16, 255),
    "queue-leader-locator": _text,
    "queue-master-locator": _text,
    "initial-cluster-size": _whole(1),
    "ha-sync-batch-size": _anything,
    "ha-promote-on-shutdown": _text,
    "ha-promote-on-failure": _text,
    "alternate-exchange": _text,
    "federation-upstream": _text,
    "federation-upstream-set": _text,
    "federation-upstream-pattern": _text,
}

_UPSTREAMS: Final = ("federation-upstream", "federation-upstream-set")

_WORDS: Final = {
    "message-ttl": "message TTL",
    "expires": "queue expiry",
    "max-length": "maximum length",
    "max-length-bytes": "maximum length in bytes",
    "alternate-exchange": "alternate exchange name",
}


def check_policy(
    pattern: Any, apply_to: Any, definition: Any, priority: Any, *, operator: bool
) -> None:
    """Raise 400 for what is no policy."""
    if not isinstance(pattern, str):
        raise invalid_policy(f"pattern should be binary, actually was {_shown(pattern)}")
    try:
        check_pattern(pattern)
    except InvalidAccess as error:
        raise invalid_policy(
            f"pattern should be regular expression but is invalid: {error}"
        ) from None
    if apply_to not in APPLY_TO:
        raise invalid_policy(f"apply-to {_shown(apply_to)} is not one of {', '.join(APPLY_TO)}")
    if type(priority) is not int:
        raise invalid_policy(f"priority should be a number, actually was {_shown(priority)}")
    if not isinstance(definition, Mapping) or not definition:
        raise invalid_policy("no policy provided")
    known = _BY_OPERATORS if operator else _BY_USERS
    unknown = [(name, value) for name, value in definition.items() if name not in known]
    if unknown:
        listed = ",".join(f'{{<<"{name}">>,{_shown(value)}}}' for name, value in unknown)
        raise invalid_policy(f"[{listed}] are not recognised policy settings", escape=not operator)
    for name, value in definition.items():
        if not known[name](value):
            words = _WORDS.get(name, name)
            raise invalid_policy(f"{_shown(value)} is not a valid {words}", escape=not operator)
    if all(name in definition for name in _UPSTREAMS):
        raise invalid_policy("cannot specify both federation-upstream and federation-upstream-set")


def invalid_policy(fault: str, *, escape: bool = False) -> Exception:
    """400 in RabbitMQ's form."""
    if escape:
        fault = fault.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return bad_request(f"Validation failed\n\n{fault}\n")


def _shown(value: Any) -> str:
    return f'<<"{value}">>' if isinstance(value, str) else str(value)[:200]
