"""Removals: exactly what was planned is removed, and planning changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.routing.removals import Plan, binding_removal, exchange_removal, queue_removal
from arneb_amqp.routing.router import STEP_BINDINGS, Removed, Router, finished

QUEUES = ("q", "r")
EXCHANGES = ("a", "b", "c", "d")

bindings = st.builds(
    Binding, st.sampled_from(EXCHANGES), st.sampled_from(QUEUES), st.sampled_from(["", "k"])
) | st.builds(
    lambda source, destination: Binding(source, destination, kind=DestinationKind.EXCHANGE),
    st.sampled_from(EXCHANGES),
    st.sampled_from(EXCHANGES),
)


def made_of(auto_delete: set[str], bound: list[Binding]) -> Router:
    router = Router()
    for name in EXCHANGES:
        router.declare(Exchange(name, "fanout", auto_delete=name in auto_delete))
    for name in QUEUES:
        router.add_queue(name)
    for each in bound:
        router.bind(each)
    return router


def as_sets(removed: Removed) -> tuple[set[str], set[Binding]]:
    exchanges = {each.name for each in removed.exchanges}
    gone = set(removed.bindings)
    assert (len(exchanges), len(gone)) == (len(removed.exchanges), len(removed.bindings))
    return exchanges, gone


@given(st.sets(st.sampled_from(EXCHANGES)), st.lists(bindings, max_size=12), st.data())
def test_exactly_what_is_planned_is_removed(
    auto_delete: set[str], bound: list[Binding], data: st.DataObject
) -> None:
    """Including chains and cycles of auto-delete exchanges."""
    router = made_of(auto_delete, bound)
    generation = router.generation
    match data.draw(st.sampled_from(["queue", "exchange", "binding"])):
        case "queue":
            planned = finished(queue_removal(router, "q"))
            remove = lambda: finished(router.removing_queue("q"))  # noqa: E731
        case "exchange":
            name = data.draw(st.sampled_from((*EXCHANGES, "unknown")))
            planned = finished(exchange_removal(router, name))
            remove = lambda: router.delete(name)  # noqa: E731
        case _:
            binding = data.draw(bindings)
            planned = finished(binding_removal(router, binding))
            remove = lambda: finished(router.unbinding(binding))  # noqa: E731
    assert router.generation == generation
    assert as_sets(planned) == as_sets(remove())


@pytest.mark.parametrize("count", [1, STEP_BINDINGS, 5 * STEP_BINDINGS])
def test_large_removals_are_planned_in_steps(count: int) -> None:
    router = made_of(set(), [Binding("a", "q", str(number)) for number in range(count)])
    steps = 0
    plan: Plan = queue_removal(router, "q")
    while True:
        try:
            next(plan)
        except StopIteration:
            break
        steps += 1
    assert steps == count // STEP_BINDINGS
