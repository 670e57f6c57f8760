"""Inputs: what happens to a subscription, as values.

The rule: each is one call of the machine or of one of its consumers, named after what happened.
Hot paths make the calls directly; scripts, tests and recorders use the values, and
:class:`Inputs` makes the calls. The effects are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arneb_core.api.entries.position import Position
from arneb_core.api.process.callbacks import Done
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.limits import Limits
from arneb_core.subscription.consumers.consumer import AttachedConsumer
from arneb_core.subscription.consumers.returns import Taken
from arneb_core.subscription.machine import SubscriptionMachine
from arneb_core.subscription.state.effects import Depart, Found
from arneb_core.subscription.state.state import HOLDER


@dataclass(frozen=True, slots=True)
class Attached:
    """A consumer came. Other inputs name it by its ``spec``'s name, and the dead-letter holder by
    that of :data:`.HOLDER`."""

    spec: ConsumerSpec


@dataclass(frozen=True, slots=True)
class Detached:
    """The consumer left."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Retired:
    """The consumer is to get nothing more, and keeps what it has."""

    consumer: str


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """A delivery to the consumer failed: it is put out."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Granted:
    """The consumer takes ``permits`` more messages."""

    consumer: str
    permits: int


@dataclass(frozen=True, slots=True)
class WritableChanged:
    """The consumer's client takes no bytes now, or takes some again."""

    consumer: str
    is_writable: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The consumer acknowledged whole entries; ``done`` is called once that is on disk."""

    consumer: str
    positions: Sequence[Position]
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class MessagesAcknowledged:
    """The consumer acknowledged messages of a batch."""

    consumer: str
    position: Position
    mask: int
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class AcknowledgedUntil:
    """The consumer acknowledged everything up to ``position``; with ``mask``, only those messages
    of the entry there."""

    consumer: str
    position: Position
    mask: int | None = None
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The consumer gave entries back; ``count``: as a failed delivery."""

    consumer: str
    positions: Sequence[Position]
    count: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The consumer wants entries that it has in flight dead-lettered."""

    consumer: str
    positions: Sequence[Position]


@dataclass(frozen=True, slots=True)
class Pulled:
    """The consumer asks for one message."""

    consumer: str


@dataclass(frozen=True, slots=True)
class UnitBegan:
    """A commit is about to start that acknowledges entries of the consumer; :class:`UnitFailed`
    takes what this returns, and undoes it."""

    consumer: str
    positions: Sequence[Position]
    parts: Mapping[Position, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitFailed:
    """The unit's commit failed."""

    consumer: str
    taken: Taken


@dataclass(frozen=True, slots=True)
class Appended:
    """A run was appended to the log."""

    first: Position
    entries: list[bytes]


@dataclass(frozen=True, slots=True)
class LogTrimmed:
    """Ledgers were dropped from the front of the log."""


@dataclass(frozen=True, slots=True)
class ReadDone:
    """A read was answered."""

    number: int
    found: Found


@dataclass(frozen=True, slots=True)
class Turn:
    """It is this subscription's turn. Returns how many entries were handed out."""


@dataclass(frozen=True, slots=True)
class Tick:
    """The time that :class:`.WakeAt` named has come."""


@dataclass(frozen=True, slots=True)
class Continued:
    """Others had their turn, as :class:`.Continue` asked."""


@dataclass(frozen=True, slots=True)
class Retried:
    """It is time to try again what failed, as :class:`.TryAgain` asked."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The dead-letter target could not take these."""

    depart: Depart


@dataclass(frozen=True, slots=True)
class Limited:
    """These limits apply now; ``has_target``: there is a dead-letter target."""

    limits: Limits
    has_target: bool = False


@dataclass(frozen=True, slots=True)
class Prioritised:
    """Higher priorities go first now."""

    highest: int


@dataclass(frozen=True, slots=True)
class Purged:
    """Everything that is ready is to be acknowledged. Returns how many messages that was."""


