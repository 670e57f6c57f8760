"""A producer: the machine of one topic, attached to the broker that has it.

The rule: a message is accepted, and then told once what became of it, or it is refused and nothing
has happened. ``send`` waits for room; ``send_nowait`` raises where there is none.
"""

from collections.abc import Sequence
from functools import partial
from typing import TypeVar, Unpack

import anyio
from anyio.lowlevel import checkpoint

from arneb_pulsar.client.errors import (
    ClientClosed,
    PulsarError,
    Withdrawn,
)
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.interceptors import guarded
from arneb_pulsar.client.messages import (
    MESSAGE_OVERHEAD_BYTES,
    Fate,
    OutgoingMessage,
    SendCallback,
)
from arneb_pulsar.client.producer.building import Keywords
from arneb_pulsar.client.producer.link import ProducerLink
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.statistics import ProducerStatistics
from arneb_pulsar.client.waiting import Outcome

T = TypeVar("T")


class Producer(ProducerLink[T], Producing[T]):
    """Produces to one topic. Made by ``Client.create_producer``; closed by :meth:`close` or at the
    end of its ``async with``."""

    def __repr__(self) -> str:
        return f"<Producer {self._machine!r}>"

    @property
    def topic(self) -> str:
        """The complete name of its topic."""
        return str(self._topic)

    @property
    def name(self) -> str:
        """Its own, which the broker may have found."""
        return self._machine.name

    @property
    def last_sequence_id(self) -> int:
        """Of the last message that is known to be stored; -1 = none."""
        return self._machine.last_sequence_id

    @property
    def topic_epoch(self) -> int | None:
        """Which exclusive owner of the topic it is; None if it is none."""
        return self._topic_epoch

    @property
    def is_connected(self) -> bool:
        """It is attached to a broker now."""
        return self._machine.attached

    @property
    def is_closed(self) -> bool:
        """It can be used no more."""
        return self._failure is not None

    # Sending

    def chosen(self, keywords: Keywords) -> "Producer[T]":
        """Itself."""
        return self

    async def send(self, value: T | None, **keywords: Unpack[Keywords]) -> MessageId:
        """Send it and wait until it is stored; where that is. ``keywords`` as of
        :meth:`Builder.build`.

        Cancelled, it is withdrawn if it was not sent, and else may be stored; a ``callback`` is
        told which: :class:`Withdrawn`, or what it would have been told anyway. Raises
        :class:`PulsarError`.
        """
        message = self._builder.build(self.topic, value, self._context.wall_ms(), keywords)
        size = len(message.payload) + MESSAGE_OVERHEAD_BYTES
        told = message.callback
        try:
            await self._take_room(1, size)
        except anyio.get_cancelled_exc_class():
            self._withdrawn(message, told)
            raise
        except PulsarError as error:
            self._builder.refused(self.topic, message, error)
            raise
        stored: Outcome[MessageId] = Outcome()

        def callback(found: MessageId | None, error: Exception | None) -> None:
            if found is not None:
                stored.set(found)
            else:
                stored.fail(error or Withdrawn("expected an id"))
            if told is not None:
                told(found, error)

        message.callback = callback
        self._hand_over(message, size)
        try:
            if message.fate is Fate.HELD:
                # Others who send in this turn are in the same batch.
                await checkpoint()
                if message.fate is Fate.HELD:
                    self._close_batches()
            return await stored.wait()
        except anyio.get_cancelled_exc_class():
            if self._machine.withdraw(message):
                self._withdrawn(message, told)
            raise

    def send_nowait(self, value: T | None, **keywords: Unpack[Keywords]) -> OutgoingMessage:
        """Send it, without waiting for anything; the ``callback`` of ``keywords`` is told what
        became of it, from another task. Raises :class:`QueueFull` where there is no room, and
        :class:`PulsarError` for what cannot be sent."""
        message = self._builder.build(self.topic, value, self._context.wall_ms(), keywords)
        size = len(message.payload) + MESSAGE_OVERHEAD_BYTES
        try:
            self._check_open()
            self._room.take_nowait(1)
            try:
                self._context.memory.take_nowait(size)
            except BaseException:
                self._room.give_back(1)
                raise
        except PulsarError as error:
            self._builder.refused(self.topic, message, error)
            raise
        self._hand_over(message, size)
        return message

    async def wait_for_room(self) -> None:
        """Until :meth:`send_nowait` has room for a message; others may take it first."""
        self._check_open()
        await self._room.take(1)
        self._room.give_back(1)

    async def send_batch(self, values: Sequence[T | OutgoingMessage]) -> list[MessageId]:
        """Send them as exactly one entry, and wait until it is stored. Raises
        :class:`MessageTooLarge` and what :meth:`send` does; cancelled, it may be stored."""
        wall_ms = self._context.wall_ms()
        messages = [
            each
            if isinstance(each, OutgoingMessage)
            else self._builder.build(self.topic, each, wall_ms, {})
            for each in values
        ]
        if not messages:
            return []
        ids: list[MessageId] = []
        stored: Outcome[list[MessageId]] = Outcome()

        def callback(
            told: SendCallback | None, found: MessageId | None, error: Exception | None
        ) -> None:
            if found is None:
                stored.fail(error or Withdrawn("expected an id"))
            else:
                ids.append(found)
            if told is not None:
                guarded(told, found, error)
            if len(ids) == len(messages):
                stored.set(ids)

        size = sum(len(each.payload) + MESSAGE_OVERHEAD_BYTES for each in messages)
        try:
            await self._take_room(len(messages), size)
            for each in messages:
                each.callback = partial(callback, each.callback)
            self._hand_over_batch(messages, size, wall_ms)
        except BaseException as error:
            why = error if isinstance(error, PulsarError) else Withdrawn("cancelled")
            for each in messages:
                self._builder.refused(self.topic, each, why)
            raise
        return await stored.wait()

    def close_batches(self) -> None:
        """Send what waits for its batch to be full."""
        self._close_batches()

    async def flush(self) -> None:
        """Until all that was sent before is stored, or failed. Raises what ended the producer."""
        self._close_batches()
        accepted = self._machine.counts.messages
        while self._machine.settled < accepted:
            await self._settled.wait()
        if self._failure is not None and not isinstance(self._failure, ClientClosed):
            raise self._failure

    async def close(self) -> None:
        """Store what was accepted, as :meth:`flush` does, and give the producer up. Cancelled, what
        is pending fails."""
        if self._failure is not None:
            return
        try:
            await self.flush()
            await self._say_goodbye()
        except PulsarError:
            pass  # whoever sent was told
        finally:
            self._end(ClientClosed(f"the producer of {self._topic} was closed"))

    def abort(self, error: PulsarError) -> None:
        """Give it up at once; what is pending fails."""
        self._end(error)

    def statistics(self) -> ProducerStatistics:
        """So far."""
        return self._machine.counts.statistics(
            self._machine.pending_messages,
            self._context.clock.now() - self._made_at,
            self._machine.attached,
        )

    # Helpers

    def _withdrawn(self, message: OutgoingMessage, told: SendCallback | None) -> None:
        """Its ``send`` was cancelled before it was sent."""
        if told is not None:
            text = f"expected {message!r} to be sent to {self._topic}, was cancelled before"
            guarded(told, None, Withdrawn(text))

    async def _take_room(self, count: int, size: int) -> None:
        self._check_open()
        await self._room.take(count)
        try:
            await self._context.memory.take(size)
        except BaseException:
            self._room.give_back(count)
            raise
        if self._failure is not None:
            self._room.give_back(count)
            self._context.memory.give_back(size)
            raise self._failure

    def _hand_over(self, message: OutgoingMessage, size: int) -> None:
        now, wall_ms = self._context.clock.now(), self._context.wall_ms()
        try:
            self._machine.send(message, now, wall_ms)
        except BaseException as error:
            self._room.give_back(1)
            self._context.memory.give_back(size)
            if isinstance(error, PulsarError):
                self._builder.refused(self.topic, message, error)
            self._changed()  # the batch before it was closed
            raise
        self._room_taken += 1
        self._memory_taken += size
        self._changed()

    def _hand_over_batch(
        self, messages: Sequence[OutgoingMessage], size: int, wall_ms: int
    ) -> None:
        try:
            self._check_open()
            self._machine.send_batch(messages, self._context.clock.now(), wall_ms)
        except BaseException:
            self._room.give_back(len(messages))
            self._context.memory.give_back(size)
            raise
        else:
            self._room_taken += len(messages)
            self._memory_taken += size
        finally:
            self._changed()  # the batch before it was closed

    def _close_batches(self) -> None:
        self._machine.close_batches(self._context.clock.now(), self._context.wall_ms())
        self._changed()
