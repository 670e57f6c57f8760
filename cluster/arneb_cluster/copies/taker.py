"""The taker: this node replaces its directory by a copy of another's.

The rule: the old directory stays until the copy is complete, checked and on disk. The taker reports
that it must be waited for before anything is copied, and continues reporting; an interrupted copy
continues where it was. If one node fails, others are tried until one has given a copy.
"""

import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import trio

from arneb_cluster.copies.source import COPY
from arneb_cluster.membership import newest_reports, tell
from arneb_cluster.protocol.copying import (
    CopyBroken,
    CopyRefused,
    Frames,
    Kind,
    Made,
    SourceState,
    Taking,
    Wanted,
    frame,
    need_frame,
    parse_made,
    parse_source_state,
)
from arneb_cluster.protocol.members import Report
from arneb_cluster.protocol.values import Applied
from arneb_cluster.replica import UNFOUNDED, applied_in
from arneb_cluster.routing.calling import NotTaken, call
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.settings import ShardSettings
from arneb_core.api.errors import StoreUnusable
from arneb_core.api.nodes.placement import NodeAddresses
from arneb_core.store.checking.check_in_child import check_in_child
from arneb_core.store.checking.findings import Finding
from arneb_core.store.data_file.opening import LMDB_LOCK_NAME
from arneb_core.store.directory.directory import DirectoryLock
from arneb_core.store.directory.replacement import FILES, begin_replacement, mark_whole
from arneb_pulsar.client import Client
from arneb_pulsar.client.errors import PulsarError

RETRY_S: Final = 3.0
"""The wait after no node has given a copy."""

HEARD_S: Final = 60.0
"""The giver sends something six times within this time."""

SAVED_CHUNKS: Final = 32
"""Chunks after which progress is synced to disk: a killed node continues from there."""

SAID_S: Final = 10.0
"""The time between two log lines about the progress."""

PROGRESS_NAME: Final = "progress"

FindingsOf = Callable[[Path], Iterator[Finding]]

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class CopyStatistics:
    """The progress of a copy."""

    step: str = "looks for a node that gives a copy"
    source: str = ""
    bytes_done: int = 0
    bytes_total: int = 0


@dataclass(frozen=True, slots=True)
class _Kept:
    """A part of a copy left by an interruption or a kill."""

    source: str
    run: str
    taking: Taking

    def pack(self) -> bytes:
        head = json.dumps([self.source, self.run]).encode()
        return head + b"\n" + self.taking.pack()

    @classmethod
    def unpack(cls, data: bytes) -> "_Kept":
        head, _, rest = data.partition(b"\n")
        try:
            source, run = json.loads(head)
        except (ValueError, TypeError) as error:
            raise CopyBroken(f"expected how far a copy is, got {head[:100]!r}") from error
        return cls(str(source), str(run), Taking.unpack(rest, FILES))


