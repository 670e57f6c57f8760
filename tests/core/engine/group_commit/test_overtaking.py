"""Who may go past whom: small runs beside large commits, in any order of coming.

What waits is made of requests as publishers and administrators make them; that what is chosen is
stored, in its place, is tested with the committer (`test_planned_commit.py`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.core import CountedRun
from arneb_core.api.entries.position import LedgerId
from arneb_core.engine.group_commit.overtaking import (
    BESIDE_BYTES_MAX,
    CREDIT_S,
    LOOKED_AT_MAX,
    REST_FACTOR,
    Overtaking,
    Rest,
)
from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.engine.trimming.trimming import PlannedTrim
from arneb_core.store.commit.commit_log import SMALL_ENTRIES_MAX, SMALL_RUNS_MAX, CommitLog
from arneb_core.store.format.schema import FRONTEND_PREFIX, Table


@dataclass(eq=False)
class Topic(LogTopic):
    """As much as is asked of one."""

    name: str
    fenced: bool = False


TOPICS = [cast(LogTopic, Topic(name)) for name in "abcdefghijkl"]
GOING = cast(LogTopic, Topic("going", fenced=True))
ENTRY = b"x"


def run(topic: LogTopic, entries: int = 1, size: int = 100) -> Request:
    """What one publisher sent to one topic."""
    return Request(
        appends=[(topic, [ENTRY] * entries, entries)],
        appended=lambda error, first: None,
        entries=entries,
        size=size,
    )


def unit(topics: Sequence[LogTopic]) -> Request:
    """A message for several topics, or a batch of Pulsar's for one: appends and nothing else."""
    return Request(
        lambda error, firsts: None, [(topic, [ENTRY], 1) for topic in topics], entries=1, size=100
    )


def transaction(topics: Sequence[LogTopic], size: int = 100) -> Request:
    """What a transaction of Pulsar's is that acknowledges nothing: runs, and how it ended."""
    runs = [CountedRun(cast(Any, topic), [ENTRY], 1, size) for topic in topics]
    row = Table.CATALOG, FRONTEND_PREFIX + b"row", b""
    return Request(
        lambda error, firsts: None, runs=runs, puts=[row], on_commit=lambda: None,
        entries=len(runs), size=size,
    )  # fmt: skip


def declaration() -> Request:
    return Request(lambda error, firsts: None, puts=[(Table.META, b"row", b"")])


def overtaking() -> Overtaking:
    return Overtaking(cast(CommitLog, None), lambda: 0)


def under_way(*topics: LogTopic, requests: Sequence[Request] = ()) -> PlannedCommit:
    commit = PlannedCommit(None)
    commit.requests = list(requests)
    commit.runs = cast(Any, dict.fromkeys(topics))
    return commit


