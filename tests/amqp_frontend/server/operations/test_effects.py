"""The effect runner: every effect is carried out by someone, and requests keep their order."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
import trio
import trio.testing
from pamqp.commands import Queue

from arneb_amqp.consumption import Consumption
from arneb_amqp.errors import AmqpError, not_found
from arneb_amqp.server.operations.effects import EffectRunner
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.session.effects import (
    Acknowledge,
    Append,
    Authorize,
    Awaited,
    Cancel,
    Commit,
    Consume,
    Disconnect,
    Effect,
    EndConnection,
    Enter,
    Find,
    Get,
    Leave,
    LogIn,
    Perform,
    Reject,
    Release,
    Renew,
    Token,
    Vouch,
    Wake,
)
from arneb_amqp.session.events import RequestDone, RequestFailed
from arneb_amqp.session.output import Output
from arneb_amqp.wire.constants import ChannelId
from arneb_core.access.principals import Kind, Principal, Question
from arneb_core.access.rights import Right
from arneb_core.api.errors import StoreFull

ANSWERED = AnsweredDeliveries(ConsumerId(1), [])
ONE = ConsumerId(1)
NOTHING: Any = None
SOMEBODY = Principal("guest", NOTHING)


class FoundAtOnce:
    """A search that finishes in its first step."""

    def step(self) -> bool:
        return True


EXAMPLES: dict[type[Effect], tuple[Effect, list[str]]] = {
    Append: (Append(("q",), [b"x"], Token(1)), ["append"]),
    Acknowledge: (Acknowledge(ANSWERED), ["acknowledge"]),
    Reject: (Reject(ANSWERED), ["reject"]),
    Release: (Release(ANSWERED), ["release"]),
    Wake: (Wake((ONE,)), ["wake"]),
    Disconnect: (Disconnect(), ["disconnect"]),
    LogIn: (LogIn("PLAIN", "guest", "guest"), ["log_in"]),
    Renew: (Renew(SOMEBODY, "secret"), ["renew"]),
    Vouch: (Vouch("PLAIN", "guest", None), ["vouch"]),
    Enter: (Enter("/", SOMEBODY), ["enter"]),
    Authorize: (Authorize(Question(Right.READ, Kind.QUEUE, "q")), ["authorize"]),
    Find: (Find(FoundAtOnce()), []),  # type: ignore[arg-type]
    Perform: (Perform(Queue.Declare()), ["perform"]),
    Consume: (
        Consume(ONE, Consumption("q", "t", False, False, {}, ())),
        ["deliveries_made", "consume"],
    ),
    Cancel: (Cancel(ONE), ["deliveries_made", "cancel"]),
    Get: (Get(ONE, "q", False), ["get"]),
    Commit: (Commit(), ["present", "commit", "answered", "deliveries_made"]),
    Leave: (Leave(ChannelId(1), (ONE,)), ["leave_channel"]),
    EndConnection: (EndConnection(), ["leave_all", "delete_exclusive", "left"]),
}
ASYNCHRONOUS = {
    "perform", "consume", "cancel", "get", "commit", "leave_channel", "leave_all",
    "delete_exclusive", "deliveries_made", "log_in", "renew", "vouch", "enter", "authorize",
}  # fmt: skip


class Session:
    """A session whose effects the test chooses, and which remembers the answers."""

    has_more = False
    discarded = ()
    output = Output()

    def __init__(self, *effects: Effect) -> None:
        self._wanted = list(effects)
        self.events: list[object] = []
        self.effects = self
        self.is_waiting = False

    def take_effects(self) -> list[Effect]:
        wanted, self._wanted = self._wanted, []
        return wanted

    def handle(self, event: object, now: float, now_ms: int) -> None:
        self.events.append(event)


class Recorder:
    """Stands in for publishes, consumers, methods and the connection."""

    def __init__(self, failing: Exception | None = None) -> None:
        self.calls: list[str] = []
        self._failing = failing

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*_: object) -> object:
            self.calls.append(name)
            return [] if name == "present" else None

        async def acall(*_: object, **__: object) -> object:
            self.calls.append(name)
            if self._failing is not None:
                raise self._failing
            return True

        return acall if name in ASYNCHRONOUS else call

    async def room(self) -> None:
        """There is room for output."""


def runner(session: Session, recorder: Recorder, nursery: Any = None) -> EffectRunner:
    one: Any = recorder
    wanting: Any = session
    made = EffectRunner(wanting, one, one, one, nursery, lambda: (0.0, 0), one)
    made._publishes = made._methods = one
    return made


def test_there_is_an_example_of_every_effect() -> None:
    assert set(EXAMPLES) == set(get_args(Effect))


@pytest.mark.parametrize("kind", get_args(Effect), ids=lambda each: each.__name__)
async def test_every_effect_is_carried_out(kind: type[Effect]) -> None:
    effect, calls = EXAMPLES[kind]
    session, recorder = Session(effect), Recorder()
    made = runner(session, recorder)
    waiting = made.run_orders()
    assert waiting == ([effect] if isinstance(effect, Awaited) else [])
    await made.run_all(waiting)
    assert recorder.calls == calls
    assert len(session.events) == len(waiting)
    assert all(isinstance(each, RequestDone) for each in session.events)


@pytest.mark.parametrize("kind", [Queue.Purge, Queue.Delete])
async def test_a_queue_is_purged_after_the_deliveries_that_are_ready(kind: type[Any]) -> None:
    recorder = Recorder()
    made = runner(Session(Perform(kind(queue="q"))), recorder)
    await made.run_all(made.run_orders())
    assert recorder.calls == ["deliveries_made", "perform"]


class TurnOf(Recorder):
    """Notes when a turn begins and ends, and how."""

    @property
    def core(self) -> "TurnOf":
        return self

    owner = 7

    def turn_begins(self, whose: int) -> None:
        self.calls.append(f"turn of {whose}")

    def turn_ends(self, *, may_be_called: bool) -> bool:
        self.calls.append("may be called" if may_be_called else "is busy")
        return may_be_called


@pytest.mark.parametrize(
    ("kinds", "calls", "waiting"),
    [
        ((Wake, Append), ["wake", "append", "may be called"], None),
        ((Append, Cancel, Wake), ["append", "is busy"], [Cancel, Wake]),
    ],
)
async def test_a_client_is_called_back_in_its_own_turn_if_it_need_not_wait(
    kinds: tuple[type[Effect], ...], calls: list[str], waiting: list[type[Effect]] | None
) -> None:
    session, recorder = Session(*(EXAMPLES[kind][0] for kind in kinds)), TurnOf()
    rest = runner(session, recorder).run_turn()
    assert recorder.calls == ["turn of 7", *calls]
    assert (None if rest is None else [type(each) for each in rest]) == waiting


async def test_a_client_that_sent_more_is_not_called_back_in_its_turn() -> None:
    session, recorder = Session(EXAMPLES[Wake][0]), TurnOf()
    session.has_more = True
    assert runner(session, recorder).run_turn() == []
    assert recorder.calls == ["turn of 7", "wake", "is busy"]


async def test_a_turn_that_fails_still_ends() -> None:
    session, recorder = Session(EXAMPLES[Wake][0]), TurnOf()
    made = runner(session, recorder)
    recorder.wake = failing  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        made.run_turn()
    assert recorder.calls == ["turn of 7", "is busy"]


def failing(*_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("error", [not_found("no queue"), StoreFull("full")])
async def test_a_failed_request_is_reported_in_amqps_terms(error: Exception) -> None:
    session = Session(Leave(ChannelId(1), (ONE,)))
    made = runner(session, Recorder(error))
    await made.run_all(made.run_orders())
    (event,) = session.events
    assert isinstance(event, RequestFailed)
    assert isinstance(event.error, AmqpError)


async def test_what_comes_after_a_request_waits_for_it() -> None:
    session, recorder = Session(*(EXAMPLES[kind][0] for kind in (Wake, Cancel, Append))), Recorder()
    made = runner(session, recorder)
    waiting = made.run_orders()
    assert recorder.calls == ["wake"]
    await made.run_all(waiting)
    assert recorder.calls == ["wake", "deliveries_made", "cancel", "append"]


async def test_a_queue_is_not_counted_until_it_holds_what_was_published_before() -> None:
    session, recorder = Session(EXAMPLES[Perform][0]), Recorder()
    session.is_waiting = True
    made = runner(session, recorder)

    async def run() -> None:
        await made.run_all(made.run_orders())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        assert not recorder.calls
        assert made.busy
        session.is_waiting = False
        made.all_published()
    assert recorder.calls == ["perform"]
    assert not made.busy
