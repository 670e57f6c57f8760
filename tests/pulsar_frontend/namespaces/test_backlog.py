"""Places in a log by bytes and by number, held against a list of entries."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import LedgerId, Position, position_at
from arneb_core.api.topics.admin import LedgerStatistics
from arneb_pulsar.namespaces.backlog import bytes_from, nth_entry, position_leaving

SIZE = 10

ledgers = st.lists(st.integers(0, 5), max_size=5).map(
    lambda counts: [
        LedgerStatistics(LedgerId(number), count, count, count * SIZE, 0, 0)
        for number, count in enumerate(counts, 1)
    ]
)


def positions(log: list[LedgerStatistics]) -> list[Position]:
    return [position_at(info.id, entry) for info in log for entry in range(info.entries)]


@given(ledgers, st.integers(0, 300))
def test_what_is_left_is_as_much_as_fits(log: list[LedgerStatistics], left: int) -> None:
    every = positions(log)
    gone = position_leaving(log, left)
    stay = [position for position in every if gone is None or position > gone]
    assert len(stay) == min(len(every), left // SIZE)
    assert gone is None or gone in every


@given(ledgers, st.integers(1, 30), st.booleans())
def test_the_nth_entry(log: list[LedgerStatistics], number: int, from_end: bool) -> None:
    every = positions(log)[::-1] if from_end else positions(log)
    expected = every[min(number, len(every)) - 1] if every else None
    assert nth_entry(log, number, from_end=from_end) == expected


@given(ledgers, st.integers(0, 6), st.integers(0, 6))
def test_bytes_from_a_place_on(log: list[LedgerStatistics], ledger: int, entry: int) -> None:
    position = position_at(ledger, entry)
    assert bytes_from(log, position) == SIZE * sum(each >= position for each in positions(log))
