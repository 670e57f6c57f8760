"""What a subscription has acknowledged, against the model: a set of messages.

The logs of the machine have big ledgers too, of a chunk of holes and one entry more or
less. Its model knows only the entries near the edges; those between are acknowledged as
ranges, so that a step stays cheap.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, Position, ledger_of, position_at
from arneb_core.cursor.acks import AckState, Changes
from arneb_core.log.ledgers import LedgerIndex
from arneb_core.testing.invariants import check_ack_state
from arneb_core.testing.model import CursorDisk, CursorModel, Message
from arneb_core.testing.strategies import (
    CHUNK_SIZES,
    SMALL_SIZES,
    Picks,
    edge_positions,
    filling,
    ledger_indexes,
    masks,
    picks,
    positions,
)

MESSAGES_MAX = 3
ALL = 1 << 40
MANY = 1_000
INDEXES = st.integers(0, MANY - 1)
"""Of entries, modulo how many there are; any position is greater."""


def batch_size(position: Position) -> int:
    """Entries of one, two and three messages, mixed."""
    return 1 + (position % 7 % MESSAGES_MAX)


@dataclass
class Commit:
    """A commit under way: what it writes, and what is acknowledged once it is done."""

    mark_delete: Position
    changes: Changes
    acked: set[Message]


@dataclass
class UnitOfAcks:
    """Acks that are taken back if their commit fails."""

    positions: list[Position]
    masks: dict[Position, int]
    messages: set[Message]


class AcksAgainstTheModel(RuleBasedStateMachine):
    """Acks in all forms, a growing and shrinking log, commits, failures and crashes."""

    @initialize(ledgers=ledger_indexes((*SMALL_SIZES, *CHUNK_SIZES), ledgers_max=3))
    def begin(self, ledgers: LedgerIndex) -> None:
        note(f"log: {list(ledgers)}")
        self.ledgers = ledgers
        edges = edge_positions(ledgers)
        self.log = {position: batch_size(position) for position in edges}
        self.between = filling(ledgers, edges)
        self.state = AckState(ledgers)
        self.model = CursorModel(self.log)
        self.unit: UnitOfAcks | None = None
        self.commit: Commit | None = None
        self.fill()
        self.disk = CursorDisk(self.state.mark_delete)
        self.disk.write(self.state.mark_delete, self.state.take_changes())
        self.durable = set(self.model.acked)

    def fill(self) -> None:
        """Acknowledge what the model does not know; the last range by a list."""
        for stretch in self.between:
            self.state.acknowledge(stretch)  # type: ignore[arg-type]  # ints made from positions

    def at(self, index: int) -> Position:
        """An entry that the model knows, every second time one of the first unacked ones, so
        that steps meet at the same entries; one that is not there if the log is empty."""
        index, anywhere = divmod(index, 2)
        near = self.universe if anywhere else self.model.unacknowledged()[:6] or self.universe
        return near[index % len(near)] if near else position_at(1, index)

    @property
    def universe(self) -> list[Position]:
        return sorted(self.log)

    # Acknowledging

    @rule(chosen=picks)
    def acknowledge(self, chosen: Picks) -> None:
        self.expect(self.state.acknowledge, chosen.of(self.universe))

    @rule(skip=st.integers(0, 3), length=st.integers(1, 12), step=st.integers(1, 2))
    def acknowledge_what_comes_next(self, skip: int, length: int, step: int) -> None:
        """What a consumer that keeps up sends: the next ones, or every second one of them."""
        chosen = self.model.unacknowledged()[skip::step][:length]
        self.expect(self.state.acknowledge, chosen)

    @rule(index=INDEXES, length=st.integers(0, 9))
    def acknowledge_a_range(self, index: int, length: int) -> None:
        first = self.at(index)
        self.expect(self.state.acknowledge, range(first, first + length))

    def expect(self, operation: Callable[..., int], chosen: Sequence[int]) -> None:
        before = set(self.model.unacknowledged())
        newly = operation(chosen)
        self.model.acknowledge(Position(position) for position in chosen)
        assert newly == len(before - set(self.model.unacknowledged()))

    @rule(position=INDEXES | positions(ledger_max=12) | st.sampled_from([AFTER_ALL, BEFORE_ALL]))
    def acknowledge_until(self, position: int) -> None:
        target = self.at(position) if position < MANY else Position(position)
        before = set(self.model.unacknowledged())
        newly = self.state.acknowledge_until(target)
        self.model.acknowledge_until(target)
        assert newly == len(before - set(self.model.unacknowledged()))

    @rule(index=INDEXES, mask=masks(MESSAGES_MAX))
    def acknowledge_messages(self, index: int, mask: int) -> None:
        position = self.at(index)
        was_whole = self.model.is_acknowledged(position)
        whole = self.state.acknowledge_messages(position, mask, batch_size(position))
        self.model.acknowledge_messages(position, mask)
        assert whole == (self.model.is_acknowledged(position) and not was_whole)

    @rule(index=INDEXES, mask=masks(MESSAGES_MAX))
    def acknowledge_until_inside_a_batch(self, index: int, mask: int) -> None:
        position = self.at(index)
        before = set(self.model.unacknowledged())
        newly = self.state.acknowledge_until(position, mask, batch_size(position))
        self.model.acknowledge_until(Position(position - 1))
        self.model.acknowledge_messages(position, mask)
        assert newly == len(before - set(self.model.unacknowledged()))

    @rule(
        index=INDEXES | st.sampled_from([BEFORE_ALL, AFTER_ALL]),
        mask=st.none() | masks(MESSAGES_MAX),
    )
    def reset(self, index: int, mask: int | None) -> None:
        position = self.at(index) if index < MANY else Position(index)
        mask = None if mask is None else mask & ((1 << batch_size(position)) - 1)
        self.state.reset(position, mask)
        self.model.reset(position, mask)
        self.unit = None
        self.fill()

    # Units that may fail

    @precondition(lambda self: self.unit is None)
    @rule(picked=picks)
    def acknowledge_a_unit(self, picked: Picks) -> None:
        chosen = list(dict.fromkeys(picked.of(self.universe)))
        before = self.model.unacknowledged()
        unacked = self.state.only_unacked(chosen)
        assert unacked == [position for position in chosen if position in before]
        there = sorted(position for position in chosen if position in self.log)
        assert self.state.only_unacked(there) == [
            position for position in there if position in before
        ]
        assert self.state.only_unacked(sorted(chosen)) == sorted(unacked)
        mixed = sorted(self.log, key=lambda position: (position % 7, position))
        assert self.state.only_unacked(mixed) == [
            position for position in mixed if position in before
        ]
        assert self.state.unacked_of(there) == [
            position for position in there if position in before
        ]
        held = self.state.masks_of(unacked)
        self.unit = UnitOfAcks(unacked, held, self.model.messages(unacked) - self.model.acked)
        assert self.state.acknowledge(unacked) == len(unacked)
        self.model.acknowledge(unacked)

    @precondition(lambda self: self.unit is not None)
    @rule(fails=st.booleans())
    def end_the_unit(self, fails: bool) -> None:
        unit, self.unit = self.unit, None
        assert unit is not None
        if fails:
            there = [position for position in unit.positions if position in self.log]
            assert self.state.restore(unit.positions, unit.masks) == len(there)
            self.model.restore(unit.messages)

    # The log

    @rule(count=st.integers(1, 4), roll=st.booleans())
    def grow(self, count: int, roll: bool) -> None:
        if roll and self.ledgers.current:
            self.ledgers.close(1)
        if not self.ledgers.current:
            self.ledgers.open(ledger_of(self.ledgers.next_append), 1)
        first = self.ledgers.extend(count, count, count)
        self.log |= {Position(first + i): batch_size(Position(first + i)) for i in range(count)}

    @precondition(lambda self: len(self.ledgers) > 1)
    @rule(index=st.integers(0, 5))
    def trim(self, index: int) -> None:
        droppable = [info.id for info in self.ledgers][:-1]
        last = droppable[index % len(droppable)]
        self.ledgers.drop_through(last)
        self.state.log_trimmed()
        for position in [position for position in self.log if ledger_of(position) <= last]:
            del self.log[position]
        self.between = [each for each in self.between if ledger_of(Position(each[0])) > last]

    # The store

    @precondition(lambda self: self.commit is None)
    @rule()
    def start_commit(self) -> None:
        changes = self.state.take_changes()
        self.commit = Commit(self.state.mark_delete, changes, set(self.model.acked))
        assert self.state.take_changes() == [], "the same changes were taken twice"

    @precondition(lambda self: self.commit is not None)
    @rule(fails=st.booleans())
    def end_commit(self, fails: bool) -> None:
        commit, self.commit = self.commit, None
        assert commit is not None
        if fails:
            self.disk.failed = True
            self.state.mark_dirty_again(commit.changes)
        else:
            self.disk.write(commit.mark_delete, commit.changes)
            self.durable = commit.acked
            self.load_beside()

    @precondition(lambda self: self.commit is None)
    @rule(fails=st.booleans())
    def commit_at_once(self, fails: bool) -> None:
        self.start_commit()
        self.end_commit(fails)
        if not fails:
            assert self.load_beside().take_changes() == [], (
                "the disk holds rows that are no longer needed"
            )

    @rule(written=st.booleans())
    def crash(self, written: bool) -> None:
        """The process dies; the commit under way reached the disk whole or not at all."""
        if written and self.commit is not None:
            self.disk.write(self.commit.mark_delete, self.commit.changes)
            self.durable = self.commit.acked
        pairs = list(self.disk.pairs.items())
        self.state = AckState.load(self.ledgers, self.disk.mark_delete, pairs)
        self.model = CursorModel(self.log, self.durable)
        self.unit = self.commit = None
        check_ack_state(self.state)
        self.same_answers_at_the_edges(self.state, self.model)
        self.fill()

    @rule()
    def load_at_any_time(self) -> None:
        self.load_beside()

    def load_beside(self) -> AckState:
        """The disk holds exactly what was acknowledged when it was last written."""
        pairs = self.disk.pairs.items()
        loaded = AckState.load(self.ledgers, self.disk.mark_delete, pairs)
        durable = CursorModel(self.log, self.durable)
        self.same_answers_at_the_edges(loaded, durable)
        return loaded

    # What must hold

    @invariant()
    def sound(self) -> None:
        check_ack_state(self.state)

    @invariant()
    def same_answers(self) -> None:
        self.same_answers_at_the_edges(self.state, self.model)
        unacked = self.model.unacknowledged()
        assert self.state.unacknowledged(BEFORE_ALL, AFTER_ALL, ALL) == unacked
        assert self.state.backlog == len(unacked)
        following = self.ledgers.after(self.state.mark_delete)
        assert following == (unacked[0] if unacked else None)

    def same_answers_at_the_edges(self, state: AckState, model: CursorModel) -> None:
        for position, size in self.log.items():
            mask = model.unacked_mask(position)
            assert state.is_acknowledged(position) == (mask == 0)
            half_acked = 0 < mask < (1 << size) - 1
            stored = state.unacked_mask(position)
            assert stored == mask if half_acked else stored in (None, mask)

    @rule(
        low=INDEXES | positions(ledger_max=12),
        high=INDEXES | positions(ledger_max=12),
        limit=st.integers(0, 6),
    )
    def ask_about_a_stretch(self, low: int, high: int, limit: int) -> None:
        low, high = (self.at(p) if p < MANY else Position(p) for p in (low, high))
        between = [position for position in self.model.unacknowledged() if low < position <= high]
        assert self.state.unacknowledged(low, high, limit) == between[:limit]
        acknowledged = self.ledgers.count_between(low, high) - len(between)
        assert self.state.acknowledged_between(low, high) == acknowledged


AcksAgainstTheModel.TestCase.settings = settings(max_examples=150, stateful_step_count=30)
TestAcksAgainstTheModel = AcksAgainstTheModel.TestCase
