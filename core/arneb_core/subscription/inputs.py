"""Inputs: what happens to a subscription, as values.

The rule: each is one call of the machine or of one of its consumers, under the name of what
happened. Where every call counts, the calls are made; scripts, tests and whoever wants to record
or send what happened has the values, and :class:`Inputs` makes the calls. The effects are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arneb_core.api.callbacks import Done
from arneb_core.api.consumers import ConsumerSpec
from arneb_core.api.limits import Limits
from arneb_core.api.position import Position
from arneb_core.subscription.consumer import AttachedConsumer
from arneb_core.subscription.effects import Depart, Found
from arneb_core.subscription.machine import SubscriptionMachine
from arneb_core.subscription.returns import Taken
from arneb_core.subscription.state import HOLDER


@dataclass(frozen=True, slots=True)
class Attached:
    """A consumer came. The others name it by its ``spec``'s name, and the one that holds dead
    letters by that of :data:`.HOLDER`."""

    spec: ConsumerSpec


@dataclass(frozen=True, slots=True)
class Detached:
    """It left."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Retired:
    """It is to get nothing any more, and keeps what it has."""

    consumer: str


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    """What was delivered to it did not get through: it is put out."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Granted:
    """It takes so many more messages."""

    consumer: str
    permits: int


@dataclass(frozen=True, slots=True)
class WritableChanged:
    """Its client takes no bytes now, or takes some again."""

    consumer: str
    is_writable: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """It acknowledged whole entries; ``done`` is to be told when that is on disk."""

    consumer: str
    positions: Sequence[Position]
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class MessagesAcknowledged:
    """It acknowledged messages of a batch."""

    consumer: str
    place: Position
    mask: int
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class AcknowledgedUntil:
    """It acknowledged everything up to ``place``; with ``mask`` those messages of the last."""

    consumer: str
    place: Position
    mask: int | None = None
    done: Done | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """It gave entries back; ``count``: because it could do nothing with them."""

    consumer: str
    positions: Sequence[Position]
    count: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """It wants entries that it has dead-lettered."""

    consumer: str
    positions: Sequence[Position]


@dataclass(frozen=True, slots=True)
class Pulled:
    """It asks for one message."""

    consumer: str


@dataclass(frozen=True, slots=True)
class UnitBegan:
    """A commit is about to start that acknowledges entries it has; :class:`UnitFailed` undoes
    what this returns."""

    consumer: str
    positions: Sequence[Position]
    parts: Mapping[Position, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitFailed:
    """That commit failed."""

    consumer: str
    taken: Taken


@dataclass(frozen=True, slots=True)
class Appended:
    """A run is in the log."""

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
    """The time has come that :class:`.WakeAt` named."""


@dataclass(frozen=True, slots=True)
class GoneOn:
    """Others had their turn, as :class:`.GoOn` asked."""


@dataclass(frozen=True, slots=True)
class Retried:
    """It is time to try again what failed, as :class:`.TryAgain` asked."""


@dataclass(frozen=True, slots=True)
class NotTaken:
    """Whoever gets the dead letters could not take these."""

    depart: Depart


@dataclass(frozen=True, slots=True)
class Limited:
    """These limits hold now; ``has_target``: what departs goes somewhere."""

    limits: Limits
    has_target: bool = False


@dataclass(frozen=True, slots=True)
class Prioritised:
    """A higher priority goes first now."""

    highest: int


@dataclass(frozen=True, slots=True)
class Purged:
    """Everything that is ready is to go. Returns how many messages that was."""


@dataclass(frozen=True, slots=True)
class Sought:
    """``place`` is to be the next entry; ``mask``: its messages still unacknowledged."""

    place: Position
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """The subscription is being removed."""


@dataclass(frozen=True, slots=True)
class Unfenced:
    """It was not removed after all."""


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn ended in an error of ours."""


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
    | GoneOn
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
    """Tells one machine what happened."""

    def __init__(self, machine: SubscriptionMachine) -> None:
        self._machine = machine
        self.consumers: dict[str, AttachedConsumer] = {}
        """All that ever came, by name; of one name the last."""

    def __repr__(self) -> str:
        return f"<Inputs of {self._machine!r}>"

    def tell(self, told: Input) -> object:
        """Make the call; what it returns, if it returns something."""
        machine = self._machine
        match told:
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
            case GoneOn():
                machine.go_on()
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
            case Sought(place, mask):
                machine.seek_begins()
                machine.seek(place, mask)
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
                return self._tell_consumer(told)
        return None

    def _tell_consumer(
        self,
        told: Detached
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
        consumer = self._consumer(told.consumer)
        match told:
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
            case MessagesAcknowledged(_, place, mask, done):
                consumer.acknowledge_messages(place, mask, done)
            case AcknowledgedUntil(_, place, mask, done):
                consumer.acknowledge_until(place, mask, done)
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
