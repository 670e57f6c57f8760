"""Policy checks: validate a policy before it is stored.

The rule: errors have RabbitMQ's words. The valid keys and values are defined in the topology, where
they take effect.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from arneb.http.management.requests.calls import bad_request
from arneb_amqp.topology.policies.keys import POLICY_KEYS
from arneb_amqp.topology.policies.policies import APPLY_TO
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import check_pattern

UPSTREAMS: Final = (
    "federation-upstream", "federation-upstream-set", "federation-upstream-pattern"
)  # fmt: skip
"""A policy may have only one of these."""


def check_policy(
    pattern: Any, apply_to: Any, definition: Any, priority: Any, *, operator: bool
) -> None:
    """Raise 400 for an invalid policy."""

    def wrong(fault: str) -> Exception:
        return invalid_policy(fault, escape=not operator)

    if not isinstance(pattern, str):
        raise wrong(f"pattern should be a binary but was {shown(pattern)}")
    try:
        check_pattern(pattern)
    except InvalidAccess as error:
        raise wrong(f"pattern should be regular expression but is invalid: {error}") from None
    if apply_to not in APPLY_TO:
        raise wrong(f"apply-to {shown(apply_to)} is not one of {', '.join(APPLY_TO)}")
    if type(priority) not in (int, float):
        raise wrong(f"priority should be a number, actually was {shown(priority)}")
    if not isinstance(definition, Mapping) or not definition:
        raise wrong("no policy provided")
    known = {name: row for name, row in POLICY_KEYS.items() if row.by_operators or not operator}
    unknown = [(name, value) for name, value in definition.items() if name not in known]
    if unknown:
        listed = ",".join(f'{{<<"{name}">>,{shown(value)}}}' for name, value in unknown)
        raise wrong(f"[{listed}] are not recognised policy settings")
    for name, value in definition.items():
        if not known[name].is_valid(value):
            words = known[name].words or name
            raise wrong(f"{shown(value)} is not a valid {words}")
    if sum(name in definition for name in UPSTREAMS) > 1:
        raise wrong(f"cannot specify more than one of {', '.join(UPSTREAMS)}")


def invalid_policy(fault: str, *, escape: bool = False) -> Exception:
    """Return a 400 in RabbitMQ's form."""
    if escape:
        fault = fault.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return bad_request(f"Validation failed\n\n{fault}\n")


def shown(value: Any) -> str:
    """Return a value as RabbitMQ's error texts show it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f'<<"{value}">>' if isinstance(value, str) else str(value)[:200]
