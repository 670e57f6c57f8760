"""Nobody gets all the room of the data API: what one user stages and commits is bounded, and a user
who may not produce anywhere leaves nothing behind."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.data.kit import Served, body_of, served

from arneb.data import room
from arneb.data.errors import DataError
from arneb.data.marks import ENDED_MARK_S, PREFIX, Mark, Marks
from arneb.data.room import Room, Staged
from arneb.settings.data_limits import DataLimits
from pyspark_arneb.service.errors import ServiceError

A = "persistent://public/default/a"
NOBODY = ""


class Somebody:
    """A user who may produce, or may not."""

    def __init__(self, name: str, *, produces: bool = True, helps: bool = False) -> None:
        self.name = name
        self._produces = produces
        self._helps = helps

    def may_continue(self, owner: str) -> bool:
        return owner in ("", self.name) or self._helps

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        return True

    def may_produce(self, topic: str) -> bool:
        return self._produces

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        return self._produces


async def stage(here: Served, query: str, name: str, rows: int = 1, piece: int = 0) -> None:
    where = {"query": query, "batch": 1, "stage": name, "piece": piece}
    body = body_of([b"1"] * rows, [{"topic": A}])
    await here.ask("POST", "/stages", parameters=where, rows=body)


async def commit(here: Served, query: str, *stages: str, batch: int = 1) -> Any:
    named = [{"stage": each, "pieces": 1, "rows": 1} for each in stages]
    return await here.ask(
        "POST", "/commits", body={"query": query, "batch": batch, "stages": named}
    )


async def refused(doing: Any, code: str, setting: str) -> None:
    with pytest.raises(ServiceError) as error:
        await doing
    assert error.value.code == code
    assert setting in error.value.reason


@pytest.mark.real_time
async def test_a_user_has_a_part_of_the_room_and_others_have_theirs(tmp_path: Path) -> None:
    who = Somebody("user a")
    limits = DataLimits(stages_per_user_max=2, staged_bytes_per_user_max=3000)
    async with served(tmp_path, rights_of=lambda request: who, limits=limits) as here:
        await stage(here, "q", "1")
        await stage(here, "q", "2")
        await stage(here, "q", "2", piece=1)  # which does not count as another stage
        many = "at most 2 stages by user a (data.stages_per_user_max)"
        await refused(stage(here, "r", "3"), "staged_too_much", many)
        who = Somebody("user b")
        large = "at most 3000 bytes staged by user b (data.staged_bytes_per_user_max)"
        await refused(stage(here, "s", "1", rows=1000), "staged_too_much", large)
        await stage(here, "s", "1")
        used = here.data.commits.stages.room
        assert (used.of("user a").stages, used.of("user b").stages) == (2, 1)
    async with served(tmp_path, rights_of=lambda request: who, limits=limits) as here:
        who = Somebody("user a")
        await refused(stage(here, "r", "3"), "staged_too_much", many)  # as before the restart
        assert (await commit(here, "q", "1"))["rows"] == 1
        await stage(here, "r", "3")
        assert here.data.commits.stages.room.of("user a").stages == 1


@pytest.mark.real_time
async def test_without_authorization_only_the_sum_is_bounded(tmp_path: Path) -> None:
    async with served(tmp_path, limits=DataLimits(stages_per_user_max=1)) as here:
        await stage(here, "q", "1")
        await stage(here, "q", "2")


@pytest.mark.real_time
async def test_a_batch_without_rows_begins_no_query(tmp_path: Path) -> None:
    """Otherwise a user who may not produce anywhere could fill the broker with marks."""
    who = Somebody("user a", produces=False)
    async with served(tmp_path, rights_of=lambda request: who) as here:
        for batch in range(3):
            answer = await commit(here, "q", batch=batch)
            assert answer == {"committed": True, "already": False, "rows": 0, "unrouted": 0}
        with pytest.raises(ServiceError, match="produce to"):
            await stage(here, "q", "1")
        assert here.data.commits.last_committed("q") is None
        assert not here.engine.metadata(PREFIX)
        who = Somebody("user b")  # whom nothing prevents from using that name
        await stage(here, "q", "1")
        await commit(here, "q", "1")
        await commit(here, "q", batch=2)
        assert here.data.commits.last_committed("q") == 2, (
            "commits of a query that has staged rows must count"
        )


@pytest.mark.real_time
async def test_a_user_has_a_part_of_the_remembered_queries(tmp_path: Path) -> None:
    who = Somebody("user a")
    limits = DataLimits(queries_per_user_max=1)
    async with served(tmp_path, rights_of=lambda request: who, limits=limits) as here:
        for query in ("q", "r"):
            await stage(here, query, "1")
        await commit(here, "q", "1")
        await commit(here, "q", batch=2)
        many = "at most 1 queries that commit by user a (data.queries_per_user_max)"
        await refused(commit(here, "r", "1"), "not_allowed", many)
        who = Somebody("user b")
        await stage(here, "s", "1")
        await commit(here, "s", "1")


@pytest.mark.real_time
async def test_an_administrator_who_commits_first_does_not_take_over_the_query(
    tmp_path: Path,
) -> None:
    who = Somebody("user a")
    async with served(tmp_path, rights_of=lambda request: who) as here:
        await stage(here, "q", "1")
        who = Somebody("user root", helps=True)
        await commit(here, "q", "1")
        who = Somebody("user a")
        assert (await commit(here, "q", "1"))["already"]


USERS = st.sampled_from(["a", "b", NOBODY])
PIECES = st.lists(st.tuples(USERS, st.integers(0, 1), st.integers(0, 6), st.booleans()))


@given(PIECES)
def test_room_equals_what_is_staged_whatever_fails(
    pieces: list[tuple[str, int, int, bool]],
) -> None:
    limits = DataLimits(staged_bytes_max=20, staged_bytes_per_user_max=10, stages_per_user_max=3)
    here, kept = Room(limits), list[tuple[str, int, int]]()
    for user, stages, size, fails in pieces:
        his = [each for each in kept if each[0] == user]
        fits = sum(each[2] for each in kept) + size <= 20
        if user != NOBODY:
            fits = fits and sum(each[2] for each in his) + size <= 10
            fits = fits and sum(each[1] for each in his) + stages <= 3
        try:
            here.expect(user, stages, size)
        except DataError:
            assert not fits
            continue
        assert fits
        with suppress(ZeroDivisionError), here.taken(user, stages, size):
            if fails:
                raise ZeroDivisionError
            kept.append((user, stages, size))
        for each in ("a", "b", NOBODY):
            mine = [piece for piece in kept if piece[0] == each]
            expected = Staged(sum(s for _, s, _ in mine), len(mine), sum(s for _, _, s in mine))
            assert here.of(each) == expected
    assert here.used.pieces == len(kept)


def test_what_is_being_stored_counts_already() -> None:
    here = Room(DataLimits(staged_bytes_max=10))
    with here.taken(NOBODY, 1, 8), pytest.raises(DataError, match="at most 10 bytes"):
        here.expect(NOBODY, 1, 8)


def test_one_user_cannot_have_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PIECES_OF_USER_MAX", 1)
    here = Room(DataLimits())
    here.count("a", 1, 1, 0)
    here.expect("b", 1, 0)
    with pytest.raises(DataError, match="at most 1 pieces of stages by a"):
        here.expect("a", 0, 0)


MOVES = st.lists(
    st.tuples(st.sampled_from("pqr"), st.sampled_from(["a", "b"]), st.booleans(), st.booleans())
)


@given(MOVES)
def test_marks_belong_to_users_whose_commits_succeeded(
    moves: list[tuple[str, str, bool, bool]],
) -> None:
    marks, model = Marks({}, DataLimits(queries_per_user_max=2)), dict[str, Mark]()
    for number, (query, owner, is_last, fails) in enumerate(moves):
        mark = Mark(number, 1000 * number, is_last, owner)
        others = [each for each in model.values() if each.owner == owner]
        try:
            with marks.changing(query, mark):
                assert query in model or len(others) < 2
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            continue
        except DataError:
            assert query not in model and len(others) == 2
            continue
        model[query] = mark
    assert {query: marks.find(query) for query in model} == model
    later_ms = 1000 * len(moves) + int(1000 * ENDED_MARK_S)
    assert set(marks.old(later_ms)) == {query for query, each in model.items() if each.is_last}
    for query in list(marks.old(later_ms)):
        marks.forget(query)
        del model[query]
    again: Mapping[str, bytes] = {PREFIX + query: each.pack() for query, each in model.items()}
    assert {query: Marks(again, DataLimits()).find(query) for query in model} == model
    for query in model:
        marks.forget(query)
    assert not marks._counts, "a user without marks is still counted"
