"""A producer of one topic: its machine, attached to the broker that serves the topic.

The rule: a message is either accepted, and its outcome reported once, or refused without effect.
``send`` waits for room; ``send_nowait`` raises if there is none.
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
from arneb_pulsar.client.tasks.waiting import Outcome

T = TypeVar("T")


class Producer(ProducerLink[T], Producing[T]):
    """Produces to one topic. Made by ``Client.create_producer``; closed by :meth:`close` or at the
    end of its ``async with``."""

    def __repr__(self) -> str:
        return f"<Producer {self._machine!r}>"

    @property
    def topic(self) -> str:
        """The topic's complete name."""
        return str(self._topic)

    @property
    def name(self) -> str:
        """The producer's name, which the broker may have generated."""
        return self._machine.name

    @property
    def last_sequence_id(self) -> int:
        """The sequence id of the last message known to be stored; -1 = none."""
        return self._machine.last_sequence_id

    @property
    def topic_epoch(self) -> int | None:
        """The topic epoch that the broker gave this producer with exclusive access; None without
        such access."""
        return self._topic_epoch

    @property
    def is_connected(self) -> bool:
        """Whether it is attached to its broker."""
        return self._machine.attached

    @property
    def is_closed(self) -> bool:
        """Whether it has been closed or has failed for good."""
        return self._failure is not None

    # Sending

    def chosen(self, keywords: Keywords) -> "Producer[T]":
        """Return this producer."""
        return self

    async def send(self, value: T | None, **keywords: Unpack[Keywords]) -> MessageId:
        """Send a message, wait until it is stored, and return its id. For ``keywords`` see
        :class:`Keywords`.

        If cancelled, the message is withdrawn if it was not sent yet, and may be stored otherwise.
        A ``callback`` tells which: it gets :class:`Withdrawn`, or the outcome as usual. Raises
        :class:`PulsarError`.
        """
        message = self._builder.build(self.topic, value, self._context.wall_ms(), keywords)
        size = len(message.payload) + MESSAGE_OVERHEAD_BYTES
        inner = message.callback
        try:
            await self._take_room(1, size)
        except anyio.get_cancelled_exc_class():
            self._withdrawn(message, inner)
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
            if inner is not None:
                inner(found, error)

        message.callback = callback
        self._hand_over(message, size)
        try:
            if message.fate is Fate.HELD:
                # Messages that other tasks send in this turn join the batch.
                await checkpoint()
                if message.fate is Fate.HELD:
                    self._close_batches()
            return await stored.wait()
        except anyio.get_cancelled_exc_class():
            if self._machine.withdraw(message):
                self._withdrawn(message, inner)
            raise

    def send_nowait(self, value: T | None, **keywords: Unpack[Keywords]) -> OutgoingMessage:
        """Send a message without waiting; the ``callback`` in ``keywords`` gets the outcome, from
        another task. Raises :class:`QueueFull` if there is no room, and :class:`PulsarError` for a
        message that cannot be sent."""
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
        """Wait until :meth:`send_nowait` has room for a message; other tasks may take it first."""
        self._check_open()
        await self._room.take(1)
        self._room.give_back(1)

    async def send_batch(self, values: Sequence[T | OutgoingMessage]) -> list[MessageId]:
        """Send messages as exactly one entry, wait until it is stored, and return their ids. Raises
        :class:`MessageTooLarge` and what :meth:`send` raises. If cancelled, the entry may be
        stored."""
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
            inner: SendCallback | None, found: MessageId | None, error: Exception | None
        ) -> None:
            if found is None:
                stored.fail(error or Withdrawn("expected an id"))
            else:
                ids.append(found)
            if inner is not None:
                guarded(inner, found, error)
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
        """Send the open batches, full or not."""
        self._close_batches()

    async def flush(self) -> None:
        """Wait until all messages sent before are stored or have failed. Raises the error that
        ended the producer, unless it was closed."""
        self._close_batches()
        accepted = self._machine.counts.messages
        while self._machine.answered < accepted:
            await self._progress.wait()
        if self._failure is not None and not isinstance(self._failure, ClientClosed):
            raise self._failure

    async def close(self) -> None:
        """Wait as :meth:`flush` does, and close. If cancelled, pending messages fail."""
        if self._failure is not None:
            return
        try:
            await self.flush()
            await self._say_goodbye()
        except PulsarError:
            pass  # the senders have been told
        finally:
            self._end(ClientClosed(f"the producer of {self._topic} was closed"))

    def abort(self, error: PulsarError) -> None:
        """Close at once; pending messages fail."""
        self._end(error)

    def statistics(self) -> ProducerStatistics:
        """Return the counts since the producer was made."""
        return self._machine.counts.statistics(
            self._machine.pending_messages,
            self._context.clock.now() - self._made_at,
            self._machine.attached,
        )

    # Helpers

    def _withdrawn(self, message: OutgoingMessage, inner: SendCallback | None) -> None:
        """Tell the callback of a message that it was withdrawn."""
        if inner is not None:
            text = f"expected {message!r} to be sent to {self._topic}, was cancelled before"
            guarded(inner, None, Withdrawn(text))

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
