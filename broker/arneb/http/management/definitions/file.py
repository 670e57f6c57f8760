"""A file of definitions, from here or from a RabbitMQ of any 3.x: read and checked.

The rule: nothing is changed here. Unknown parts are listed, down to the field; an error refuses the
whole file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from arneb.http.management.access.users import hash_in, limits_in, tags_in
from arneb.http.management.access.vhosts import queue_type_in
from arneb.http.management.parameters.parameters import (
    KEPT,
    OPERATOR_POLICY,
    VHOST_LIMITS,
    put_parameter,
)
from arneb.http.management.parameters.policies import policy_in
from arneb.http.management.parameters.shovels import settings_in
from arneb.http.management.requests.arguments import arguments_of
from arneb.http.management.requests.calls import Body, bad_request
from arneb_amqp.routing.exchange import RESERVED_PREFIX, Binding, DestinationKind, Exchange
from arneb_amqp.server.operations.connectionless import NO_CONNECTION
from arneb_amqp.shovels.settings import COMPONENT as SHOVEL
from arneb_amqp.topology.queues.declaration import Declaration
from arneb_core.access.edits import Edit
from arneb_core.access.passwords import NO_PASSWORD, HashingAlgorithm, PasswordHash
from arneb_core.access.records import Policy
from arneb_core.api.encoding.json_text import InvalidJson, parse_json

BRACKETS_MAX: Final = 4_000_000
"""Brackets in a file of definitions: a million queues and bindings with arguments."""

LISTS: Final = (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters",
    "policies", "queues", "exchanges", "bindings",
)  # fmt: skip

_DESCRIPTIVE: Final = frozenset(
    {
        "rabbit_version", "rabbitmq_version", "product_name", "product_version",
        "rabbitmq_definition_format", "original_cluster_name", "original_vhost_name",
        "explanation", "description",
    }
)  # fmt: skip
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "users": frozenset(
        {
            "name", "password", "password_hash", "hashing_algorithm", "tags", "administrator",
            "limits",
        }
    ),
    "vhosts": frozenset(
        {"name", "description", "tags", "default_queue_type", "metadata", "limits", "tracing"}
    ),
    "permissions": frozenset({"user", "vhost", "configure", "write", "read"}),
    "topic_permissions": frozenset({"user", "vhost", "exchange", "write", "read"}),
    "parameters": frozenset({"vhost", "component", "name", "value"}),
    "global_parameters": frozenset({"name", "value"}),
    "policies": frozenset(
        {"vhost", "name", "pattern", "apply-to", "definition", "priority"}
    ),
    "queues": frozenset(
        {"name", "vhost", "type", "durable", "auto_delete", "exclusive", "arguments"}
    ),
    "exchanges": frozenset(
        {"name", "vhost", "type", "durable", "auto_delete", "internal", "arguments"}
    ),
    "bindings": frozenset(
        {
            "source", "vhost", "destination", "destination_type", "routing_key", "arguments",
            "properties_key",
        }
    ),
}  # fmt: skip
"""The known fields. Not all are used: a queue's type is among its arguments as well, exclusive
queues are not exported, and a vhost's tracing ends with the broker."""

_MD5_UNTIL: Final = ("3.0.", "3.1.", "3.2.", "3.3.", "3.4.", "3.5.")
"""Versions that hashed passwords with MD5, and did not name the algorithm."""

_OF_VHOST: Final = frozenset({"parameters", "policies", "queues", "exchanges", "bindings"})


@dataclass(frozen=True, slots=True)
class Definitions:
    """The content of a file, read and checked."""

    access: Sequence[Callable[[Edit], object]]
    """Changes of the catalogue, in order."""
    shovels: Sequence[tuple[str, str, Any]]
    """By vhost and name."""
    users: Sequence[tuple[str, str | PasswordHash | None, Sequence[str], Mapping[str, int]]]
    """Passwords as text are still to be hashed; old files may have them."""
    vhosts: Sequence[tuple[str, Callable[[Edit], object]]]
    """By name."""
    exchanges: Sequence[tuple[str, Exchange]]
    queues: Sequence[tuple[str, Declaration]]
    bindings: Sequence[tuple[str, Binding]]
    ignored: Sequence[str]


