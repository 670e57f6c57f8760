"""The effect queue: the effects of one wake-up, in the order in which they must be carried out.

The rule: runs of publishes are collected as long as they go to the same queues, and
acknowledgements as long as nothing else comes up; and appends go before the
acknowledgements of the same wake-up, so that a message which was passed on is never
acknowledged before it is kept.
"""

from collections.abc import Sequence
from typing import Protocol

from arneb_amqp.errors import AmqpError
from arneb_amqp.session.deliveries import ConsumerId, Settled
from arneb_amqp.session.effects import Acknowledge, Append, Effect, Refused, Reject, Token
from arneb_core.api.position import Position


class Publishing(Protocol):
    """A publisher, as far as the effect queue knows it."""

    def end_run(self) -> None:
        """Order what has been collected."""
        ...

    def committed(self, last_tag: int, error: AmqpError | None, *, refused: Refused) -> None:
        """An append is on disk, or never will be."""
        ...

    def send_confirms(self) -> None:
        """Queue the confirms that are due."""
        ...


class EffectQueue:
    """Collects effects until they are taken.

    Invariants: ``_collecting`` is the only publisher with a run that is not in the queue yet;
    ``_appends`` has whoever ordered an append that is not committed.
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
        """There is something to be taken."""
        return bool(self._effects or self._acknowledged)

    @property
    def is_waiting(self) -> bool:
        """Appends are under way."""
        return bool(self._appends)

    @property
    def last(self) -> Token:
        """The last append that was ordered; 0 before the first."""
        return Token(self._tokens)

    def has_through(self, token: Token) -> bool:
        """No append up to ``token`` is under way."""
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
        """Order an append; :meth:`committed` gives ``publisher`` and ``last_tag`` back."""
        self._tokens += 1
        token = Token(self._tokens)
        self._appends[token] = publisher, last_tag
        self._effects.append(Append(queues, entries, token, expiring, delayed_by, list(delayed)))

    def committed(self, token: Token) -> tuple[Publishing, int]:
        """Who ordered the append, and the last confirm tag of it."""
        return self._appends.pop(token)

    def collecting(self, publisher: Publishing) -> None:
        """``publisher`` has begun to collect a run; it will be told to end it."""
        if self._collecting is not None and self._collecting is not publisher:
            self._collecting.end_run()
        self._collecting = publisher

    def acknowledge(self, settled: Settled) -> None:
        """Order an acknowledgement; whole entries are merged by consumer."""
        if settled.masks:
            self.emit(Acknowledge(settled))
            return
        held = self._acknowledged.get(settled.consumer)
        if held is None:
            self._acknowledged[settled.consumer] = settled.positions
        else:
            held += settled.positions

    def reject(self, settled: Settled) -> None:
        """Order a rejection; whole entries are merged with what the consumer rejected just
        before, for clients reject one by one."""
        self._close()
        last = self._effects[-1] if self._effects else None
        before = last.settled if isinstance(last, Reject) else None
        if before is None or before.consumer != settled.consumer or before.masks or settled.masks:
            self._effects.append(Reject(settled))
        else:
            before.positions += settled.positions

    def emit(self, effect: Effect) -> None:
        """Order an effect, after everything ordered so far."""
        self._close()
        self._effects.append(effect)

    def drain(self) -> list[Effect]:
        """Everything ordered since the last call."""
        if self._collecting is not None or self._acknowledged:
            self._close()
        effects, self._effects = self._effects, []
        return effects

    def _close(self) -> None:
        """Order what was collected."""
        publisher, self._collecting = self._collecting, None
        if publisher is not None:
            publisher.end_run()
        if self._acknowledged:
            for consumer, positions in self._acknowledged.items():
                self._effects.append(Acknowledge(Settled(consumer, positions)))
            self._acknowledged.clear()
