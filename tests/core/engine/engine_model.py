"""The model of an engine: what was appended, what each subscription is done with, who holds what.

The rule: plain sets of messages, a message being (position, index in its batch). Whatever the
engine says or hands out must be true of these sets. :class:`SubscriptionModel` is told of
every delivery by its sinks, and keeps what was wrong with it for the test to raise.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.entries.position import BEFORE_ALL, LedgerId, Position, ledger_of
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import Window
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.testing.engine_kit import make_entry
from arneb_core.testing.invariants import check_ack_state, check_ledgers

Message = tuple[Position, int]

PUBLISHED_MS: Final = 1 << 43
"""Later than any ledger is made, so that no log stamps an entry again, which keeps its bytes."""


@dataclass
class TopicModel:
    """A topic: how many messages each entry holds."""

    name: str
    sizes: dict[Position, int] = field(default_factory=dict)
    batched: set[LedgerId] = field(default_factory=set)
    """Ledgers to which a batch was published."""
    highest: Position = BEFORE_ALL
    """The last position that was ever given out."""

    @property
    def messages(self) -> list[Message]:
        return [
            (position, index)
            for position in sorted(self.sizes)
            for index in range(self.sizes[position])
        ]

    @property
    def is_plain(self) -> bool:
        """No ledger of which an entry is left ever held a batch: ledgers count by averages."""
        if not self.sizes:
            return True
        oldest = ledger_of(min(self.sizes))
        return all(ledger < oldest for ledger in self.batched)

    def of(self, positions: Iterable[Position]) -> set[Message]:
        """Every message of ``positions``."""
        return {
            (position, index)
            for position in positions
            for index in range(self.sizes.get(position, 0))
        }

    def entry(self, position: Position) -> bytes:
        """The entry at ``position``: its body names its place."""
        return make_entry(b"%d" % position, self.sizes[position], publish_time_ms=PUBLISHED_MS)


@dataclass
class ModelConsumer:
    """A consumer: the messages that it was given and has not answered."""

    acks: bool
    window: Window | None
    is_permitted: bool
    messages: set[Message] = field(default_factory=set)
    permits: int = 0


class SubscriptionModel:
    """A subscription and its consumers."""

    def __init__(self, topic: TopicModel, name: str, acked: set[Message]) -> None:
        self.topic = topic
        self.name = name
        self.acked = acked
        self.peers: dict[int, ModelConsumer] = {}
        self.consumers: dict[int, LogConsumer] = {}
        self.seen: set[Message] = set()
        """Delivered since the last seek."""
        self.suspect_until = BEFORE_ALL
        """After a restart: everything up to here must be called redelivered."""
        self.counts: dict[Position, int] = {}
        self.last_new = BEFORE_ALL
        self.wrong: list[str] = []

    @property
    def unsettled(self) -> list[Message]:
        return [each for each in self.topic.messages if each not in self.acked]

    @property
    def ready(self) -> list[Message]:
        out = {message for peer in self.peers.values() for message in peer.messages}
        return [each for each in self.unsettled if each not in out]

    def settle(self, messages: Iterable[Message]) -> None:
        """These are acknowledged, whoever holds them."""
        settled = set(messages)
        self.acked |= settled
        for peer in self.peers.values():
            peer.messages -= settled
        unsettled = {position for position, _ in self.unsettled}
        self.counts = {each: n for each, n in self.counts.items() if each in unsettled}

    def took(self, number: int, run: Deliveries) -> list[Message]:
        """A consumer was given a run; its messages."""
        taken: list[Message] = []
        peer = self.peers[number]
        for position, entry in zip(run.positions, run.entries, strict=True):
            if position not in self.topic.sizes:
                self.wrong.append(f"{position} was never published, or is trimmed")
                continue
            size = self.topic.sizes[position]
            if entry != self.topic.entry(position):
                self.wrong.append(f"{position} has other bytes than were published")
            mask = (run.masks or {}).get(position, (1 << size) - 1)
            if not 0 < mask < 1 << size:
                self.wrong.append(f"{position} was delivered with mask {mask:#x} of {size}")
            messages = [(position, index) for index in range(size) if mask >> index & 1]
            self._check_free(messages)
            self._check_history(position, messages, run)
            taken += messages
        if taken != sorted(taken):
            self.wrong.append(f"a run out of order: {taken}")
        new = [message for message in taken if message not in self.seen]
        if new and new[0][0] < self.last_new:
            self.wrong.append(f"{new[0]} is new and comes after {self.last_new}")
        self.last_new = max([self.last_new, *(position for position, _ in new)])
        self.seen.update(taken)
        if peer.acks:
            peer.messages.update(taken)
        else:
            self.settle(taken)
        peer.permits -= len(taken)
        return taken

    def _check_free(self, messages: list[Message]) -> None:
        for message in messages:
            if message in self.acked:
                self.wrong.append(f"{message} was settled")
            if any(message in peer.messages for peer in self.peers.values()):
                self.wrong.append(f"{message} is out")

    def _check_history(self, position: Position, messages: list[Message], run: Deliveries) -> None:
        flagged = run.redelivered is not None and position in run.redelivered
        suspect = position <= self.suspect_until
        if not flagged and (suspect or self.seen.intersection(messages)):
            self.wrong.append(f"{position} is not called redelivered")
        # The flag is the entry's: of a batch, another message may be the one that was seen.
        if flagged and not (suspect or self.seen.intersection(self.topic.of([position]))):
            self.wrong.append(f"{position} is called redelivered and is not")
        count = (run.redelivery_counts or {}).get(position, 0)
        if count != self.counts.get(position, 0):
            self.wrong.append(f"{position}: count {count}, not {self.counts.get(position, 0)}")

    def compare(self, subscription: LogSubscription) -> None:
        """What the engine says of the subscription against the model, when all is quiet."""
        assert not self.wrong, self.wrong
        unsettled, ready = self.unsettled, self.ready
        statistics = subscription.statistics()
        assert statistics.backlog_entries == len({position for position, _ in unsettled})
        held = sum(len(peer.messages) for peer in self.peers.values())
        assert statistics.in_flight_messages == held
        for number, peer in self.peers.items():
            consumer = self.consumers[number]
            assert consumer.in_flight == len(peer.messages), f"{consumer!r} has {peer.messages}"
            if peer.is_permitted:
                assert consumer.receiver.permits == peer.permits
            if consumer.receiver.room > 0:
                assert not ready, f"{consumer!r} could have {ready}"
        if self.topic.is_plain:
            assert subscription.ready_messages == len(ready)
        below = [position for position in self.topic.sizes if position <= subscription.mark_delete]
        assert self.topic.of(below) <= self.acked
        self._check_inside(subscription)

    def _check_inside(self, subscription: LogSubscription) -> None:
        """Nothing is remembered of entries that nobody will ask about again."""
        check_ack_state(subscription.machine.state.acks)
        unsettled = {position for position, _ in self.unsettled}
        state, delivery = subscription.machine.state, subscription.machine.delivery
        parts = {position for consumer in self.consumers.values() for position in consumer.masks}
        assert state.divided.keys() == state.sizes.keys() == parts
        assert set(delivery.past.returned) <= unsettled
        assert delivery.past.counts.items() == self.counts
        assert set(state.replay.positions) <= {position for position, _ in self.ready}
        assert not state.outbox.calls
        assert not (state.reader.fetch.failure or state.replay.fetch.failure)


class ModelSink:
    """Tells the model."""

    def __init__(self, model: SubscriptionModel, number: int) -> None:
        self.model = model
        self.number = number

    def deliver(self, run: Deliveries) -> None:
        if self.number not in self.model.peers:
            self.model.wrong.append(f"{run.positions} was delivered to one who left")
            return
        self.model.took(self.number, run)

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        self.model.peers.pop(self.number, None)
        self.model.consumers.pop(self.number, None)


def follow_trims(
    topic: LogTopic, model: TopicModel, subscriptions: list[SubscriptionModel]
) -> None:
    """What the log has dropped is gone for the model, which everybody must be done with."""
    check_ledgers(topic.log.ledgers)
    for position in list(model.sizes):
        if topic.log.after(Position(position - 1)) != position:
            messages = model.of([position])
            for each in subscriptions:
                if each.name != "reader" or not topic.durable:
                    assert messages <= each.acked, f"{position} is gone, but not for {each.name}"
                each.settle(messages)
            del model.sizes[position]
