"""Rights: what a user may do in a vhost, read from the permissions.

The rule: pure functions of the tables, with RabbitMQ's meaning. Access to a vhost is a permission
row, whatever its patterns; a right is a pattern found in the name of the object. With a topic
exchange the routing key is checked as well, if there is a row for it.
"""

from collections.abc import Mapping
from enum import Enum

from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import compiled
from arneb_core.access.records import Permission, TopicPermission
from arneb_core.access.tables import Tables


class Right(Enum):
    """The values are the words in refusals and the names of a row's fields."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


def has_access(tables: Tables, user: str, vhost: str) -> bool:
    """Whether the user may open connections in the vhost."""
    return tables.get(Permission, user, vhost) is not None


def may(tables: Tables, user: str, vhost: str, right: Right, name: str) -> bool:
    """Whether the user has that right on the object called ``name``."""
    row = tables.get(Permission, user, vhost)
    return row is not None and compiled(getattr(row, right.value))(name)


def may_use_key(
    tables: Tables, user: str, vhost: str, exchange: str, right: Right, routing_key: str
) -> bool:
    """Whether the user may publish to a topic exchange, or bind to it, with that key."""
    row = tables.get(TopicPermission, user, vhost, exchange)
    if row is None:
        return True
    text = row.write if right is Right.WRITE else row.read
    pattern = expanded(text, {"username": user, "vhost": vhost})
    try:
        return compiled(pattern)(routing_key)
    except InvalidAccess:
        return False  # with the variables filled in, it is not a valid pattern


def expanded(pattern: str, variables: Mapping[str, str]) -> str:
    """Return ``pattern`` with each ``{name}`` replaced by the variable's text, without escaping."""
    for name, value in variables.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern
