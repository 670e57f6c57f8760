"""Confirms: every publish is confirmed once, in order, with as few frames as possible."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.session.publish.confirms import Confirm, Confirms

outcomes = st.one_of(
    st.tuples(st.integers(1, 50), st.booleans()).map(lambda case: [case[1]] * case[0]),
    st.lists(st.booleans(), min_size=1, max_size=50),
)
"""For each message of a run, whether it was stored."""

runs_and_order = st.lists(outcomes, min_size=1, max_size=20).flatmap(
    lambda runs: st.tuples(
        st.just(runs), st.permutations(range(len(runs))), st.sets(st.integers(0, len(runs)))
    )
)


@given(runs_and_order)
def test_every_publish_is_answered_once_in_order_and_correctly(
    case: tuple[list[list[bool]], list[int], set[int]],
) -> None:
    runs, order, takes = case
    confirms = Confirms()
    names = [confirms.expect(len(run)) for run in runs]
    answers: list[Confirm] = []
    for step, index in enumerate(order):
        run = runs[index]
        if len(set(run)) == 1:
            confirms.complete(names[index], stored=run[0])
        else:
            confirms.complete_each(names[index], tuple(not each for each in run))
        if step in takes:
            answers += confirms.due()
    answers += confirms.due()

    stored = [each for run in runs for each in run]
    answered: list[bool] = []
    for answer in answers:
        first = len(answered) + 1 if answer.multiple else answer.tag
        assert first == len(answered) + 1, "an answer that is not multiple covers one tag"
        answered += [answer.stored] * (answer.tag - len(answered))
    assert answered == stored


def test_a_run_is_not_answered_before_the_runs_in_front_of_it() -> None:
    confirms = Confirms()
    first, second = confirms.expect(10), confirms.expect(1)
    confirms.complete(second, stored=True)
    assert confirms.due() == []
    confirms.complete(first, stored=True)
    assert confirms.due() == [Confirm(11, multiple=True, stored=True)]


def test_a_single_message_has_its_own_answer() -> None:
    confirms = Confirms()
    confirms.complete(confirms.expect(1), stored=True)
    assert confirms.due() == [Confirm(1, multiple=False, stored=True)]


def test_neighbours_with_the_same_outcome_share_an_answer() -> None:
    confirms = Confirms()
    names = [confirms.expect(5) for _ in range(4)]
    for name, stored in zip(names, (True, True, False, True), strict=True):
        confirms.complete(name, stored=stored)
    assert confirms.due() == [
        Confirm(10, multiple=True, stored=True),
        Confirm(15, multiple=True, stored=False),
        Confirm(20, multiple=True, stored=True),
    ]
