"""The page at nodes of a cluster: each node reports its own state, whichever leads."""

from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cluster.member_kit import OneNode, cluster_of, until, until_it_does

from arneb.http.routing.targets import MEMBER_PATH

pytestmark = pytest.mark.real_time

PROOF = {"username": "guest", "password": "guest"}
MARK = {"x-arneb-page": "1"}


async def test_the_page_shows_every_nodes_own_state_even_while_nobody_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster, httpx.AsyncClient(timeout=20) as http:
        leader = await cluster.leader()
        other = cluster.other(leader)

        async def look(node: OneNode) -> httpx.Response:
            return await http.get(node.url(MEMBER_PATH), headers=MARK)

        async def knows(node: OneNode) -> bool:
            asked = await http.get(node.url(MEMBER_PATH), auth=("guest", "guest"))
            return asked.status_code == 200 and asked.json()["node"] == node.name

        for each in (leader, other):
            assert (await look(each)).status_code == 401
            await until_it_does(partial(knows, each))
        login = await http.post(other.url("/api/page/session"), json=PROOF, headers=MARK)
        assert login.status_code == 200  # the cookie is for all ports of 127.0.0.1

        [leads] = shards(await look(leader))
        assert (leads["state"], leads["led_by"], leads["serves"]) == ("leading", leader.name, True)
        [follows] = shards(await look(other))
        assert (follows["state"], follows["led_by"]) == ("following", leader.name)
        node = (await http.get(other.url("/api/page/node"))).json()
        assert node["cluster"]["node"] == leader.name

        cluster.service.broker.is_down = True
        await leader.kill()

        async def nobody_leads() -> bool:
            [shard] = shards(await look(other))
            return not shard["led_by"]

        await until_it_does(nobody_leads)
        alarms = (await look(other)).json()["alarms"]
        [alarm] = [each for each in alarms if each["name"].startswith("nobody")]
        assert alarm["text"].startswith(
            f"Nobody leads main at the moment, as far as node {other.name}"
        )
        assert (await http.get(other.url("/api/page/session"))).status_code == 503
        assert 'id="page"' in (await http.get(other.url("/"))).text

        cluster.service.broker.is_down = False
        await until(lambda: other.leads)
        assert (await look(other)).status_code == 401  # its sessions are its own


def shards(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["shards"]
    return found
