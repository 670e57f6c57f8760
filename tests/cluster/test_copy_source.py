"""Which nodes are given a copy, and which are not."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from tests.cluster.member_kit import until
from tests.cluster.test_replica import applied, steps_of

from arneb_cluster.copies import source as source_module
from arneb_cluster.copies.source import CopySource
from arneb_cluster.protocol.copying import (
    CopyBroken,
    CopyRefused,
    Frames,
    Kind,
    Made,
    Taking,
    Wanted,
    frame,
    need_frame,
    parse_made,
    parse_source_state,
)
from arneb_cluster.protocol.members import Members, Report
from arneb_cluster.protocol.values import Place
from arneb_cluster.replica import MEMBERS_ROW, Replica, Step
from arneb_cluster.routing.internal_protocol import Request
from arneb_core.api.nodes.placement import NotServed
from arneb_core.store.directory.replacement import FILES, GIVEN_NAME
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table

pytestmark = pytest.mark.real_time

WANTED = Wanted("n9", "r9")


def asked(wanted: Wanted = WANTED, shard: str = "s") -> Request:
    return Request("copy", shard, wanted.pack())


class Giving:
    """A source with a directory."""

    def __init__(self, path: Path, nursery: trio.Nursery) -> None:
        self.store = Store.open(path)
        self.replica = Replica(self.store)
        self.nursery = nursery
        self.is_sound = True
        self.takers: list[Taker] = []
        self.source = CopySource("s", self.replica, lambda: self.is_sound, 1 << 30)
        self.replica.apply(steps_of([Changes(puts=[(Table.CATALOG, b"topic/a", b"1")])]))

    def list_as_waited_for(self, wanted: Wanted = WANTED, *, is_copying: bool = True) -> None:
        """By a record of the leader."""
        report = Report(wanted.node, wanted.run, 1, Place(1, 1), is_copying=is_copying)
        row = Members({}).heard(report, 0).pack()
        number = self.replica.applied.link.number + 1
        step = Step(Changes(puts=[(*MEMBERS_ROW, row)]), applied(number), 10)
        self.replica.apply([step])

    def call(self, wanted: Wanted = WANTED) -> "Taker":
        """Whether somebody is served."""
        here, there = socket.socketpair()
        here.setblocking(False)
        there.setblocking(False)
        serve = self.source.prepare(asked(wanted))
        self.nursery.start_soon(serve, there, None, b"")
        self.takers.append(Taker(here))
        return self.takers[-1]


class Taker:
    """The other side."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = trio.socket.from_stdlib_socket(sock)
        self.frames = Frames()

    async def hear(self) -> tuple[Kind, bytes]:
        with trio.fail_after(20):
            while (found := self.frames.next()) is None:
                data = await self.sock.recv(65_536)
                if not data:
                    raise EOFError
                self.frames.receive(data)
        return found

    async def made(self) -> Made:
        while True:
            kind, body = await self.hear()
            if kind is Kind.MADE:
                return parse_made(body, FILES)
            parse_source_state(body)

    async def take(self, made: Made) -> None:
        taking = Taking(made)
        while (need := taking.need()) is not None:
            await self.sock.send(need_frame(*need))
            kind, body = await self.hear()
            assert kind is Kind.CHUNK
            taking.take(body)
            taking.written()


@asynccontextmanager
async def giving(path: Path) -> AsyncIterator[Giving]:
    async with trio.open_nursery() as nursery:
        made = Giving(path, nursery)
        yield made
        nursery.cancel_scope.cancel()
    for each in made.takers:
        each.sock.close()
    made.store.close()


async def test_a_node_that_is_waited_for_gets_a_copy_and_nothing_is_left_of_it(
    tmp_path: Path,
) -> None:
    async with giving(tmp_path) as given:
        given.list_as_waited_for()
        taker = given.call()
        made = await taker.made()
        assert list((tmp_path / GIVEN_NAME).iterdir())
        await taker.take(made)
        await taker.sock.send(frame(Kind.DONE))
        with pytest.raises(EOFError):
            await taker.hear()
        assert not list((tmp_path / GIVEN_NAME).iterdir())
        assert given.source.bytes_total == sum(made.files.values())