class Taker:
    """Takes one copy."""

    def __init__(
        self,
        client: Client,
        internal: InternalSettings,
        settings: ShardSettings,
        path: Path,
        applied: Applied,
        findings_of: FindingsOf = check_in_child,
    ) -> None:
        """``path``: the data directory, which no process has open, and which has ``applied``."""
        self._client = client
        self._internal = internal
        self._settings = settings
        self._path = path
        self._applied = applied
        self._findings_of = findings_of
        self._pinned: SourceState | None = None
        self._notified = trio.Event()
        self._run = str(uuid4())
        self.statistics = CopyStatistics()

    def __repr__(self) -> str:
        statistics = self.statistics
        return (
            f"<Taker {statistics.step}, {statistics.bytes_done} of {statistics.bytes_total} bytes>"
        )

    async def take(self) -> None:
        """Take a copy, which the directory holds when it is opened next. Raises
        :class:`StoreUnusable`."""
        lock = await trio.to_thread.run_sync(DirectoryLock.take, self._path)
        try:
            making = begin_replacement(self._path)
            kept = await trio.to_thread.run_sync(_kept_in, making)
            if kept is not None:
                self._run = kept.run  # trimming waits for the taker by this run
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tell)
                while not await self._take_from_any(making, kept):
                    await trio.sleep(RETRY_S)
                    kept = await trio.to_thread.run_sync(_kept_in, making)
                nursery.cancel_scope.cancel()
        finally:
            lock.release()

    async def _tell(self) -> None:
        await self._notified.wait()
        await tell(self._client, self._settings, self._report)

    def _report(self) -> Report:
        pinned, settings = self._pinned, self._settings
        assert pinned is not None, "it is told of nothing else"
        return Report(
            settings.node, self._run, pinned.number, pinned.place, is_copying=True,
            internal=settings.addresses.get("internal", ""), history=pinned.history,
        )  # fmt: skip

    async def _take_from_any(self, making: Path, kept: _Kept | None) -> bool:
        statistics = self.statistics
        statistics.step, statistics.source = CopyStatistics().step, ""
        try:
            known = await newest_reports(self._client, self._settings)
        except PulsarError as error:
            logger.warning("%s: %s", self._settings.members_topic, error)
            return False
        may = [each for each in known.values() if self._may_give(each)]
        may.sort(key=lambda each: (kept is None or each.node != kept.source, each.leads,
                                   -each.number))  # fmt: skip
        if not may:
            logger.warning(
                "no other node of %s has a copy to give; if none is left at all, see "
                "`arneb ctl cluster re-found`", self._settings.shard,
            )  # fmt: skip
        for report in may:
            statistics.source = report.node
            try:
                await self._take_from(report, making, kept)
            except (
                NotTaken, CopyBroken, CopyRefused, trio.BrokenResourceError, trio.TooSlowError,
                OSError,
            ) as error:  # fmt: skip
                logger.warning("no copy from node %s: %s", report.node, str(error) or "no answer")
            else:
                return True
        return False

    def _may_give(self, report: Report) -> bool:
        is_other = report.node != self._settings.node
        has_more = report.number > self._applied.link.number
        return is_other and has_more and not report.is_copying and bool(report.internal)

    async def _take_from(self, report: Report, making: Path, kept: _Kept | None) -> None:
        name = kept.taking.made.copy if kept is not None and kept.source == report.node else ""
        wanted = Wanted(self._settings.node, self._run, name)
        asked = Request(COPY, self._settings.shard, wanted.pack())
        leader = NodeAddresses(report.node, internal=report.internal)
        async with _conversation(self._internal, leader, asked) as conversation:
            made = await self._made(conversation)
            taking = Taking(made)
            if kept is not None and kept.taking.made == made:
                taking = kept.taking
                logger.info("continuing the copy at %d bytes", taking.bytes_done)
            else:
                # What is there belongs to another copy, as does its progress file.
                await trio.to_thread.run_sync(_clear, making)
            await self._copy(conversation, taking, report.node, making)
            await conversation.say(frame(Kind.DONE))
        self.statistics.step = "checks the copy"
        await trio.to_thread.run_sync(self._finish, making, made)
        logger.info("took a copy from node %s", report.node)

    async def _made(self, conversation: "_Conversation") -> Made:
        statistics = self.statistics
        statistics.step = "waits until the leader knows that it is waited for, and a copy is made"
        while True:
            kind, body = await conversation.hear()
            if kind is Kind.MADE:
                return parse_made(body, FILES)
            if kind is not Kind.SOURCE_STATE:
                raise CopyBroken(f"expected SOURCE_STATE or MADE, got {kind.name}")
            state = parse_source_state(body)
            if self._applied != UNFOUNDED and state.history != self._applied.history:
                raise CopyRefused("it is of another history")
            self._pinned = state
            self._notified.set()

    async def _copy(
        self, conversation: "_Conversation", taking: Taking, source: str, making: Path
    ) -> None:
        statistics = self.statistics
        statistics.step, statistics.bytes_total = "copies", taking.bytes_total
        statistics.bytes_done = taking.bytes_done
        try:
            await self._chunks(conversation, taking, source, making)
        except (CopyBroken, trio.BrokenResourceError, trio.TooSlowError):
            await trio.to_thread.run_sync(_keep, making, _Kept(source, self._run, taking))
            raise

    async def _chunks(
        self, conversation: "_Conversation", taking: Taking, source: str, making: Path
    ) -> None:
        statistics, logged_at, written = self.statistics, trio.current_time(), 0
        while (asked := taking.need()) is not None:
            await conversation.say(need_frame(*asked))
            kind, body = await conversation.hear()
            if kind is not Kind.CHUNK:
                raise CopyBroken(f"expected CHUNK, got {kind.name}")
            name, at, chunk = taking.take(body)
            await trio.to_thread.run_sync(_write, making / name, at, chunk)
            taking.written()
            written += 1
            statistics.bytes_done = taking.bytes_done
            if written % SAVED_CHUNKS == 0:
                kept = _Kept(source, self._run, taking)
                await trio.to_thread.run_sync(_keep, making, kept)
            if trio.current_time() >= logged_at + SAID_S:
                logged_at = trio.current_time()
                logger.info("copied %d of %d bytes", statistics.bytes_done, statistics.bytes_total)

    def _finish(self, making: Path, made: Made) -> None:
        """Check and install the copy. Raises :class:`CopyBroken`, leaving nothing of it."""
        try:
            (making / PROGRESS_NAME).unlink(missing_ok=True)
            findings = [each for each in self._findings_of(making) if not each.is_doubt]
            if findings:
                raise CopyBroken(f"expected a copy without findings, got {findings[0]}")
            found = applied_in(making)
            pinned, own = self._pinned, self._applied
            if found is None or found.link.number < max(made.number, own.link.number):
                raise CopyBroken(f"expected a copy up to {made.number} or more, got {found}")
            if own != UNFOUNDED and found.history != own.history:
                raise CopyBroken(f"expected a copy of history {own.history}, got {found.history}")
            if pinned is not None and found.place < pinned.place:
                raise CopyBroken(f"expected a copy that continues after {pinned.place}")
            (making / LMDB_LOCK_NAME).unlink(missing_ok=True)
            mark_whole(self._path, made.files)
        except (CopyBroken, StoreUnusable, ValueError) as error:
            _clear(making)
            raise CopyBroken(str(error)) from error


