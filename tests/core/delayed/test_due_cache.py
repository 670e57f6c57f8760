"""The due cache: one read for all who want the same, kept within its bound."""

from collections import deque
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.delayed.due_cache import ENTRY_BYTES, DueCache
from arneb_core.log.durable_log import Read, Runs
from arneb_core.log.tail_cache import CacheBudget


class FakeLog:
    """Reads are answered when the test says so."""

    def __init__(self) -> None:
        self.asked: deque[tuple[Sequence[Position], Read]] = deque()

    def read_positions(self, positions: Sequence[Position], bytes_max: int, then: Read) -> None:
        self.asked.append((positions, then))

    def answer(self, error: StoreFailed | None = None) -> None:
        positions, then = self.asked.popleft()
        then(error or [(position, [b"%d" % position]) for position in positions])


def cache(bytes_max: int = 1_000_000, budget: int = 1_000_000) -> tuple[DueCache, FakeLog]:
    log = FakeLog()
    return DueCache(log, CacheBudget(budget), bytes_max), log  # type: ignore[arg-type]


def test_a_request_for_what_is_being_read_waits_for_it() -> None:
    due, log = cache()
    answers: list[Runs | StoreFailed] = []
    for _ in range(3):
        due.read([Position(1), Position(2)], 100, answers.append)
    assert len(log.asked) == 1
    log.answer()
    assert len(answers) == 3
    assert answers[0] is answers[1] is answers[2]
    assert [due.get(Position(each)) for each in (1, 2, 3)] == [b"1", b"2", None]
    due.read([Position(1)], 100, answers.append)
    assert len(log.asked) == 1, "after the answer the next reader must read again"


def test_a_failed_read_is_reported_to_all_and_leaves_nothing() -> None:
    due, log = cache()
    answers: list[Runs | StoreFailed] = []
    due.read([Position(1)], 100, answers.append)
    due.read([Position(1)], 100, answers.append)
    log.answer(failed := StoreFailed("as told"))
    assert answers == [failed, failed]
    assert (len(due), due.size) == (0, 0)


def test_one_that_raises_does_not_keep_the_answer_from_others() -> None:
    due, log = cache()
    answers: list[Runs | StoreFailed] = []

    def raising(_: Runs | StoreFailed) -> None:
        raise ValueError("as told")

    due.read([Position(1)], 100, raising)
    due.read([Position(1)], 100, answers.append)
    log.answer()
    assert len(answers) == 1


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True), max_size=12),
    st.integers(1, 12),
)
def test_it_holds_whole_reads_of_late_and_counts_what_it_holds(
    reads: list[list[int]], most: int
) -> None:
    bytes_max = most * (ENTRY_BYTES + 2)
    due, log = cache(bytes_max)
    for positions in reads:
        due.read([Position(each) for each in sorted(positions)], 100, lambda _: None)
        log.answer()
        held = [Position(each) for each in range(31) if due.get(Position(each)) is not None]
        assert len(due) == len(held)
        assert due.size == sum(ENTRY_BYTES + len(b"%d" % each) for each in held)
        assert due.size <= bytes_max
    due.clear()
    assert (len(due), due.size) == (0, 0)
