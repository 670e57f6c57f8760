"""A walk over the pages of trees: every page that a tree claims as its own.

The rule: a page is followed only once, only if it is what its parent says, and only inside the
file; anything else is a fault with its place, and the walk continues beside it. So a walk ends
whatever the bytes are, and LMDB finds its way in a tree without a fault.

A walk does not read the inside of long values: blocks and bodies are verified when they are read.
"""

import itertools
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyroaring import BitMap64

from arneb_core.store.data_file.pages import (
    BIG_DATA,
    FIRST_PAGE,
    NO_PAGE,
    PAGE_NUMBER,
    SUB_TREE,
    TREE_BYTES,
    PageDamaged,
    PageFile,
    Row,
    Tree,
    children,
    rows,
)

FREE_LIST: Final = "list of free pages"
MAIN_TREE: Final = "list of tables"

Key = bytes | int
"""Rows of the free list are ordered as numbers, all others as bytes."""


@dataclass(frozen=True, slots=True)
class PageFault:
    """A page that is not what it must be."""

    page: int
    at_byte: int
    tree: str
    detail: str

    def __str__(self) -> str:
        return f"page {self.page} (byte {self.at_byte}), {self.tree}: {self.detail}"


class Leaf(NamedTuple):
    """A sound leaf page, and its rows."""

    number: int
    page: bytes
    rows: list[Row]


class _Visit(NamedTuple):
    """A page to visit, and what its parent says of it."""

    number: int
    levels: int
    """1: a leaf."""
    low: Key | None
    high: Key | None


@dataclass(slots=True)
class _Count:
    """What a walk counted in a tree."""

    branch_pages: int = 0
    leaf_pages: int = 0
    overflow_pages: int = 0
    rows: int = 0


class PageWalk:
    """One walk over several trees of one file."""

    def __init__(self, file: PageFile, last_page: int) -> None:
        self._file = file
        self._last_page = last_page
        self.used = BitMap64()
        """Pages met so far, in trees or in the free list."""
        self.free = BitMap64()
        self.faults: list[PageFault] = []

    def __repr__(self) -> str:
        return f"<PageWalk {len(self.used)} pages, {len(self.faults)} faults>"

    def leaves(
        self, name: str, tree: Tree, key_of: Callable[[bytes], Key] = bytes
    ) -> Iterator[Leaf]:
        """Yield the sound leaf pages of a tree in key order, without rows whose long value is not
        where they say."""
        if tree.root == NO_PAGE:
            return
        count, faults = _Count(), len(self.faults)
        visits = [_Visit(tree.root, tree.depth, None, None)]
        while visits:
            visit = visits.pop()
            try:
                self._take(visit.number, 1)
                page = self._file.page(visit.number)
                if visit.levels > 1:
                    visits += reversed(self._below(visit, page, key_of))
                    count.branch_pages += 1
                    continue
                found = rows(visit.number, page)
                _check_order(visit, [key_of(row.key) for row in found])
            except PageDamaged as error:
                self.fault(name, error)
                continue
            sound = self._with_values(name, found, count)
            count.leaf_pages += 1
            count.rows += len(found)
            yield Leaf(visit.number, page, sound)
        if len(self.faults) == faults:
            self._check_count(name, tree, count)

    def tables(self, main: Tree) -> dict[str, Tree]:
        """Return the trees of the tables, by name; rows that are not tables are left out."""
        found = {}
        for leaf in self.leaves(MAIN_TREE, main):
            for row in leaf.rows:
                name = row.key.decode("utf-8", "backslashreplace")
                if row.flags == SUB_TREE and row.size == TREE_BYTES:
                    found[name] = Tree.unpack(leaf.page, row.at)
        return found

    def free_list(self, tree: Tree) -> None:
        """Fill :attr:`free`. A page that is both free and in use would be overwritten."""
        for leaf in self.leaves(FREE_LIST, tree, _number):
            for row in leaf.rows:
                try:
                    self._take_free(leaf.number, self._file.value(leaf.page, row))
                except PageDamaged as error:
                    self.fault(FREE_LIST, error)

    def _take_free(self, number: int, value: bytes) -> None:
        count = PAGE_NUMBER.unpack_from(value)[0] if len(value) >= PAGE_NUMBER.size else -1
        if not 0 <= count < len(value) // PAGE_NUMBER.size:
            raise PageDamaged(
                number, f"expected a list of pages, got {count} in {len(value)} bytes"
            )
        pages = BitMap64(each for (each,) in PAGE_NUMBER.iter_unpack(value[8 : 8 + 8 * count]))
        twice = pages & self.used
        if len(pages) != count or twice or (pages and not self._inside(pages.min(), pages.max())):
            detail = f"expected pages of the file that nothing uses, got {[*(twice or pages)][:3]}"
            raise PageDamaged(number, detail)
        self.used |= pages
        self.free |= pages

    def _below(self, visit: _Visit, page: bytes, key_of: Callable[[bytes], Key]) -> list[_Visit]:
        """Return the visits to the pages below a branch page."""
        found = children(visit.number, page)
        # A branch page's first key is unused: its child has everything below the second key.
        keys: list[Key] = [key_of(key) for key, _ in found[1:]]
        _check_order(visit, keys)
        lows, highs = [visit.low, *keys], [*keys, visit.high]
        numbers = [number for _, number in found]
        if visit.levels > 2 or len(numbers) > 1:
            self._file.expect([each for each in numbers if each <= self._last_page])
        return [
            _Visit(number, visit.levels - 1, low, high)
            for number, low, high in zip(numbers, lows, highs, strict=True)
        ]

    def _with_values(self, name: str, found: list[Row], count: _Count) -> list[Row]:
        """Return ``found`` without the rows whose value cannot be where they say."""
        big = [row.at for row in found if row.flags & BIG_DATA and row.at <= self._last_page]
        if not any(row.flags & BIG_DATA for row in found):
            return found
        self._file.expect(big)
        sound = []
        for row in found:
            try:
                if row.flags & BIG_DATA:
                    if not self._inside(row.at, row.at):
                        raise PageDamaged(row.at, f"expected a page up to {self._last_page}")
                    pages = self._file.overflow(row.at, row.size).pages
                    self._take(row.at, pages)
                    count.overflow_pages += pages
                sound.append(row)
            except PageDamaged as error:
                self.fault(name, error)
        return sound

    def _take(self, number: int, pages: int) -> None:
        """Mark these pages as met. Raises :class:`PageDamaged` when that is impossible."""
        if not self._inside(number, number + pages - 1):
            raise PageDamaged(number, f"expected a page up to {self._last_page}")
        if pages == 1:
            twice = number in self.used
            self.used.add(number)
        else:
            twice = self.used.range_cardinality(number, number + pages) > 0
            self.used.add_range(number, number + pages)
        if twice:
            raise PageDamaged(number, "expected a page that nothing else uses")

    def _inside(self, first: int, last: int) -> bool:
        return first >= FIRST_PAGE and last <= self._last_page

    def _check_count(self, name: str, tree: Tree, count: _Count) -> None:
        expected = (tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.rows)
        found = (count.branch_pages, count.leaf_pages, count.overflow_pages, count.rows)
        if expected != found:
            detail = f"expected (branch, leaf, overflow pages, rows) {expected}, got {found}"
            self.fault(name, PageDamaged(tree.root, detail))

    def fault(self, name: str, error: PageDamaged) -> None:
        """Record a damaged page of the tree ``name``."""
        at_byte = error.page * self._file.page_bytes
        self.faults.append(PageFault(error.page, at_byte, name, str(error)))


