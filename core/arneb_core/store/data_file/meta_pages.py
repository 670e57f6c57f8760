"""Meta pages: what the data file says of itself, and whether that is possible.

The rule: they are checked before LMDB maps a file. A file shorter than it says ends any process
that maps it with SIGBUS at the missing page, and an empty file would become a new store; here both
are one line of error.

LMDB writes the two meta pages in turn, so their transaction numbers differ by one, the even number
is in the first page, and the higher one counts. They have no checksum: the numbers and the sizes
are all that can be verified.

A page whose writing failed may be seen as it was to be, although only the system's cache has it so.
What the next writer builds on it must not outlive it, or the numbers would differ by three after a
power cut. So whoever opens the file for writing puts both pages on disk first, as it sees them.
"""

import os
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from arneb_core.api.errors import ForeignDirectory, FormatMismatch, StoreDamaged
from arneb_core.store.data_file.page_walk import FREE_LIST, MAIN_TREE, free_pages
from arneb_core.store.data_file.pages import (
    FIRST_PAGE,
    HEADER,
    HEADER_BYTES,
    NO_PAGE,
    PAGE_BYTES_ALLOWED,
    TREE_BYTES,
    PageDamaged,
    PageFile,
    PageKind,
    Tree,
)
from arneb_core.store.format.regular_file import open_regular

MAGIC: Final = 0xBEEFC0DE
VERSION: Final = 1
HEAD: Final = Struct("=IIQQ")
"""Magic, version, address, map size; then two trees."""
TAIL: Final = Struct("=QQ")
"""Last page, transaction."""
TREES_AT: Final = HEADER_BYTES + HEAD.size
TAIL_AT: Final = TREES_AT + 2 * TREE_BYTES
META_BYTES: Final = TAIL_AT + TAIL.size
DEPTH_MAX: Final = 32
"""The deepest that a cursor of LMDB goes."""

READ_TRIES: Final = 100
"""A broker may write them while they are read: two readings in a row must agree."""


class Meta(NamedTuple):
    """A meta page."""

    page: int
    page_bytes: int
    free: Tree
    main: Tree
    last_page: int
    transaction: int

    @property
    def file_bytes(self) -> int:
        """The least length of the file, according to this page."""
        return (self.last_page + 1) * self.page_bytes


def check_file(path: Path) -> Meta:
    """Return the meta page of the data file ``path`` that counts, after checking that the file is
    as long as it says.

    Raises :class:`.ForeignDirectory` for a file that is empty or not LMDB's,
    :class:`.FormatMismatch` for one of another LMDB, :class:`.StoreDamaged`, :class:`OSError`.
    """
    with PageFile(path) as file:
        return check_opened(file)


def check_opened(file: PageFile) -> Meta:
    """Do the same for an open file."""
    meta = newest(read_metas(file), file.path)
    _check_length(file, meta)
    return meta


def write_metas_again(path: Path) -> None:
    """Put both meta pages on disk as they are seen now. For whoever may write the file, before LMDB
    opens it; to readers nothing changes. Raises as :func:`check_file`."""
    with PageFile(path) as file:
        check_opened(file)
        pages = file.read(0, 2 * file.page_bytes)
    fd = open_regular(path, os.O_WRONLY)
    try:
        if os.pwrite(fd, pages, 0) != len(pages):
            raise OSError(f"cannot write the meta pages of {path}")
        os.fdatasync(fd)
    finally:
        os.close(fd)


def read_metas(file: PageFile) -> list["Meta | PageDamaged"]:
    """Return both meta pages, or what is wrong with them; sets the page size of ``file``.

    Raises as :func:`check_file` when the file is not LMDB's.
    """
    size = file.size
    if size == 0:
        raise ForeignDirectory(f"{file.path} is empty: expected a store, or no such file")
    _find_page_size(file)
    head = b""
    for _ in range(READ_TRIES):
        before, head = head, file.read(0, 2 * file.page_bytes)
        if head == before:
            break
    found: list[Meta | PageDamaged] = []
    for index in (0, 1):
        try:
            start = index * file.page_bytes
            found.append(_parse(index, head[start : start + file.page_bytes], file.page_bytes))
        except PageDamaged as error:
            found.append(error)
    return found