def definitions_in(data: bytes, vhost: str | None) -> Definitions:
    """Return the definitions in a file; with ``vhost``, only objects within a vhost, put into that
    one. Raises 400."""
    if not data.strip():
        data = b"{}"  # as in all bodies
    try:
        document = parse_json(data, brackets_max=BRACKETS_MAX)
    except InvalidJson:
        raise bad_request("failed_to_parse_json") from None
    if not isinstance(document, dict):
        raise bad_request("failed_to_parse_json")
    lists: dict[str, list[Body]] = {}
    for name in LISTS:
        rows = document.get(name)
        rows = [] if rows is None else rows
        if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
            raise bad_request(f"expected a list of objects as {name}")
        if vhost is not None and name in _OF_VHOST:
            rows = [{**each, "vhost": vhost} for each in rows]
        lists[name] = [Body(each) for each in rows]
    ignored = [name for name in document if name not in LISTS and name not in _DESCRIPTIVE]
    if vhost is not None:
        ignored += [each for each in LISTS if each not in _OF_VHOST and lists[each]]
        lists |= {each: [] for each in LISTS if each not in _OF_VHOST}
    for name in _OF_VHOST:
        for each in lists[name]:
            if "vhost" not in each.given:
                raise bad_request(["no_such_vhost", "undefined"])
    ignored += _unknown(lists)
    ignored += _leave_out_reserved(lists)
    before_3_6 = str(document.get("rabbit_version", "")).startswith(_MD5_UNTIL)
    algorithm = HashingAlgorithm.MD5 if before_3_6 else HashingAlgorithm.SHA256
    return Definitions(
        [*_rights(lists), *_settings(lists, ignored)],
        [_shovel(each) for each in lists["parameters"] if _is_shovel(each)],
        [_user(each, algorithm.value) for each in lists["users"]],
        [_vhost(each) for each in lists["vhosts"]],
        [_exchange(each) for each in lists["exchanges"]],
        [_queue(each) for each in lists["queues"]],
        [_binding(each) for each in lists["bindings"]],
        ignored,
    )


def _unknown(lists: Mapping[str, Sequence[Body]]) -> Iterator[str]:
    """Yield each unknown field once."""
    for kind, rows in lists.items():
        names = {name for each in rows for name in each.given}
        for name in sorted(names - FIELDS[kind]):
            yield f"the field {name} of {kind}"


def _leave_out_reserved(lists: dict[str, list[Body]]) -> Iterator[str]:
    """Leave out queues and exchanges whose names only a broker may give, as RabbitMQ does, and the
    bindings of such queues. Yield what was left out."""
    for kind in ("queues", "exchanges"):
        kept = [each for each in lists[kind] if not _is_reserved(each.given.get("name"))]
        if len(kept) < len(lists[kind]):
            yield f"each of the {kind} whose name begins with {RESERVED_PREFIX!r}"
        lists[kind] = kept
    lists["bindings"] = [
        each
        for each in lists["bindings"]
        if each.given.get("destination_type") != DestinationKind.QUEUE.value
        or not _is_reserved(each.given.get("destination"))
    ]


def _is_reserved(name: Any) -> bool:
    return isinstance(name, str) and name.startswith(RESERVED_PREFIX)


def _is_shovel(parameter: Body) -> bool:
    return parameter.given.get("component") == SHOVEL


def _shovel(body: Body) -> tuple[str, str, Any]:
    value = body.given.get("value")
    settings_in(value)
    return body.text("vhost"), body.text("name"), value


