"""Whatever clients do in transactions, one beside the other, beside failing commits, time-outs,
kills and clocks that are set: a small model says what is there.

The rule: a step is done by one client, or two at the same moment; then what was answered is what
the model says, or one of two outcomes of which it learns. In the end a consumer gets what was
committed and not acknowledged, each once, less what open transactions have acknowledged.
"""

import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import trio
from google.protobuf.message import Message
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.pulsar_frontend.raw_client import RawClient, Reply, body_of, connected
from tests.pulsar_frontend.server.transacting import named
from tests.pulsar_frontend.session.playbook import received

from arneb.store.check import transaction_problems
from arneb_core.api.entries.position import Position
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment
from arneb_core.testing.faults import FaultyStore
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.context import BrokerContext, make_context
from arneb_pulsar.transactions.reservations import GIVEN_MS
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TOPICS: Final = ("in", "out")
CLIENTS: Final = 2
PERMITS: Final = 1000
START_MS: Final = 1_000_000_000_000
TIMEOUTS_MS: Final = (2_000, 10_000, 60_000)
SET_BY_MS: Final = (-3 * 3_600_000, -90_000, -4_000, 90_000, 4 * 3_600_000)
EXAMPLES: Final = int(os.environ.get("TRANSACTION_EXAMPLES", "20"))
QUIET_S: Final = 0.005
"""Nothing more comes."""

OK: Final = "ok"
CONFLICT: Final = "TransactionConflict"
ENDED: Final = "InvalidTxnStatus"
NOT_OPEN: Final = "NotAllowedError"
INDEX = st.integers(0, 50)
"""Of something that there is, counted round."""

CLIENT = st.integers(0, CLIENTS - 1)
TOPIC = st.sampled_from(TOPICS)
STEP = st.one_of(
    st.tuples(st.just("publish"), CLIENT, TOPIC),
    st.tuples(st.just("open"), CLIENT, st.sampled_from(TIMEOUTS_MS)),
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
    st.tuples(st.just("let pass"), st.sampled_from((500, 2_000, 9_000))),
    st.tuples(st.just("set the clock"), st.sampled_from(SET_BY_MS)),
    st.tuples(st.just("come back"), CLIENT),
    st.tuples(st.just("look"),),
    st.tuples(st.just("stop"),),
    st.tuples(st.just("kill"),),
    st.tuples(st.just("kill while it ends"), INDEX, st.booleans()),
)  # fmt: skip
STEPS = st.lists(STEP, min_size=8, max_size=40)


@dataclass(eq=False)
class Known:
    """A transaction, as far as the model knows."""

    id: Any
    until_ms: int
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    acked: set[bytes] = field(default_factory=set)
    state: str = "open"

    @property
    def is_done_in(self) -> bool:
        """Something was."""
        return bool(self.sent or self.acked)


