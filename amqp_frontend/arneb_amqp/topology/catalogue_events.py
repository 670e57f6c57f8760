"""Catalogue events: changes of the access catalogue as broker events.

The rule: pure; an edit that changes nothing is no event, although RabbitMQ reports some, and no
event contains a password, not even in the URI of a parameter.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from arneb_amqp.topology.broker_events import Shown
from arneb_core.access.passwords import NO_PASSWORD
from arneb_core.access.records import (
    GlobalParameter,
    OperatorPolicy,
    Parameter,
    Permission,
    Policy,
    Record,
    TopicPermission,
    User,
    Vhost,
)
from arneb_core.access.tables import Changed

CatalogueEvent = tuple[str, Shown]
"""An event's key and headers."""

LIMITS: Final = "limits"
"""RabbitMQ's name of the parameter for limits."""

_SECRET: Final = re.compile(r"(?<=://)[^/@]*:[^/@]*@")


def events_of(changed: Iterable[Changed], user: str, node: str) -> list[CatalogueEvent]:
    """Return the events of these changes made by ``user``."""
    changes = list(changed)
    gone = {
        each.before.name for each in changes if isinstance(each.before, User) and not each.after
    }
    by = {"user_who_performed_action": user}
    events: list[CatalogueEvent] = []
    for before, after in changes:
        record = after or before
        if isinstance(record, Permission | TopicPermission) and record.user in gone:
            continue  # as in RabbitMQ, which only reports that the user is gone
        events += ((key, {**shown, **by}) for key, shown in _of(before, after, node))
    return events


def _of(before: Record | None, after: Record | None, node: str) -> Iterator[CatalogueEvent]:
    record = after or before
    match record:
        case Vhost():
            yield from _of_vhost(before, after, node)
        case User():
            yield from _of_user(before, after)
        case Permission():
            shown = {"user": record.user, "vhost": record.vhost}
            if after is None:
                yield "permission.deleted", shown
            else:
                patterns = {"configure": record.configure, "write": record.write}
                yield "permission.created", {**shown, **patterns, "read": record.read}
        case TopicPermission():
            shown = {"user": record.user, "vhost": record.vhost}
            if after is None:
                yield "topic.permission.deleted", {**shown, "exchange": record.exchange}
            else:
                patterns = {"write": record.write, "read": record.read}
                yield "topic.permission.created", {**shown, "exchange": record.exchange, **patterns}
        case Policy():
            yield from _of_policy(record, is_gone=after is None)
        case Parameter(vhost, component, name, value):
            yield from _of_parameter(
                {"vhost": vhost, "component": component, "name": name}, value, is_gone=after is None
            )
        case GlobalParameter(name, value):
            shown = {"component": "global", "name": name}
            yield from _of_parameter(shown, value, is_gone=after is None)


def _of_vhost(before: Record | None, after: Record | None, node: str) -> Iterator[CatalogueEvent]:
    match before, after:
        case None, Vhost():
            yield "vhost.created", _vhost(after, node)
        case Vhost(), None:
            yield "vhost.deleted", {"name": before.name}
        case Vhost(), Vhost():
            if before.limits != after.limits:
                shown = {"vhost": after.name, "component": "vhost-limits", "name": LIMITS}
                yield from _of_parameter(shown, after.limits, is_gone=not after.limits)
                yield _limits("vhost", {"name": LIMITS, "vhost": after.name}, after.limits)
            if _described(before) != _described(after):
                yield "vhost.updated", _vhost(after, node)


def _vhost(vhost: Vhost, node: str) -> Shown:
    return {
        "name": vhost.name,
        "default_queue_type": vhost.default_queue_type or "undefined",
        "tracing": False,
        "cluster_state": {node: "running"},
        "description": vhost.description,
        "tags": list(vhost.tags),
    }


def _described(vhost: Vhost) -> tuple[object, ...]:
    return vhost.description, vhost.tags, vhost.default_queue_type, vhost.metadata


def _of_user(before: Record | None, after: Record | None) -> Iterator[CatalogueEvent]:
    if not isinstance(after, User):
        assert isinstance(before, User), "a user came, went, or became another"
        yield "user.deleted", {"name": before.name}
        return
    named = {"name": after.name}
    if not isinstance(before, User):
        yield "user.created", named
        if after.tags:
            yield "user.tags.set", {**named, "tags": list(after.tags)}
        if not after.limits:
            return
    elif before.password != after.password:
        is_cleared = after.password == NO_PASSWORD
        yield f"user.password.{'cleared' if is_cleared else 'changed'}", named
    if isinstance(before, User) and before.tags != after.tags:
        yield "user.tags.set", {**named, "tags": list(after.tags)}
    if not isinstance(before, User) or before.limits != after.limits:
        yield _limits("user", {"name": LIMITS, "username": after.name}, after.limits)


def _limits(of: str, shown: Shown, limits: Mapping[str, int]) -> CatalogueEvent:
    return f"{of}.limits.{'set' if limits else 'cleared'}", {**shown, **limits}


def _of_policy(policy: Policy, *, is_gone: bool) -> Iterator[CatalogueEvent]:
    named = {"name": policy.name, "vhost": policy.vhost}
    value = {
        "pattern": policy.pattern,
        "definition": dict(policy.definition),
        "priority": policy.priority,
        "apply-to": policy.apply_to,
    }
    if isinstance(policy, OperatorPolicy):
        shown = {**named, "component": "operator_policy"}
        yield from _of_parameter(shown, value, is_gone=is_gone)
        if is_gone:
            yield "operator.policy.cleared", named
            return
    yield ("policy.cleared", named) if is_gone else ("policy.set", {**named, **value})


def _of_parameter(shown: Shown, value: Any, *, is_gone: bool) -> Iterator[CatalogueEvent]:
    if is_gone:
        yield "parameter.cleared", shown
    else:
        yield "parameter.set", {**shown, "value": _masked(value)}


def _masked(value: Any) -> Any:
    """Return a JSON value without the passwords of URIs, and with text for what no table can
    hold."""
    match value:
        case None:
            return "null"
        case str():
            return _SECRET.sub("", value)
        case list() | tuple():
            return [_masked(each) for each in value]
        case Mapping():
            return {name: _masked(each) for name, each in value.items()}
        case int() if not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
            return str(value)
    return value