requests = st.one_of(
    st.builds(
        run, st.sampled_from([*TOPICS, GOING]), st.sampled_from([1, 2, SMALL_ENTRIES_MAX // 3]),
        st.sampled_from([100, BESIDE_BYTES_MAX // 3]),
    ),
    st.builds(run, st.sampled_from(TOPICS), st.just(SMALL_ENTRIES_MAX + 1)),
    st.builds(run, st.sampled_from(TOPICS), st.just(1), st.just(BESIDE_BYTES_MAX + 1)),
    st.builds(unit, st.lists(st.sampled_from(TOPICS), min_size=1, max_size=3, unique=True)),
    st.builds(
        transaction, st.lists(st.sampled_from([*TOPICS, GOING]), min_size=1, max_size=3,
        unique=True), st.sampled_from([100, BESIDE_BYTES_MAX // 3, BESIDE_BYTES_MAX + 1]),
    ),
    st.builds(declaration),
)  # fmt: skip


def topics_of(request: Request) -> set[Any]:
    return {
        topic.name
        for topic in (
            *(each for each, _, _ in request.appends),
            *(each.topic for each in request.runs),
        )
    }


@given(
    coming=st.lists(st.lists(requests, max_size=8), min_size=1, max_size=5),
    busy=st.sets(st.sampled_from(range(len(TOPICS))), max_size=3),
)
def test_no_commit_overtakes_its_own_topic_and_one_that_stays_keeps_its_place(
    coming: list[list[Request]], busy: set[int]
) -> None:
    """Requests come little by little, and after each of them all is chosen that can be."""
    commit = under_way(*(TOPICS[index] for index in busy))
    taken = {TOPICS[index].name for index in busy}
    order, waiting, chooser = list[Request](), deque[Request](), overtaking()
    passed: list[Request] = []
    for more in coming:
        order += more
        waiting.extend(more)
        while chosen := chooser.choose(waiting, [commit]):
            assert sum(each.entries for each in chosen) <= SMALL_ENTRIES_MAX
            assert sum(each.size for each in chosen) <= BESIDE_BYTES_MAX
            assert len({name for each in chosen for name in topics_of(each)}) <= SMALL_RUNS_MAX
            passed += chosen
    left = list(map(id, waiting))
    assert left == [id(each) for each in order if id(each) in left], (
        "requests that stay must keep their order"
    )
    assert len(left) + len(passed) == len(order)
    blocked, is_barred = set(taken), False
    for request in order:
        is_small = request.entries <= SMALL_ENTRIES_MAX and request.size <= BESIDE_BYTES_MAX
        may = (request.is_run or bool(request.runs)) and is_small and not is_barred
        may = may and blocked.isdisjoint(topics_of(request)) and "going" not in topics_of(request)
        assert (id(request) not in left) == may, f"{request!r:.200} passed or not, wrongly"
        if not may:
            blocked |= topics_of(request)
            is_barred = is_barred or not request.is_appends


def test_nothing_overtakes_what_is_more_than_appends() -> None:
    waiting = deque([run(TOPICS[1])])
    assert not overtaking().choose(waiting, [under_way(TOPICS[0], requests=[declaration()])])
    assert overtaking().choose(waiting, [under_way(TOPICS[0], requests=[run(TOPICS[0])])])


def test_a_topic_of_which_something_is_trimmed_is_not_overtaken() -> None:
    commit = under_way()
    commit.trims = [(TOPICS[1], PlannedTrim(LedgerId(1), False, 0))]
    commit.trim_due = dict.fromkeys(TOPICS[:3], False)  # of most nothing goes
    waiting = deque([run(TOPICS[1]), run(TOPICS[2])])
    (chosen,) = overtaking().choose(waiting, [commit])
    assert topics_of(chosen) == {TOPICS[2].name}


def test_a_topic_of_which_a_cursor_is_written_is_overtaken() -> None:
    """What is read of it meanwhile changes nothing of what comes into it."""
    commit = under_way()
    commit.trim_due = {TOPICS[1]: False}
    (chosen,) = overtaking().choose(deque([run(TOPICS[1])]), [commit])
    assert topics_of(chosen) == {TOPICS[1].name}


def test_in_a_crowd_no_commit_overtakes() -> None:
    """Each is one of many, and to look for whom would cost more than it gives."""
    waiting = deque(run(TOPICS[index % 2]) for index in range(LOOKED_AT_MAX + 1))
    chooser = overtaking()
    assert not chooser.choose(waiting, [])
    waiting.pop()
    assert len(chooser.choose(waiting, [])) == LOOKED_AT_MAX


def test_a_large_commit_does_not_overtake_itself() -> None:
    """Several runs of one publisher that are too much for one write are one commit; what others
    send goes before it."""
    third = BESIDE_BYTES_MAX // 3
    large = [run(TOPICS[0], size=third) for _ in range(5)]
    little = run(TOPICS[1])
    waiting = deque([*large[:2], little, *large[2:]])
    chooser = overtaking()
    assert chooser.choose(waiting, []) == [little]
    assert not chooser.choose(waiting, [])
    assert list(waiting) == large


@given(st.lists(requests, max_size=12))
def test_before_a_large_commit_none_overtakes_its_own_topic_or_what_has_rows(
    coming: list[Request],
) -> None:
    waiting = deque(coming)
    out = set(map(id, overtaking().choose(waiting, [])))
    passed: list[Request] = []
    for request in coming:
        if id(request) not in out:
            passed.append(request)
            continue
        for each in passed:
            assert each.is_appends and topics_of(each).isdisjoint(topics_of(request))


def test_nothing_overtakes_a_transaction_that_waits_for_the_large_commit_after_it() -> None:
    """It stays with what it shares a topic with; another of its topics goes on behind it, and so
    does what has rows."""
    third = BESIDE_BYTES_MAX // 3
    first = run(TOPICS[2])
    stays = transaction([TOPICS[0], TOPICS[1]], size=third)
    behind = [run(TOPICS[1]), transaction([TOPICS[3]])]
    large = [run(TOPICS[0], size=third) for _ in range(2)]
    waiting = deque([large[0], first, stays, *behind, large[1]])
    assert overtaking().choose(waiting, []) == [first]
    assert list(waiting) == [large[0], stays, *behind, large[1]]


def test_beside_a_commit_much_goes_piece_by_piece() -> None:
    third = BESIDE_BYTES_MAX // 3
    waiting = deque(run(TOPICS[0], size=third) for _ in range(5))
    commit, chooser = under_way(TOPICS[1]), overtaking()
    assert [len(chooser.choose(waiting, [commit])) for _ in range(3)] == [3, 2, 0]


def test_each_that_waits_is_looked_at_once_for_a_commit() -> None:
    """However often it is asked while the commit is under way."""

    class Watched(Request):
        looks = 0

        @property
        def is_appends(self) -> bool:
            Watched.looks += 1
            return True

    commit, chooser = under_way(TOPICS[0]), overtaking()
    waiting: deque[Request] = deque(
        Watched(appends=[(TOPICS[0], [ENTRY], 1)], entries=1) for _ in range(50)
    )
    for _ in range(20):
        assert not chooser.choose(waiting, [commit])
    assert Watched.looks == 50
    chooser.invalidate()
    assert not chooser.choose(waiting, [commit])
    assert Watched.looks == 100


class Writing:
    """Somebody who writes as soon as it may, on a clock that goes on with the writes."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.rest = Rest(lambda: self.now_s)

    def write(self, write_s: float) -> bool:
        """Whether it may, and has."""
        if self.rest.lasts:
            return False
        self.now_s += write_s
        self.rest.follows(write_s)
        return True


def test_a_light_publisher_overtakes_at_every_commit_and_not_only_on_average() -> None:
    """Every 2 ms, a tenth of which a write takes: some of them come close behind each other."""
    writing, write_s = Writing(), 0.0002
    for gap_s in (0.0001, 0.0002, 0.0057, 0.0001, 0.0002, 0.0002, 0.0075) * 50:
        assert writing.write(write_s)
        writing.now_s += gap_s


@given(st.lists(st.tuples(st.floats(0, 0.003), st.floats(0, 0.02)), min_size=1, max_size=200))
def test_writes_beside_commits_have_a_part_of_the_time(
    each: list[tuple[float, float]],
) -> None:
    writing = Writing()
    began_s, written_s = writing.now_s, 0.0
    for write_s, gap_s in each:
        if writing.write(write_s):
            written_s += write_s
            spent_s = writing.now_s - began_s
            assert REST_FACTOR * (written_s - write_s) <= spent_s + CREDIT_S + 1e-9
        writing.now_s += gap_s


def test_a_publisher_of_single_messages_gets_a_share_of_the_time() -> None:
    writing, write_s, written_s = Writing(), 0.0002, 0.0
    while writing.now_s < 101.0:
        if writing.write(write_s):
            written_s += write_s
        else:
            writing.now_s += 0.0001
    assert 0.2 < written_s <= 1 / (1 + REST_FACTOR) + CREDIT_S


def test_after_a_stall_of_the_disk_there_is_a_rest() -> None:
    writing = Writing()
    assert writing.write(0.05)
    writing.now_s += 3 * 0.05 - 2 * CREDIT_S
    assert not writing.write(0.0002)
    writing.now_s += 2 * CREDIT_S
    assert writing.write(0.0002)
