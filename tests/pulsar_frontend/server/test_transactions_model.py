"""Whatever clients do in transactions, one beside the other, beside failing commits, time-outs,
kills and clocks that are set: a small model says what is there.

The rule: a step is done by one client, or two at the same moment; then what was answered is what
the model says, or one of two outcomes of which it learns. In the end a consumer gets what was
committed and not acknowledged, each once, less what open transactions have acknowledged. How a
transaction ended is answered alike for an hour, however the clock is set, and what was forgotten
after that never opens again.
"""

import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio
from google.protobuf.message import Message
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from tests.pulsar_frontend.raw_client import RawClient, Reply, body_of, connected
from tests.pulsar_frontend.server.transacting import named
from tests.pulsar_frontend.server.transaction_model import (
    ENDED,
    OK,
    TOPICS,
    Known,
    Model,
)
from tests.pulsar_frontend.session.playbook import received

from arneb.store.check import transaction_problems
from arneb_core.api.entries.position import Position
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.engine_kit import quiet
from arneb_core.testing.faults import FaultyStore
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.context import BrokerContext, make_context
from arneb_pulsar.transactions.outcomes import KEPT_MS
from arneb_pulsar.transactions.reservations import GIVEN_MS
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

CLIENTS: Final = 2
PERMITS: Final = 1000
TIMEOUTS_MS: Final = (2_000, 10_000, 60_000)
SET_BY_MS: Final = (-3 * 3_600_000, -90_000, -4_000, 90_000, 4 * 3_600_000)
FORGETTING_MS: Final = KEPT_MS + max(TIMEOUTS_MS)
"""After this long, outcomes may be forgotten, and mostly are."""
EXAMPLES: Final = int(os.environ.get("TRANSACTION_EXAMPLES", "20"))
ASKED: Final = 8
"""How many of those that ended are asked about again."""
QUIET_S: Final = 0.005
"""Nothing more comes."""

CONFLICT: Final = "TransactionConflict"
NOT_OPEN: Final = "NotAllowedError"
INDEX = st.integers(0, 50)
"""Of something that there is, counted round."""

CLIENT = st.integers(0, CLIENTS - 1)
TOPIC = st.sampled_from(TOPICS)
STEP = st.one_of(
    st.tuples(st.just("publish"), CLIENT, TOPIC),
    st.tuples(st.just("open"), CLIENT, st.sampled_from(TIMEOUTS_MS)),
    st.tuples(st.just("open several"), CLIENT, st.sampled_from(TIMEOUTS_MS)),
    st.tuples(st.just("send"), CLIENT, INDEX, TOPIC),
    st.tuples(st.just("ack"), CLIENT, INDEX, INDEX),
    st.tuples(st.just("ack"), CLIENT, INDEX, INDEX),
    st.tuples(st.just("ack plainly"), CLIENT, INDEX),
    st.tuples(st.just("end"), CLIENT, INDEX, st.booleans()),
    st.tuples(st.just("send while it ends"), INDEX, TOPIC, st.booleans()),
    st.tuples(st.just("ack while it ends"), INDEX, INDEX, st.booleans()),
    st.tuples(st.just("two ends at once"), INDEX),
    st.tuples(st.just("two acks at once"), INDEX, INDEX, INDEX),
    st.tuples(st.just("end that fails"), CLIENT, INDEX, st.booleans()),
    st.tuples(st.just("ack that fails"), CLIENT, INDEX, INDEX),
    st.tuples(st.just("let pass"), st.sampled_from((500, 2_000, 9_000, FORGETTING_MS))),
    st.tuples(st.just("set the clock"), st.sampled_from(SET_BY_MS)),
    st.tuples(st.just("come back"), CLIENT),
    st.tuples(st.just("look"),),
    st.tuples(st.just("stop"),),
    st.tuples(st.just("kill"),),
    st.tuples(st.just("kill and set the clock"), st.sampled_from(SET_BY_MS)),
    st.tuples(st.just("kill while it ends"), INDEX, st.booleans()),
)  # fmt: skip
STEPS = st.lists(STEP, min_size=8, max_size=40)
HOURS_MS: Final = 3 * 3_600_000
CLOCK_STEP = st.one_of(
    st.tuples(st.just("open several"), st.just(0), st.just(TIMEOUTS_MS[-1])),
    st.tuples(st.just("open"), st.just(0), st.just(TIMEOUTS_MS[-1])),
    st.tuples(st.just("send"), st.just(0), INDEX, st.just("out")),
    st.tuples(st.just("end"), st.just(0), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("let pass"), st.just(FORGETTING_MS)),
    st.tuples(st.just("set the clock"), st.sampled_from((-HOURS_MS, HOURS_MS))),
    st.tuples(st.just("set the clock for a moment"), st.just(HOURS_MS)),
    st.tuples(st.just("kill"),),
    st.tuples(st.just("kill and set the clock"), st.sampled_from((-HOURS_MS, HOURS_MS))),
)  # fmt: skip
"""Few kinds, so that what takes several of them in a row is found."""
CLOCK_STEPS = st.lists(CLOCK_STEP, min_size=6, max_size=16)
SEVERAL: Final = [("open several", 0, TIMEOUTS_MS[-1])] * 4
AHEAD_AT_START: Final = [
    *SEVERAL,
    ("kill and set the clock", HOURS_MS),
    ("set the clock", -HOURS_MS),
]
AHEAD_FOR_A_MOMENT: Final = [*SEVERAL, ("kill",), ("set the clock for a moment", HOURS_MS)]
"""The time of a range is up only as long as the clock is ahead."""


