"""Reading: how much of a client is read at once, and who goes first where there are many.

The rule: a client that sends little is read at once, by small reads. A client that sends much is
read in large pieces, because what comes in one read is one run; but it waits for its turn first,
and lets those go first that have sent little.
"""

import trio

from arneb_amqp.server.transport.link import RECEIVE_BYTES_MAX, Link
from arneb_amqp.server.transport.polling import Polling
from arneb_core.api.process.long_turns import (
    FIRST_READ_BYTES,
    LARGE_READ_BYTES,
    SHORT_READ_BYTES,
    WAKING_BYTES,
    LongTurns,
)


class Reading:
    """Reads one link."""

    def __init__(self, link: Link, long_turns: LongTurns) -> None:
        self._link = link
        self.polling = Polling(link)
        self._long_turns = long_turns
        self._piece = FIRST_READ_BYTES
        self._short_reads = 0
        """The number of short reads, of all clients, when this one was last read."""
        self.waits_for_client = True
        """Whether it waits for the client, not for the broker."""

    def __repr__(self) -> str:
        return f"<Reading {self._piece} bytes at once of {self._link!r}>"

    async def receive(self, *, is_awaited: bool) -> bytes:
        """Return the client's input when it may be handled; empty at the end. ``is_awaited``: the
        client is alone and has its answers."""
        link, turns, piece = self._link, self._long_turns, self._piece
        if piece > FIRST_READ_BYTES:
            await turns.begin()
        self.waits_for_client = True
        data, polling = b"", self.polling
        if is_awaited:
            if polling.is_pass_due:
                await trio.lowlevel.checkpoint()
                polling.passed()
            data = polling.poll(piece)
        if not data:
            data = await link.receive(piece)
            if not data:
                return data
            polling.passed()
        self.waits_for_client = False
        size = len(data)
        if piece == FIRST_READ_BYTES and size > SHORT_READ_BYTES:
            await turns.begin()
            if link.filled:  # a batch cut in two would be two commits, and stay so
                data += link.receive_now(RECEIVE_BYTES_MAX - size)
                size = len(data)
        if size >= FIRST_READ_BYTES:
            self._piece = RECEIVE_BYTES_MAX
            if size >= LARGE_READ_BYTES and turns.short_reads != self._short_reads:
                await trio.lowlevel.checkpoint()  # a client that has sent little may be waiting
            self._short_reads = turns.short_reads
        elif size <= SHORT_READ_BYTES:
            turns.short_reads += 1
            turns.short_left -= size + WAKING_BYTES
            if turns.short_left <= turns.SHORT_LOW:
                await turns.begin_short(size)
            self._piece = FIRST_READ_BYTES  # not sooner: a batch would be cut into two commits
        return data
