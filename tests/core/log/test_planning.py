"""Where a run is placed: after the last entry, in a ledger that still takes it."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import FIRST_LEDGER, position_at
from arneb_core.log.ledgers import LedgerIndex
from arneb_core.log.planning import LEDGER_ENTRIES_MAX, count_in, plan_run
from arneb_core.log.retention import LEDGER_AGE_MS_MAX

RUNS = st.lists(
    st.tuples(
        st.integers(1, LEDGER_ENTRIES_MAX // 3),  # entries
        st.integers(1, 40),  # bytes of each
        st.sampled_from([0, 1, LEDGER_AGE_MS_MAX // 2, LEDGER_AGE_MS_MAX]),  # time that goes by
        st.booleans(),  # roll
    ),
    max_size=8,
)


@given(RUNS, st.integers(1, 400_000))
def test_runs_follow_one_another_and_a_full_or_old_ledger_takes_no_more(runs, bytes_max) -> None:
    ledgers, now_ms, ever = LedgerIndex(), 1_000, 0
    for entries, size, later_ms, roll in runs:
        now_ms += later_ms
        before = ledgers.newest
        run = plan_run(
            before, [bytes(size)] * entries, entries, now_ms, roll=roll, bytes_max=bytes_max
        )
        if before is None:
            assert run.opens and run.first == position_at(FIRST_LEDGER, 0)
        else:
            is_over = (
                before.entries >= LEDGER_ENTRIES_MAX
                or before.bytes >= bytes_max
                or now_ms - before.created_ms >= LEDGER_AGE_MS_MAX
            )
            assert run.opens is (roll or is_over)
            ledger = before.id + 1 if run.opens else before.id
            assert run.first == position_at(ledger, 0 if run.opens else before.entries)
        count_in(ledgers, run)
        ever += entries
        assert ledgers.newest == run.ledger and ledgers.messages_ever == ever
        assert ledgers.last == run.last
