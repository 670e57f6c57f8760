"""Inputs as values and inputs as calls: the effects are the same, whatever happens."""

from collections.abc import Callable
from typing import Any, Final, get_args

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CoreError
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.subscription.consumers.consumer import AttachedConsumer
from arneb_core.subscription.consumers.returns import Taken
from arneb_core.subscription.inputs import (
    Acknowledged,
    AcknowledgedUntil,
    Appended,
    Attached,
    Continued,
    DeliveryFailed,
    Detached,
    Fenced,
    Granted,
    Input,
    Inputs,
    Limited,
    LogTrimmed,
    MessagesAcknowledged,
    NotTaken,
    Prioritised,
    Pulled,
    Purged,
    ReadDone,
    Rejected,
    Released,
    Retired,
    Retried,
    Sought,
    Tick,
    Turn,
    TurnFailed,
    Unfenced,
    UnitBegan,
    UnitFailed,
    WritableChanged,
)
from arneb_core.subscription.machine import SubscriptionMachine
from arneb_core.subscription.state.effects import Depart, Read
from arneb_core.testing.playbook import Playbook, in_short, position, positions

ENTRIES = 12
NAMES = st.sampled_from("ab")
NUMBERS = st.lists(st.integers(0, ENTRIES - 1), max_size=4, unique=True)
LIMITS = st.sampled_from((Limits(), Limits(ready_messages_max=3), Limits(message_ttl_ms=50)))

inputs = st.one_of(
    st.builds(Attached, st.builds(ConsumerSpec, NAMES)),
    st.builds(Detached, NAMES),
    st.builds(Retired, NAMES),
    st.builds(DeliveryFailed, NAMES),
    st.builds(Granted, NAMES, st.integers(1, 5)),
    st.builds(WritableChanged, NAMES, st.booleans()),
    st.builds(Acknowledged, NAMES, NUMBERS.map(lambda numbers: positions(*numbers))),
    st.builds(MessagesAcknowledged, NAMES, st.integers(0, ENTRIES - 1).map(position), st.just(1)),
    st.builds(AcknowledgedUntil, NAMES, st.integers(0, ENTRIES - 1).map(position)),
    st.builds(Released, NAMES, NUMBERS.map(lambda numbers: positions(*numbers)), st.booleans()),
    st.builds(Rejected, NAMES, NUMBERS.map(lambda numbers: positions(*numbers))),
    st.builds(Pulled, NAMES),
    st.builds(UnitBegan, NAMES, NUMBERS.map(lambda numbers: positions(*numbers))),
    st.builds(Limited, LIMITS, st.booleans()),
    st.builds(Sought, st.integers(0, ENTRIES).map(position)),
    st.sampled_from(
        (Turn(), Turn(), Tick(), Continued(), Retried(), LogTrimmed(), Purged(), TurnFailed())
    ),
    st.sampled_from((Fenced(), Unfenced(), Prioritised(3))),
    st.sampled_from(("append", "append", "read", "unit failed", "not taken", "time passes")),
)


CALLS: Final[dict[type, Callable[[SubscriptionMachine, Any, Any], object]]] = {
    Detached: lambda machine, consumer, inputs: consumer.detach(),
    Retired: lambda machine, consumer, inputs: consumer.retire(),
    DeliveryFailed: lambda machine, consumer, inputs: consumer.put_out("failed"),
    Granted: lambda machine, consumer, inputs: consumer.flow(inputs.permits),
    WritableChanged: lambda machine, consumer, inputs: write(consumer, inputs.is_writable),
    Acknowledged: lambda machine, consumer, inputs: consumer.acknowledge(inputs.positions),
    MessagesAcknowledged: lambda machine, consumer, inputs: consumer.acknowledge_messages(
        inputs.position, inputs.mask
    ),
    AcknowledgedUntil: lambda machine, consumer, inputs: consumer.acknowledge_until(
        inputs.position
    ),
    Released: lambda machine, consumer, inputs: consumer.release(
        inputs.positions, count=inputs.count
    ),
    Rejected: lambda machine, consumer, inputs: consumer.reject(inputs.positions),
    Pulled: lambda machine, consumer, inputs: machine.pull(consumer),
    UnitBegan: lambda machine, consumer, inputs: consumer.take_for_unit(inputs.positions),
    UnitFailed: lambda machine, consumer, inputs: consumer.back_from_unit(inputs.taken),
    Attached: lambda machine, consumer, inputs: machine.attach(inputs.spec),
    Appended: lambda machine, consumer, inputs: machine.appended(inputs.first, inputs.entries),
    ReadDone: lambda machine, consumer, inputs: machine.read_done(inputs.number, inputs.found),
    NotTaken: lambda machine, consumer, inputs: machine.not_taken(inputs.depart),
    Limited: lambda machine, consumer, inputs: machine.limit(
        inputs.limits, has_target=inputs.has_target
    ),
    Prioritised: lambda machine, consumer, inputs: machine.prioritise(inputs.highest),
    Sought: lambda machine, consumer, inputs: seek(machine, inputs.position),
    Turn: lambda machine, consumer, inputs: machine.turn(),
    Tick: lambda machine, consumer, inputs: machine.tick(),
    Continued: lambda machine, consumer, inputs: machine.resume(),
    Retried: lambda machine, consumer, inputs: machine.retry(),
    LogTrimmed: lambda machine, consumer, inputs: machine.log_trimmed(),
    Purged: lambda machine, consumer, inputs: machine.purge(),
    TurnFailed: lambda machine, consumer, inputs: machine.start_over(),
    Fenced: lambda machine, consumer, inputs: machine.fence(),
    Unfenced: lambda machine, consumer, inputs: machine.unfence(),
}
"""The calls that whoever runs a machine makes instead."""


