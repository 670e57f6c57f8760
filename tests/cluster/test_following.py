"""What a node reads of its topic: from where it begins, and nothing of what an earlier reader had
in hand."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from arneb_cluster import following
from arneb_cluster.following import Following
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.node import Node
from arneb_cluster.protocol.values import Place


class Topic:
    """A topic whose entries exist as soon as the test says so."""

    def __init__(self) -> None:
        self.end = 0
        self.readers: list[OneReader] = []
        self.closing_hangs = False

    async def reader(self, after: Place) -> "OneReader":
        self.readers.append(OneReader(self, after))
        return self.readers[-1]

    def write(self, count: int) -> None:
        self.end += count
        for each in self.readers:
            if not each.is_closed:
                each.arrived()


class OneReader:
    """One of its readers."""

    waiting = 0

    def __init__(self, topic: Topic, after: Place) -> None:
        self.topic = topic
        self.after = after
        self._next = after.entry + 1
        self.is_closed = False
        self.arrived = lambda: None

    def listen(self, arrived: Any) -> None:
        self.arrived = arrived

    def read_nowait(self) -> Any:
        if self._next > self.topic.end:
            return None
        self._next += 1
        return Place(1, self._next - 1)

    async def close(self) -> None:
        if self.topic.closing_hangs:
            with trio.move_on_after(60):
                await trio.sleep_forever()
        self.is_closed = True


class FakeNode:
    """Notes what it receives."""

    def __init__(self) -> None:
        self.state = State.FOLLOWING
        self.reader = SimpleNamespace(place=Place(1, 0))
        self.got: list[int] = []
        self.has_read = trio.Event()

    def read(self, place: Place, *_: object) -> None:
        self.reader.place = place
        self.got.append(place.entry)
        self.has_read.set()


def following_of(topic: Any, node: Any, monkeypatch: Any) -> Following:
    async def room() -> None:
        """There is always room."""

    monkeypatch.setattr(following, "entry_of", lambda place: (place, b""))
    as_node: Node = node
    return Following(topic, as_node, lambda: 0.0, lambda: 0, lambda: None, lambda: True, room)


async def test_entries_of_an_old_reader_are_not_read_after_a_new_start(
    monkeypatch: Any,
) -> None:
    """Otherwise everything between would be skipped, for example the TAKE of another leader. The
    node would continue to lead from an entry outside the topic's order, and confirm what counts for
    nobody."""
    topic, node = Topic(), FakeNode()
    followed = following_of(topic, node, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(followed.run)
        topic.write(5)
        await trio.testing.wait_all_tasks_blocked()
        assert node.got == [1, 2, 3, 4, 5]
        # An entry arrives at the instant in which leadership ends: it is on its way to the node.
        node.reader.place = Place(1, 2)
        followed.begin()
        topic.write(3)
        await trio.testing.wait_all_tasks_blocked()
        assert node.got == [1, 2, 3, 4, 5, *range(3, 9)]
        assert [each.after.entry for each in topic.readers] == [0, 2]
        assert topic.readers[0].is_closed
        nursery.cancel_scope.cancel()


async def test_a_new_beginning_waits_for_no_silent_broker(monkeypatch: Any) -> None:
    topic, node = Topic(), FakeNode()
    followed = following_of(topic, node, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(followed.run)
        await trio.testing.wait_all_tasks_blocked()
        topic.closing_hangs = True
        followed.begin()
        topic.write(1)
        with trio.fail_after(2):
            await node.has_read.wait()
        nursery.cancel_scope.cancel()


async def test_an_entry_is_read_in_the_turn_in_which_it_arrives(monkeypatch: Any) -> None:
    """A leader's clients wait for it. To wake a task first would cost them a pass of the loop."""
    topic, node = Topic(), FakeNode()
    followed = following_of(topic, node, monkeypatch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(followed.run)
        await trio.testing.wait_all_tasks_blocked()
        topic.write(2)
        assert node.got == [1, 2]
        nursery.cancel_scope.cancel()


async def test_no_turn_reads_more_than_it_may(monkeypatch: Any) -> None:
    topic, node = Topic(), FakeNode()
    followed = following_of(topic, node, monkeypatch)
    turn = following.TURN_BYTES // following.ENTRY_BYTES + 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(followed.run)
        await trio.testing.wait_all_tasks_blocked()
        topic.write(3 * turn)
        assert len(node.got) == turn
        await trio.testing.wait_all_tasks_blocked()
        assert len(node.got) == 3 * turn
        nursery.cancel_scope.cancel()


async def test_nothing_is_read_for_which_there_is_no_room(monkeypatch: Any) -> None:
    topic, node = Topic(), FakeNode()
    followed = following_of(topic, node, monkeypatch)
    has_room, room = False, trio.Event()
    monkeypatch.setattr(followed, "_has_room", lambda: has_room)
    monkeypatch.setattr(followed, "_room", room.wait)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(followed.run)
        topic.write(2)
        await trio.testing.wait_all_tasks_blocked()
        assert node.got == []
        has_room = True
        room.set()
        await trio.testing.wait_all_tasks_blocked()
        assert node.got == [1, 2]
        nursery.cancel_scope.cancel()


async def test_an_error_of_ours_ends_the_task_and_not_the_connection(monkeypatch: Any) -> None:
    topic, node = Topic(), FakeNode()
    followed = following_of(topic, node, monkeypatch)

    def broken(*_: object) -> None:
        raise LookupError("ours")

    with pytest.RaisesGroup(LookupError), trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(followed.run)
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(node, "read", broken)
            topic.write(1)  # as its connection would
