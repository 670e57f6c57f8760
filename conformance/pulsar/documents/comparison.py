"""Compares two documents: their fields, the types of values, and the signs of numbers.

The rule: of a number only its sign is compared, because its size depends on the moment. Scenarios
that ask for single numbers check those.
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
    """A field, identified by its path without the indexes of lists, and both values."""

    path: str
    pulsar: Any
    arneb: Any


def differences(pulsar: Any, arneb: Any, path: str = "") -> Iterator[Difference]:
    """Every field in which the two documents differ. Lists of different lengths are a difference,
    and their elements are compared up to the shorter length."""
    if isinstance(pulsar, dict) and isinstance(arneb, dict):
        for key in sorted(pulsar.keys() | arneb.keys()):
            here = f"{path}.{key}" if path else key
            yield from differences(pulsar.get(key, ABSENT), arneb.get(key, ABSENT), here)
    elif isinstance(pulsar, list) and isinstance(arneb, list):
        if len(pulsar) != len(arneb):
            yield Difference(path, pulsar, arneb)
        for one, other in zip(_sorted(pulsar), _sorted(arneb), strict=False):
            yield from differences(one, other, f"{path}[]")
    elif _kind(pulsar) != _kind(arneb):
        yield Difference(path, pulsar, arneb)


def _sorted(values: list[Any]) -> list[Any]:
    """The list, with consumers and producers sorted by name."""
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
