"""Rights: what a user may do in a vhost, read from the permissions.

The rule: pure functions of the tables, with RabbitMQ's meaning. Access to a vhost is a permission
row, whatever its patterns say; a right is a pattern found in the name of the thing; of topic
exchanges the routing key is looked at as well, if somebody wrote a row about that.
"""

from collections.abc import Mapping
from enum import Enum

from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import compiled
from arneb_core.access.records import Permission, TopicPermission
from arneb_core.access.tables import Tables


class Right(Enum):
    """The values are the words of refusals and of the fields of a row."""

    CONFIGURE = "configure"
    WRITE = "write"
    READ = "read"


def has_access(tables: Tables, user: str, vhost: str) -> bool:
    """May the user open connections there?"""
    return tables.get(Permission, user, vhost) is not None


def may(tables: Tables, user: str, vhost: str, right: Right, name: str) -> bool:
    """Has the user that right on what is called so?"""
    row = tables.get(Permission, user, vhost)
    return row is not None and compiled(getattr(row, right.value))(name)


def may_use_key(
    tables: Tables, user: str, vhost: str, exchange: str, right: Right, routing_key: str
) -> bool:
    """May the user publish with that key to a topic exchange, or bind to it by that key?"""
    row = tables.get(TopicPermission, user, vhost, exchange)
    if row is None:
        return True
    text = row.write if right is Right.WRITE else row.read
    pattern = expanded(text, {"username": user, "vhost": vhost})
    try:
        return compiled(pattern)(routing_key)
    except InvalidAccess:
        return False  # what was put in for a variable made it one that says nothing


def expanded(pattern: str, variables: Mapping[str, str]) -> str:
    """The pattern with ``{name}`` of each variable replaced, as text and without escaping."""
    for name, value in variables.items():
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern
