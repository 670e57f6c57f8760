"""Outcomes are answered alike, in rows of their own and in rows of many, before and after a
restart; and they go in time."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arneb_pulsar.transactions.checking import check_rows
from arneb_pulsar.transactions.outcomes import KEPT_MS, SET_FORWARD_MS, Outcomes, Patience
from arneb_pulsar.transactions.states import TransactionState

COMMITTED, ABORTED = TransactionState.COMMITTED, TransactionState.ABORTED


class OutcomesMachine(RuleBasedStateMachine):
    """The model: a dictionary of what was told, and until when that holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, bytes] = {}
        self.outcomes = Outcomes({})
        self.ended: dict[int, tuple[bool, int]] = {}
        self.now_ms = 1_000

    @rule(committed=st.booleans(), kept_ms=st.integers(1, 500))
    def end(self, committed: bool, kept_ms: int) -> None:
        number, until_ms = len(self.ended) + 1, self.now_ms + kept_ms
        key, value = self.outcomes.row(number, until_ms, committed=committed)
        self.rows[key] = value
        self.outcomes.stored(number, until_ms, committed=committed)
        self.ended[number] = committed, until_ms

    @rule(stored=st.booleans())
    def gather(self, stored: bool) -> None:
        """Perhaps its commit fails."""
        gathered = self.outcomes.gathered(self.now_ms)
        if not stored:
            return
        for key, value in gathered.rows:
            if value is None:
                self.rows.pop(key)
            else:
                self.rows[key] = value
        self.outcomes.written(gathered)
        assert not self.outcomes.singles

    @rule(passed_ms=st.integers(1, 400))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    @rule(committed=st.booleans())
    def two_of_which_one_lasts(self, committed: bool) -> None:
        """They are drawn together, and looked at when the first is asked for no more."""
        self.end(committed, 10)
        self.end(not committed, 300)
        self.gather(stored=True)
        self.wait(20)
        self.gather(stored=True)

    @rule()
    def restart(self) -> None:
        self.outcomes = Outcomes(self.rows)

    @precondition(lambda self: self.ended)
    @rule()
    def all_go_when_nobody_asks_any_more(self) -> None:
        self.now_ms = max(until_ms for _, until_ms in self.ended.values())
        for _ in range(2):
            self.gather(stored=True)
        assert self.rows == {}
        assert not any(map(self.outcomes.find, self.ended))
        self.ended = {number: (committed, 0) for number, (committed, _) in self.ended.items()}

    @invariant()
    def what_was_told_is_told_again(self) -> None:
        for number, (committed, until_ms) in self.ended.items():
            if until_ms > self.now_ms:
                assert self.outcomes.find(number) is (COMMITTED if committed else ABORTED)
        assert self.outcomes.find(len(self.ended) + 1) is None

    @invariant()
    def rows_are_in_order(self) -> None:
        assert list(check_rows(self.rows)) == []


TestOutcomes = OutcomesMachine.TestCase
TestOutcomes.settings = settings(max_examples=60, stateful_step_count=30)


HOUR_S = KEPT_MS / 1000


def test_outcomes_stay_for_an_hour_whatever_the_clock_does() -> None:
    """Clients ask again within moments, whatever was done to the clock."""
    patience = Patience(1_000_000, 50.0)
    assert not patience.is_over(1_000_000 + 9 * KEPT_MS, 51.0), "set forward behind the start"
    assert not patience.is_over(1_000_000 + 10 * KEPT_MS - 1, 50.0 + HOUR_S)
    assert patience.is_over(1_000_000 + 10 * KEPT_MS, 51.0 + HOUR_S)
    now_ms, now_s = 1_000_000 + 10 * KEPT_MS, 51.0 + HOUR_S
    assert patience.is_over(now_ms - KEPT_MS, now_s + 60), "set back"
    assert patience.is_over(now_ms - KEPT_MS + SET_FORWARD_MS, now_s + 60), "a little forward"
    assert not patience.is_over(now_ms, now_s + 60), "forward"
    assert patience.is_over(now_ms + 1, now_s + 60 + HOUR_S)


def test_rows_that_may_not_go_stay() -> None:
    outcomes = Outcomes(dict([Outcomes({}).row(1, 5, committed=True)]))
    outcomes.written(outcomes.gathered(0))
    assert not outcomes.gathered(9, may_go=False).rows
    outcomes.written(outcomes.gathered(9, may_go=False))
    assert outcomes.find(1) is COMMITTED
    assert [value for _, value in outcomes.gathered(9).rows] == [None]


def test_what_lapsed_counts_as_aborted_unless_its_end_is_known() -> None:
    outcomes = Outcomes(dict([Outcomes({}).row(1, 5, committed=True)]))
    outcomes.stored(2, 5, committed=True)
    outcomes.written(outcomes.gathered(0, lapsed={1: 9, 2: 9, 3: 9}))
    assert [outcomes.find(each) for each in (1, 2, 3, 4)] == [COMMITTED, COMMITTED, ABORTED, None]
    assert not outcomes.gathered(0, lapsed={3: 9}).rows
    assert not outcomes.gathered(8).rows, "it is kept as long as was asked for"
