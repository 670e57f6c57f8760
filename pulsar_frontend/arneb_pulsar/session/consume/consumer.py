"""One consumer of a connection."""

from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_pulsar.packing.broker_metadata import with_broker_metadata
from arneb_pulsar.packing.counts import ConsumerCounts
from arneb_pulsar.packing.deliveries import MessageFrames
from arneb_pulsar.session.interface.effects import ConsumerKey
from arneb_pulsar.session.transitions import CONSUMER_MOVES, ConsumerInput, ConsumerState
from arneb_pulsar.session.translation import TranslatedRun, is_foreign, without_checksums

DETACHED_STATES = frozenset(
    {
        ConsumerState.SEEKING_DETACHED,
        ConsumerState.UNSUBSCRIBING_DETACHED,
        ConsumerState.CLOSED,
    }
)


class Consumer:
    """What the session knows of a consumer. Invariant: ``state`` moves only along the table."""

    __slots__ = (
        "active",
        "consumer_id",
        "counts",
        "frames",
        "key",
        "ledger_ids",
        "name",
        "partition",
        "request_id",
        "state",
        "type",
        "unsubscribe_request",
    )

    def __init__(
        self,
        key: ConsumerKey,
        consumer_id: int,
        request_id: int,
        subscription_type: SubscriptionType,
        name: str,
        partition: int,
        epoch: int | None,
        counts: ConsumerCounts,
    ) -> None:
        self.key = key
        self.consumer_id = consumer_id
        self.request_id = request_id
        self.type = subscription_type
        self.name = name
        self.partition = partition
        self.state = ConsumerState.ATTACHING
        self.counts = counts
        self.ledger_ids = AS_COUNTED
        """The topic's, once the consumer is attached."""
        self.frames = MessageFrames(consumer_id, partition, epoch, counts)
        self.unsubscribe_request = 0
        self.active: bool | None = None
        """Whether a failover consumer is active, as its client was told last, or is to be told."""

    def __repr__(self) -> str:
        kind = self.type.traits.title
        return f"<Consumer {self.consumer_id} {self.name}, {kind}, {self.state.name}>"

    def may(self, happened: ConsumerInput) -> bool:
        """Return whether the table has this move."""
        return (self.state, happened) in CONSUMER_MOVES

    def move(self, happened: ConsumerInput) -> None:
        """Take the table's move; a move not in the table is a defect of ours."""
        self.state = CONSUMER_MOVES[self.state, happened]

    @property
    def is_detached(self) -> bool:
        """The client may use the consumer id again."""
        return self.state in DETACHED_STATES

    @property
    def shares(self) -> bool:
        """Its subscription's entries go to several consumers, so each is acknowledged by itself."""
        return self.type.traits.sharing

    def attached(self, ledger_ids: LedgerIds) -> None:
        """Take in that it is attached to a topic, whose ids messages have from now on."""
        self.move(ConsumerInput.ATTACHED)
        self.ledger_ids = ledger_ids
        self._frame_anew(self.frames.epoch)

    def begin_epoch(self, epoch: int) -> None:
        """Mark what is sent from now on with ``epoch``; clients drop what is older."""
        self._frame_anew(epoch)

    def _frame_anew(self, epoch: int | None) -> None:
        self.frames = MessageFrames(
            self.consumer_id, self.partition, epoch, self.counts, self.ledger_ids
        )

    def messages(self, run: Deliveries, *, checked: bool) -> bytes | TranslatedRun:
        """Return the MESSAGE frames of a run, with checksums if they are to be ``checked``."""
        if is_foreign(run):
            return TranslatedRun(run, self.frames, checked=checked)
        if not checked:
            run = without_checksums(run)
        return self.frames.pack(run if run.offsets is None else with_broker_metadata(run))
