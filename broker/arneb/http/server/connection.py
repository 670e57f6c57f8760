"""One connection of an HTTP port: reads requests and writes an ASGI application's answers.

The rule: one request at a time, HTTP/1.1 or 1.0, within the port's limits of time and size. A
request's body is read before the application is called, so that the application never waits for the
client. The answer is sent at once, whatever other clients have not read, and held only until the
client has taken it.
"""

import json
import logging
from collections.abc import Callable, Mapping
from email.utils import formatdate
from typing import Final

import h11
import trio
from starlette.types import ASGIApp

from arneb.http.server.asgi import Answer, Body, path_and_query, phrase
from arneb.http.server.long_answers import ask_by
from arneb.http.server.pace import Lane, Pace
from arneb.http.server.refused import Refused, expect_known, expect_small, too_large, too_late
from arneb.http.server.room import Room, Share
from arneb.http.server.senders import Sender
from arneb.http.server.states import STOPPED, State
from arneb.settings.http_limits import HEAD_BYTES_MAX, HttpLimits
from arneb_core.api.connections.listening import close_at_once

RECEIVE_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 64 * 1024
"""Written at a time, so that a slow but living client makes visible progress."""

LINGER_S: Final = 1.0
LINGER_BYTES: Final = 1024 * 1024
"""What is still read from a client that was refused before it had sent everything: closing a socket
with unread input discards the answer."""

UNTAKEN_S: Final = 0.1
"""An answer that is not written after this long is waiting for its client."""

PIECES_A_UNIT: Final = 4
"""Pieces of a body, however small, that take as long as a unit of pace."""
END_OF_HEAD: Final = b"\r\n\r\n"

NOTHING_LARGER: Final[Mapping[str, int]] = {}

logger = logging.getLogger(__name__)


