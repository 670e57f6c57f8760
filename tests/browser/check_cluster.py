"""The page of a cluster, in a browser, over nodes that are processes: any node shows who leads.

Arneb's own broker stands in Pulsar's place.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest
import trio
from conformance.cluster_demo.__main__ import prepare
from conformance.cluster_demo.nodes import NodeProcess, until
from playwright.sync_api import Browser, Locator, expect
from tests.browser.check_looks import LOOKS, PICTURES
from tests.browser.operator import Operator, chromium, fetch_axe, operator

from arneb.demo.process import BrokerProcess

WITHIN_MS = 30_000
"""A node that was killed is missed after some seconds of silence."""


class Nodes:
    """Two nodes, and the broker that has their log."""

    def __init__(self, directory: Path, **more: Any) -> None:
        self.log = BrokerProcess(directory / "log", ["pulsar", "http-pulsar"])
        admin = f"http://{self.log.addresses['http-pulsar']}"
        trio.run(prepare, admin)
        self.all = [
            NodeProcess(name, directory, self.log.pulsar_url, admin, **more)
            for name in ("n1", "n2")
        ]
        for each in self.all:
            each.start()
        for each in self.all:
            each.wait_ready()
        until(lambda: any(self._serves(each) for each in self.all), "a leader")

    @property
    def leader(self) -> NodeProcess:
        return next(each for each in self.all if self._serves(each))

    @property
    def other(self) -> NodeProcess:
        return next(each for each in self.all if not self._serves(each))

    @staticmethod
    def _serves(node: NodeProcess) -> bool:
        return node.is_running and node.figure("serves") == 1

    def close(self) -> None:
        for each in self.all:
            if each.is_running:
                each.kill()
        if self.log.returncode is None:
            self.log.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    fetch_axe()
    with chromium() as found:
        yield found


@contextmanager
def nodes_in(directory: Path, **more: Any) -> Iterator[Nodes]:
    nodes = Nodes(directory, **more)
    try:
        yield nodes
    finally:
        nodes.close()


def url_of(node: NodeProcess) -> str:
    return f"http://127.0.0.1:{node.ports['http']}/"


def nodes_shown(somebody: Operator) -> Locator:
    """The table of them."""
    return somebody.page.get_by_role("region", name="Parts in the cluster: table")


def row(somebody: Operator, node: NodeProcess) -> str:
    """What the page of the cluster says of a node."""
    named = somebody.page.get_by_role("rowheader", name=node.name)
    return nodes_shown(somebody).get_by_role("row").filter(has=named).inner_text()


def test_a_follower_shows_the_leader_and_its_loss(browser: Browser, tmp_path: Path) -> None:
    with nodes_in(tmp_path) as nodes:
        leader, other = nodes.leader, nodes.other
        for theme, size in LOOKS:
            folder = PICTURES / f"{theme}-{size['width']}"
            folder.mkdir(parents=True, exist_ok=True)
            with operator(browser, url_of(other), theme=theme, size=size) as somebody:
                somebody.log_in()
                somebody.go("#/cluster")
                somebody.sees(f"{leader.name} leads; this is node {other.name}")
                expect(nodes_shown(somebody).get_by_role("row")).to_have_count(3)
                somebody.page.screenshot(path=folder / "cluster.png")
                assert somebody.violations() == []
                assert (
                    somebody.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
                )
        with operator(browser, url_of(other)) as somebody:
            somebody.log_in()
            somebody.page.get_by_role("link", name="Cluster").click()
            somebody.sees(f"this is node {other.name}")
            own, led = row(somebody, other), row(somebody, leader)
            assert "this node" in own
            assert "follows" in own
            assert "ahead" in own or "behind" in own
            assert "leads" in led
            assert "holds" in led
            record = nodes_shown(somebody).locator("tbody tr").first.locator("td").nth(6)
            before = record.inner_text()
            expect(record).not_to_have_text(before)  # heartbeats: it moves while it is looked at

            copies = somebody.page.get_by_role("region", name="Copies: table").locator("tbody tr")
            expect(copies).to_have_count(2, timeout=WITHIN_MS)
            assert [each.split()[0] for each in copies.all_inner_texts()] == ["n1", "n2"]

            nodes.log.kill()
            leader.kill()
            nobody = somebody.page.get_by_role("alert").filter(has_text="Nobody leads main")
            nobody.wait_for(timeout=WITHIN_MS)
            somebody.sees(f"Nobody leads at the moment; this is node {other.name}")
            expect(nodes_shown(somebody).get_by_role("row")).to_have_count(2)
            assert "nobody" in row(somebody, other)
            assert somebody.violations() == []
            somebody.page.screenshot(path=PICTURES / "light-1440/cluster-nobody.png")
            somebody.page.reload()
            somebody.page.get_by_text("Nobody answers for the cluster").wait_for(timeout=WITHIN_MS)
            somebody.sees(f"this is node {other.name}")
            assert somebody.violations() == []


def test_a_leader_that_its_log_does_not_answer_says_so_at_its_own_page(
    browser: Browser, tmp_path: Path
) -> None:
    with nodes_in(tmp_path) as nodes:
        leader = nodes.leader
        with operator(browser, url_of(leader)) as somebody:
            somebody.log_in()
            somebody.go("#/cluster")
            somebody.sees(f"{leader.name} leads; this is node {leader.name}")
            nodes.log.kill()
            lost = somebody.page.get_by_role("alert").filter(has_text="does not answer node")
            lost.wait_for(timeout=WITHIN_MS)
            somebody.sees("Nobody answers at the moment")
            assert "the log does not answer" in row(somebody, leader)


SHARDS = '[[cluster.shards]]\nname = "audit"\nvhosts = ["audit"]\nprefer = ["n2", "n1"]\n'


def test_everything_of_several_shards_stands_on_the_page_and_says_whose_it_is(
    browser: Browser, tmp_path: Path
) -> None:
    more = {"own": 'prefer = ["n1", "n2"]\n', "after": SHARDS, "with_pulsar": True}
    with nodes_in(tmp_path, **more) as nodes:
        other = nodes.other
        until(lambda: any(serves(each, "audit") for each in nodes.all), "a leader of audit")
        for vhost in ("%2F", "audit"):
            url = f"{url_of(other)}api/queues/{vhost}/orders"
            httpx.put(url, auth=("guest", "guest"), json={"durable": True}).raise_for_status()
        log = pulsar.FileLogger(pulsar.LoggerLevel.Error, str(tmp_path / "pulsar.log"))
        client = pulsar.Client(f"pulsar://127.0.0.1:{other.ports['pulsar']}", logger=log)
        consumer = client.subscribe("persistent://public/audit/events", "s")
        for theme, size in LOOKS:
            folder = PICTURES / f"{theme}-{size['width']}"
            folder.mkdir(parents=True, exist_ok=True)
            with operator(browser, url_of(other), theme=theme, size=size) as somebody:
                somebody.log_in()
                for place in ("#/", "#/queues", "#/connections", "#/transactions", "#/cluster"):
                    somebody.go(place)
                    name = place.removeprefix("#/") or "overview"
                    somebody.page.screenshot(path=folder / f"shards-{name}.png")
                    assert somebody.violations() == []
        with operator(browser, url_of(other)) as somebody:
            somebody.log_in()
            shards = somebody.page.get_by_role("region", name="Shards")
            expect(shards.locator("dt")).to_have_text(["main", "audit"])
            somebody.go("#/queues")
            table = somebody.page.get_by_role("region", name="Queues and topics: table")
            rows = table.locator("tbody tr").filter(has_text="orders")
            expect(rows).to_have_count(2)
            texts = [each.split() for each in rows.all_inner_texts()]
            assert sorted(("audit" in each, "main" in each) for each in texts) == [
                (False, True), (True, False),
            ]  # fmt: skip
            somebody.go("#/connections")
            clients = somebody.page.locator("tbody tr").filter(has_text="Pulsar")
            of_audit = clients.filter(has_text="audit").filter(has_text="producer or consumer")
            of_audit.get_by_role("link").first.click()
            somebody.sees("persistent://public/audit/events".removeprefix("persistent://"))
            assert "/audit" in somebody.page.url
            somebody.go("#/cluster")
            expect(nodes_shown(somebody).locator("tbody tr")).to_have_count(4)
        consumer.close()
        client.close()


def serves(node: NodeProcess, shard: str) -> bool:
    return node.is_running and node.figure("serves", f'shard="{shard}"') == 1
