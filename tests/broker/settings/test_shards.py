"""The settings of several shards, and what each makes of its node's settings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arneb.clustered.shards.shards import check_directories, config_of, division_of, other_shards
from arneb.settings.cluster import ClusterPulsarTable, ClusterTable
from arneb.settings.config import Config, ConfigInvalid, load_config
from arneb.settings.shards import ClusterShardTable, check_shards, directories_of, directory_of
from arneb_core.api.errors import StoreUnusable

AUDIT = ClusterShardTable("audit", vhosts=("audit", "a b"), tenants=("books",))
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "name: expected letters"),
    ({"name": "a/b", "vhosts": ("v",)}, "got 'a/b'"),
    ({"name": "a-members", "vhosts": ("v",)}, "no end that is -election or -members"),
    ({"name": "a-election", "vhosts": ("v",)}, "no end that is -election or -members"),
    ({"name": "a"}, "expected vhosts, namespaces or tenants beside name = 'a'"),
    ({"name": "a", "vhosts": ("",)}, "vhosts: expected names of virtual hosts, got ''"),
    ({"name": "a", "namespaces": ("t",)}, "namespaces: expected tenant/namespace, got 't'"),
    ({"name": "a", "tenants": ("t/n",)}, "tenants: expected names of tenants, got 't/n'"),
    ({"name": "a", "tenants": ("t",), "prefer": ("",)}, "prefer: expected names of nodes, got ''"),
]


@pytest.mark.parametrize(("given", "expected"), WRONG)
def test_an_impossible_shard_is_refused(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        ClusterShardTable(**given)


TWICE = [
    (ClusterShardTable("main", tenants=("t",)), "another name for each, got 'main' twice"),
    (ClusterShardTable("audit", tenants=("t",)), "another name for each, got 'audit' twice"),
    (ClusterShardTable("b", tenants=("books",)), "tenant books in one shard, got it in 'audit'"),
    (ClusterShardTable("b", vhosts=("audit",)), "namespace public/audit in one shard"),
    # The namespace of a vhost, by its own name.
    (ClusterShardTable("b", namespaces=("public/a=20b",)), "got it in 'audit' and in 'b'"),
]


@pytest.mark.parametrize(("other", "expected"), TWICE)
def test_what_would_be_in_two_shards_is_refused(other: ClusterShardTable, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        check_shards("main", [AUDIT, other])
    with pytest.raises(ValueError, match=expected):
        division_of("main", [AUDIT, other])


def test_a_vhost_is_in_the_shard_of_the_namespace_that_its_name_suggests() -> None:
    inner = ClusterShardTable("inner", namespaces=("books/old",), vhosts=("audit2",))
    division = division_of("main", [AUDIT, inner])
    found = {
        each: division.shard_of(each)
        for each in ("public/audit", "public/a=20b", "books/x", "books/old", "public/default")
    }
    assert list(found.values()) == ["audit", "audit", "audit", "inner", "main"]


def test_each_shard_has_its_own_directory_topic_and_order_of_nodes(tmp_path: Path) -> None:
    cluster = replace(ClusterTable(), node="", shard="main", prefer=("n1", "n2"))
    cluster = replace(cluster, pulsar=ClusterPulsarTable(namespace="public/arneb"))
    config = replace(Config(), data_dir=tmp_path, cluster=cluster)
    of_audit = config_of(config, replace(AUDIT, prefer=("n2", "n1")))
    assert of_audit.data_dir == directory_of(tmp_path, "audit") == tmp_path / "shards" / "audit"
    assert of_audit.cluster.topic == "persistent://public/arneb/audit"
    assert of_audit.cluster.prefer == ("n2", "n1")
    assert config_of(config, AUDIT).cluster.prefer == ("n1", "n2")

    assert list(directories_of(tmp_path)) == [tmp_path]
    of_audit.data_dir.mkdir(parents=True)
    assert list(directories_of(tmp_path)) == [tmp_path, of_audit.data_dir]
    assert not other_shards(cluster)


def test_the_data_of_a_shard_that_is_no_longer_named_is_not_silently_left(
    tmp_path: Path,
) -> None:
    path = directory_of(tmp_path, "audit")
    path.mkdir(parents=True)
    check_directories(tmp_path, [])  # nothing is in it
    (path / "data.mdb").touch()
    check_directories(tmp_path, [AUDIT])
    with pytest.raises(StoreUnusable, match="kept in shard 'audit', which cluster.shards does not"):
        check_directories(tmp_path, [])


def test_shards_are_read_from_the_file_and_checked_there(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s" * 32)
    head = (
        '[cluster]\nnode = "n1"\n[cluster.pulsar]\nurl = "pulsar://a:1"\n'
        'admin_url = "http://a:2"\n[cluster.internal]\nsecret_file = "secret"\n'
    )
    path = tmp_path / "arneb.toml"
    one = '[[cluster.shards]]\nname = "audit"\nvhosts = ["audit"]\nprefer = ["n1"]\n'
    path.write_text(head + one)
    [found] = other_shards(load_config(path).cluster)
    assert found == ClusterShardTable("audit", vhosts=("audit",), prefer=("n1",))
    for wrong, reason in (
        (one.replace('"audit"\n', '"main"\n', 1), "another name for each, got 'main' twice"),
        (one + one.replace('"audit"\n', '"b"\n', 1), "got it in 'audit' and in 'b'"),
    ):
        path.write_text(head + wrong)
        with pytest.raises(ConfigInvalid, match=reason):
            load_config(path)
