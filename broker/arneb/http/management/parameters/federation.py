"""Parameters of federation: checked, stored and shown.

The rule: nothing is federated, but what RabbitMQ would refuse is refused here in its words, and
everything else is stored as given, so that definitions can be moved from one broker to the other
and back.

Source: ``rabbit_federation_parameters``, RabbitMQ 3.13.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from arneb.http.management.parameters.policy_checks import invalid_policy, shown
from arneb_amqp.client.uris import InvalidUri, parse_uri

UPSTREAM: Final = "federation-upstream"
UPSTREAM_SET: Final = "federation-upstream-set"

Check = Callable[[str, Any], str | None]


def _text(name: str, value: Any) -> str | None:
    if isinstance(value, str):
        return None
    return f"{name} should be binary, actually was {shown(value)}"


def _number(name: str, value: Any) -> str | None:
    if type(value) in (int, float):
        return None
    return f"{name} should be a number, actually was {shown(value)}"


def _flag(name: str, value: Any) -> str | None:
    if type(value) is bool:
        return None
    return f"{name} should be boolean, actually was {shown(value)}"


def _one_of(*values: str) -> Check:
    listed = ",".join(map(shown, values))

    def check(name: str, value: Any) -> str | None:
        if not isinstance(value, str) or value in values:
            return _text(name, value)
        return f"{name} should be one of [{listed}], actually was {shown(value)}"

    return check


def _uris(name: str, value: Any) -> str | None:
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, str):
            return f"{name} should be list, actually was {shown(each)}"
        try:
            parse_uri(each)
        except InvalidUri as error:
            return f"{name} is not a valid URI: {error}"
    return None


SHARED: Final[Mapping[str, Check]] = {
    "exchange": _text,
    "queue": _text,
    "consumer-tag": _text,
    "prefetch-count": _number,
    "reconnect-delay": _number,
    "max-hops": _number,
    "expires": _number,
    "message-ttl": _number,
    "trust-user-id": _flag,
    "ack-mode": _one_of("no-ack", "on-publish", "on-confirm"),
    "queue-type": _one_of("classic", "quorum"),
    "resource-cleanup-mode": _one_of("default", "never"),
    "ha-policy": _text,
    "bind-nowait": _flag,
    "channel-use-mode": _one_of("multiple", "single"),
}
"""The keys of an upstream, and of each member of a set."""


def federation_in(component: str, name: str, value: Any) -> Any:
    """Return the value to store for a federation parameter. Raises 400."""
    if component == UPSTREAM:
        upstream = {} if value == [] else value
        _check(name, upstream, "uri", _uris)
        return upstream
    members = [] if value == {} else value
    if not isinstance(members, list):
        raise invalid_policy(f"{name} should be list, actually was {shown(value)}", escape=True)
    for member in members:
        _check(name, member, "upstream", _text)
    return members


def _check(name: str, value: Any, mandatory: str, check: Check) -> None:
    if not isinstance(value, dict):
        raise invalid_policy(f"{name} not a list {shown(value)}", escape=True)
    faults = [] if mandatory in value else [f'Key "{mandatory}" not found in {name}']
    checks = {mandatory: check, **SHARED}
    if unknown := [key for key in value if key not in checks]:
        listed = ",".join(f'{{<<"{key}">>,{shown(value[key])}}}' for key in unknown)
        faults.append(f"Unrecognised terms [{listed}] in {name}")
    for key, each in checks.items():
        if key in value and (fault := each(key, value[key])):
            faults.append(fault)
    if faults:
        raise invalid_policy("\n".join(faults), escape=True)