def out_of_step(first: Meta, second: Meta) -> str | None:
    """Return what is wrong between two meta pages that are each whole."""
    one, other = first.transaction, second.transaction
    # Both are 0 in a file in which nothing was ever committed.
    if abs(one - other) == 1 or not (one or other):
        return None
    return f"expected two transactions that follow each other, got {one} and {other}"


def newest(metas: list["Meta | PageDamaged"], path: Path) -> Meta:
    """Return the one that counts. Raises :class:`.StoreDamaged` unless LMDB could leave both so."""
    for each in metas:
        if isinstance(each, PageDamaged):
            raise StoreDamaged(f"{path}: meta page {each.page} is damaged: {each}")
    first, second = metas
    assert isinstance(first, Meta)
    assert isinstance(second, Meta)
    if (apart := out_of_step(first, second)) is not None:
        raise StoreDamaged(f"{path}: the meta pages are damaged: {apart}")
    meta = max(first, second, key=lambda meta: meta.transaction)
    for what, tree in ((FREE_LIST, meta.free), (MAIN_TREE, meta.main)):
        inside = FIRST_PAGE <= tree.root <= meta.last_page
        if tree.depth > DEPTH_MAX or not (inside if tree.depth else tree.root == NO_PAGE):
            raise StoreDamaged(
                f"{path}: meta page {meta.page} is damaged: expected the {what} to begin in a "
                f"page up to {meta.last_page}, got page {tree.root}, depth {tree.depth}"
            )
    return meta


def _find_page_size(file: PageFile) -> None:
    """Take the page size from either meta page. Raises :class:`.ForeignDirectory` when neither is a
    meta page, and :class:`.FormatMismatch` when they are another LMDB's."""
    head = file.read(0, 2 * PAGE_BYTES_ALLOWED[-1])
    for size in PAGE_BYTES_ALLOWED:
        for start in (0, size):
            meta = head[start : start + META_BYTES]
            if len(meta) < META_BYTES:
                continue
            magic, version, *_ = HEAD.unpack_from(meta, HEADER_BYTES)
            if magic == MAGIC and version != VERSION and start == 0:
                raise FormatMismatch(f"{file.path} was written by another LMDB engine")
            if magic == MAGIC and Tree.unpack(meta, TREES_AT).pad == size:
                file.page_bytes = size
                return
    raise ForeignDirectory(f"{file.path} is not a file of LMDB 0.9")


def _parse(index: int, page: bytes, page_bytes: int) -> Meta:
    if len(page) < page_bytes:
        raise PageDamaged(index, f"expected {page_bytes} bytes, got {len(page)}: the file ends")
    number, _, kind, *_ = HEADER.unpack_from(page)
    magic, version, *_ = HEAD.unpack_from(page, HEADER_BYTES)
    if (number, kind, magic, version) != (index, PageKind.META, MAGIC, VERSION):
        raise PageDamaged(index, "expected a meta page of LMDB 0.9")
    free, main = Tree.unpack(page, TREES_AT), Tree.unpack(page, TREES_AT + TREE_BYTES)
    last_page, transaction = TAIL.unpack_from(page, TAIL_AT)
    if free.pad != page_bytes:
        raise PageDamaged(index, f"expected a page size of {page_bytes}, got {free.pad}")
    if transaction and transaction & 1 != index:
        raise PageDamaged(index, f"expected transaction {transaction} in the other meta page")
    return Meta(index, page_bytes, free, main, last_page, transaction)


def _check_length(file: PageFile, meta: Meta) -> None:
    size = file.size
    if size >= meta.file_bytes:
        return
    # Pages at the end that one transaction used and freed again are never written.
    missing = range(size // meta.page_bytes, meta.last_page + 1)
    free = free_pages(file, meta.free, meta.last_page)
    if free.range_cardinality(missing.start, missing.stop) == len(missing):
        return
    raise StoreDamaged(
        f"{file.path} is cut off: expected at least {meta.file_bytes} bytes "
        f"by its meta pages, got {size}"
    )