def _user(
    body: Body, algorithm: str
) -> tuple[str, str | PasswordHash | None, Sequence[str], Mapping[str, int]]:
    password: str | PasswordHash | None
    if "password" in body.given and "password_hash" not in body.given:
        password = body.text("password") or NO_PASSWORD
    else:
        password = hash_in({"hashing_algorithm": algorithm, **body.given})
    limits = body.object("limits")
    return body.text("name"), password, tags_in(body), limits_in(limits)


def _vhost(body: Body) -> tuple[str, Callable[[Edit], object]]:
    metadata = dict(body.object("metadata"))
    kind = body.given.get("default_queue_type", metadata.pop("default_queue_type", None))
    tags = body.texts("tags") if "tags" in body.given else list(metadata.pop("tags", []) or [])
    metadata.pop("tags", None)
    description = body.text("description", str(metadata.pop("description", "") or ""))
    metadata.pop("description", None)
    name, kind = body.text("name"), queue_type_in(kind)
    limits = body.given.get("limits", [])

    def put(edit: Edit) -> None:
        edit.put_vhost(
            name, description=description, tags=tags, default_queue_type=kind, metadata=metadata
        )
        if isinstance(limits, dict) and limits:
            edit.set_vhost_limits(name, limits_in(limits))

    return name, put


def _rights(lists: Mapping[str, Sequence[Body]]) -> Iterator[Callable[[Edit], object]]:
    for each in lists["permissions"]:
        names = ("user", "vhost", "configure", "write", "read")
        yield partial(_set_permissions, texts=[each.text(name) for name in names])
    for each in lists["topic_permissions"]:
        names = ("user", "vhost", "exchange", "write", "read")
        yield partial(_set_topic_permissions, texts=[each.text(name) for name in names])


def _settings(
    lists: Mapping[str, Sequence[Body]], ignored: list[str]
) -> Iterator[Callable[[Edit], object]]:
    for each in lists["global_parameters"]:
        name, value = each.text("name"), each.given.get("value")
        yield partial(_set_global, name=name, value=value)
    for each in lists["policies"]:
        policy = policy_in(Policy, each.text("vhost"), each.text("name"), each)
        yield partial(_set_policy, policy=policy)
    for each in lists["parameters"]:
        if _is_shovel(each):
            continue
        vhost, component, name = each.text("vhost"), each.text("component"), each.text("name")
        if component in (*KEPT, VHOST_LIMITS, OPERATOR_POLICY):
            yield partial(
                put_parameter, vhost=vhost, component=component, name=name,
                value=each.given.get("value"),
            )  # fmt: skip
        else:
            ignored.append(f"parameter {name} of component {component} in vhost {vhost}")


def _set_permissions(edit: Edit, texts: Sequence[str]) -> None:
    edit.set_permissions(*texts)


def _set_topic_permissions(edit: Edit, texts: Sequence[str]) -> None:
    edit.set_topic_permissions(*texts)


def _set_global(edit: Edit, name: str, value: Any) -> None:
    edit.set_global_parameter(name, value)


def _set_policy(edit: Edit, policy: Policy) -> None:
    edit.set_policy(policy)


def _exchange(body: Body) -> tuple[str, Exchange]:
    return body.text("vhost"), Exchange(
        body.text("name"), body.text("type", "direct"), body.flag("durable", default=True),
        body.flag("auto_delete"), body.flag("internal"), arguments_of(body.object("arguments")),
    )  # fmt: skip


def _queue(body: Body) -> tuple[str, Declaration]:
    return body.text("vhost"), Declaration(
        NO_CONNECTION, body.text("name"), body.flag("durable", default=True),
        auto_delete=body.flag("auto_delete"), arguments=arguments_of(body.object("arguments")),
        name_given=True,
    )  # fmt: skip


def _binding(body: Body) -> tuple[str, Binding]:
    try:
        kind = DestinationKind(body.text("destination_type"))
    except ValueError:
        raise bad_request("expected queue or exchange as destination_type") from None
    return body.text("vhost"), Binding(
        body.text("source"), body.text("destination"), body.text("routing_key", ""),
        arguments_of(body.object("arguments")), kind,
    )  # fmt: skip
