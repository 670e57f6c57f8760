"""Pages: the bytes of LMDB's data file, read without LMDB.

The rule: nothing here maps the file or trusts its contents. Every number is compared with its page
and the file before it is followed, so whatever the bytes are, the worst result is
:class:`PageDamaged`. LMDB has no checksums and reads through a memory map: there, a wrong number
ends the process.

The layout is that of LMDB 0.9 on a 64-bit machine, in its own byte order (``mdb.c``: ``MDB_page``,
``MDB_meta``, ``MDB_db``, ``MDB_node``). A page begins with its own number, its kind, and the bounds
of the free space between its pointers and its nodes; in a page of a long value (*overflow*) the
number of pages takes the place of the bounds.
"""

import os
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from struct import Struct, unpack_from
from typing import Final, NamedTuple, Self

from arneb_core.store.format.regular_file import open_regular

PAGE_BYTES: Final = 4096
"""LMDB's choice where the system's pages have this size; the file states its own."""

PAGE_BYTES_ALLOWED: Final = (4096, 8192, 16384, 32768, 65536)

HEADER: Final = Struct("=QHHHH")
"""Page number, unused, kind, lower and upper bound of the free space."""
OVERFLOW: Final = Struct("=QHHI")
"""Page number, unused, kind, number of pages."""
HEADER_BYTES: Final = HEADER.size

NODE: Final = Struct("=HHHH")
"""Data size in two halves, flags, key size. In a branch the first three are the child."""
NODE_BYTES: Final = NODE.size

TREE: Final = Struct("=IHHQQQQQ")
"""Unused (in a meta page the page size), flags, depth, branch, leaf and overflow pages, rows,
root."""
TREE_BYTES: Final = TREE.size

PAGE_NUMBER: Final = Struct("=Q")
NO_PAGE: Final = (1 << 64) - 1
FIRST_PAGE: Final = 2
"""The two meta pages come before it."""

BIG_DATA: Final = 1
SUB_TREE: Final = 2
"""Flags of a leaf node: its value is in overflow pages; its value is a :class:`Tree`."""


class PageKind(IntFlag):
    """What a page is."""

    BRANCH = 0x01
    LEAF = 0x02
    OVERFLOW = 0x04
    META = 0x08


class PageDamaged(Exception):
    """A page that is not what it must be; the text says what was expected and what was found."""

    def __init__(self, page: int, detail: str) -> None:
        super().__init__(detail)
        self.page = page


class Tree(NamedTuple):
    """A tree of pages: one table, or the list of free pages."""

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    rows: int
    root: int

    @classmethod
    def unpack(cls, value: bytes, offset: int = 0) -> Self:
        return cls(*TREE.unpack_from(value, offset))


class Row(NamedTuple):
    """A node of a leaf page."""

    key: bytes
    flags: int
    size: int
    """Bytes of the value."""
    at: int
    """Where the value begins in the page, or the number of its first overflow page."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """The place of a long value."""

    first: int
    pages: int


class PageFile:
    """A data file open for reading, page by page."""

    def __init__(self, path: Path, page_bytes: int = PAGE_BYTES) -> None:
        """Open the file. Raises :class:`OSError`."""
        self.path = path
        self.page_bytes = page_bytes
        self._fd = open_regular(path, os.O_RDONLY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<PageFile {self.path}, pages of {self.page_bytes} bytes>"

    @property
    def size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes, fewer at the end. Damaged pages may supply both numbers."""
        there = max(0, self.size - offset)
        return os.pread(self._fd, min(size, there), offset) if there else b""

    def page(self, number: int) -> bytes:
        """Return a whole page that bears its own number. Raises :class:`PageDamaged`."""
        page = self._read(number, self.page_bytes)
        if (found := PAGE_NUMBER.unpack_from(page)[0]) != number:
            raise PageDamaged(number, f"expected the page to carry its own number, got {found}")
        return page

    def overflow(self, number: int, size: int) -> Overflow:
        """Return the pages of a long value of ``size`` bytes, by their header. Raises
        :class:`PageDamaged`."""
        found, _, kind, pages = OVERFLOW.unpack(self._read(number, OVERFLOW.size))
        needed = overflow_pages(size, self.page_bytes)
        if found != number or kind != PageKind.OVERFLOW:
            raise PageDamaged(
                number, f"expected the first page of a long value, got kind {kind}, number {found}"
            )
        if pages < needed:
            detail = f"expected at least {needed} pages for {size} bytes, got {pages}"
            raise PageDamaged(number, detail)
        return Overflow(number, pages)

    def value(self, page: bytes, row: Row) -> bytes:
        """Return the value of a row, wherever it is. Raises :class:`PageDamaged`."""
        if not row.flags & BIG_DATA:
            return page[row.at : row.at + row.size]
        first = self.overflow(row.at, row.size).first
        value = self.read(first * self.page_bytes + HEADER_BYTES, row.size)
        if len(value) != row.size:
            detail = f"expected a value of {row.size} bytes, got {len(value)}: the file ends there"
            raise PageDamaged(first, detail)
        return value

    def expect(self, numbers: list[int]) -> None:
        """Have the system read these pages together, since they are needed next."""
        for number in numbers:
            offset = number * self.page_bytes
            os.posix_fadvise(self._fd, offset, self.page_bytes, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self, number: int, size: int) -> bytes:
        found = self.read(number * self.page_bytes, size)
        if len(found) != size:
            raise PageDamaged(number, f"expected {size} bytes, got {len(found)}: the file ends")
        return found


