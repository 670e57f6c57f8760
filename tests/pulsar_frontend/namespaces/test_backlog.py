"""Places in a log by bytes and by number, held against a list of entries."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import LedgerId, Position, position_at
from arneb_core.api.topics.admin import LedgerStatistics
from arneb_pulsar.namespaces.backlog import bytes_from, nth_entry, place_leaving

SIZE = 10

ledgers = st.lists(st.integers(0, 5), max_size=5).map(
    lambda counts: [
        LedgerStatistics(LedgerId(number), count, count, count * SIZE, 0, 0)
        for number, count in enumerate(counts, 1)
    ]
)


def places(log: list[LedgerStatistics]) -> list[Position]:
    return [position_at(info.id, entry) for info in log for entry in range(info.entries)]


@given(ledgers, st.integers(0, 300))
def test_what_is_left_is_as_much_as_fits(log: list[LedgerStatistics], left: int) -> None:
    every = places(log)
    gone = place_leaving(log, left)
    stay = [place for place in every if gone is None or place > gone]
    assert len(stay) == min(len(every), left // SIZE)
    assert gone is None or gone in every


@given(ledgers, st.integers(1, 30), st.booleans())
def test_the_nth_entry(log: list[LedgerStatistics], number: int, from_end: bool) -> None:
    every = places(log)[::-1] if from_end else places(log)
    expected = every[min(number, len(every)) - 1] if every else None
    assert nth_entry(log, number, from_end=from_end) == expected


@given(ledgers, st.integers(0, 6), st.integers(0, 6))
def test_bytes_from_a_place_on(log: list[LedgerStatistics], ledger: int, entry: int) -> None:
    place = position_at(ledger, entry)
    assert bytes_from(log, place) == SIZE * sum(each >= place for each in places(log))
