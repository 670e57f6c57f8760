"""Here: what of the data API's topics is this broker's, where a cluster has several shards.

The rule: a topic that another shard has is refused by the names of both, and is never one that is
not there.
"""

from collections.abc import Callable

from arneb.data.errors import DataError
from arneb_core.access.namespaces import proposed_namespace

Misplaced = Callable[[str], str]
"""Why a namespace is another shard's; empty: it is not."""


def everything_is(_: str) -> str:
    """Of a broker that is alone."""
    return ""


def expect_here(misplaced: Misplaced, namespace: str) -> None:
    """Raise :class:`.DataError` for a namespace that another shard has."""
    if why := misplaced(namespace):
        raise DataError(409, "not_allowed", f"{why}: ask below /shards/ and its name")


def expect_topic_here(misplaced: Misplaced, topic: str) -> None:
    """The same for a topic by its complete name; for other names it is not known."""
    tenant, _, rest = topic.rpartition("://")[2].partition("/")
    namespace, slash, _ = rest.partition("/")
    if slash:
        expect_here(misplaced, f"{tenant}/{namespace}")


def expect_vhost_here(misplaced: Misplaced, vhost: str) -> None:
    """The same for a vhost."""
    expect_here(misplaced, proposed_namespace(vhost))