class _Conversation:
    """The exchange with the node that gives a copy."""

    def __init__(self, stream: trio.abc.Stream, early: bytes) -> None:
        self._stream = stream
        self._frames = Frames(early)

    async def say(self, data: bytes) -> None:
        with trio.fail_after(HEARD_S):
            await self._stream.send_all(data)

    async def hear(self) -> tuple[Kind, bytes]:
        with trio.fail_after(HEARD_S):
            while (found := self._frames.next()) is None:
                data = await self._stream.receive_some()
                if not data:
                    raise trio.BrokenResourceError("it was cut off")
                self._frames.receive(data)
            return found


@asynccontextmanager
async def _conversation(
    settings: InternalSettings, leader: NodeAddresses, asked: Request
) -> AsyncIterator[_Conversation]:
    called = await call(settings, leader, asked)
    try:
        yield _Conversation(called.stream, called.early)
    finally:
        await trio.aclose_forcefully(called.stream)


def _kept_in(making: Path) -> _Kept | None:
    """Return what is there of a copy; if there is nothing usable, remove everything."""
    try:
        return _Kept.unpack((making / PROGRESS_NAME).read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, CopyBroken) as error:
        logger.warning("%s: starting the copy over: %s", making, error)
    _clear(making)
    return None


def _clear(making: Path) -> None:
    for each in making.iterdir():
        each.unlink()


def _keep(making: Path, kept: _Kept) -> None:
    for name in kept.taking.done:
        _sync(making / name)
    new = making / f"{PROGRESS_NAME}.new"
    new.write_bytes(kept.pack())
    _sync(new)
    os.replace(new, making / PROGRESS_NAME)


def _write(path: Path, at: int, chunk: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        if at == 0:
            os.ftruncate(fd, 0)
        view = memoryview(chunk)
        while view:
            count = os.pwrite(fd, view, at)
            view, at = view[count:], at + count
    finally:
        os.close(fd)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