@pytest.mark.parametrize(
    ("listed", "is_copying"),
    [(None, True), (WANTED, False), (replace(WANTED, run="before"), True)],
)
async def test_nobody_gets_a_copy_before_every_leader_would_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: Wanted | None, is_copying: bool
) -> None:
    monkeypatch.setattr(source_module, "PIN_WAIT_S", 0.3)
    async with giving(tmp_path) as given:
        if listed is not None:
            given.list_as_waited_for(listed, is_copying=is_copying)
        taker = given.call()
        with pytest.raises(CopyRefused, match="no leader has written down"):
            await taker.made()
        assert not (tmp_path / GIVEN_NAME).exists()


async def test_it_is_given_as_soon_as_that_is_known(tmp_path: Path) -> None:
    async with giving(tmp_path) as given:
        taker = given.call()
        kind, body = await taker.hear()
        assert (kind, parse_source_state(body).number) == (Kind.SOURCE_STATE, 1)
        given.list_as_waited_for()
        made = await taker.made()
        assert made.number == 2  # the copied list names the taker


async def test_a_taker_that_was_cut_off_continues_with_the_same_copy(tmp_path: Path) -> None:
    async with giving(tmp_path) as given:
        given.list_as_waited_for()
        first = given.call()
        made = await first.made()  # whose end nobody has noticed
        again = given.call(replace(WANTED, copy=made.copy))
        kind, body = await again.hear()  # so that it keeps reporting that it is waited for
        assert (kind, parse_source_state(body).number) == (Kind.SOURCE_STATE, 2)
        assert await again.made() == made
        with pytest.raises(EOFError):
            await first.hear()
        other = given.call(replace(WANTED, copy="another"))
        assert (await other.made()).copy != made.copy


async def test_only_one_node_at_a_time_gets_a_copy(tmp_path: Path) -> None:
    async with giving(tmp_path) as given:
        given.list_as_waited_for()
        await given.call().made()
        with pytest.raises(NotServed, match="gives a copy to node n9 just now"):
            given.source.prepare(asked(Wanted("n8", "r8")))


async def test_a_node_that_cannot_give_a_copy_says_so(tmp_path: Path) -> None:
    async with giving(tmp_path) as given:
        with pytest.raises(NotServed, match="expected shard s, got 't'"):
            given.source.prepare(asked(shard="t"))
        with pytest.raises(NotServed, match="expected a document"):
            given.source.prepare(Request("copy", "s", b"["))
        given.is_sound = False
        with pytest.raises(NotServed, match="its own data may be incomplete"):
            given.source.prepare(asked())
        with Store.open(tmp_path / "empty") as store:
            empty = CopySource("s", Replica(store), lambda: True, 1 << 30)
            with pytest.raises(NotServed, match="it has nothing itself"):
                empty.prepare(asked())


@pytest.mark.parametrize("need", [need_frame("data.mdb", 1 << 40), need_frame("/etc/passwd", 0)])
async def test_files_outside_the_copy_are_given_to_nobody(tmp_path: Path, need: bytes) -> None:
    async with giving(tmp_path) as given:
        given.list_as_waited_for()
        taker = given.call()
        await taker.made()
        await taker.sock.send(need)
        with pytest.raises((EOFError, CopyBroken, ConnectionError)):
            await taker.hear()


async def test_a_copy_is_sent_at_a_bounded_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_s: list[float] = []

    async def note(deadline: float) -> None:
        until_s.append(deadline)

    monkeypatch.setattr(source_module.trio, "sleep_until", note)
    async with giving(tmp_path) as given:
        given.list_as_waited_for()
        given.source._bytes_per_s = 1 << 10
        taker = given.call()
        made = await taker.made()
        began = trio.current_time()
        await taker.take(made)
    rest_s = until_s[-1] - began
    assert rest_s == pytest.approx(sum(made.files.values()) / (1 << 10), abs=1.0)


async def test_without_room_there_is_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "ROOM_BYTES_MIN", 1 << 60)
    async with giving(tmp_path) as given:
        given.list_as_waited_for()
        with pytest.raises(CopyRefused, match="its disk has .* bytes free"):
            await given.call().made()


async def test_remains_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    async with giving(tmp_path) as given:
        left = tmp_path / GIVEN_NAME / "x"
        left.mkdir(parents=True)
        given.nursery.start_soon(given.source.run)
        await until(lambda: not left.exists())
