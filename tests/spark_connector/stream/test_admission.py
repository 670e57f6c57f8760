"""Admission: limits are kept, shared out by backlog, and nobody is left behind."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent, LedgerExtent
from pyspark_arneb.stream.admission import Limits, admit, shares
from pyspark_arneb.stream.backlog import Backlog, backlog_of, messages_until, part_of

BEYOND = Position(1 << 62)


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[LedgerExtent, ...]:
    """Consecutive ledgers of a topic, the first of them perhaps cut off at its front."""
    found: list[LedgerExtent] = []
    before = draw(st.integers(0, 9))
    for number in range(1, draw(st.integers(0, 4)) + 1):
        first = position_at(number, draw(st.integers(0, 3)) if number == 1 else 0)
        entries = draw(st.integers(1, 30))
        messages = entries + draw(st.integers(0, 3)) * entries
        size = draw(st.integers(0, 100)) * entries
        last = Position(first + entries - 1)
        found.append(LedgerExtent(first, last, messages, 0, 1, size, before))
        before += messages
    return tuple(found)


@st.composite
def extents(draw: st.DrawFn) -> Extent:
    found = draw(ledgers())
    end = Position(found[-1].last + 1) if found else position_at(1, 0)
    before = found[0].messages_before if found else 0
    return Extent(TopicId(1), "t", found, position_at(1, 0), end, before)


@st.composite
def backlogs(draw: st.DrawFn) -> Backlog:
    extent = draw(extents())
    begin = draw(st.builds(position_at, st.integers(1, 4), st.integers(0, 30)))
    return backlog_of(extent, Position(min(begin, extent.end)), BEYOND)


SOME = st.lists(backlogs(), max_size=5)
BOUNDS = st.none() | st.integers(1, 300)


@given(st.lists(st.integers(0, 1000), min_size=1), st.data())
def test_shares_are_the_limit_together_and_each_within_its_size(
    sizes: list[int], data: st.DataObject
) -> None:
    if sum(sizes) == 0:
        return
    limit = data.draw(st.integers(0, sum(sizes) - 1))
    found = shares(sizes, limit)
    assert sum(found) == limit
    for share, size in zip(found, sizes, strict=True):
        quota = limit * size / sum(sizes)
        assert 0 <= share <= size
        assert abs(share - quota) < 1


@given(SOME)
def test_without_limits_everything_is_taken(found: list[Backlog]) -> None:
    assert admit(found, Limits()) == [backlog.end for backlog in found]


@given(SOME, BOUNDS, BOUNDS)
def test_what_fits_is_taken_whole(
    found: list[Backlog], messages: int | None, size: int | None
) -> None:
    enough = Limits(
        max(messages or 0, sum(backlog.messages for backlog in found)) or 1,
        max(size or 0, sum(backlog.bytes_total for backlog in found)) or 1,
    )
    assert admit(found, enough) == [backlog.end for backlog in found]


@given(SOME, BOUNDS, BOUNDS)
def test_every_topic_with_a_backlog_gets_on_and_none_leaves_its_log(
    found: list[Backlog], messages: int | None, size: int | None
) -> None:
    for backlog, end in zip(found, admit(found, Limits(messages, size)), strict=True):
        assert backlog.begin <= end <= max(backlog.begin, backlog.end)
        assert (end > backlog.begin) == bool(backlog.ledgers)
        assert end == backlog.begin or any(
            ledger.first < end <= ledger.last + 1 for ledger in backlog.ledgers
        )


@given(SOME, BOUNDS, BOUNDS)
def test_no_limit_is_passed_but_for_one_entry_a_topic(
    found: list[Backlog], messages: int | None, size: int | None
) -> None:
    taken = [
        _until(backlog, end)
        for backlog, end in zip(found, admit(found, Limits(messages, size)), strict=True)
    ]
    # Parts of a ledger are counted in proportion, which rounds by less than one.
    larger = [part for part in taken if part.entries > 1]
    if messages is not None:
        assert sum(part.messages for part in larger) <= messages + len(larger) * 4
    if size is not None:
        assert sum(part.bytes_total for part in larger) <= size + len(larger) * 4


@given(SOME, st.integers(1, 200))
def test_a_query_comes_to_the_end_in_as_many_batches_as_it_needs(
    found: list[Backlog], messages: int
) -> None:
    """Again and again from where the last batch ended, every entry is taken once."""
    limits = Limits(messages)
    for _ in range(1 + sum(_until(backlog, backlog.end).entries for backlog in found)):
        ends = admit(found, limits)
        found = [
            Backlog(end, _behind(backlog, end)) for backlog, end in zip(found, ends, strict=True)
        ]
    assert all(not backlog.ledgers for backlog in found)


@given(extents(), st.integers(0, 40), st.integers(0, 40))
def test_parts_of_a_log_add_up(extent: Extent, one: int, other: int) -> None:
    low, high = sorted((one, other))
    for ledger in extent.ledgers:
        cuts = [ledger.first, Position(ledger.first + low), Position(ledger.first + high), BEYOND]
        parts = [part_of(ledger, a, b) for a, b in pairwise(cuts)]
        there = [part for part in parts if part is not None]
        assert [at for part in there for at in range(part.first, part.last + 1)] == list(
            range(ledger.first, ledger.last + 1)
        )
        assert sum(part.messages for part in there) == ledger.messages
        assert there[0].messages_before == ledger.messages_before
    whole = sum(ledger.messages for ledger in extent.ledgers) + extent.messages_before
    assert messages_until(extent, extent.end) == whole


def _until(backlog: Backlog, end: Position) -> "_Taken":
    parts = [part_of(ledger, backlog.begin, end) for ledger in backlog.ledgers]
    return _Taken([part for part in parts if part is not None])


def _behind(backlog: Backlog, end: Position) -> tuple[LedgerExtent, ...]:
    parts = [part_of(ledger, end, BEYOND) for ledger in backlog.ledgers]
    return tuple(part for part in parts if part is not None)


class _Taken:
    def __init__(self, parts: Sequence[LedgerExtent]) -> None:
        self.entries = sum(part.entries for part in parts)
        self.messages = sum(part.messages for part in parts)
        self.bytes_total = sum(part.bytes_total for part in parts)
