"""Locks by name: different names do not wait for each other, and nobody waits for ever."""

from collections import Counter

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.process.name_locks import NameLocks

names = st.sampled_from("abcd")
wishes = st.tuples(st.frozensets(names, max_size=3), st.frozensets(names, max_size=3))


@given(
    wanted=st.lists(st.tuples(wishes, st.integers(0, 3), st.integers(0, 4)), max_size=12),
    given_up=st.sets(st.integers(0, 11), max_size=3),
)
def test_an_exclusive_lock_is_shared_with_nobody_and_everybody_gets_a_turn(
    wanted: list[tuple[tuple[frozenset[str], frozenset[str]], int, int]], given_up: set[int]
) -> None:
    locks, alone, shared = NameLocks(), Counter[str](), Counter[str]()
    served: set[int] = set()

    async def work(index: int) -> None:
        (own, others), begins, lasts = wanted[index]
        others -= own
        await trio.sleep_until(trio.current_time() + begins)
        patience = 0.5 if index in given_up else float("inf")
        with trio.move_on_after(patience):
            async with locks.holding(*own, shared=sorted(others)):
                assert not any(alone[name] or shared[name] for name in own)
                assert not any(alone[name] for name in others)
                alone.update(own)
                shared.update(others)
                with trio.CancelScope(shield=True):
                    await trio.sleep_until(trio.current_time() + lasts)
                alone.subtract(own)
                shared.subtract(others)
                served.add(index)

    async def play() -> None:
        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                for index in range(len(wanted)):
                    nursery.start_soon(work, index)

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))
    assert served >= set(range(len(wanted))) - given_up
    assert repr(locks) == "<NameLocks 0 held>"


async def test_an_earlier_request_comes_first_even_before_many_that_share() -> None:
    locks, order = NameLocks(), list[str]()

    async def ask(what: str, *, alone: bool) -> None:
        async with locks.holding(*("x" if alone else ""), shared=() if alone else ["x"]):
            order.append(what)
            await trio.sleep_until(trio.current_time() + 1)

    async with trio.open_nursery() as nursery:
        for number, what in enumerate(["one", "two", "ALONE", "three", "four"]):
            nursery.start_soon(lambda what=what: ask(what, alone=what.isupper()))
            await trio.testing.wait_all_tasks_blocked()
            assert number >= 0
        assert order == ["one", "two"]
    assert order[:3] == ["one", "two", "ALONE"]
    assert sorted(order[3:]) == ["four", "three"]
