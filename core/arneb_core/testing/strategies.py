"""Hypothesis strategies for the core's values: entries, positions, ledgers, acknowledgements.

The rule: values are valid, dense around the places where mistakes are likely (the ends of ledgers,
multiples of 65,536), and small where size shows nothing new.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from arneb_core.api.entries.entry import EntryFlag, EntryHeader, Origin
from arneb_core.api.entries.position import (
    AFTER_ALL,
    ENTRY_MASK,
    LedgerId,
    Position,
    ledger_of,
    position_at,
)
from arneb_core.cursor.holes import CHUNK_SIZE
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo

SMALL_SIZES = (0, 1, 2, 3, 7)
CHUNK_SIZES = (CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 2 * CHUNK_SIZE)
"""Ledger sizes around a chunk of holes."""

TIMES_MS = st.integers(0, (1 << 64) - 1)
EDGE_REACH = 3
"""How many entries on either side of an edge are interesting."""


def entry_headers(messages_max: int = (1 << 32) - 1) -> st.SearchStrategy[EntryHeader]:
    """Generate any header that can be written."""
    return st.builds(
        EntryHeader,
        origin=st.sampled_from(Origin),
        messages=st.integers(1, messages_max),
        flags=st.sampled_from([EntryFlag.NONE, EntryFlag.TRANSIENT]),
        priority=st.integers(0, 255),
        publish_time_ms=TIMES_MS,
        deliver_at_ms=TIMES_MS,
        expires_at_ms=TIMES_MS,
        key_hash=st.integers(0, 0x7FFFFFFF),
        hint=st.integers(0, 0xFFFF),
    )


def entries(body_bytes_max: int = 40, messages_max: int = 5) -> st.SearchStrategy[bytes]:
    """Generate entries: a header and a body that no frontend can read."""
    bodies = st.binary(max_size=body_bytes_max)
    return st.builds(lambda header, body: header.pack() + body, entry_headers(messages_max), bodies)


def positions(ledger_max: int = (1 << 31) - 2) -> st.SearchStrategy[Position]:
    """Generate any position, in a log or not, including bounds that are no entry."""
    edges = st.sampled_from([0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, ENTRY_MASK - 1, ENTRY_MASK])
    return st.builds(
        position_at, st.integers(1, ledger_max), st.one_of(edges, st.integers(0, ENTRY_MASK))
    )


@st.composite
def ledger_infos(
    draw: st.DrawFn, sizes: Sequence[int] = SMALL_SIZES, ledgers_max: int = 4
) -> list[LedgerInfo]:
    """Generate ledgers of one topic: gaps between the ids, empty ones, the last one open or not.

    Each entry is one message of ten bytes.
    """
    infos: list[LedgerInfo] = []
    ledger, now_ms = 0, 1
    for size in draw(st.lists(st.sampled_from(sizes), max_size=ledgers_max)):
        ledger += draw(st.integers(1, 3))
        infos.append(LedgerInfo(LedgerId(ledger), size, size, 10 * size, now_ms, now_ms + 5))
        now_ms += 10
    ends_open = draw(st.booleans())
    if infos and ends_open:
        last = infos.pop()
        infos.append(LedgerInfo(last.id, last.entries, last.messages, last.bytes, now_ms))
    return infos


def log_of(*sizes: int) -> LedgerIndex:
    """Return ledgers 1, 2, … of these sizes, the last one open."""
    ledgers = LedgerIndex()
    for size in sizes:
        if ledgers.current:
            ledgers.close(1)
        ledgers.open(ledger_of(ledgers.next_append), 1)
        if size:
            ledgers.extend(size, size, size)
    return ledgers


def everything(ledgers: LedgerIndex) -> list[Position]:
    """Return every entry of a log, in order."""
    runs = ledgers.runs(ledgers.floor, AFTER_ALL)
    return [Position(position) for first, last in runs for position in range(first, last + 1)]


def ledger_indexes(
    sizes: Sequence[int] = SMALL_SIZES, ledgers_max: int = 4
) -> st.SearchStrategy[LedgerIndex]:
    """Generate the ledgers of :func:`ledger_infos` as an index."""
    return st.builds(LedgerIndex, ledger_infos(sizes, ledgers_max))


def edge_positions(ledgers: LedgerIndex) -> list[Position]:
    """Return the entries near the ends of ledgers and of chunks, in order.

    All entries of a small log, and few of a big one: a model of these alone is quick, and ranges
    fill the rest.
    """
    found: set[Position] = set()
    for info in ledgers:
        edges = {*range(0, info.entries, CHUNK_SIZE), info.entries}
        near = {edge + step for edge in edges for step in range(-EDGE_REACH, EDGE_REACH + 1)}
        found |= {position_at(info.id, entry) for entry in near if 0 <= entry < info.entries}
    return sorted(found)


def filling(ledgers: LedgerIndex, edges: Sequence[Position]) -> list[range]:
    """Return the entries that are not in ``edges``, as ranges in order."""
    stretches: list[range] = []
    wanted = set(edges)
    for first, last in ledgers.runs(ledgers.floor, AFTER_ALL):
        inside = [position for position in wanted if first <= position <= last]
        bounds = [first - 1, *sorted(inside), last + 1]
        gaps = pairwise(bounds)
        stretches += [range(low + 1, high) for low, high in gaps if high - low > 1]
    return stretches


@dataclass(frozen=True, slots=True)
class Picks:
    """Which positions of a log are acknowledged together, and how they are sent.

    Independent of the log, so that one strategy serves all logs (building a strategy for each step
    of a state machine takes longer than the step).
    """

    start: int
    length: int
    step: int
    seed: int
    """0: in order, once; otherwise the shuffling seed, and doubled when even."""
    beyond: int
    """Number of positions past the log's last entry, which may be appended later."""
    strangers: tuple[Position, ...]
    """Positions that are mostly not in the log."""

    def of(self, universe: Sequence[Position]) -> list[Position]:
        """Return the positions, taken from ``universe``, the entries of the log."""
        start = self.start % (len(universe) + 1)
        last = universe[-1] if universe else position_at(1, -1)
        beyond = [Position(last + 1 + step) for step in range(self.beyond)]
        chosen = [*universe[start :: self.step][: self.length], *beyond, *self.strangers]
        if self.seed:
            chosen.sort(key=lambda position: hash((self.seed, position)))
        return chosen if self.seed % 2 else chosen * (1 + (self.seed > 0))


STRANGERS = positions(ledger_max=12) | st.sampled_from(
    [Position(0), Position(5 << 70), Position(-3)]
)

picks = st.builds(
    Picks,
    start=st.integers(0, 100),
    length=st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 7, 10, 20, 100]),
    step=st.sampled_from([1, 1, 1, 2, 3]),
    seed=st.sampled_from([0, 0, 0, 1, 2, 3]),
    beyond=st.sampled_from([0, 0, 0, 2, 9]),
    strangers=st.just(()) | st.tuples(STRANGERS) | st.tuples(STRANGERS, STRANGERS),
)
"""Acknowledgements as a client may send them: runs, strides, any order, twice, and unknown ones."""


def masks(messages: int) -> st.SearchStrategy[int]:
    """Generate masks of a batch's messages; bits beyond it may be set."""
    return st.integers(0, (1 << (messages + 1)) - 1)
