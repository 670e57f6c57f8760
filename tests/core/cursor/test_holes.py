"""Holes: a set of positions in chunks, and which chunks changed."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import ENTRY_MASK, Position, position_at
from arneb_core.cursor.holes import CHUNK_SIZE, Holes, by_chunk, of_run
from arneb_core.cursor.unsaved import Unsaved

LOW = st.sampled_from([0, 1, 2, 63, 64, CHUNK_SIZE - 2, CHUNK_SIZE - 1])
PLACES = st.builds(
    lambda ledger, chunk, low: position_at(ledger, chunk * CHUNK_SIZE + low),
    st.integers(1, 2),
    st.integers(0, 2),
    LOW,
)
SETS = st.sets(PLACES, max_size=12)


def holes_of(positions: set[Position]) -> Holes:
    holes = Holes()
    for position in positions:
        assert holes.add(position)
    return holes


def content(holes: Holes) -> set[Position]:
    return {
        Position(key * CHUNK_SIZE + low) for key, chunk in holes._chunks.items() for low in chunk
    }


def joined(parts: object) -> list[int]:
    return [key * CHUNK_SIZE + low for key, lows in parts for low in lows]  # type: ignore[attr-defined]


@given(st.lists(PLACES, max_size=20))
def test_positions_are_sorted_into_chunks(positions: list[Position]) -> None:
    assert sorted(joined(by_chunk(positions))) == sorted(set(positions))


@given(st.lists(PLACES | st.sampled_from([Position(-1), Position(1 << 64), Position(1 << 90)])))
def test_what_cannot_be_a_position_is_left_out(positions: list[Position]) -> None:
    possible = {position for position in positions if 0 <= position < 1 << 63}
    assert set(joined(by_chunk(positions))) >= possible
    assert not any(position in set(joined(by_chunk(positions))) for position in (-1, 1 << 90))


@given(PLACES, st.integers(0, CHUNK_SIZE + 2))
def test_a_run_is_cut_at_the_ends_of_chunks(first: Position, length: int) -> None:
    assert joined(of_run(first, Position(first + length))) == list(range(first, first + length + 1))


@given(SETS, SETS)
def test_putting_in_counts_what_is_new(held: set[Position], more: set[Position]) -> None:
    holes = holes_of(held)
    assert sum([holes.add_lows(*part) for part in by_chunk(list(more))]) == len(more - held)
    assert content(holes) == held | more
    assert holes.count == len(held | more)
    assert not any(holes.add(position) for position in held | more)


@given(SETS, SETS)
def test_taking_out_counts_what_was_in(held: set[Position], less: set[Position]) -> None:
    holes = holes_of(held)
    gone = sum([holes.discard_lows(*part) for part in by_chunk(list(less))])
    assert gone == len(held & less)
    assert content(holes) == held - less
    assert holes.count == len(held - less)


@given(SETS, PLACES, PLACES)
def test_questions_about_a_range(held: set[Position], first: Position, last: Position) -> None:
    if last < first:
        first, last = last, first
    holes = holes_of(held)
    inside = {position for position in held if first <= position <= last}
    assert holes.count_between(first, last) == len(inside)
    assert holes.discard_range(first, last) == len(inside)
    assert content(holes) == held - inside
    assert holes.count == len(held - inside)


@given(SETS, LOW, st.integers(0, 300), st.integers(0, 80))
def test_what_is_missing(held: set[Position], low: int, length: int, limit: int) -> None:
    first = position_at(1, CHUNK_SIZE + low - 40)
    last = Position(first + length)
    wanted = [position for position in range(first, last + 1) if position not in held]
    assert holes_of(held).missing(first, last, limit) == wanted[:limit]


@given(SETS)
def test_a_run_is_taken_from_the_front(held: set[Position]) -> None:
    holes = holes_of(held)
    while held:
        first = min(held)
        assert holes.pop_run(Position(first - 1)) is None
        last = holes.pop_run(first)
        assert last is not None
        run = set(range(first, last + 1))
        assert run <= held
        assert Position(last + 1) not in held or (last + 1) % CHUNK_SIZE == 0
        held -= run
        assert content(holes) == held
        assert holes.count == len(held)


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "drop", "take", "fail"]), st.integers(0, 3)), max_size=30
    )
)
def test_the_disk_follows_the_mapping(steps: list[tuple[str, int]]) -> None:
    """After any program one more commit makes the disk what the mapping is."""
    unsaved, mapping, disk = Unsaved(), set[int](), set[int]()

    def write(keys: list[int]) -> None:
        for key in keys:
            (disk.add if key in mapping else disk.discard)(key)

    for step, key in steps:
        if step == "put":
            mapping.add(key)
            unsaved.dirty[key] = None
        elif step == "drop" and key in mapping:
            mapping.remove(key)
            unsaved.dropped(key)
        elif step == "take":
            write(unsaved.take(mapping))
        elif step == "fail":
            unsaved.failed(unsaved.take(mapping))
        assert unsaved.dirty.keys() <= mapping | disk | unsaved._stored.keys()
    write(unsaved.take(mapping))
    assert disk == mapping
    assert unsaved.take(mapping) == []


@given(SETS, st.integers(1, 12))
def test_runs_are_those_of_the_places_themselves(positions: set[Position], limit: int) -> None:
    holes = holes_of(positions)
    runs: list[tuple[Position, Position]] = []
    for position in sorted(positions):
        if runs and runs[-1][1] + 1 == position and position & ENTRY_MASK:
            runs[-1] = runs[-1][0], position
        else:
            runs.append((position, position))
    assert holes.runs == len(runs)
    assert holes.first_runs(limit) == runs[:limit]
    assert (holes.packed_bytes > 0) == bool(positions)
