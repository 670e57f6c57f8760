"""A subscription against twenty lines of model: no engine, no store, no event loop.

Whatever happens in whatever order, every entry is acknowledged, at one consumer or ready; what is
ready goes out in log order; and nobody waits for what is there.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.subscription.consumers.returns import Taken
from arneb_core.subscription.inputs import (
    Acknowledged,
    Attached,
    DeliveryFailed,
    Detached,
    Granted,
    Purged,
    ReadDone,
    Released,
    Retried,
    Sought,
    Turn,
    TurnFailed,
    UnitBegan,
)
from arneb_core.subscription.state.effects import (
    Deliver,
    Effect,
    HasWork,
    Read,
    TryAgain,
    WriteCursor,
)
from arneb_core.testing.invariants import check_ack_state
from arneb_core.testing.playbook import Playbook, in_short, position, positions

NAMES = st.sampled_from("abc")
SEED = st.randoms(use_true_random=False)


@dataclass
class Model:
    """What a subscription is, in principle. Entries by number."""

    total: int = 0
    acked: set[int] = field(default_factory=set)
    out: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    suspect: set[int] = field(default_factory=set)
    """May be called redelivered, and may not."""
    permits: dict[str, int] = field(default_factory=dict)

    @property
    def ready(self) -> list[int]:
        return [n for n in range(self.total) if n not in self.acked and n not in self.out]

    def delivered(self, name: str, numbers: tuple[int, ...], redelivered: set[int]) -> None:
        assert name in self.permits and not self.acked & set(numbers)
        assert redelivered - self.suspect == (self.seen - self.suspect) & set(numbers)
        self.permits[name] -= len(numbers)
        self.out |= dict.fromkeys(numbers, name)
        self.seen |= set(numbers)

    def left(self, name: str) -> None:
        self.permits.pop(name)
        self.out = {number: at for number, at in self.out.items() if at != name}

    def acknowledge(self, numbers: list[int]) -> None:
        self.acked |= set(numbers)
        self.out = {number: at for number, at in self.out.items() if number not in self.acked}


class Machine(RuleBasedStateMachine):
    """Tells both, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.play = Playbook()
        self.model = Model()
        self.reads: list[Read] = []
        self.units: list[tuple[str, Taken, list[int]]] = []
        self.is_turn_wanted = False
        self.is_cursor_told = False
        self.must_retry = False
        self.acked_then: set[int] = set()
        """What was acknowledged when the cursor's changes were taken."""

    def note(self) -> None:
        """What effects there are."""
        delivered: list[Effect] = []
        for effect in self.play.effects:
            self.is_turn_wanted = self.is_turn_wanted or isinstance(effect, HasWork)
            self.is_cursor_told = self.is_cursor_told or isinstance(effect, WriteCursor)
            self.must_retry = self.must_retry or isinstance(effect, TryAgain)
            if isinstance(effect, Read):
                self.reads.append(effect)
            if isinstance(effect, Deliver):
                delivered.append(effect)
        self.play.effects.clear()
        ready = self.model.ready
        for effect in delivered:
            short = in_short(effect)
            self.model.delivered(short.consumer, short.numbers, set(short.redelivered))  # type: ignore[attr-defined]
        gone = set(ready) - set(self.model.ready)
        assert gone == set(ready[: len(gone)]), "the lowest positions must go first"

    @rule(count=st.integers(1, 4), is_hot=st.booleans())
    def append(self, count: int, is_hot: bool) -> None:
        self.play._is_hot = is_hot
        self.play >> self.play.append(*[b"x"] * count)
        self.model.total += count
        self.note()

    @rule(name=NAMES, acks=st.just(True))
    def attach(self, name: str, acks: bool) -> None:
        if name not in self.model.permits:
            self.play >> Attached(ConsumerSpec(name, acks=acks))
            self.model.permits[name] = 0
            self.note()

    @precondition(lambda self: self.model.permits)
    @rule(random=SEED, count=st.integers(1, 5))
    def grant(self, random: object, count: int) -> None:
        name = self._somebody(random)
        self.play >> Granted(name, count)
        self.model.permits[name] += count
        self.note()

    @precondition(lambda self: self.model.permits)
    @rule(random=SEED, fails=st.booleans())
    def leave(self, random: object, fails: bool) -> None:
        name = self._somebody(random)
        self.play >> (DeliveryFailed(name) if fails else Detached(name))
        self.model.left(name)
        self.note()

    @precondition(lambda self: self.model.permits and self.model.total)
    @rule(random=SEED, own=st.booleans())
    def acknowledge(self, random: object, own: bool) -> None:
        name = self._somebody(random)
        numbers = self._some(random, name if own else None)
        self.play >> Acknowledged(name, positions(*numbers))
        self.model.acknowledge(numbers)
        self.note()

    @precondition(lambda self: self.model.out)
    @rule(random=SEED, count=st.booleans())
    def release(self, random: object, count: bool) -> None:
        name = self._somebody(random)
        numbers = self._some(random, name)
        self.play >> Released(name, positions(*numbers), count)
        for number in numbers:
            del self.model.out[number]
        self.note()

    @precondition(lambda self: self.model.permits and self.model.total)
    @rule(random=SEED)
    def unit(self, random: object) -> None:
        name = self._somebody(random)
        numbers = self._some(random, name)
        self.play >> UnitBegan(name, positions(*numbers))
        assert isinstance(self.play.answer, Taken)
        self.units.append((name, self.play.answer, numbers))
        self.model.acknowledge(numbers)
        self.note()

    @precondition(lambda self: self.units)
    @rule(fails=st.booleans())
    def unit_ends(self, fails: bool) -> None:
        name, taken, numbers = self.units.pop()
        if not fails:
            return
        consumer = self.play.inputs.consumers[name]
        is_there = consumer.attached and taken.era == self.play.state.era
        self.play.inputs.consumers[name].back_from_unit(taken)
        if taken.era == self.play.state.era:
            self.model.acked -= set(numbers)
            if is_there:
                self.model.out |= dict.fromkeys(numbers, name)
        self.note()

    @rule()
    def turn(self) -> None:
        self.is_turn_wanted = False
        self.play >> Turn()
        self.note()

    @precondition(lambda self: self.reads)
    @rule(fails=st.booleans())
    def answer(self, fails: bool) -> None:
        read = self.reads.pop(0)
        self.play >> (
            ReadDone(read.number, StoreFailed("as told")) if fails else self.play.read(read)
        )
        self.note()

    @precondition(lambda self: self.must_retry)
    @rule()
    def retry(self) -> None:
        self.must_retry = False
        self.is_turn_wanted = False  # it is said again
        self.play >> Retried()
        self.note()

    @rule()
    def purge(self) -> None:
        ready = self.model.ready
        self.play >> Purged()
        assert self.play.answer == len(ready)
        self.model.acknowledge(ready)
        self.note()

    @precondition(lambda self: self.model.total)
    @rule(random=SEED)
    def seek(self, random: object) -> None:
        number = random.randrange(self.model.total + 1)  # type: ignore[attr-defined]
        self.play >> Sought(position(number))
        model = self.model
        model.acked = set(range(number))
        model.out, model.permits, model.seen, model.suspect = {}, {}, set(), set()
        self.note()

    @rule()
    def turn_fails(self) -> None:
        self.play >> TurnFailed()
        self.must_retry = True
        model = self.model
        model.out, model.permits = {}, {}
        model.suspect |= set(model.ready)  # it was in hand, and may have gone out
        self.note()

    @rule()
    def cursor_is_taken(self) -> None:
        self.is_cursor_told = False
        self.play.state.cursor_taken()
        self.acked_then = set(self.model.acked)

    @invariant()
    def every_entry_is_in_one_place(self) -> None:
        state, model = self.play.state, self.model
        check_ack_state(state.acks)
        assert {n for n in range(model.total) if state.acks.is_acknowledged(position(n))} == (
            model.acked
        )
        assert sorted(state.positions_in_flight()) == positions(*sorted(model.out))
        assert self.play.machine.ready_messages == len(model.ready)
        assert {each.name: each.permits for each in self.play.machine.attached} == model.permits

    @invariant()
    def nobody_waits_for_what_is_there(self) -> None:
        waits = self.model.ready and any(each > 0 for each in self.model.permits.values())
        assert not waits or self.is_turn_wanted or self.reads or self.must_retry

    @invariant()
    def a_cursor_that_changed_is_written(self) -> None:
        assert self.acked_then == self.model.acked or self.is_cursor_told

    def _somebody(self, random: object) -> str:
        name: str = random.choice(sorted(self.model.permits))  # type: ignore[attr-defined]
        return name

    def _some(self, random: object, at: str | None) -> list[int]:
        model = self.model
        known = [n for n in model.out if model.out[n] == at] if at else list(range(model.total))
        found: list[int] = random.sample(known, random.randint(0, len(known)))  # type: ignore[attr-defined]
        return found


class AmongMany(Machine):
    """The same with any number of consumers too many to be asked one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.play.state.holders._few = 0


TestMachine = Machine.TestCase
TestAmongMany = AmongMany.TestCase
