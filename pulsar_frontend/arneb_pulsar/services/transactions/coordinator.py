"""The coordinator of a broker: its transactions, and what is sent and acknowledged in them.

The rule: a transaction ends in one commit: its messages are in their topics, its acknowledgements
count and its outcome is known, all at once or not at all. Before that no consumer sees anything of
it, and it holds up nobody. What a client was told is on disk: an open transaction outlives a
restart, and one has ended once its outcome is stored, whatever the time of day is before or after.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

import trio

from arneb_core.api.core import Core, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, CoreError
from arneb_core.api.process.callbacks import Appended, Done, call
from arneb_core.api.process.waiting import durable
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic
from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.services.transactions.beginning import Beginning, Begun, opening_of
from arneb_pulsar.services.transactions.ending import End, Ending
from arneb_pulsar.services.transactions.held_records import HeldRecords
from arneb_pulsar.services.transactions.open_transaction import (
    TIMEOUT_MS_MAX,
    Acks,
    HeldBytes,
    OpenTransaction,
)
from arneb_pulsar.services.transactions.recovered import recovered
from arneb_pulsar.session.errors import RequestRefused, TopicTerminated, TransactionNotOpen
from arneb_pulsar.transactions.outcomes import KEPT_MS, MANY, NONE_LAPSED, ONE, Outcomes, Patience
from arneb_pulsar.transactions.records import Acked, pack, pack_sent
from arneb_pulsar.transactions.states import COORDINATOR, HOW_ENDED, TransactionId, TransactionState
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

CHECK_INTERVAL_S: Final = 0.25
"""Time between checks for transactions that have timed out, while some are open."""

GATHER_MIN: Final = 1_000
GATHER_S: Final = 60.0
"""Single outcomes are gathered when there are this many, or after this long."""

logger = logging.getLogger(__name__)


class TransactionCoordinator:
    """The transactions of one broker. Invariant: no open transaction has an outcome."""

    def __init__(
        self, core: Core, config: PulsarConfig, clock: Clock, ended: Collection[int]
    ) -> None:
        """``ended``: the ids of terminated topics."""
        self._core = core
        self._config = config
        self._clock = clock
        self.held = HeldRecords(core)
        self._ending = Ending(core, self.held, ended)
        self.outcomes = Outcomes({**core.metadata(ONE), **core.metadata(MANY)})
        self._patience = Patience(clock.wall_ms(), clock.now())
        self._open: dict[int, OpenTransaction] = {}
        self.memory = HeldBytes()
        self._beginning = Beginning(core, self.held, clock, self._open, self.memory, self._wake)
        self._starting = trio.Lock()
        self._is_started = False
        self._gathering = trio.Lock()
        self._lapsing = NONE_LAPSED  # numbers that a commit under way stores as timed out
        self.recovered_ms = (0, 0)  # when recovery began and ended
        self._opened = trio.Event()

    def __repr__(self) -> str:
        return f"<TransactionCoordinator {len(self._open)} open, {self.outcomes!r}>"

    @property
    def open(self) -> Collection[OpenTransaction]:
        """The open transactions."""
        return self._open.values()

    # The life of the coordinator

    async def start(self) -> None:
        """Recover what was open, before anybody consumes. Raises :class:`.CoreError`."""
        async with self._starting:
            if self._is_started:
                return
            began_ms = self._clock.wall_ms()
            if self.held.is_there:
                await self.held.open()
                found = await recovered(self._core, self.held, self.outcomes, self.memory)
                self._open.update(found)
                if found:
                    logger.info("%d transactions are open since before the start", len(self._open))
            if self._beginning.has_lapsed(began_ms):
                await self.gather(began_ms)
            self.recovered_ms = began_ms, self._clock.wall_ms()
            self._is_started = True
            self._wake()

    async def run(self) -> NoReturn:
        """Abort timed-out transactions and gather outcomes, for ever."""
        gathered_s = self._clock.now()
        while not self._is_started:
            await self._opened.wait()
        while True:
            if self._open or self._beginning.has_earlier:
                await trio.sleep(CHECK_INTERVAL_S)
            else:
                with trio.move_on_after(GATHER_S):
                    await self._opened.wait()
            await self.held.acknowledge_ended()
            await self.expire(self._clock.wall_ms())
            await self._beginning.record_idle()
            now_s = self._clock.now()
            if self.outcomes.singles >= GATHER_MIN or now_s - gathered_s >= GATHER_S:
                gathered_s = now_s
                await self.gather(self._clock.wall_ms())

    async def expire(self, now_ms: int) -> None:
        """Abort timed-out transactions, those too that only their ranges tell of."""
        for each in [*self._open.values()]:
            if each.opened.until_ms <= now_ms and each.state is TransactionState.OPEN:
                logger.info("transaction %s is aborted: its time was up", each.id)
                try:
                    await self._finish(each, commit=False)
                except CoreError as error:
                    logger.warning("transaction %s cannot be aborted yet: %s", each.id, error)
        if self._beginning.has_lapsed(now_ms):
            await self.gather(now_ms)

    async def gather(self, now_ms: int) -> None:
        """Store outcomes in less room (:meth:`.Outcomes.gathered`), and drop used-up ranges."""
        async with self._gathering:
            may_go = self._patience.is_over(now_ms, self._clock.now())
            over, self._lapsing = self._beginning.over(now_ms)
            gathered = self.outcomes.gathered(now_ms, may_go=may_go, lapsed=self._lapsing)
            try:
                if gathered.rows or over:
                    with trio.CancelScope(shield=True):  # what is on disk must be in memory too
                        await self._core.committed(Unit(metadata=[*gathered.rows, *over]))
                        self.outcomes.written(gathered)
                        self._beginning.removed(over)
            except CommitFailed as error:
                logger.warning("cannot draw outcomes of transactions together yet: %s", error)
            finally:
                self._lapsing = NONE_LAPSED

    # What clients ask of the coordinator

    @property
    def latest(self) -> int:
        """The highest number given out or reserved since the start."""
        return self._beginning.latest

    @property
    def is_ready(self) -> bool:
        """A transaction can begin without waiting for anything first."""
        return self.latest > 0

    async def prepare(self) -> None:
        """Make ready for the first transaction. Raises :class:`.CoreError`."""
        await self.start()
        await self._beginning.prepare()

    def begin(self, timeout_ms: int, caller: Caller, begun: Begun) -> None:
        """Begin a transaction, if this :attr:`is_ready`; ``begun`` is called once a crash does not
        end it, perhaps before this returns. Raises :class:`RequestRefused`."""
        most = self._config.transactions_open_max
        if len(self._open) + self._beginning.under_way >= most:
            text = f"expected at most {most} open transactions (pulsar.transactions_open_max)"
            raise RequestRefused(pb.TooManyRequests, text)
        if timeout_ms > TIMEOUT_MS_MAX:
            text = f"expected a time-out of at most {TIMEOUT_MS_MAX} ms, got {timeout_ms}"
            raise RequestRefused(pb.NotAllowedError, text)
        self._beginning.begin(timeout_ms, caller, begun)

    def find(self, wanted: TransactionId, caller: Caller | None) -> OpenTransaction:
        """Return an open transaction of ``caller``, or of anybody for None. Raises
        :class:`RequestRefused`."""
        found = self._of(wanted, caller)
        if found.state is not TransactionState.OPEN:
            raise RequestRefused(
                pb.InvalidTxnStatus, f"transaction {wanted} is {found.state.value}"
            )
        return found

    def join(
        self,
        wanted: TransactionId,
        caller: Caller | None,
        partitions: Iterable[str] = (),
        subscriptions: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Let topics and subscriptions take part. Raises :class:`RequestRefused`."""
        self.find(wanted, caller).join(set(partitions), set(subscriptions))

    async def end(self, wanted: TransactionId, caller: Caller | None, *, commit: bool) -> None:
        """Commit or abort it. Raises :class:`RequestRefused` and :class:`.CoreError`; it is then
        open as before."""
        goal = TransactionState.COMMITTED if commit else TransactionState.ABORTED
        while True:
            while wanted.least_bits in self._lapsing:
                async with self._gathering:
                    pass  # whether its time-out is stored is known now
            ended = self.outcomes.find(wanted.least_bits)
            if ended is goal and wanted.most_bits == COORDINATOR:
                await trio.lowlevel.checkpoint()
                return
            found = self._of(wanted, caller)
            if found.state is TransactionState.OPEN:
                await self._finish(found, commit=commit)
                return
            await found.changed()

    def end_at_once(
        self, wanted: TransactionId, caller: Caller | None, *, commit: bool, done: Done
    ) -> bool:
        """As :meth:`end`, for one that has nothing to wait for but its commit, as most small ones;
        ``done`` is called after that. Return False if it is not such a one. Raises
        :class:`RequestRefused`."""
        found = self._open.get(wanted.least_bits)
        if found is None or found.state is not TransactionState.OPEN or not found.is_settled:
            return False
        found = self._of(wanted, caller)
        end = self._ended_by(found, commit=commit)
        if commit and self._ending.terminated(found) is not None:
            return False
        found.move(end.moving)

        def stored(error: CommitFailed | None) -> None:
            if error is not None:
                found.move(TransactionState.OPEN)
            else:
                if not commit:
                    self._ending.give_back(found)
                self._has_ended(found, end)
                self.held.ended(found.records)
                found.move(end.goal)
            done(error)

        self._ending.end_at_once(found, end, stored)
        return True

    def units(self, wanted: TransactionId) -> int:
        """Return the cost of ending that one, in small requests."""
        found = self._open.get(wanted.least_bits)
        return 0 if found is None else found.units

    # What is done in a transaction

    def send(
        self,
        wanted: TransactionId,
        caller: Caller,
        topic: Topic,
        entries: list[bytes],
        done: Appended,
        metadata: Sequence[tuple[str, bytes | None]] = (),
        expected: OpenTransaction | None = None,
    ) -> None:
        """Hold a run of messages until it ends; ``done`` gets their position meanwhile.
        ``expected``: the transaction, found earlier and waiting for these; it may be ending by
        now."""
        size = sum(map(len, entries))
        try:
            found = expected or self.find(wanted, caller)
            found.expect_sends(topic, size, self._config.transaction_bytes_max)
        except RequestRefused as refused:
            # Not before this returns: the deduplication would hand over its next run in the call.
            gone = TransactionNotOpen(str(refused))
            trio.lowlevel.current_trio_token().run_sync_soon(call, done, gone, Position(0))
            return
        found.begin_one()
        found.sent_bytes += size

        def stored(error: CommitFailed | None, first: Position) -> None:
            position = Position(first + len(opening))
            if error is None:
                self._beginning.opened(found, first, opening)
                found.sent(topic, position, entries)
            else:
                found.sent_bytes -= size
            found.end_one()
            done(error, position)

        records = pack_sent(wanted.least_bits, topic.id, entries, self._clock.wall_ms())
        opening = opening_of(found)
        self.held.append(opening + records, stored, metadata)

    async def acknowledge(
        self,
        found: OpenTransaction,
        topic: Topic,
        subscription: Subscription,
        whole: Sequence[Position],
        parts: Mapping[Position, tuple[int, int]],
        *,
        is_cumulative: bool = False,
    ) -> None:
        """Hold acknowledgements until the transaction, which must be open, ends; nobody gets their
        entries meanwhile. Raises :class:`RequestRefused` and :class:`.CoreError`; nothing has
        changed then."""
        found.expect_acks(whole, parts)
        if is_cumulative and (other := found.rival(self.open, subscription)) is not None:
            text = f"transaction {other.id} has acknowledged there, and all before, already"
            raise RequestRefused(pb.TransactionConflict, text)
        holder = subscription.withhold(whole, parts)
        found.count_acks(whole, parts)
        acks = found.acks.setdefault(holder, Acks(topic, subscription, holder))
        acks.is_cumulative |= is_cumulative
        acks.add(whole, parts)
        record = Acked(topic.id, subscription.name, subscription.id, whole, parts, is_cumulative)
        entry = pack(found.id.least_bits, record, self._clock.wall_ms())

        def submit(done: Done) -> None:
            def stored(error: CommitFailed | None, first: Position) -> None:
                if error is None:
                    self._beginning.opened(found, first, opening)
                    found.records.add(first + len(opening))
                else:
                    masks = {position: mask for position, (mask, _) in parts.items()}
                    acks.take_back(whole, masks)
                    found.count_acks(whole, parts, -1)
                    subscription.give_back(whole, masks)
                done(error)

            opening = opening_of(found)
            self.held.append([*opening, entry], stored)

        await durable(submit)

    # Inside

    def _of(self, wanted: TransactionId, caller: Caller | None) -> OpenTransaction:
        number, is_mine = wanted.least_bits, wanted.most_bits == COORDINATOR
        found = self._open.get(number) if is_mine else None
        if found is None and is_mine:
            if how := self.outcomes.find(number):
                text = f"transaction {wanted} has ended: {HOW_ENDED[how]}"
                raise RequestRefused(pb.InvalidTxnStatus, text)
            if number in self._lapsing:
                raise RequestRefused(pb.InvalidTxnStatus, f"the time of {wanted} is up")
            found = self._beginning.adopted(number, caller)
        if found is None:
            raise RequestRefused(pb.TransactionNotFound, f"transaction {wanted} is not known")
        if caller is not None and found.opened.owner != (caller.role, caller.original):
            raise RequestRefused(pb.AuthorizationError, f"transaction {wanted} is somebody else's")
        return found

    def _wake(self) -> None:
        """Wake :meth:`run`: the first transaction is open, or this has started."""
        self._opened.set()
        self._opened = trio.Event()

    async def _finish(self, found: OpenTransaction, *, commit: bool) -> None:
        with self._moving(found, commit=commit), trio.CancelScope(shield=True):
            while found.under_way:
                await found.changed()
            end = self._ended_by(found, commit=commit)
            if commit:
                if (topic := self._ending.terminated(found)) is not None:
                    raise TopicTerminated(f"{topic.name} was terminated")
                await self._ending.commit(found, end)
            else:
                await self._core.committed(Unit(metadata=[end.row]))
                self._ending.give_back(found)
            self._has_ended(found, end)
        with trio.CancelScope(shield=True):
            self.held.ended(found.records)
            await self.held.acknowledge_ended()

    def _ended_by(self, found: OpenTransaction, *, commit: bool) -> End:
        """Return how it would end now: its outcome outlives its range if the clock is set back."""
        now_ms = self._clock.wall_ms()
        until_ms = max(now_ms, found.opened.at_ms) + found.opened.timeout_ms + KEPT_MS
        row = self.outcomes.row(found.id.least_bits, until_ms, committed=commit)
        return End(commit, now_ms, until_ms, row)

    def _has_ended(self, found: OpenTransaction, end: End) -> None:
        """Note that ``end`` is on disk."""
        self.outcomes.stored(found.id.least_bits, end.until_ms, committed=end.committed)
        del self._open[found.id.least_bits]
        self._beginning.recorded(found.id.least_bits)
        found.forget(committed=end.committed)

    @contextmanager
    def _moving(self, found: OpenTransaction, *, commit: bool) -> Iterator[None]:
        """Mark it as being ended; it is open again if that fails."""
        state = TransactionState
        found.move(state.COMMITTING if commit else state.ABORTING)
        ended = state.OPEN
        try:
            yield
            ended = state.COMMITTED if commit else state.ABORTED
        finally:
            found.move(ended)
