"""Held keys: a slot is held from its first entry in flight to its last."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.dispatch.held_keys import HeldKeys
from arneb_core.dispatch.receiver import Receiver

RECEIVERS = [Receiver(ConsumerSpec(name)) for name in "abc"]
SLOTS = st.integers(0, 3)


@given(st.lists(st.one_of(st.lists(SLOTS, min_size=1, max_size=4), st.sets(st.integers(0, 30)))))
def test_holders_are_those_of_what_is_in_flight(steps: list[list[int] | set[int]]) -> None:
    """A list: so many entries go out, of these slots, each to its slot's holder or to anybody. A
    set: these places are answered, some of them for the second time, or never in flight."""
    keys, model = HeldKeys(), dict[Position, tuple[int, Receiver]]()
    position = 0
    for step in steps:
        if isinstance(step, set):
            positions = [Position(each) for each in sorted(step)]
            expected = {each: model.pop(each)[0] for each in positions if each in model}
            assert keys.left(positions) == expected
        else:
            for slot in step:
                holder = keys.holders.get(slot, RECEIVERS[position % 3])
                keys.took(holder, [Position(position)], [slot])
                model[Position(position)] = slot, holder
                position += 1
        assert keys.holders == dict(model.values())
