"""Damages: changes to a data file, each derived from a seed.

The rule: a damage describes itself before it is applied, so that a failure can be understood and
repeated. Pages are chosen by type (in a sound file), so that every type is damaged sometimes.
"""

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from arneb_core.store.data_file.meta_pages import check_file
from arneb_core.store.data_file.page_walk import PageWalk
from arneb_core.store.data_file.pages import BIG_DATA, PageDamaged, PageFile, PageKind, kind_of

SECTOR: Final = 512


@dataclass(frozen=True, slots=True)
class Damage:
    """One change of a file."""

    name: str
    change: Callable[[bytes], bytes]

    def __str__(self) -> str:
        return self.name

    def apply(self, file: Path) -> None:
        """Apply the change."""
        file.write_bytes(self.change(file.read_bytes()))


def page_classes(file: Path) -> dict[str, list[int]]:
    """The pages of a sound file, by type."""
    meta = check_file(file)
    classes: dict[str, list[int]] = {"meta": [0, 1]}
    with PageFile(file, meta.page_bytes) as pages:
        walk = PageWalk(pages, meta.last_page)
        trees = {"main": meta.main, "freelist": meta.free, **walk.tables(meta.main)}
        walk = PageWalk(pages, meta.last_page)
        for name, tree in trees.items():
            for leaf in walk.leaves(name, tree, _number if name == "freelist" else bytes):
                classes.setdefault(f"leaf of {name}", []).append(leaf.number)
                long = [row.at for row in leaf.rows if row.flags & BIG_DATA]
                if long:
                    classes.setdefault(f"overflow of {name}", []).extend(long)
        for number in sorted(walk.used):
            with suppress(PageDamaged):  # part of a long value
                if kind_of(pages.page(number)) == PageKind.BRANCH:
                    classes.setdefault("branch", []).append(number)
    return classes


def damages(file: Path, seed: int) -> Iterator[Damage]:
    """An endless sequence: first one damage of each sort, then more of them at random."""
    rng = random.Random(seed)
    classes = page_classes(file)
    size = check_file(file).file_bytes  # what comes after this is room that nothing uses yet
    while True:
        for name, pages in classes.items():
            yield _in_page(rng, name, rng.choice(pages))
        for _ in range(3):
            yield _cut(rng.choice([1, 100, 4096, 8192, 8193, size // 2, rng.randrange(size)]))
        yield _zeroed(rng.randrange(0, size, SECTOR), SECTOR * rng.choice([1, 8, 64, 500]))
        yield _foreign(rng)
        yield _swapped(*rng.sample(sorted({*itertools.chain(*classes.values())}), 2))


def _number(key: bytes) -> int:
    return int.from_bytes(key, sys.byteorder)


def _in_page(rng: random.Random, name: str, page: int) -> Damage:
    """Mostly in the page header, which contains LMDB's own numbers."""
    at = rng.choice([rng.randrange(16), rng.randrange(80), rng.randrange(4096)])
    how = rng.choice(["a bit", "8 bytes", "64 bytes", "the page"])
    count = {"a bit": 1, "8 bytes": 8, "64 bytes": 64, "the page": 4096 - at}[how]
    noise, bit = rng.randbytes(count), 1 << rng.randrange(8)

    def change(data: bytes) -> bytes:
        start = page * 4096 + at
        new = bytes([data[start] ^ bit]) if how == "a bit" else noise
        return (data[:start] + new + data[start + len(new) :])[: len(data)]

    return Damage(f"{how} at byte {at} of page {page} ({name})", change)


def _cut(size: int) -> Damage:
    return Damage(f"cut to {size} bytes", lambda data: data[:size])


def _zeroed(start: int, count: int) -> Damage:
    return Damage(
        f"{count} zeros from byte {start} on",
        lambda data: (data[:start] + bytes(count) + data[start + count :])[: len(data)],
    )


def _foreign(rng: random.Random) -> Damage:
    noise = rng.randbytes(20_000)
    content = rng.choice([b"", b"\0" * 20_000, noise, b"not a database\n" * 1000])
    return Damage(f"{len(content)} foreign bytes {content[:8]!r}", lambda _: content)


def _swapped(one: int, other: int) -> Damage:
    def change(data: bytes) -> bytes:
        pages = bytearray(data)
        first, second = (
            slice(one * 4096, one * 4096 + 4096),
            slice(other * 4096, other * 4096 + 4096),
        )
        pages[first], pages[second] = data[second], data[first]
        return bytes(pages)

    return Damage(f"pages {one} and {other} changed places", change)
