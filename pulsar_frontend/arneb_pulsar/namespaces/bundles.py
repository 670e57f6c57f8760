"""Bundles: the pieces of a namespace, by ranges of hashes of its topics' names.

The rule: pure. In a Pulsar cluster one broker serves each piece; here a bundle only says which
topics an operator means.
Source: ``NamespaceBundleFactory``, ``NamespaceBundles``.
"""

import itertools
import re
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

HIGHEST: Final = 0xFFFFFFFF
BUNDLES_DEFAULT: Final = 4
"""Bundles of a namespace for which no others are stored; as many as Pulsar makes unless it is set
otherwise."""
BUNDLES_MAX: Final = 4096
"""Bundles of one namespace; Pulsar's own bound is 128, for automatic splits."""

RANGE: Final = re.compile(r"(0x[0-9a-f]{8})_(0x[0-9a-f]{8})", re.ASCII)

Boundaries = Sequence[int]
"""Where bundles begin, ascending, and then the end of the last."""


class InvalidBundle(ValueError):
    """There is no such bundle."""


def evenly(count: int) -> Boundaries:
    """Return the boundaries of ``count`` bundles of the same size."""
    _check_number(count)
    return [*(index * (1 << 32) // count for index in range(count)), HIGHEST]


def read_asked(document: Any) -> Boundaries:
    """Read boundaries that an operator asks for. Raises :class:`ValueError`."""
    if isinstance(document, list):
        _check_number(len(document) - 1)
    return read_boundaries(document)


def _check_number(count: int) -> None:
    if not 0 < count <= BUNDLES_MAX:
        raise ValueError(f"Invalid number of bundles, expected 1 to {BUNDLES_MAX}, got {count}")


def read_boundaries(document: Any) -> Boundaries:
    """Read boundaries from their document. Raises :class:`ValueError`."""
    if not isinstance(document, list) or len(document) < 2:
        raise ValueError("expected the boundaries of bundles")
    found = sorted({int(str(each), 16) for each in document})
    if found[0] or found[-1] != HIGHEST:
        raise ValueError("expected boundaries from 0x00000000 to 0xffffffff")
    return found


def written(boundaries: Boundaries) -> list[str]:
    """Return boundaries as Pulsar writes them."""
    return [f"0x{each:08x}" for each in boundaries]


def named(low: int, high: int) -> str:
    """Return the name of a bundle."""
    return f"0x{low:08x}_0x{high:08x}"


def hash_of(topic: str) -> int:
    """Return a topic's hash."""
    return zlib.crc32(topic.encode())


def bundle_of(boundaries: Boundaries, topic: str) -> tuple[int, int]:
    """Return the bundle that a topic is in."""
    index = bisect_right(boundaries, hash_of(topic), hi=len(boundaries) - 1)
    return boundaries[index - 1], boundaries[index]


def find(boundaries: Boundaries, name: str, namespace: str) -> tuple[int, int]:
    """Return the bundle of that name in ``namespace``. Raises :class:`InvalidBundle`."""
    match = RANGE.fullmatch(name.lower())
    if match is None:
        raise InvalidBundle(f"Invalid bundle range: {name}")
    low, high = (int(each, 16) for each in match.groups())
    for start, end in itertools.pairwise(boundaries):
        if start == low and end == high:
            return low, high
        if start == low:
            expected = f"Expected upper boundary of {namespace}/{named(start, end)}"
            raise InvalidBundle(f"Invalid upper boundary for bundle {namespace}/{name}. {expected}")
    raise InvalidBundle(f"Invalid lower boundary for bundle {namespace}/{name}")


def holds(bundle: tuple[int, int], topic: str) -> bool:
    """Return whether the topic is in the bundle."""
    low, high = bundle
    place = hash_of(topic)
    return low <= place < high or place == high == HIGHEST


def split(boundaries: Boundaries, bundle: tuple[int, int]) -> Boundaries:
    """Return the boundaries with that bundle cut in halves. Raises :class:`InvalidBundle`."""
    low, high = bundle
    middle = low + (high - low + (high == HIGHEST)) // 2
    if middle in (low, high) or len(boundaries) > BUNDLES_MAX:
        raise InvalidBundle(f"Bundle {named(low, high)} cannot be split any more")
    return sorted({*boundaries, middle})