@dataclass(frozen=True, slots=True)
class Sought:
    """``position`` is to be the next entry; ``mask``: its messages still unacknowledged."""

    position: Position
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The subscription is being removed."""


@dataclass(frozen=True, slots=True)
class Unfenced:
    """It was not removed after all."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn ended in an internal error."""


Input = (
    Attached
    | Detached
    | Retired
    | DeliveryFailed
    | Granted
    | WritableChanged
    | Acknowledged
    | MessagesAcknowledged
    | AcknowledgedUntil
    | Released
    | Rejected
    | Pulled
    | UnitBegan
    | UnitFailed
    | Appended
    | LogTrimmed
    | ReadDone
    | Turn
    | Tick
    | Continued
    | Retried
    | NotTaken
    | Limited
    | Prioritised
    | Purged
    | Sought
    | Fenced
    | Unfenced
    | TurnFailed
)


class Inputs:
    """Feeds inputs to one machine."""

    def __init__(self, machine: SubscriptionMachine) -> None:
        self._machine = machine
        self.consumers: dict[str, AttachedConsumer] = {}
        """Every consumer that ever came, by name; the last one for each name."""

    def __repr__(self) -> str:
        return f"<Inputs of {self._machine!r}>"

    def tell(self, event: Input) -> object:
        """Make the call and return its result, if any."""
        machine = self._machine
        match event:
            case Appended(first, entries):
                machine.appended(first, entries)
            case LogTrimmed():
                machine.log_trimmed()
            case ReadDone(number, found):
                machine.read_done(number, found)
            case Turn():
                return machine.turn()
            case Tick():
                machine.tick()
            case Continued():
                machine.resume()
            case Retried():
                machine.retry()
            case NotTaken(depart):
                machine.not_taken(depart)
            case Limited(limits, has_target):
                machine.limit(limits, has_target=has_target)
            case Prioritised(highest):
                machine.prioritise(highest)
            case Purged():
                return machine.purge()
            case Sought(position, mask):
                machine.seek_begins()
                machine.seek(position, mask)
                machine.seek_ends()
            case Fenced():
                machine.fence()
            case Unfenced():
                machine.unfence()
            case TurnFailed():
                machine.start_over()
            case Attached(spec):
                self.consumers[spec.name] = machine.attach(spec)
            case _:
                return self._tell_consumer(event)
        return None

    def _tell_consumer(
        self,
        event: Detached
        | Retired
        | DeliveryFailed
        | Granted
        | WritableChanged
        | Acknowledged
        | MessagesAcknowledged
        | AcknowledgedUntil
        | Released
        | Rejected
        | Pulled
        | UnitBegan
        | UnitFailed,
    ) -> object:
        consumer = self._consumer(event.consumer)
        match event:
            case Detached():
                consumer.detach()
            case Retired():
                consumer.retire()
            case DeliveryFailed():
                consumer.put_out("failed")
            case Granted(_, permits):
                consumer.flow(permits)
            case WritableChanged(_, is_writable):
                consumer.writable = is_writable
                consumer.wake()
            case Acknowledged(_, positions, done):
                consumer.acknowledge(positions, done)
            case MessagesAcknowledged(_, position, mask, done):
                consumer.acknowledge_messages(position, mask, done)
            case AcknowledgedUntil(_, position, mask, done):
                consumer.acknowledge_until(position, mask, done)
            case Released(_, positions, count):
                consumer.release(positions, count=count)
            case Rejected(_, positions):
                consumer.reject(positions)
            case Pulled():
                return self._machine.pull(consumer)
            case UnitBegan(_, positions, parts):
                return consumer.take_for_unit(positions, parts)
            case UnitFailed(_, taken):
                consumer.back_from_unit(taken)
        return None

    def _consumer(self, name: str) -> AttachedConsumer:
        holder = self._machine.state.holder
        if name == HOLDER.name and isinstance(holder, AttachedConsumer):
            return holder
        return self.consumers[name]