def free_pages(file: PageFile, tree: Tree, last_page: int) -> BitMap64:
    """Return the free pages, as far as their list can be read."""
    walk = PageWalk(file, last_page)
    walk.free_list(tree)
    return walk.free


def last_transaction_of(file: PageFile, tree: Tree) -> int:
    """Return the last transaction that freed pages, by the end of the free list; 0 if that is
    unreadable. Every transaction but the first of a file frees some."""
    number = tree.root
    with suppress(PageDamaged):
        for _ in range(tree.depth - 1):
            number = children(number, file.page(number))[-1][1]
        if tree.depth and (found := rows(number, file.page(number))):
            return max(0, _number(found[-1].key))
    return 0


def pages_given_up_since(
    file: PageFile, tree: Tree, last_page: int, transactions: Collection[int]
) -> dict[int, int]:
    """Return how many pages were freed in each of ``transactions`` or later, as far as the free
    list can be read."""
    found = dict.fromkeys(transactions, 0)
    for leaf in PageWalk(file, last_page).leaves(FREE_LIST, tree, _number):
        for row in leaf.rows:
            given_up = _number(row.key)
            with suppress(PageDamaged):
                value = file.value(leaf.page, row)
                count = PAGE_NUMBER.unpack_from(value)[0] if len(value) >= PAGE_NUMBER.size else 0
                for transaction in found:
                    if given_up >= transaction:
                        found[transaction] += count
    return found


def _number(key: bytes) -> int:
    if len(key) != PAGE_NUMBER.size:
        return -1  # no transaction: it cannot come after another
    number: int = PAGE_NUMBER.unpack(key)[0]
    return number


def _check_order(visit: _Visit, keys: list[Key]) -> None:
    """Raise :class:`PageDamaged` unless ``keys`` ascend, within the parent page's bounds."""
    # Keys of one tree are all of one type, which mypy cannot know.
    if not all(low < high for low, high in itertools.pairwise(keys)):  # type: ignore[operator]
        raise PageDamaged(visit.number, "expected keys in ascending order")
    if keys and not (
        (visit.low is None or visit.low <= keys[0])  # type: ignore[operator]
        and (visit.high is None or keys[-1] < visit.high)  # type: ignore[operator]
    ):
        raise PageDamaged(visit.number, "expected keys between those of the page above")
