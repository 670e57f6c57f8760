"""Here: which topics are this broker's, where a cluster has several shards.

The rule: a topic of another shard is refused with the names of both, and never reported as missing.
"""

from collections.abc import Callable

from arneb.data.errors import DataError
from arneb_core.access.namespaces import proposed_namespace

Misplaced = Callable[[str], str]
"""Returns why a namespace belongs to another shard; empty if it does not."""


def everything_is(_: str) -> str:
    """Accept every namespace, for a broker without shards."""
    return ""


def expect_here(misplaced: Misplaced, namespace: str) -> None:
    """Raise :class:`.DataError` for a namespace of another shard."""
    if why := misplaced(namespace):
        raise DataError(409, "not_allowed", f"{why}: ask below /shards/ and its name")


def expect_topic_here(misplaced: Misplaced, topic: str) -> None:
    """Do the same for a topic by its complete name; other names pass."""
    tenant, _, rest = topic.rpartition("://")[2].partition("/")
    namespace, slash, _ = rest.partition("/")
    if slash:
        expect_here(misplaced, f"{tenant}/{namespace}")


def expect_vhost_here(misplaced: Misplaced, vhost: str) -> None:
    """Do the same for a vhost."""
    expect_here(misplaced, proposed_namespace(vhost))