def write(consumer: AttachedConsumer, is_writable: bool) -> None:
    consumer.writable = is_writable
    consumer.wake()


def seek(machine: SubscriptionMachine, to: Position) -> None:
    machine.seek_begins()
    machine.seek(to, None)
    machine.seek_ends()


class ByCall:
    """Makes the calls."""

    def __init__(self, machine: SubscriptionMachine) -> None:
        self.machine = machine
        self.consumers: dict[str, AttachedConsumer] = {}

    def tell(self, event: Input) -> object:
        consumer = self.consumers.get(getattr(event, "consumer", ""))
        answer = CALLS[type(event)](self.machine, consumer, event)
        if isinstance(event, Attached):
            assert isinstance(answer, AttachedConsumer)
            self.consumers[event.spec.name], answer = answer, None
        return answer


BEGINNINGS: Final[tuple[list[Input | str], ...]] = tuple(
    [
        *(Attached(ConsumerSpec(name, kind)) for name in names),
        Granted("a", 3),
        *held,
        "append",
        "append",
        Turn(),
    ]
    for kind, names in (
        (SubscriptionType.SHARED, "ab"),
        (SubscriptionType.EXCLUSIVE, "a"),
        (SubscriptionType.FAILOVER, "ab"),
        (SubscriptionType.KEY_SHARED, "ab"),
    )
    for held in ((), (Limited(Limits(ready_messages_max=1, delivery_limit=1), has_target=True),))
)
"""What a script begins with, so that there is something to have effects on."""


class World:
    """One of two machines to which the same happens."""

    def __init__(self, *, by_call: bool, is_hot: bool) -> None:
        self.play = Playbook(is_hot=is_hot)
        play = self.play
        self.teller: ByCall | Inputs = ByCall(play.machine) if by_call else play.inputs
        self.reads: list[Read] = []
        self.departs: list[Depart] = []
        self.taken: list[tuple[str, Taken]] = []

    def happens(self, what: Input | str) -> list[object]:
        """What came of it: what was returned or raised, and the effects."""
        play, name = self.play, getattr(what, "consumer", "")
        if name and name not in self.teller.consumers:
            return []
        if what == "time passes":
            play.now_ms += 40
            return []
        if isinstance(what, str):
            found = self._of_the_world(what)
            if found is None:
                return []
            what = found
        came: list[object] = []
        try:
            answer = self.teller.tell(what)
            if isinstance(answer, Taken):
                self.taken.append((name, answer))
                answer = answer.positions
            came.append(answer)
        except CoreError as error:
            came.append(repr(error))
        for effect in play.effects:
            if isinstance(effect, Read):
                self.reads.append(effect)
            if isinstance(effect, Depart):
                self.departs.append(effect)
        came += map(in_short, play.effects)
        play.effects.clear()
        return came

    def _of_the_world(self, what: str) -> Input | None:
        play = self.play
        if what == "append" and len(play.entries) < ENTRIES:
            return play.append(b"x", b"y")
        if what == "read" and self.reads:
            return play.read(self.reads.pop(0))
        if what == "unit failed" and self.taken:
            return UnitFailed(*self.taken.pop())
        if what == "not taken" and self.departs:
            return NotTaken(self.departs.pop())
        return None


@given(st.sampled_from(BEGINNINGS), st.lists(inputs, max_size=40), st.booleans())
def test_values_and_calls_have_the_same_effects(
    beginning: list[Input | str], then: list[Input | str], is_hot: bool
) -> None:
    script = beginning + then
    one, other = (World(by_call=by_call, is_hot=is_hot) for by_call in (False, True))
    for number, what in enumerate(script):
        assert one.happens(what) == other.happens(what), f"after {script[: number + 1]}"
    assert one.play.machine.statistics() == other.play.machine.statistics()


def test_every_input_is_a_call() -> None:
    assert set(get_args(Input)) == set(CALLS)


def test_positions_of_the_log_are_where_scripts_think() -> None:
    play = Playbook()
    assert play.append(b"1", b"2").first == position(0) == Position(1 << 32)