class HttpConnection:
    """One client.

    Invariant: in ANSWERING nothing is cut off: a change that an administrator has begun is
    completed.
    """

    def __init__(
        self,
        app: ASGIApp,
        stream: trio.abc.HalfCloseableStream,
        limits: HttpLimits,
        room: Room,
        sender: Sender,
        larger: Mapping[str, int],
        pace: Pace,
        changed: "Callable[[HttpConnection], None]",
    ) -> None:
        """``larger``: larger bounds for bodies at some paths. ``pace`` is shared by all connections
        of a port. ``changed`` is called when the state or :attr:`waits` changes."""
        self._app = app
        self._stream = stream
        self._limits = limits
        self._room = room
        self._sender = sender
        self._larger = larger
        self._pace = pace
        self._changed = changed
        self._is_new = True
        """Whether no request has come yet."""
        self._is_in_line = False
        """Whether received data waits for its turn to be parsed."""
        self._written_s = 0.0
        """When the current write began."""
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._scope = trio.CancelScope()
        self._share = Share(self._scope.cancel)
        self.state = State.IDLE
        self._head = b""
        self._is_long = False
        """Whether a long answer is being made."""
        self.last = False
        """Whether the connection ends after the current request."""

    def __repr__(self) -> str:
        return f"<HttpConnection {self.state.value}, {self._share!r}>"

    @property
    def waits(self) -> bool:
        """Whether it waits for its client or has not begun a long answer, and is not waiting for
        its turn."""
        return self.state is not State.ANSWERING and not self._is_in_line

    @property
    def may_be_cut(self) -> bool:
        """Whether it waits, and, if it is writing, for longer than a client needs to take the
        answer."""
        if self.state is State.WRITING:
            return trio.current_time() >= self._written_s + UNTAKEN_S
        return self.waits

    def cut(self) -> None:
        """End at once."""
        self._scope.cancel()

    def stop(self) -> None:
        """End after the current request."""
        self.last = True
        if self.state in STOPPED:
            self._scope.cancel()

    async def run(self) -> None:
        """Serve the client until it leaves, is refused, or takes too long."""
        ask_by(self._begin_long, self._another_piece)
        try:
            with self._scope:
                while await self._exchange() and not self.last:
                    self._wire.start_next_cycle()
                    self._move(State.IDLE)
                    await trio.lowlevel.checkpoint()  # one question a turn
                await self._linger()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the client is gone, or as good as gone
        finally:
            self._room.give_back(self._share)
            await close_at_once(self._stream)

    def _move(self, state: State) -> None:
        self.state = state
        self._changed(self)
        self._share.yielding = state not in (State.WAITING, State.ANSWERING)

    async def _exchange(self) -> bool:
        """Read and answer one request; return whether another may follow."""
        self._room.begin(self._share)
        try:
            request = await self._read_head()
            if request is None:
                return False
            body = await self._read_body(request)
        except h11.RemoteProtocolError as error:
            await self._refuse(error.error_status_hint, str(error))
            return False
        except ValueError as error:  # a number too long for Python
            await self._refuse(400, str(error))
            return False
        except Refused as refused:
            await self._refuse(refused.status, str(refused))
            return False
        self._is_new = False
        self._move(State.ANSWERING)
        answer = Answer(self, is_head=request.method == b"HEAD")
        try:
            await self._app(self._sender.scope(request, self.hold), Body(body), answer.send)
        except h11.LocalProtocolError:
            logger.exception("invalid response to %s", request.target)
            return False
        except Exception as error:
            if answer.started or isinstance(error, trio.BrokenResourceError):
                raise
            logger.exception("unexpected error in %s %s", request.method, request.target)
            await self._refuse(500, "Internal error")
            return False
        finally:
            self._end_long()
            self._room.give_back(self._share)
        return self._wire.our_state is h11.DONE and self._wire.their_state is h11.DONE

    # In

    async def _read_head(self) -> h11.Request | None:
        """Return the next request; None if the client leaves."""
        limits = self._limits
        with trio.move_on_after(limits.idle_timeout_s) as patience:
            if self._wire.trailing_data[0]:  # it came with the previous one
                await self._in_turn(Lane.KNOWN)
            while True:
                event = self._wire.next_event()
                if event is not h11.NEED_DATA:
                    break
                data = bytes(await self._stream.receive_some(RECEIVE_BYTES))
                if self.state is State.IDLE and data:
                    self._move(State.READING)
                    patience.deadline = trio.current_time() + limits.head_timeout_s
                if data:
                    await self._in_turn(self._lane(data))
                self._wire.receive_data(data)
        if patience.cancelled_caught:
            if self.state is State.IDLE:
                return None
            raise await self._too_late("headers", limits.head_timeout_s)
        self._move(State.READING)
        if not isinstance(event, h11.Request):
            return None
        expect_known(event)
        return event

    async def _too_late(self, what: str, within_s: float) -> Refused:
        """Return the refusal, paced: many clients that came together time out together."""
        await self._pace.begin(Lane.PART)
        return too_late(what, within_s)

    async def _in_turn(self, lane: Lane) -> None:
        """Wait for the turn to parse what the client has sent."""
        if lane is Lane.PART:
            await self._pace.begin(lane)
            return
        self._is_in_line = True
        self._changed(self)
        await self._pace.begin(lane)
        self._is_in_line = False
        self._changed(self)

    def _lane(self, data: bytes) -> Lane:
        if END_OF_HEAD not in data:
            return Lane.PART
        return Lane.NEW if self._is_new else Lane.KNOWN

    async def _read_body(self, request: h11.Request) -> bytes:
        path = path_and_query(request.target)[0].decode("ascii")
        bytes_max = max(self._larger.get(path, 0), self._limits.body_bytes_max)
        expect_small(request, bytes_max)
        if self._wire.they_are_waiting_for_100_continue:
            await self._write(
                self._wire.send(h11.InformationalResponse(status_code=100, headers=[]))
            )
        event = self._wire.next_event()
        if isinstance(event, h11.EndOfMessage):
            return b""
        body, count = bytearray(), 0
        with trio.move_on_after(self._limits.body_timeout_s) as patience:
            while True:
                if event is h11.NEED_DATA:
                    self._wire.receive_data(bytes(await self._stream.receive_some(RECEIVE_BYTES)))
                elif isinstance(event, h11.Data):
                    count += 1
                    if count % PIECES_A_UNIT == 0:
                        await self._pace.begin(Lane.PART)
                    if len(body) + len(event.data) > bytes_max:
                        raise too_large(bytes_max)
                    pieces = len(body) // PIECE_BYTES
                    if len(body) + len(event.data) <= PIECE_BYTES:
                        self._room.add(self._share, len(event.data))
                    else:
                        await self._room.take(self._share, len(event.data))
                    body += event.data
                    if len(body) // PIECE_BYTES > pieces:
                        self._room.moved(self._share)
                else:
                    break
                event = self._wire.next_event()
        if patience.cancelled_caught:
            raise await self._too_late("the body", self._limits.body_timeout_s)
        if not isinstance(event, h11.EndOfMessage):
            raise trio.BrokenResourceError(
                "the client disconnected before its request was complete"
            )
        return bytes(body)

    # Out

    async def hold(self, size: int) -> None:
        """Reserve memory for an answer; wait until there is room."""
        await self._room.take(self._share, size, needed=True)

    async def _begin_long(self) -> None:
        """Wait until a long answer may be made."""
        if self._is_long or self.state is not State.ANSWERING:
            return
        self._move(State.WAITING)
        await self._room.begin_long(self._share)
        self._is_long = True
        self._move(State.ANSWERING)

    async def _another_piece(self) -> None:
        if self._is_long:  # else the next piece is the last, or nearly
            await self._pace.begin(Lane.LONG)

    def _end_long(self) -> None:
        if self._is_long:
            self._is_long = False
            self._room.end_long(self._share)

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], reason: str = "") -> None:
        """Begin an answer; its head is written with the first piece of the body."""
        headers.append((b"date", formatdate(usegmt=True).encode()))
        if self.last:
            headers.append((b"connection", b"close"))
        line = phrase(status, reason)
        response = h11.Response(status_code=status, headers=headers, reason=line)
        self._head = self._wire.send(response) or b""

    async def write_piece(
        self, piece: bytes, *, last: bool, left: int = 0, streamed: bool = False
    ) -> None:
        """Write a piece of the body. From now on the connection is charged for this piece and the
        bytes ``left`` with the application; a ``streamed`` piece is released once it is written."""
        self._end_long()
        self._room.give_back(self._share)
        self._move(State.WRITING)
        self._written_s = trio.current_time()
        self._room.add(self._share, len(piece) + left)
        parts, self._head = [self._head], b""
        if piece:
            parts += self._wire.send_with_data_passthrough(h11.Data(data=piece)) or ()
        if last:
            parts.append(self._wire.send(h11.EndOfMessage()) or b"")
        if len(piece) <= PIECE_BYTES:  # each write costs a turn
            parts = [b"".join(parts)]
        for data in parts:
            await self._write(data)
        if last or streamed:
            self._room.give_back(self._share)
        if streamed:
            self._move(State.STREAMING)
        elif not last:
            self._move(State.ANSWERING)

    async def _write(self, data: bytes | None) -> None:
        """Write to the client. Raises :class:`trio.TooSlowError` if it does not read."""
        view = memoryview(data or b"")
        for start in range(0, len(view), PIECE_BYTES):
            with trio.fail_after(self._limits.write_timeout_s):
                await self._stream.send_all(view[start : start + PIECE_BYTES])
            self._room.moved(self._share)

    async def _refuse(self, status: int, reason: str) -> None:
        """Answer without the application, if an answer can still be sent."""
        if self._wire.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = json.dumps({"reason": reason}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        self.last = True
        self.begin(status, headers)
        await self.write_piece(body, last=True)

    async def _linger(self) -> None:
        """Send EOF and read on a little, so that the client gets its answer before the close."""
        with trio.move_on_after(LINGER_S):
            await self._stream.send_eof()
            left = LINGER_BYTES
            while left > 0 and (data := await self._stream.receive_some(RECEIVE_BYTES)):
                left -= len(data)
