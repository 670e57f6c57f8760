"""Fields: single values of the documents that set policies, checked.

The rule: pure. Each takes what JSON held and returns the value, or raises :class:`ValueError` with
what was expected and what was received, :class:`.WrongKind` if the value is not even of the right
kind. What is left out of a document is null, 0 or false, as with Jackson.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from arneb_pulsar.namespaces.coercion import (
    HIGHEST_INT,
    LOWEST_INT,
    WrongKind,
    is_nothing,
    named,
    truth,
    whole_number,
)

COMPATIBILITY: Final = (
    "UNDEFINED",
    "ALWAYS_INCOMPATIBLE",
    "ALWAYS_COMPATIBLE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)
"""Pulsar's schema compatibility strategies, in its order: they have numbers, too."""

ACTIONS: Final = ("produce", "consume", "functions", "sources", "sinks", "packages")
"""The actions of permissions, in Pulsar's order."""


def read_table(document: Any) -> dict[str, Any]:
    """Read a JSON object."""
    if not isinstance(document, dict):
        raise WrongKind(f"expected a JSON object, got {document!r:.40}")
    return document


def read_number(table: Mapping[str, Any], name: str, default: int, null: int = 0) -> int:
    """Read a whole number of 64 bits from a field of an object; ``null``: the value of a null."""
    value = table.get(name, default)
    if is_nothing(value):
        return null
    if (number := whole_number(value)) is None:
        raise WrongKind(f"{name}: expected a whole number, got {value!r:.40}")
    return number


def read_int(table: Mapping[str, Any], name: str, default: int, null: int = 0) -> int:
    """As :func:`read_number`, of 32 bits."""
    number = read_number(table, name, default, null)
    if not LOWEST_INT <= number <= HIGHEST_INT:
        raise WrongKind(f"{name}: expected a number of 32 bits, got {number}")
    return number


def read_truth(value: Any) -> bool:
    """Read a boolean."""
    if (found := truth(value)) is None:
        raise WrongKind(f"expected true or false, got {value!r:.40}")
    return found


def read_whole(document: Any) -> int:
    """Read a whole number of 64 bits; null is 0."""
    if is_nothing(document):
        return 0
    if (number := whole_number(document)) is None:
        raise WrongKind(f"expected a whole number, got {document!r:.40}")
    return number


def read_flag(document: Any) -> bool:
    """Read a boolean; null is false."""
    return False if is_nothing(document) else read_truth(document)


def read_ttl(document: Any) -> int:
    """Read a TTL in seconds."""
    seconds = read_whole(document)
    if not 0 <= seconds < 1 << 31:
        raise ValueError(f"Invalid value for message TTL: expected 0 or more, got {document!r:.40}")
    return seconds


def read_auto_subscription(document: Any) -> bool:
    """Read ``{"allowAutoSubscriptionCreation": …}``, or its value alone."""
    if isinstance(document, (bool, str)):
        return read_truth(document)
    return read_flag(read_table(document).get("allowAutoSubscriptionCreation"))


def read_compatibility(document: Any) -> str:
    """Read the name of a schema compatibility strategy."""
    if (found := named(document, COMPATIBILITY)) is None:
        known = ", ".join(sorted(COMPATIBILITY))
        raise WrongKind(f"expected one of {known}, got {document!r:.40}")
    return found


def read_threshold(document: Any) -> int:
    """Read the bytes of backlog at which a topic is compacted automatically; 0 = never."""
    size = read_whole(document)
    if size < 0:
        raise ValueError(f"Invalid compaction threshold: expected 0 or more, got {document!r:.40}")
    return size


def limit_reader(name: str, text: str = "") -> Callable[[Any], int]:
    """Make a reader of the limit ``name``, 0 = none. ``text``: Pulsar's error for other values."""

    def read(document: Any) -> int:
        found = read_whole(document)
        if not 0 <= found < 1 << 31:
            raise ValueError(text or f"{name} must be 0 or more")
        return found

    return read


SUBSCRIPTION_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")
"""Subscription types as administrators write them."""


def read_subscription_types(document: Any) -> list[str]:
    """Read the subscription types that may be used, each once; none = all of them."""
    found = _all_named(document, SUBSCRIPTION_TYPES)
    if found is None:
        known = ", ".join(SUBSCRIPTION_TYPES)
        raise WrongKind(f"expected some of {known}, got {document!r:.40}")
    return sorted(set(found), key=SUBSCRIPTION_TYPES.index)


def _all_named(document: Any, names: Sequence[str]) -> list[str] | None:
    """Return the members of an enumeration in a list, each once; None if it is not such a list."""
    if not isinstance(document, list):
        return None
    found = [named(each, names) for each in document]
    return None if None in found else [each for each in dict.fromkeys(found) if each is not None]


AUTO_UPDATES: Final = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}
"""Strategies by their names in the policy for schemas that producers bring."""


def read_auto_update(document: Any) -> str | None:
    """Read the strategy for schemas that producers bring; as in Pulsar, unknown ones unset
    it."""
    return named(document, tuple(AUTO_UPDATES))


def read_text(document: Any) -> str:
    """Read text; numbers and booleans become text as written."""
    if not isinstance(document, (str, int, float)):
        raise WrongKind(f"expected text, got {document!r:.40}")
    return document if isinstance(document, str) else json.dumps(document)


def read_texts(document: Any) -> list[str]:
    """Read a set of texts, sorted."""
    if not isinstance(document, list):
        raise WrongKind(f"expected a list, got {document!r:.40}")
    return sorted({read_text(each) for each in document})


def read_properties(document: Any) -> dict[str, str]:
    """Read properties: text by name."""
    return {name: read_text(value) for name, value in read_table(document).items()}


def read_actions(document: Any) -> list[str]:
    """Read the actions that a role may take."""
    if (found := _all_named(document, ACTIONS)) is None:
        raise ValueError(f"expected some of {', '.join(sorted(ACTIONS))}, got {document!r:.40}")
    return found
