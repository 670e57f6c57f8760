"""Which node a leader hands over to if it has not heard from all of them yet."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from tests.cluster.protocol.kit import at

from arneb_cluster.handing_over import NotHandedOver, hand_over
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.members import Members, Report
from arneb_core.api.nodes.placement import NOBODY, Elsewhere, NodeAddresses

MINUTE_MS = 60_000


class Leader:
    """A shard that has just begun to lead: what it knows of the other node is a minute old."""

    def __init__(self) -> None:
        self.settings = SimpleNamespace(shard="orders", node="n1")
        self.state = State.LEADING
        self.node = SimpleNamespace(reader=SimpleNamespace(epoch=3))
        self.replica = SimpleNamespace(applied=SimpleNamespace(link=SimpleNamespace(number=9)))
        self.placement: Any = NOBODY
        self.membership = SimpleNamespace(is_settled=False, members=Members({}))
        self.hears(0)

    def hears(self, now_ms: int) -> None:
        report = Report("n2", "n2.1", 9, at(9))
        self.membership.members = self.membership.members.heard(report, now_ms)

    async def resign(self, why: str, within_s: float, successor: str) -> None:
        self.placement = Elsewhere(NodeAddresses(successor), 4)


def now_ms() -> int:
    return MINUTE_MS + int(trio.current_time() * 1_000)


async def play(leader: Any, at_s: float, happens: Any) -> str:
    """The outcome of a hand-over during which that happens."""

    async def later() -> None:
        await trio.sleep_until(trio.current_time() + at_s)
        happens()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(later)
        try:
            with trio.fail_after(20):
                return (await hand_over(leader, "", now_ms)).node
        except NotHandedOver as error:
            return str(error)
        finally:
            nursery.cancel_scope.cancel()
    raise AssertionError("it was handed over, or not")


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "unheard"])
async def test_a_new_leader_waits_until_the_others_have_reported(
    heard: bool,
) -> None:
    leader = Leader()

    def happens() -> None:
        leader.membership.is_settled = True
        if heard:
            leader.hears(now_ms())

    found = await play(leader, 5, happens)
    assert found == "n2" if heard else "node 'n2' was not heard of for 65 s" in found


async def test_a_node_that_no_longer_leads_waits_for_nobody() -> None:
    leader = Leader()

    def happens() -> None:
        leader.state = State.CLOSING

    assert await play(leader, 5, happens) == "node 'n1' does not lead shard 'orders'"
