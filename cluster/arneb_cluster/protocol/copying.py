"""Copying: the exchange in which one node gives another a copy of its directory. No I/O.

The rule: the taker asks, one chunk at a time, and accepts only chunks with the right checksum.
Progress is counted in whole chunks, so an interrupted copy continues where it was, from the same
copy or not at all. Nothing is copied before trimming is known to wait for the taker
(:mod:`.trimming`).

======== ======== =============================================================================
who      says     what
======== ======== =============================================================================
gives    SOURCE_STATE history, number and place of what it has: for the taker's report
gives    MADE     a copy is made: its name, and the files with their sizes
takes    NEED     a file and the number of a chunk of it
gives    CHUNK    the checksum of the chunk, and the chunk
takes    DONE     it has all of it
gives    REFUSED  why it gives nothing
======== ======== =============================================================================

The taker's first request is part of the internal port's request (:class:`Wanted`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from hashlib import sha256
from struct import Struct
from typing import Any, Final, TypeGuard

from arneb_cluster.protocol.values import Place

CHUNK_BYTES: Final = 1 << 20
"""Bytes of a chunk, held in memory on either side; an interruption costs at most one."""

HEAD: Final = Struct(">IB")
"""The size and the kind of what follows."""

HASH_BYTES: Final = 32

FRAME_BYTES_MAX: Final = CHUNK_BYTES + HASH_BYTES

TEXT_BYTES_MAX: Final = 4_096
"""Bytes of everything but a chunk."""

FILES_MAX: Final = 4


class Kind(IntEnum):
    """The kinds of frames."""

    SOURCE_STATE = 1
    MADE = 2
    NEED = 3
    CHUNK = 4
    DONE = 5
    REFUSED = 6


class CopyBroken(Exception):
    """A frame is invalid or damaged. The text says what was expected."""


class CopyRefused(Exception):
    """The other node refuses to give a copy, and says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request for a copy."""

    node: str
    run: str
    """The taker's run, as in its reports."""
    copy: str = ""
    """The name of a copy of which it has a part."""

    def pack(self) -> bytes:
        """Return it as bytes for the request."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class SourceState:
    """What the giver has on disk."""

    history: str
    number: int
    place: Place


@dataclass(frozen=True, slots=True)
class Made:
    """A copy that is ready."""

    copy: str
    number: int
    """The copy has at least this record."""
    files: Mapping[str, int]
    """File sizes in bytes."""


def parse_wanted(data: bytes) -> Wanted:
    """Raises :class:`CopyBroken`."""
    found = _document(data)
    texts = [found.get(name) for name in ("node", "run", "copy")]
    node, run, copy = texts
    if isinstance(node, str) and isinstance(run, str) and isinstance(copy, str):
        return Wanted(node, run, copy)
    raise CopyBroken(f"expected a request for a copy, got {data[:200]!r}")


def frame(kind: Kind, body: bytes = b"") -> bytes:
    """Return a frame as bytes on the wire."""
    return HEAD.pack(len(body), kind) + body


def source_state_frame(state: SourceState) -> bytes:
    """Return the frame with what the giver has."""
    return frame(Kind.SOURCE_STATE, json.dumps(asdict(state)).encode())


def made_frame(made: Made) -> bytes:
    """Return the frame that a copy is ready."""
    document = {"copy": made.copy, "number": made.number, "files": dict(made.files)}
    return frame(Kind.MADE, json.dumps(document).encode())


def need_frame(file: str, index: int) -> bytes:
    """Return the frame that asks for a chunk."""
    return frame(Kind.NEED, json.dumps([file, index]).encode())


def chunk_frame(chunk: bytes) -> bytes:
    """Return the frame of a chunk."""
    return frame(Kind.CHUNK, sha256(chunk).digest() + chunk)


def refused_frame(why: str) -> bytes:
    """Return the frame of a refusal."""
    return frame(Kind.REFUSED, why.encode()[:TEXT_BYTES_MAX])


def parse_source_state(body: bytes) -> SourceState:
    """Raises :class:`CopyBroken`."""
    found = _document(body)
    history, number, place = found.get("history"), found.get("number"), found.get("place")
    if not isinstance(history, str) or not _is_number(number) or not isinstance(place, list):
        raise CopyBroken(f"expected what a node has, got {body[:200]!r}")
    if len(place) != 2 or not all(map(_is_number, place)):
        raise CopyBroken(f"expected a place, got {place!r:.100}")
    return SourceState(history, number, Place(*place))


def parse_made(body: bytes, names: frozenset[str]) -> Made:
    """``names``: the possible file names. Raises :class:`CopyBroken`."""
    found = _document(body)
    copy, number, files = found.get("copy"), found.get("number"), found.get("files")
    if not isinstance(copy, str) or not _is_number(number) or not isinstance(files, dict):
        raise CopyBroken(f"expected a copy that is made, got {body[:200]!r}")
    if not 1 <= len(files) <= FILES_MAX or not names.issuperset(files):
        raise CopyBroken(f"expected files of {sorted(names)}, got {list(files)!r:.200}")
    if not all(_is_number(size) and size >= 0 for size in files.values()):
        raise CopyBroken(f"expected sizes of files, got {files!r:.200}")
    return Made(copy, number, files)


def parse_need(body: bytes) -> tuple[str, int]:
    """Raises :class:`CopyBroken`."""
    try:
        file, index = json.loads(body)
    except (ValueError, TypeError, RecursionError) as error:
        raise CopyBroken(f"expected a file and a chunk of it, got {body[:100]!r}") from error
    if not isinstance(file, str) or not _is_number(index) or index < 0:
        raise CopyBroken(f"expected a file and a chunk of it, got {body[:100]!r}")
    return file, index


class Frames:
    """Received frames, one at a time."""

    def __init__(self, early: bytes = b"") -> None:
        self._held = bytearray(early)

    def __repr__(self) -> str:
        return f"<Frames, {len(self._held)} bytes held>"

    def receive(self, data: bytes | bytearray) -> None:
        """Take input."""
        self._held += data

    def next(self) -> tuple[Kind, bytes] | None:
        """Return the next frame if it is complete. Raises :class:`CopyBroken` as soon as it is
        known, and :class:`CopyRefused`."""
        if len(self._held) < HEAD.size:
            return None
        size, number = HEAD.unpack_from(self._held)
        try:
            kind = Kind(number)
        except ValueError:
            raise CopyBroken(f"expected one of {list(Kind)}, got kind {number}") from None
        size_max = FRAME_BYTES_MAX if kind is Kind.CHUNK else TEXT_BYTES_MAX
        if size > size_max:
            raise CopyBroken(f"expected {kind.name} of at most {size_max} bytes, got {size}")
        if len(self._held) < HEAD.size + size:
            return None
        body = bytes(memoryview(self._held)[HEAD.size : HEAD.size + size])
        del self._held[: HEAD.size + size]
        if kind is Kind.REFUSED:
            raise CopyRefused(body.decode("utf-8", "replace"))
        return kind, body


@dataclass(slots=True)
class Taking:
    """The progress of a copy: which chunk comes next, and whether a received one is valid."""

    made: Made
    done: dict[str, int] = field(default_factory=dict)
    """Chunks received, by file."""

    @property
    def bytes_total(self) -> int:
        """The bytes of the whole copy."""
        return sum(self.made.files.values())

    @property
    def bytes_done(self) -> int:
        """The bytes received."""
        sizes = self.made.files
        return sum(min(n * CHUNK_BYTES, sizes.get(name, 0)) for name, n in self.done.items())

    def need(self) -> tuple[str, int] | None:
        """Return what to ask for next; None: the copy is complete."""
        for name, size in self.made.files.items():
            index = self.done.get(name, 0)
            if index * CHUNK_BYTES < size:
                return name, index
        return None

    def take(self, body: bytes) -> tuple[str, int, bytes]:
        """Check a chunk and return its file, its offset and its bytes; call :meth:`written` next.
        Raises :class:`CopyBroken`."""
        asked = self.need()
        if asked is None:
            raise CopyBroken("expected nothing more, got a chunk")
        name, index = asked
        chunk = body[HASH_BYTES:]
        expected = min(CHUNK_BYTES, self.made.files[name] - index * CHUNK_BYTES)
        if len(chunk) != expected:
            raise CopyBroken(f"expected {expected} bytes of chunk {index}, got {len(chunk)}")
        if sha256(chunk).digest() != body[:HASH_BYTES]:
            raise CopyBroken(f"expected chunk {index} of {name} to have the checksum sent with it")
        return name, index * CHUNK_BYTES, chunk

    def written(self) -> None:
        """Note that the chunk is in its file."""
        asked = self.need()
        assert asked is not None, "a chunk was taken"
        name, index = asked
        self.done[name] = index + 1

    def pack(self) -> bytes:
        """Return the progress as bytes, to resume later."""
        made = {"copy": self.made.copy, "number": self.made.number, "files": dict(self.made.files)}
        return json.dumps({"made": made, "done": self.done}).encode()

    @classmethod
    def unpack(cls, data: bytes, names: frozenset[str]) -> "Taking":
        """Raises :class:`CopyBroken`."""
        found = _document(data)
        made = parse_made(json.dumps(found.get("made")).encode(), names)
        done = found.get("done")
        if not isinstance(done, dict) or not all(
            name in made.files and _is_number(count) and count >= 0 for name, count in done.items()
        ):
            raise CopyBroken(f"expected how far a copy is, got {data[:200]!r}")
        return cls(made, dict(done))


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CopyBroken(f"expected a document, got {data[:100]!r}") from error
    if not isinstance(found, dict):
        raise CopyBroken(f"expected a document, got {data[:100]!r}")
    return found


def _is_number(value: Any) -> TypeGuard[int]:
    return type(value) is int
