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

PROMOTIONS: Final = ("ha-promote-on-shutdown", "ha-promote-on-failure")
MIRRORING: Final = ("ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size", *PROMOTIONS)
"""What a policy says about mirrors of classic queues, which mean nothing here."""


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
        *others, last = UPSTREAMS
        raise wrong(f"cannot specify {', '.join(others)} or {last} together")
    if pattern_fault := _upstreams_fault(definition):
        raise wrong(pattern_fault)
    if mirroring_fault := _mirroring_fault(definition):
        raise wrong(mirroring_fault)


def _upstreams_fault(definition: Mapping[str, Any]) -> str:
    """Return what is wrong with the pattern of upstreams' names; empty = nothing."""
    try:
        check_pattern(definition.get("federation-upstream-pattern", ""))
    except InvalidAccess as error:
        return f"could not compile pattern to a regular expression. Error: {error}"
    return ""


def _mirroring_fault(definition: Mapping[str, Any]) -> str:
    """Return what is wrong with the keys of mirrors together; empty = nothing.

    Source: ``rabbit_mirror_queue_misc`` and the modules of its modes.
    """
    given = {name: definition[name] for name in MIRRORING if name in definition}
    if not given:
        return ""
    if "ha-mode" not in given:
        others = "ha-params, ha-sync-mode or ha-promote-on-shutdown"
        return f"ha-mode must be specified to specify {others}"
    if fault := _mode_fault(given["ha-mode"], given.get("ha-params")):
        return fault
    if (mode := given.get("ha-sync-mode", "manual")) not in ("manual", "automatic"):
        return f'ha-sync-mode must be "manual" or "automatic", got {shown(mode)}'
    size = given.get("ha-sync-batch-size", 1)
    if type(size) is not int or size < 1:
        return f"ha-sync-batch-size takes an integer greater than 0, {shown(size)} given"
    for name in PROMOTIONS:
        if (when := given.get(name, "always")) not in ("always", "when-synced"):
            return f'{name} must be "always" or "when-synced", got {shown(when)}'
    return ""


def _mode_fault(mode: str, parameter: Any) -> str:
    """Return what is wrong with a mode and its parameter, None without one; empty = nothing."""
    given = "none" if parameter is None else shown(parameter)
    match mode:
        case "all" if parameter is not None:
            return 'ha-mode="all" does not take parameters'
        case "exactly" if type(parameter) is not int or parameter < 1:
            return f'ha-mode="exactly" takes an integer, {given} given'
        case "nodes" if not isinstance(parameter, list):
            return f'ha-mode="nodes" takes a list, {given} given'
        case "nodes" if not parameter:
            return 'ha-mode="nodes" list must be non-empty'
        case "nodes":
            others = [each for each in parameter if not isinstance(each, str)]
            wrong = f'ha-mode="nodes" takes a list of strings, {shown(others)} was not a string'
            return wrong if others else ""
    return ""


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