class Hand:
    """One client, whose messages come between its answers."""

    def __init__(self, client: RawClient, ids: dict[bytes, Any]) -> None:
        self._client = client
        self._ids = ids
        self._sequence = 0
        self.got: list[bytes] = []
        """By its present consumer."""

    async def prepare(self) -> None:
        for number, topic in enumerate(TOPICS, 1):
            await self._client.producer(topic, number)
        await self._client.subscribe("out", 2, subscription="keeps it")

    async def come(self) -> None:
        """Subscribe, or once more after leaving."""
        self.got = []
        await self._client.send(
            pb.CommandSubscribe(
                topic="in",
                subscription="s",
                subType=pb.CommandSubscribe.Shared,
                consumer_id=1,
                request_id=1,
                initialPosition=pb.CommandSubscribe.Earliest,
            )
        )
        await self._answer()
        await self._client.flow(PERMITS)

    async def leave(self) -> None:
        await self._client.send(pb.CommandCloseConsumer(consumer_id=1, request_id=2))
        await self._answer()

    async def hear(self, count: int = 0) -> None:
        """So many messages, and what comes besides."""
        while len(self.got) < count:
            assert self._take(await self._client.reply()), "nothing was asked, yet an answer came"
        with trio.move_on_after(QUIET_S):
            while True:
                assert self._take(await self._client.reply(60)), (
                    "nothing was asked, yet an answer came"
                )

    async def publish(self, topic: str, payload: bytes, known: Known | None = None) -> str:
        self._sequence += 1
        number = self._sequence
        fields = {} if known is None else named(known.id)
        producer = TOPICS.index(topic) + 1
        command = pb.CommandSend(producer_id=producer, sequence_id=number, **fields)
        body = body_of(payload, sequence_id=number)
        await self._client.stream.send_all(received(command, body=body).data)
        return word_for(await self._answer())

    async def open(self, timeout_ms: int) -> Any:
        await self._client.send(pb.CommandNewTxn(request_id=3, txn_ttl_seconds=timeout_ms, tc_id=0))
        reply = await self._answer()
        assert word_for(reply) == OK
        return reply

    async def acknowledge(self, number: Any, known: Known | None = None) -> str:
        """And hear whether it counts."""
        fields = {} if known is None else named(known.id)
        kind = pb.CommandAck.Individual
        await self._client.send(
            pb.CommandAck(consumer_id=1, ack_type=kind, message_id=[number], request_id=4, **fields)
        )
        return word_for(await self._answer())

    async def ask_end(self, known: Known, *, commit: bool) -> None:
        action = pb.COMMIT if commit else pb.ABORT
        await self._client.send(
            pb.CommandEndTxn(request_id=5, txn_action=action, **named(known.id))
        )

    async def end(self, known: Known, *, commit: bool) -> str:
        await self.ask_end(known, commit=commit)
        return word_for(await self._answer())

    async def _answer(self) -> Message:
        while True:
            reply = await self._client.reply()
            if not self._take(reply):
                return reply[0]

    def _take(self, reply: Reply) -> bool:
        command, body = reply
        if isinstance(command, pb.CommandMessage):
            payload = body[body.rindex(b"|") :]
            self.got.append(payload)
            self._ids[payload] = command.message_id
            return True
        return False


