"""The source: this node gives others a copy of its directory.

The rule: one at a time, at a bounded rate, and only to a taker that trimming waits for: the list of
members in this very directory has to say so, which every later leader reads as well. The copy is a
separate file, so an interrupted taker can continue, and the store's pages are not held meanwhile.
"""

import logging
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import trio

from arneb_cluster.protocol.copying import (
    CHUNK_BYTES,
    CopyBroken,
    CopyRefused,
    Frames,
    Kind,
    Made,
    SourceState,
    Wanted,
    chunk_frame,
    made_frame,
    parse_need,
    parse_wanted,
    refused_frame,
    source_state_frame,
)
from arneb_cluster.replica import UNFOUNDED, Replica
from arneb_cluster.routing.internal_port import Serve
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_stream import InternalStream
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.errors import StoreFailed
from arneb_core.api.nodes.placement import NotServed
from arneb_core.store.directory.replacement import GIVEN_NAME, abandon_replacement

COPY: Final = "copy"
"""The kind of request at the internal port."""

PIN_WAIT_S: Final = 60.0
"""How long a leader may take to record which nodes are waited for; without a leader none is."""

POLL_S: Final = 0.1

ALIVE_S: Final = 10.0
"""How often the taker is notified that its copy is still being made."""

IDLE_S: Final = 60.0
"""A taker that asks for nothing for this long is gone."""

KEPT_S: Final = 3_600.0
"""How long a copy is kept for a taker that is gone, in case it returns."""

