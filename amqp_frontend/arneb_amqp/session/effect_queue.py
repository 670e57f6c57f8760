"""The effect queue: the effects of one wake-up, in the order in which they must be carried out.

The rule: publishes to the same queues are collected into runs, and acknowledgements until another
effect is ordered. Appends go before the acknowledgements of the same wake-up, so a message that was
passed on is never acknowledged before it is stored.
"""

from collections.abc import Sequence
from typing import Protocol

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.deliveries import AnsweredDeliveries, ConsumerId
from arneb_amqp.session.effects import Acknowledge, Append, Effect, Refused, Reject, Token
from arneb_core.api.entries.position import Position


class Publishing(Protocol):
    """A publisher, as the effect queue sees it."""

    def end_run(self) -> None:
        """Order the append of the run collected so far."""
        ...

    def committed(self, last_tag: int, error: AmqpError | None, *, refused: Refused) -> None:
        """Handle an append that is on disk, or never will be."""
        ...

    def send_confirms(self) -> None:
        """Queue the confirms that are due."""
        ...


class EffectQueue:
    """Collects effects until they are taken.

    Invariants: ``_collecting`` is the only publisher with a run that is not in the queue yet;
    ``_appends`` has the publisher of each uncommitted append.
    """

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._collecting: Publishing | None = None
        self._acknowledged: dict[ConsumerId, list[Position]] = {}
        self._tokens = 0
        self._appends: dict[Token, tuple[Publishing, int]] = {}

    def __repr__(self) -> str:
        return f"<EffectQueue {len(self._effects)} effects, {len(self._appends)} appends under way>"

    @property
    def has_orders(self) -> bool:
        """Whether any effect is ordered."""
        return bool(self._effects or self._acknowledged)

    @property
    def is_waiting(self) -> bool:
        """Whether appends are under way."""
        return bool(self._appends)

    @property
    def last(self) -> Token:
        """The last append ordered; 0 before the first."""
        return Token(self._tokens)

    def has_through(self, token: Token) -> bool:
        """Whether every append up to ``token`` is committed."""
        oldest = next(iter(self._appends), None)
        return oldest is None or oldest > token

    def append(
        self,
        queues: tuple[str, ...],
        entries: list[bytes],
        publisher: Publishing,
        last_tag: int,
        *,
        expiring: bool = False,
        delayed_by: tuple[str, ...] = (),
        delayed: Sequence[bytes] = (),
    ) -> None:
        """Order an append; :meth:`committed` returns ``publisher`` and ``last_tag``."""
        self._tokens += 1
        token = Token(self._tokens)
        self._appends[token] = publisher, last_tag
        self._effects.append(Append(queues, entries, token, expiring, delayed_by, list(delayed)))

    def committed(self, token: Token) -> tuple[Publishing, int]:
        """Remove the append and return its publisher and its last confirm tag."""
        return self._appends.pop(token)

    def collecting(self, publisher: Publishing) -> None:
        """Note that ``publisher`` began to collect a run; it will be told to end it."""
        if self._collecting is not None and self._collecting is not publisher:
            self._collecting.end_run()
        self._collecting = publisher

    def acknowledge(self, answered: AnsweredDeliveries) -> None:
        """Order an acknowledgement; whole entries are merged by consumer."""
        if answered.masks:
            self.emit(Acknowledge(answered))
            return
        held = self._acknowledged.get(answered.consumer)
        if held is None:
            self._acknowledged[answered.consumer] = answered.positions
        else:
            held += answered.positions

    def reject(self, answered: AnsweredDeliveries) -> None:
        """Order a rejection; whole entries are merged with the consumer's preceding rejection,
        because clients reject one by one."""
        self._close()
        last = self._effects[-1] if self._effects else None
        before = last.answered if isinstance(last, Reject) else None
        if before is None or before.consumer != answered.consumer or before.masks or answered.masks:
            self._effects.append(Reject(answered))
        else:
            before.positions += answered.positions

    def emit(self, effect: Effect) -> None:
        """Order an effect, after everything ordered so far."""
        self._close()
        self._effects.append(effect)

    def drain(self) -> list[Effect]:
        """Return everything ordered since the last call."""
        if self._collecting is not None or self._acknowledged:
            self._close()
        effects, self._effects = self._effects, []
        return effects

    def _close(self) -> None:
        """Order the collected run and acknowledgements."""
        publisher, self._collecting = self._collecting, None
        if publisher is not None:
            publisher.end_run()
        if self._acknowledged:
            for consumer, positions in self._acknowledged.items():
                self._effects.append(Acknowledge(AnsweredDeliveries(consumer, positions)))
            self._acknowledged.clear()