def overflow_pages(size: int, page_bytes: int) -> int:
    """Return how many pages a long value takes."""
    return (HEADER_BYTES - 1 + size) // page_bytes + 1


def kind_of(page: bytes) -> int:
    """Return the kind field of a page."""
    kind: int = HEADER.unpack_from(page)[2]
    return kind


def children(number: int, page: bytes) -> list[tuple[bytes, int]]:
    """Return each child of a branch page, with the key at which its rows begin (the first: none).

    Raises :class:`PageDamaged` unless every byte of the page is accounted for.
    """
    pointers = _pointers(number, page, PageKind.BRANCH)
    found = []
    extents = {}
    for pointer in pointers:
        low, high, top, key_bytes = NODE.unpack_from(page, pointer)
        end = pointer + NODE_BYTES + key_bytes
        extents[pointer] = end + (end & 1)
        found.append((page[pointer + NODE_BYTES : end], low | high << 16 | top << 32))
    _check_extents(number, page, pointers, extents)
    return found


def rows(number: int, page: bytes) -> list[Row]:
    """Return the rows of a leaf page, in key order.

    Raises :class:`PageDamaged` unless every byte of the page is accounted for.
    """
    pointers = _pointers(number, page, PageKind.LEAF)
    found = []
    extents = {}
    for pointer in pointers:
        low, high, flags, key_bytes = NODE.unpack_from(page, pointer)
        size = low | high << 16
        at = pointer + NODE_BYTES + key_bytes
        end = at + (PAGE_NUMBER.size if flags & BIG_DATA else size)
        extents[pointer] = end + (end & 1)
        key = page[pointer + NODE_BYTES : at]
        if flags & BIG_DATA and end <= len(page):
            at = PAGE_NUMBER.unpack_from(page, at)[0]
        if flags not in (0, BIG_DATA, SUB_TREE):
            raise PageDamaged(number, f"expected a row with known flags, got {flags:#x}")
        found.append(Row(key, flags, size, at))
    _check_extents(number, page, pointers, extents)
    return found


def _pointers(number: int, page: bytes, expected: PageKind) -> tuple[int, ...]:
    _, _, kind, lower, upper = HEADER.unpack_from(page)
    if kind != expected:
        raise PageDamaged(number, f"expected a {expected.name} page, got kind {kind:#x}")
    if not HEADER_BYTES < lower <= upper <= len(page) or lower & 1 or upper & 1:
        detail = f"expected free space inside the page, got {lower} to {upper}"
        raise PageDamaged(number, detail)
    pointers = unpack_from(f"={(lower - HEADER_BYTES) // 2}H", page, HEADER_BYTES)
    if min(pointers) < upper or max(pointers) > len(page) - NODE_BYTES:
        raise PageDamaged(number, f"expected nodes from {upper} on, got {sorted(pointers)[:3]}")
    return pointers


def _check_extents(
    number: int, page: bytes, pointers: tuple[int, ...], extents: dict[int, int]
) -> None:
    """Expect the nodes to be contiguous, from the end of the free space to the end of the page:
    LMDB moves them by their sizes, and trusts that."""
    at: int = HEADER.unpack_from(page)[4]
    for pointer in sorted(pointers):
        if pointer != at:
            raise PageDamaged(number, f"expected a node at byte {at}, got one at {pointer}")
        at = extents[pointer]
    if at != len(page):
        raise PageDamaged(number, f"expected the last node to end at {len(page)}, got {at}")
