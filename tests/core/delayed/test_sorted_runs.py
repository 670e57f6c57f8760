"""Sorted runs: as floats they sort, and are packed, as the keys are, whatever the times."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.due_key import DueKey, TimedRun, timed_run
from arneb_core.api.entries.position import Position
from arneb_core.delayed.sealing import slices
from arneb_core.delayed.sorted_runs import float_form_of
from arneb_core.delayed.unsealed import UnsealedKeys
from arneb_core.store.format.delayed_rows import records_of

TODAY_MS = 1_795_000_000_000
NEAR = st.integers(0, 12)
TIMES = st.one_of(
    *(
        NEAR.map(lambda near, era=era: era + near)  # type: ignore[misc]
        for era in (1, TODAY_MS, (0x7F << 40) - 6, (0x7FF << 36) - 6, (0x80 << 40) - 6)
    ),
    st.integers(1, (1 << 64) - 1),
)
RUNS = st.lists(
    st.lists(NEAR.map(lambda near: TODAY_MS + near), min_size=1, max_size=6)
    | st.lists(TIMES, min_size=1, max_size=6),
    min_size=1,
    max_size=4,
)


def made(first: int, times: list[int]) -> TimedRun:
    stamps = b"".join(each.to_bytes(8, "big") for each in times)
    run = timed_run(Position(first), stamps, 0)
    assert run is not None, "nothing is due"
    return run


@given(RUNS, st.integers(0, 70_000) | st.integers(0, 1 << 48))
@example([[(0x80 << 40) + 1, (0x80 << 40) + 2]], 0)  # they would be negative
@example([[TODAY_MS, TODAY_MS | 0x80 << 40, TODAY_MS | 0x81 << 40]], 0)  # all but the first
@example([[1 << 48 | TODAY_MS, TODAY_MS]], 0)  # of one the first byte is the seventh
@example([[TODAY_MS, TODAY_MS]], 0xFFFF)  # of the second place the third byte is another
@settings(max_examples=300)
def test_runs_are_packed_as_their_keys_are(times: list[list[int]], first: int) -> None:
    unsealed, keys = UnsealedKeys(), list[DueKey]()
    for some in times:
        run = made(first, some)
        unsealed.add_run(run)
        keys += run.all_keys()
        first = run.last + 1
    parts, records, members = unsealed.sorted_runs()
    assert b"".join(map(records, slices(parts, 3))) == records_of(sorted(keys))
    assert members is None or len(members) == len(keys)


def test_runs_of_our_days_are_floats() -> None:
    run = made(3 << 32 | 7, [TODAY_MS + 2, TODAY_MS])
    form = float_form_of(run)
    assert form is not None
    low, high = sorted(form.floats([run]))
    assert form.records([low, high]) == records_of(sorted(run.all_keys()))
