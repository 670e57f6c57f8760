"""Comparing two documents: fields, kinds of values, and whether a figure is one at all.

The rule: a figure is 0, below or above it. How large it is depends on the moment, and what differs
in that is for the scenarios that ask for one figure.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ].*")
PLACE: Final = re.compile(r"-?\d+:-?\d+")
ADDRESS: Final = re.compile(r"/?127\.0\.0\.1:\d+")
NEVER: Final = "1970"
ABSENT: Final = "absent"


class Difference(NamedTuple):
    """A field, by its path with the indexes of lists left out, and both values."""

    path: str
    pulsar: Any
    arneb: Any


def differences(pulsar: Any, arneb: Any, path: str = "") -> Iterator[Difference]:
    """Every field of which two documents say different things."""
    if isinstance(pulsar, dict) and isinstance(arneb, dict):
        for key in sorted(pulsar.keys() | arneb.keys()):
            here = f"{path}.{key}" if path else key
            yield from differences(pulsar.get(key, ABSENT), arneb.get(key, ABSENT), here)
    elif isinstance(pulsar, list) and isinstance(arneb, list):
        if bool(pulsar) != bool(arneb):
            yield Difference(path, pulsar, arneb)
        for one, other in zip(_sorted(pulsar), _sorted(arneb), strict=False):
            yield from differences(one, other, f"{path}[]")
    elif _kind(pulsar) != _kind(arneb):
        yield Difference(path, pulsar, arneb)


def _sorted(values: list[Any]) -> list[Any]:
    """Consumers and producers by their names."""
    return sorted(
        values,
        key=lambda it: (
            str(it.get("consumerName") or it.get("producerName")) if isinstance(it, dict) else ""
        ),
    )


def _kind(value: Any) -> Any:
    """What a value is compared by."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return type(value).__name__, (value > 0) - (value < 0)
    if isinstance(value, str):
        if TIME.match(value):
            return "never" if value.startswith(NEVER) else "a time"
        return ADDRESS.sub("an address", PLACE.sub("a place", value))
    return value