ROOM_BYTES_MIN: Final = 64 << 20
"""The least free disk space that must remain besides the copy."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Given:
    """The present copy."""

    made: Made
    state: SourceState
    """The place at which trimming waits for its taker."""
    path: Path
    wanted: Wanted
    used_at: float


class CopySource:
    """Gives copies of one directory. Fulfils :class:`.Served`."""

    def __init__(
        self, shard: str, replica: Replica, is_sound: Callable[[], bool], bytes_per_s: int
    ) -> None:
        """``is_sound``: whether the directory's content can be relied on."""
        self._shard = shard
        self._replica = replica
        self._is_sound = is_sound
        self._bytes_per_s = bytes_per_s
        self._given: _Given | None = None
        self._taker: tuple[Wanted, trio.CancelScope, trio.Event] | None = None
        self.bytes_total = 0
        """Bytes given in total."""

    def __repr__(self) -> str:
        taker = self._taker[0].node if self._taker is not None else "nobody"
        return f"<CopySource of {self._shard}, gives to {taker}>"

    def prepare(self, request: Request) -> Serve:
        """See :class:`.Served`."""
        if request.namespace != self._shard:
            raise NotServed(f"expected shard {self._shard}, got {request.namespace!r:.80}")
        try:
            wanted = parse_wanted(request.document)
        except CopyBroken as error:
            raise NotServed(str(error)) from error
        if self._replica.flushed == UNFOUNDED:
            raise NotServed("it has nothing itself")
        if not self._is_sound():
            raise NotServed("its own data may be incomplete")
        if self._taker is not None and self._taker[0].node != wanted.node:
            raise NotServed(f"it gives a copy to node {self._taker[0].node} just now")

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            await self._serve(wanted, sock, records, early)

        return serve

    async def run(self) -> None:
        """Remove abandoned copies, until cancelled; first remove what an earlier run left of copies
        given or taken."""
        path = self._replica.store.path
        where = path / GIVEN_NAME
        await trio.to_thread.run_sync(lambda: shutil.rmtree(where, ignore_errors=True))
        await trio.to_thread.run_sync(abandon_replacement, path)
        try:
            while True:
                await trio.sleep(KEPT_S / 60)
                given = self._given
                if given is None or self._taker is not None:
                    continue
                if trio.current_time() > given.used_at + KEPT_S:
                    await self._forget()
        finally:
            shutil.rmtree(where, ignore_errors=True)

    async def _serve(
        self, wanted: Wanted, sock: socket.socket, records: TlsRecords | None, early: bytes
    ) -> None:
        stream = InternalStream(trio.socket.from_stdlib_socket(sock), records, early)
        try:
            if self._taker is not None:  # it was cut off unnoticed
                _, scope, gone = self._taker
                scope.cancel()
                await gone.wait()
            self._taker = wanted, trio.CancelScope(), trio.Event()
            _, scope, gone = self._taker
            try:
                with scope:
                    await self._give(wanted, stream)
            finally:
                self._taker = None
                gone.set()
        except (trio.BrokenResourceError, trio.TooSlowError, CopyBroken) as error:
            logger.warning("the copy for node %s is interrupted: %s", wanted.node, error)
        finally:
            await trio.aclose_forcefully(stream)

    async def _give(self, wanted: Wanted, stream: InternalStream) -> None:
        try:
            given = await self._ready(wanted, stream)
        except CopyRefused as refused:
            logger.warning("refused node %s a copy: %s", wanted.node, refused)
            await stream.send_all(refused_frame(str(refused)))
            return
        await stream.send_all(made_frame(given.made))
        frames, began, sent = Frames(), trio.current_time(), 0
        while True:
            kind, body = await _next(frames, stream)
            given.used_at = trio.current_time()
            if kind is Kind.DONE:
                logger.info("node %s has a copy up to %d", wanted.node, given.made.number)
                await self._forget()
                return
            if kind is not Kind.NEED:
                raise CopyBroken(f"expected NEED or DONE, got {kind.name}")
            chunk = await self._chunk(given, *parse_need(body))
            await stream.send_all(chunk_frame(chunk))
            sent += len(chunk)
            self.bytes_total += len(chunk)
            await trio.sleep_until(began + sent / self._bytes_per_s)

    async def _ready(self, wanted: Wanted, stream: InternalStream) -> _Given:
        """Return the copy, once its taker is waited for. Raises :class:`CopyRefused` and
        :class:`trio.BrokenResourceError`."""
        given = self._given
        if given is not None and given.made.copy == wanted.copy and given.wanted.run == wanted.run:
            await stream.send_all(source_state_frame(given.state))
            return given
        flushed = self._replica.flushed
        state = SourceState(flushed.history, flushed.link.number, flushed.place)

        ends: list[_Given | CopyRefused | trio.BrokenResourceError] = []

        async def say_what_there_is() -> None:
            try:
                while True:
                    await stream.send_all(source_state_frame(state))
                    await trio.sleep(ALIVE_S)
            except trio.BrokenResourceError as error:
                ends.append(error)
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_what_there_is)
            with trio.move_on_after(PIN_WAIT_S):
                while not self._is_waited_for(wanted):  # noqa: ASYNC110 - a thread changes that
                    await trio.sleep(POLL_S)
            try:
                ends.append(await self._make(wanted, state))
            except CopyRefused as error:
                ends.append(error)
            nursery.cancel_scope.cancel()
        if isinstance(end := ends[0], _Given):
            return end
        raise end

    def _is_waited_for(self, wanted: Wanted) -> bool:
        known = self._replica.members.by_node.get(wanted.node)
        return known is not None and known.report.is_copying and known.report.run == wanted.run

    async def _make(self, wanted: Wanted, state: SourceState) -> _Given:
        if not self._is_waited_for(wanted):
            raise CopyRefused("no leader has written down within a minute that it is waited for")
        store = self._replica.store
        await self._forget()
        name = str(uuid4())
        number, path = self._replica.flushed.link.number, store.path / GIVEN_NAME / name
        room = shutil.disk_usage(store.path).free
        if room < store.size_bytes + ROOM_BYTES_MIN:
            text = f"its disk has {room} bytes free, and a copy may need {store.size_bytes}"
            raise CopyRefused(text)
        logger.info("making a copy for node %s", wanted.node)

        def make() -> dict[str, int]:
            path.mkdir(parents=True, mode=0o750)
            store.copy(path, compact=True)
            return {each.name: each.stat().st_size for each in path.iterdir()}

        try:
            files = await trio.to_thread.run_sync(make)
        except (OSError, StoreFailed) as error:
            raise CopyRefused(f"it cannot make one: {error}") from error
        made = Made(name, number, files)
        self._given = _Given(made, state, path, wanted, trio.current_time())
        return self._given

    async def _chunk(self, given: _Given, file: str, index: int) -> bytes:
        if file not in given.made.files or index * CHUNK_BYTES >= given.made.files[file]:
            raise CopyBroken(f"expected a chunk of the copy, got {index} of {file!r:.80}")
        path = given.path / file

        def read() -> bytes:
            with path.open("rb") as opened:
                opened.seek(index * CHUNK_BYTES)
                return opened.read(CHUNK_BYTES)

        try:
            return await trio.to_thread.run_sync(read)
        except OSError as error:
            raise CopyBroken(f"cannot read {path}: {error.strerror}") from error

    async def _forget(self) -> None:
        given, self._given = self._given, None
        if given is not None:
            path = given.path
            await trio.to_thread.run_sync(lambda: shutil.rmtree(path, ignore_errors=True))


async def _next(frames: Frames, stream: InternalStream) -> tuple[Kind, bytes]:
    with trio.fail_after(IDLE_S):
        while (found := frames.next()) is None:
            data = await stream.receive_some()
            if not data:
                raise trio.BrokenResourceError("the other node is gone")
            frames.receive(data)
        return found