def word_for(reply: Any) -> str:
    """The answer in a word."""
    if reply.DESCRIPTOR.name in ("CommandSendError", "CommandError") or (
        "error" in reply.DESCRIPTOR.fields_by_name and reply.HasField("error")
    ):
        return str(pb.ServerError.Name(reply.error))
    return OK


class Play:
    """One example: a broker that lives several times, and its model."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._lives = 0
        self.path = self._next_path = place / "0"
        self.model = Model()
        self.hands: list[Hand] = []
        self._core: Engine
        self._context: BrokerContext
        self._faulty: FaultyStore

    async def live(self, steps: list[Any]) -> None:
        """Steps until the broker is stopped or killed."""
        set_by_ms = 0
        async with self._opened():
            await self.look()
            while steps:
                kind, *rest = steps.pop(0)
                if kind == "stop":
                    return
                if kind == "kill and set the clock":
                    await self._kill()
                    set_by_ms = rest[0]
                    break
                if kind.startswith("kill"):
                    await self._kill(*rest)
                    break
                await getattr(self, kind.replace(" ", "_"))(*rest)
                await self._heard()
            else:
                await self._end_all()
        self.path = self._next_path
        self.model.now_ms += set_by_ms

    async def _end_all(self) -> None:
        """What open ones had acknowledged comes again."""
        await self.look()
        for each in self.model.transactions:
            if each.state == "open":
                assert await self.hands[0].end(each, commit=False) == OK
                self.model.end(each, commit=False)
                await self._gather()  # so that each goes at its own time
        await self.look()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        clock = Clock(wall_ms=lambda: self.model.now_ms)
        with Store.open(self.path) as store:
            self._faulty = FaultyStore(store)
            async with open_engine(self.path, store=store, committing=self._faulty) as core:
                self._core = core
                self._context = make_context(core, PulsarConfig(), clock)
                self._context.transactions._clock = self._passing(clock)
                await self._context.transactions.start()
                self._learn()
                await self._expire()
                async with connected(self._context, CLIENTS) as clients:
                    self.hands = [Hand(each, self.model.ids) for each in clients]
                    for hand in self.hands:
                        await hand.prepare()
                        await hand.come()
                    yield
        assert check(self.path) == []
        with open_snapshot_environment(self.path) as there, there.snapshot() as snapshot:
            assert list(transaction_problems(snapshot)) == []

    def _passing(self, clock: Clock) -> Clock:
        """A clock of which time passes as in the model."""
        started_ms = self.model.passed_ms

        def now() -> float:
            return trio.current_time() + (self.model.passed_ms - started_ms) / 1000

        return Clock(now, clock.wall_ms)

    def _learn(self) -> None:
        """One in which nothing was done may live a little longer than it was to, after a crash."""
        beginning = self._context.transactions._beginning
        for each in self.model.transactions:
            if each.state == "open" and not each.is_done_in:
                reserved = beginning._reservations.find(each.id.txnid_least_bits)
                if reserved is not None:
                    until_ms = reserved.opened.until_ms
                    assert each.until_ms <= until_ms <= each.until_ms + GIVEN_MS
                    each.until_ms = until_ms

    async def _heard(self) -> None:
        """Nobody has anything that was never committed."""
        for hand in self.hands:
            await hand.hear()
            strange = set(hand.got) - set(self.model.logs["in"])
            assert not strange, f"{strange} were never committed"

    async def look(self) -> None:
        """What a consumer gets that comes alone, and what stands in the other topic."""
        for hand in self.hands:
            await hand.leave()
        left = self.model.left()
        await self.hands[0].come()
        await self.hands[0].hear(left.total())
        assert Counter(self.hands[0].got) == left, "what is left"
        topic = self._core.topic("persistent://public/default/out")
        found: list[bytes] = []
        place = topic.floor
        while topic.last is not None and place <= topic.last:
            for first, entries in await topic.read(place, 1 << 20):
                found += [entry[entry.rindex(b"|") :] for entry in entries]
                place = Position(first + len(entries))
        expected = self.model.logs["out"]
        assert found == expected, f"expected {expected}, found {found}"
        await self.hands[1].come()

    async def _kill(self, index: int | None = None, commit: bool = False) -> None:
        """What a SIGKILL leaves; perhaps before something that was asked for is on disk."""
        self._faulty.hold_each()
        known = None if index is None else self.model.pick_open(index)
        if known is not None:
            await self.hands[0].ask_end(known, commit=commit)
            with trio.fail_after(10):
                while not self._faulty.holds_one:
                    await trio.lowlevel.checkpoint()
        self._lives += 1
        after = self._place / str(self._lives)
        shutil.copytree(self.path, after)
        self._faulty.stop_holding()
        self._next_path = after

    async def _some(self, index: int) -> Known:
        """A transaction, ended or not; one that is opened now if there is none."""
        if not self.model.transactions:
            await self.open(index % CLIENTS, TIMEOUTS_MS[index % len(TIMEOUTS_MS)])
        known = self.model.pick(index)
        assert known is not None
        return known

    async def _some_open(self, index: int) -> Known:
        """One that is open."""
        if self.model.pick_open(index) is None:
            await self.open(index % CLIENTS, TIMEOUTS_MS[index % len(TIMEOUTS_MS)])
        known = self.model.pick_open(index)
        assert known is not None
        return known

    async def _some_message(self, index: int) -> bytes:
        """A message that some consumer got."""
        if self.model.pick_message(index) is None:
            await self.publish(index % CLIENTS, "in")
            await self.look()
        payload = self.model.pick_message(index)
        assert payload is not None
        return payload

    # Steps

    async def publish(self, client: int, topic: str) -> None:
        payload = self.model.another()
        assert await self.hands[client].publish(topic, payload) == OK
        self.model.logs[topic].append(payload)

    async def open(self, client: int, timeout_ms: int) -> None:
        number = await self.hands[client].open(timeout_ms)
        self.model.transactions.append(Known(number, self.model.now_ms + timeout_ms))

    async def open_several(self, client: int, timeout_ms: int) -> None:
        """The third is one of a range of numbers that was stored before it was opened."""
        for _ in range(3):
            await self.open(client, timeout_ms)

    async def send(self, client: int, index: int, topic: str) -> None:
        known = await self._some(index)
        payload = self.model.another()
        answer = await self.hands[client].publish(topic, payload, known)
        assert answer == (OK if known.state == "open" else NOT_OPEN)
        if answer == OK:
            known.sent.append((topic, payload))

    async def ack(self, client: int, index: int, message: int) -> None:
        known, payload = await self._some(index), await self._some_message(message)
        answer = await self.hands[client].acknowledge(self.model.ids[payload], known)
        expected = {self._expected(known, payload)} | self.model.forgetting(known)
        assert answer in expected, f"{payload!r} by {known}: {expected} expected, got {answer}"
        if answer == OK:
            known.acked.add(payload)

    def _expected(self, known: Known, payload: bytes) -> str:
        if known.state != "open":
            return ENDED
        is_taken = payload in self.model.acked | self.model.withheld()
        return CONFLICT if is_taken else OK

    async def ack_plainly(self, client: int, message: int) -> None:
        """That counts at once, whatever becomes of a transaction that acknowledged it too."""
        payload = await self._some_message(message)
        assert await self.hands[client].acknowledge(self.model.ids[payload]) == OK
        self.model.acked.add(payload)

    async def end(self, client: int, index: int, commit: bool) -> None:
        await self._end(client, await self._some(index), commit=commit)

    async def _end(self, client: int, known: Known, *, commit: bool) -> None:
        answer = await self.hands[client].end(known, commit=commit)
        expected = self.model.answers(known, commit=commit)
        assert answer in expected, f"{known}: {expected} expected, got {answer}"
        if known.state == "open":
            self.model.end(known, commit=commit)

    async def send_while_it_ends(self, index: int, topic: str, commit: bool) -> None:
        """It counts if it was taken."""
        known = await self._some_open(index)
        payload = self.model.another()
        sent, ended = await together(
            partial(self.hands[0].publish, topic, payload, known),
            partial(self.hands[1].end, known, commit=commit),
        )
        assert sent in (OK, NOT_OPEN)
        assert ended == OK
        if sent == OK:
            known.sent.append((topic, payload))
        self.model.end(known, commit=commit)

    async def ack_while_it_ends(self, index: int, message: int, commit: bool) -> None:
        known, payload = await self._some_open(index), await self._some_message(message)
        expected = self._expected(known, payload)
        number = self.model.ids[payload]
        acked, ended = await together(
            partial(self.hands[0].acknowledge, number, known),
            partial(self.hands[1].end, known, commit=commit),
        )
        assert acked in (expected, ENDED)
        assert ended == OK
        if acked == OK:
            known.acked.add(payload)
        self.model.end(known, commit=commit)

    async def two_ends_at_once(self, index: int) -> None:
        """One of them is."""
        known = await self._some_open(index)
        answers = await together(
            partial(self.hands[0].end, known, commit=True),
            partial(self.hands[1].end, known, commit=False),
        )
        assert sorted(answers) == [ENDED, OK]
        self.model.end(known, commit=answers[0] == OK)

    async def two_acks_at_once(self, index: int, other: int, message: int) -> None:
        """One of them has it."""
        first, second = await self._some_open(index), await self._some_open(other)
        payload = await self._some_message(message)
        is_free = self._expected(first, payload) == OK
        number = self.model.ids[payload]
        answers = await together(
            partial(self.hands[0].acknowledge, number, first),
            partial(self.hands[1].acknowledge, number, second),
        )
        assert sorted(answers) == [CONFLICT, OK if is_free else CONFLICT]
        if is_free:
            (first if answers[0] == OK else second).acked.add(payload)

    async def end_that_fails(self, client: int, index: int, commit: bool) -> None:
        """The transaction is open as before."""
        known = await self._some_open(index)
        self._faulty.fail_until_healed()
        assert await self.hands[client].end(known, commit=commit) not in (OK, ENDED)
        self._faulty.heal()

    async def ack_that_fails(self, client: int, index: int, message: int) -> None:
        """Nothing has changed."""
        known, payload = await self._some_open(index), await self._some_message(message)
        expected = self._expected(known, payload)
        self._faulty.fail_until_healed()
        answer = await self.hands[client].acknowledge(self.model.ids[payload], known)
        self._faulty.heal()
        assert answer == CONFLICT if expected == CONFLICT else answer not in (OK, CONFLICT)

    async def let_pass(self, passed_ms: int) -> None:
        self.model.passed_ms += passed_ms
        await self._context.transactions.held.acknowledge_ended()
        self._core._committer.flush_cursors()
        await quiet(self._core)  # records of those that ended are gone by then
        await self.set_the_clock(passed_ms)

    async def set_the_clock(self, by_ms: int) -> None:
        """Time-outs are times of day; how something has ended is known all the same."""
        self.model.now_ms += by_ms
        await self._expire()
        await self._gather()
        await self._ask_again()

    async def set_the_clock_for_a_moment(self, by_ms: int) -> None:
        """The coordinator sees it, but draws no outcomes together before it is set back."""
        for each_ms in (by_ms, -by_ms):
            self.model.now_ms += each_ms
            await self._expire()
            await self._ask_again()

    async def _expire(self) -> None:
        await self._context.transactions.expire(self.model.now_ms)
        self.model.expire()

    async def _gather(self) -> None:
        for _ in range(2):  # the first draws outcomes together, the second may let them go
            await self._context.transactions.gather(self.model.now_ms)

    async def _ask_again(self) -> None:
        """Clients that missed how the last ones ended. The first asks for what did not happen: if
        the transaction were open again, that would be done now."""
        ended = [each for each in self.model.transactions if each.state != "open"]
        for each in ended[-ASKED:]:
            for commit in (each.state == "aborted", each.state == "committed"):
                await self._end(0, each, commit=commit)

    async def come_back(self, client: int) -> None:
        """What it had goes to the other, or comes again."""
        await self.hands[client].leave()
        await self.hands[client].come()


async def together(*asked: Callable[[], Awaitable[str]]) -> list[str]:
    """What is answered to those who ask at the same moment."""
    answers = [""] * len(asked)

    async def ask(number: int) -> None:
        answers[number] = await asked[number]()

    async with trio.open_nursery() as nursery:
        for number in range(len(asked)):
            nursery.start_soon(ask, number)
    return answers


async def play(place: Path, steps: list[Any]) -> None:
    played = Play(place)
    while steps:
        await played.live(steps)
    await played.live([("look",), ("let pass", FORGETTING_MS)])


@given(STEPS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_transactions_agree_with_the_model(steps: list[Any]) -> None:
    note(f"{steps}")
    with TemporaryDirectory() as directory:
        trio.run(play, Path(directory), list(steps))


@given(CLOCK_STEPS)
@example(AHEAD_AT_START)
@example(AHEAD_FOR_A_MOMENT)
@settings(max_examples=2 * EXAMPLES, deadline=None)
def test_how_one_ended_is_answered_alike_however_the_clock_is_set(steps: list[Any]) -> None:
    note(f"{steps}")
    with TemporaryDirectory() as directory:
        trio.run(play, Path(directory), list(steps))
