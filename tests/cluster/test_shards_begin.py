"""Several shards, from their settings on: definitions in the settings, Pulsar's tenants, and what
the logs say."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cluster.member_kit import (
    Cluster,
    OneNode,
    blocking,
    cluster_of,
    until,
    until_it_does,
)

pytestmark = pytest.mark.real_time

SHARDS = (
    '[[cluster.shards]]\nname = "audit"\nvhosts = ["audit"]\nnamespaces = ["shared/audit"]\n'
    'tenants = ["books"]\nprefer = ["n2", "n1"]\n'
)
FIRST = 'prefer = ["n1", "n2"]\n'
GUEST = ("guest", "guest")
RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}

FILE = {
    "users": [{"name": "carl", "password": "c", "tags": "", "limits": {}}],
    "vhosts": [{"name": "audit"}, {"name": "books/new"}, {"name": "shop"}],
    "permissions": [
        *({"user": "carl", "vhost": each, **RIGHTS} for each in ("audit", "shop")),
    ],
    "policies": [
        {"vhost": each, "name": "p", "pattern": "q", "definition": {"max-length": 9}}
        for each in ("audit", "shop")
    ],
    "queues": [
        {"name": "q", "vhost": each, "durable": True, "auto_delete": False, "arguments": {}}
        for each in ("books/new", "shop", "audit")
    ],
}


async def test_settings_have_several_shards_and_each_imports_its_part_of_the_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(FILE))
    own = f"{FIRST}"
    async with (
        cluster_of(tmp_path, monkeypatch, 2, own=own, start=False, settings=SHARDS) as cluster,
        httpx.AsyncClient(timeout=20, auth=GUEST) as http,
    ):
        for each in cluster.nodes:
            each.first = f'load_definitions = "{file}"\n'
        cluster.start()
        first, second = cluster.nodes
        await cluster.led_by("main", first)
        await cluster.led_by("audit", second)
        queues = (await http.get(first.url("/api/queues?columns=vhost,name"))).json()
        assert sorted(each["vhost"] for each in queues if each["name"] == "q") == [
            "audit", "books/new", "shop",
        ]  # fmt: skip
        for vhost in ("audit", "shop"):
            assert (await http.get(second.url(f"/api/policies/{vhost}/p"))).status_code == 200
            url = first.url(f"/api/permissions/{vhost}/carl")
            await until_it_does(partial(_is_there, http, url))
            await blocking(lambda vhost=vhost: second.connect(vhost, "carl", "c").close())
        written = (await http.get(second.url("/api/definitions"))).json()
        assert [each["name"] for each in written["users"]] == ["carl", "guest"]
        await tenants_are_of_all_shards(cluster, http)


async def _is_there(http: httpx.AsyncClient, url: str) -> bool:
    return (await http.get(url)).status_code == 200


async def tenants_are_of_all_shards(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """A tenant is created once, at any node, and can be used at once for namespaces of every
    shard."""
    first, second = cluster.nodes

    async def asked(node: OneNode, method: str, path: str, document: Any = None) -> httpx.Response:
        url = node.url(f"/admin/v2/{path}", "http-pulsar")
        return await http.request(method, url, json=document, follow_redirects=True)

    def of(role: str) -> dict[str, list[str]]:
        return {"adminRoles": [role], "allowedClusters": ["standalone"]}

    made = await asked(second, "PUT", "tenants/shared", of("boss"))
    assert made.status_code == 204, made.text
    for node, name in ((first, "audit"), (second, "other")):
        made = await asked(node, "PUT", f"namespaces/shared/{name}")
        assert made.status_code == 204, made.text
    assert (await asked(second, "PUT", "namespaces/nobody/audit")).status_code == 404
    for node in cluster.nodes:
        tenants = (await asked(node, "GET", "tenants")).json()
        assert {"shared", "books", "public"} <= set(tenants)
        names = (await asked(node, "GET", "namespaces/shared")).json()
        assert names == ["shared/audit", "shared/other"]
        assert "books/new" in (await asked(node, "GET", "namespaces/books")).json()
        assert (await asked(node, "GET", "namespaces/nobody")).status_code == 404
        found = (await asked(node, "GET", "tenants/shared")).json()
        assert found["adminRoles"] == ["boss"]
        assert (await asked(node, "GET", "tenants/books")).status_code == 200

    # Changes of a tenant apply in all shards; a shard that still has something of it keeps it.
    (await asked(first, "POST", "tenants/shared", of("anna"))).raise_for_status()
    leader = (await cluster.leader_of("audit")).node
    assert leader is not None
    registry = leader.others["audit"].pulsar.context.namespaces
    await until(lambda: registry.tenant("shared").get("adminRoles") == ["anna"])
    (await asked(first, "DELETE", "namespaces/shared/other")).raise_for_status()
    kept = await asked(second, "DELETE", "tenants/shared")
    assert (kept.status_code, kept.json()["reason"]) == (
        409, "The tenant still has active namespaces",
    )  # fmt: skip
    (await asked(first, "DELETE", "namespaces/shared/audit")).raise_for_status()
    assert (await asked(second, "DELETE", "tenants/shared")).status_code == 204
    await until(lambda: "shared" not in registry.tenants)

    # A shovel without a host belongs to one broker, and so to one shard.
    value = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp:///audit", "dest-queue": "q"}
    url = first.url("/api/parameters/shovel/shop/s")
    refused = await http.put(url, json={"value": value})
    assert refused.status_code == 400
    assert "'audit': public/audit is in shard 'audit', not in 'main'" in refused.json()["reason"]

    # Resource groups, too.
    group = {"publishRateInMsgs": 5}
    (await asked(second, "PUT", "resourcegroups/slow", group)).raise_for_status()
    path = "namespaces/books/new/resourcegroup/slow"
    assert (await asked(first, "POST", path)).status_code == 204
    assert (await asked(second, "DELETE", "resourcegroups/slow")).status_code == 412
    topics = [{"topic": "persistent://books/new/q", "role": "r", "actions": ["consume"]}]
    granted = await asked(first, "POST", "namespaces/grantPermissionsOnTopics", topics)
    assert granted.status_code == 204, granted.text
    found = (await asked(second, "GET", "persistent/books/new/q/permissions")).json()
    assert found == {"r": ["consume"]}
