"""Following: reads the log topic into the protocol's machine, and asks where it ends.

The rule: a follower continues from its directory's position, and reads only as far ahead as there
is room; a leader reads from its own TAKE on. Entries are processed in the turn in which they
arrive, because a leader's clients wait for them. Every failure of Pulsar is retried.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Final

import trio

from arneb_cluster.protocol.entries import UnknownVersion
from arneb_cluster.protocol.leadership import PROBE_S, State
from arneb_cluster.protocol.node import Node
from arneb_cluster.protocol.values import Place
from arneb_cluster.pulsar.log_topic import CLOSE_S, LogTopic, entry_of
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.client.reader import Reader

RETRY_S: Final = 0.5
"""Wait after Pulsar could not be reached."""

TURN_BYTES: Final = 256 << 10
"""Bytes of entries read in one turn: some milliseconds for a follower, which decodes them."""

ENTRY_BYTES: Final = 2_000
"""The least an entry counts for in that."""

FARTHEST: Final = Place((1 << 63) - 1, 0)

logger = logging.getLogger(__name__)


class Following:
    """Reads a shard's topic for one node."""

    def __init__(
        self,
        topic: LogTopic,
        node: Node,
        now: Callable[[], float],
        now_ms: Callable[[], int],
        gather: Callable[[], None],
        has_room: Callable[[], bool],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """``gather`` takes the machine's effects; ``has_room`` says whether more may be read, and
        ``room`` waits until it may."""
        self._topic = topic
        self._node = node
        self._now = now
        self._now_ms = now_ms
        self._gather = gather
        self._has_room = has_room
        self._room = room
        self._more = trio.Event()
        """There is work for the task."""
        self._failure: Exception | None = None
        """The failure of reading on arrival."""
        self._reader: Reader[bytes] | None = None
        self._made = trio.Event()
        """Set while there is a reader."""
        self._reads = trio.CancelScope()

    def __repr__(self) -> str:
        return f"<Following {self._topic!r}, {'reads' if self._reader else 'rests'}>"

    def begin(self) -> None:
        """Follow again: read from the directory's position, dropping the current reader, which is
        further on."""
        self._reads.cancel()

    async def run(self) -> None:
        """Read until cancelled, or the node has stopped."""
        while self._node.state is not State.STOPPED:
            with trio.CancelScope() as self._reads:
                await self._read_on()

    async def _read_on(self) -> None:
        try:
            self._reader = await self._topic.reader(self._node.reader.place)
            self._made.set()
            await self._read(self._reader)
        except PulsarError as error:
            logger.warning("%r: %s", self._topic, error)
            await trio.sleep(RETRY_S)
        finally:
            reader, self._reader = self._reader, None
            self._made = trio.Event()
            if reader is not None:
                with trio.move_on_after(CLOSE_S, shield=True), suppress(PulsarError):
                    await reader.close()

    async def probe(self) -> None:
        """Tell the machine the end of the topic, if that is known before it asks again."""
        with trio.move_on_after(PROBE_S), suppress(PulsarError):
            while (reader := self._reader) is None:
                await self._made.wait()
            more = await reader.has_message_available()
            last = FARTHEST if more else self._node.reader.place
            self._node.probed(last, self._now())
            self._gather()

    async def look(self, is_leader_gone: Callable[[], Awaitable[bool]]) -> None:
        """Tell the machine if the leader is no longer connected."""
        if await is_leader_gone():
            self._node.gone(self._now())
            self._gather()

    async def read_back(self, after: Place) -> None:
        """Tell the machine the entries beyond ``after``. Doubted records hold up further writes, so
        the end is reached."""
        async for place, data in self._topic.up_to_the_end(after):
            self._node.found(place, data, self._now())
            self._gather()
        self._node.found_all()
        self._gather()

    async def _read(self, reader: Reader[bytes]) -> None:
        context = copy_context()
        reader.listen(lambda: context.run(self._arrived, reader))
        try:
            while self._node.state is not State.STOPPED:
                self._more = trio.Event()
                if self._failure is not None:
                    raise self._failure
                if self._take(reader):
                    await self._room()
                    await trio.lowlevel.checkpoint()
                else:
                    await self._more.wait()
        finally:
            reader.listen(lambda: None)

    def _arrived(self, reader: Reader[bytes]) -> None:
        """Handle new entries or the end of the reader: called by its connection."""
        try:
            if self._take(reader):
                self._more.set()
        except PulsarError:
            self._more.set()  # the task's own read fails, too
        except Exception as error:
            # A defect of ours: it must end this task, not the connection.
            self._failure = error
            self._more.set()

    def _take(self, reader: Reader[bytes]) -> bool:
        """Read available entries, as many as a turn may; return whether there may be more, or
        reading must stop. Raises :class:`PulsarError`."""
        size = 0
        while size < TURN_BYTES and self._has_room() and self._node.state is not State.STOPPED:
            if self._reads.cancel_called:
                break  # it came just as following started over, and will be read again
            if (message := reader.read_nowait()) is None:
                return False
            place, data = entry_of(message)
            size += max(len(data), ENTRY_BYTES)
            try:
                # An entry that waited, here or in the topic, is no measure of clocks.
                clock_ms = None if reader.waiting else self._now_ms()
                self._node.read(place, data, self._now(), clock_ms)
            except UnknownVersion as error:
                self._node.apply_failed(str(error), self._now())
            self._gather()
        return True