@dataclass
class Model:
    """What there is."""

    logs: dict[str, list[bytes]] = field(default_factory=lambda: {each: [] for each in TOPICS})
    """What was committed, in its order."""
    acked: set[bytes] = field(default_factory=set)
    """In ``in``."""
    transactions: list[Known] = field(default_factory=list)
    ids: dict[bytes, Any] = field(default_factory=dict)
    """Message ids of what consumers got."""
    messages: int = 0
    now_ms: int = START_MS

    def another(self) -> bytes:
        """A message that there was not yet."""
        self.messages += 1
        return b"|%d" % self.messages

    def withheld(self) -> set[bytes]:
        """What open transactions have acknowledged."""
        return set().union(*(each.acked for each in self.transactions if each.state == "open"))

    def left(self) -> Counter[bytes]:
        """What a consumer gets."""
        gone = self.acked | self.withheld()
        return Counter(each for each in self.logs["in"] if each not in gone)

    def end(self, known: Known, *, commit: bool) -> None:
        """It counts, or never was."""
        known.state = "committed" if commit else "aborted"
        if commit:
            self.acked |= known.acked
            for topic, payload in known.sent:
                self.logs[topic].append(payload)

    def expire(self) -> None:
        """Those whose time is up are aborted."""
        for each in self.transactions:
            if each.state == "open" and each.until_ms <= self.now_ms:
                self.end(each, commit=False)

    def pick(self, index: int) -> Known | None:
        """A transaction, ended or not, if there is one; rather a late one."""
        return self.transactions[-1 - index % len(self.transactions)] if self.transactions else None

    def pick_open(self, index: int) -> Known | None:
        """One that is open."""
        found = [each for each in self.transactions if each.state == "open"]
        return found[index % len(found)] if found else None

    def pick_message(self, index: int) -> bytes | None:
        """A message that some consumer got; three times of four one that nobody acknowledged."""
        taken = self.acked | self.withheld() if index % 4 else set()
        found = [each for each in self.ids if each not in taken]
        return found[index % len(found)] if found else None


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
        return said(await self._answer())

    async def open(self, timeout_ms: int) -> Any:
        await self._client.send(pb.CommandNewTxn(request_id=3, txn_ttl_seconds=timeout_ms, tc_id=0))
        reply = await self._answer()
        assert said(reply) == OK
        return reply

    async def acknowledge(self, number: Any, known: Known | None = None) -> str:
        """And hear whether it counts."""
        fields = {} if known is None else named(known.id)
        kind = pb.CommandAck.Individual
        await self._client.send(
            pb.CommandAck(consumer_id=1, ack_type=kind, message_id=[number], request_id=4, **fields)
        )
        return said(await self._answer())

    async def ask_end(self, known: Known, *, commit: bool) -> None:
        action = pb.COMMIT if commit else pb.ABORT
        await self._client.send(
            pb.CommandEndTxn(request_id=5, txn_action=action, **named(known.id))
        )

    async def end(self, known: Known, *, commit: bool) -> str:
        await self.ask_end(known, commit=commit)
        return said(await self._answer())

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


def said(reply: Any) -> str:
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
        async with self._opened():
            await self.look()
            while steps:
                kind, *rest = steps.pop(0)
                if kind == "stop":
                    return
                if kind.startswith("kill"):
                    await self._kill(*rest)
                    break
                await getattr(self, kind.replace(" ", "_"))(*rest)
                await self._heard()
            else:
                await self._end_all()
        self.path = self._next_path

    async def _end_all(self) -> None:
        """What open ones had acknowledged comes again."""
        await self.look()
        for each in self.model.transactions:
            if each.state == "open":
                assert await self.hands[0].end(each, commit=False) == OK
                self.model.end(each, commit=False)
        await self.look()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        clock = Clock(wall_ms=lambda: self.model.now_ms)
        with Store.open(self.path) as store:
            self._faulty = FaultyStore(store)
            async with open_engine(self.path, store=store, committing=self._faulty) as core:
                self._core = core
                self._context = make_context(core, PulsarConfig(), clock)
                await self._context.transactions.start()
                self._learn()
                async with connected(self._context, CLIENTS) as clients:
                    self.hands = [Hand(each, self.model.ids) for each in clients]
                    for hand in self.hands:
                        await hand.prepare()
                        await hand.come()
                    yield
        assert check(self.path) == []
        with open_snapshot_environment(self.path) as there, there.snapshot() as snapshot:
            assert list(transaction_problems(snapshot)) == []

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
        expected = self._expected(known, payload)
        assert answer == expected, f"{payload!r} by {known}: {expected} expected, got {answer}"
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
        known = await self._some(index)
        answer = await self.hands[client].end(known, commit=commit)
        wanted = "committed" if commit else "aborted"
        assert answer == (OK if known.state in ("open", wanted) else ENDED)
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
        self.model.now_ms += passed_ms
        await self._context.transactions.expire(self.model.now_ms)
        self.model.expire()

    async def set_the_clock(self, by_ms: int) -> None:
        """Time-outs are times of day; how something has ended is known all the same."""
        await self.let_pass(by_ms)
        for _ in range(2):  # the first draws outcomes together, the second may let them go
            await self._context.transactions.gather(self.model.now_ms)

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
    await played.live([("look",)])


@given(STEPS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_transactions_agree_with_the_model(steps: list[Any]) -> None:
    note(f"{steps}")
    with TemporaryDirectory() as directory:
        trio.run(play, Path(directory), list(steps))
