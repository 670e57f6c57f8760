"""Everything that has been administered, as one flat table that can be compared field by field.

The rule: a row is identified by its kind and its names, and holds what a request or an export of
definitions says, in the same form.
"""

from collections.abc import Mapping
from typing import Any, Final

State = dict[tuple[str, ...], Any]

CATALOGUE: Final = frozenset(
    {
        "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters",
        "policies",
    }
)  # fmt: skip
"""Kinds whose changes are applied together, however many rows there are."""
TOPOLOGY: Final = frozenset({"queues", "exchanges", "bindings"})

_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "users": (("name",), ("password_hash", "tags", "limits")),
    "vhosts": (("name",), ("description", "tags", "default_queue_type")),
    "permissions": (("vhost", "user"), ("configure", "write", "read")),
    "topic_permissions": (("vhost", "user", "exchange"), ("write", "read")),
    "policies": (("vhost", "name"), ("pattern", "apply-to", "priority", "definition")),
    "queues": (("vhost", "name"), ("durable", "auto_delete", "arguments")),
    "exchanges": (
        ("vhost", "name"), ("type", "durable", "auto_delete", "internal", "arguments"),
    ),
    "bindings": (("vhost", "source", "destination_type", "destination", "routing_key"), ()),
}  # fmt: skip
"""For each list in definitions: the fields that identify a row, and those with its content."""


def state_of(definitions: Mapping[str, Any]) -> State:
    """All rows of an export, or of definitions to be imported."""
    state: State = {}
    for kind, (names, fields) in _FIELDS.items():
        for row in definitions.get(kind, []):
            value = {field: row.get(field) for field in fields}
            if kind == "users":
                value |= {"tags": sorted(row["tags"]), "limits": row.get("limits") or {}}
            state[(kind, *(row[name] for name in names))] = value
    for row in definitions.get("parameters", []):
        state[("parameters", row["vhost"], row["component"], row["name"])] = row["value"]
    for row in definitions.get("global_parameters", []):
        state[("global_parameters", row["name"])] = row["value"]
    return state


def without_user(state: State, name: str) -> State:
    """The state after the user has been deleted, with its permissions."""
    return {
        key: value
        for key, value in state.items()
        if key != ("users", name)
        and not (key[0] in ("permissions", "topic_permissions") and key[2] == name)
    }


def without_vhost(state: State, name: str) -> State:
    """The state after the vhost has been deleted, with everything in it."""
    return {
        key: value
        for key, value in state.items()
        if key[0] in ("users", "global_parameters") or key[1] != name
    }


def imported(number: int) -> dict[str, Any]:
    """Definitions with some hundred objects; each object that can be changed contains
    ``number``."""
    vhost = "imported"
    return {
        "users": [
            {"name": f"i{n}", "password_hash": "KfOQms8bmaZS7/fdXsYYgOiSfOgm8oCh1YSKWvl1fLiAIRa3",
             "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": [f"n{number}"],
             "limits": {"max-channels": number}}
            for n in range(30)
        ],
        "vhosts": [{"name": vhost, "description": f"d{number}", "tags": ["t"],
                    "default_queue_type": "classic"}],
        "permissions": [
            {"user": "guest", "vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"},
            *(
                {"user": f"i{n}", "vhost": vhost, "configure": f"^{number}", "write": "",
                 "read": ".*"}
                for n in range(30)
            ),
        ],
        "topic_permissions": [
            {"user": f"i{n}", "vhost": vhost, "exchange": "x0", "write": f"^{number}", "read": ""}
            for n in range(10)
        ],
        "policies": [
            {"vhost": vhost, "name": f"p{n}", "pattern": f"^q{n}$", "apply-to": "queues",
             "priority": number, "definition": {"max-length": number}}
            for n in range(20)
        ],
        "parameters": [
            {"vhost": vhost, "component": "federation-upstream", "name": f"f{n}",
             "value": {"uri": "amqp://x", "max-hops": number}}
            for n in range(5)
        ],
        "global_parameters": [{"name": "imported", "value": {"n": number}}],
        "queues": [
            {"vhost": vhost, "name": f"q{n}", "durable": True, "auto_delete": False,
             "arguments": {"x-queue-type": "classic"}}
            for n in range(200)
        ],
        "exchanges": [
            {"vhost": vhost, "name": f"x{n}", "type": "topic", "durable": True,
             "auto_delete": False, "internal": False, "arguments": {}}
            for n in range(10)
        ],
        "bindings": [
            {"vhost": vhost, "source": f"x{n % 10}", "destination_type": "queue",
             "destination": f"q{n}", "routing_key": "k", "arguments": {}}
            for n in range(100)
        ],
    }  # fmt: skip
