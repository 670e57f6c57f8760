"""The node: a broker that authorized users can stop and start again in one process."""

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.node_kit import config_at

from arneb.clustered import member
from arneb.control.serving import NotPossible
from arneb.listening.listeners import Listeners
from arneb.node.node import MOVES, Node, NodeState, listens
from arneb.runtime.service_manager import ServiceManager
from arneb.settings.cluster import ClusterInternalTable, ClusterPulsarTable
from arneb.settings.config import Config
from arneb.settings.process import StopTable
from arneb.store import opening
from arneb_core.api.errors import StoreLocked
from arneb_core.store.environment import Store


@asynccontextmanager
async def running(config: Config, announced: list[str] | None = None) -> AsyncIterator[Node]:
    """A node whose broker runs."""
    manager = ServiceManager(
        None if announced is None else lambda each: announced.append(each.decode())
    )
    node = Node(config, lambda line: None, manager)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.run, await Listeners.bind(listens(config)))
        await node.start_app()
        yield node
        await node.leave()


async def test_a_broker_is_stopped_and_started_on_the_same_ports(tmp_path: Path) -> None:
    async with running(config_at(tmp_path, amqp="127.0.0.1:0", http="127.0.0.1:0")) as node:
        assert node.shared is not None
        before = node.shared.addresses
        await node.stop_app()
        assert (node.state, node.api, node.is_ready) == (NodeState.STOPPED, None, False)
        with pytest.raises(OSError):
            await trio.open_tcp_stream("127.0.0.1", before["amqp"][0].port)
        Store.open(tmp_path / "data").close()  # nobody has it open
        await node.start_app()
        assert node.is_ready
        assert node.shared is not None
        assert node.shared.addresses == before
        await (await trio.open_tcp_stream("127.0.0.1", before["amqp"][0].port)).aclose()


async def test_a_node_that_follows_collects_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may never lead, and so never reach the schedule of a broker."""
    seen = []

    async def follow(*_: object) -> None:
        seen.append(gc.isenabled())

    monkeypatch.setattr(member, "serve_member", follow)
    config = config_at(tmp_path)
    there = ClusterPulsarTable(url="pulsar://127.0.0.1:1", admin_url="http://127.0.0.1:1")
    inside = ClusterInternalTable(secret_file=tmp_path / "secret")
    cluster = replace(config.cluster, node="n1", pulsar=there, internal=inside)
    node = Node(replace(config, cluster=cluster), lambda line: None)
    await node._serve(await Listeners.bind({}))
    assert seen == [True]


async def test_nothing_is_collected_while_a_node_opens_an_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @asynccontextmanager
    async def opens(*_: object, **options: object) -> AsyncIterator[None]:
        seen.append((gc.isenabled(), options))
        yield

    monkeypatch.setattr(opening, "opener", lambda _: opens)
    async with opening.taking_over(config_at(tmp_path))(tmp_path, lease=None):
        assert gc.isenabled()
    assert seen == [(False, {"lease": None})]


async def test_stopping_or_starting_twice_does_it_once(tmp_path: Path) -> None:
    async with running(config_at(tmp_path)) as node:
        await node.start_app()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(node.stop_app)
        await node.stop_app()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(node.start_app)
        assert node.is_ready


async def test_a_start_that_fails_says_why_and_can_be_tried_again(tmp_path: Path) -> None:
    async with running(config_at(tmp_path)) as node:
        await node.stop_app()
        store = Store.open(tmp_path / "data")
        try:
            with pytest.raises(NotPossible, match="in use by another broker"):
                await node.start_app()
            assert node.state is NodeState.STOPPED
        finally:
            store.close()
        await node.start_app()
        assert node.is_ready


async def test_a_port_that_was_taken_meanwhile_does_not_end_the_node(tmp_path: Path) -> None:
    async with running(config_at(tmp_path, http="127.0.0.1:0")) as node:
        assert node.shared is not None
        port = node.shared.addresses["http"][0].port
        await node.stop_app()
        [taken] = await trio.open_tcp_listeners(port, host="127.0.0.1")
        with pytest.raises(NotPossible, match="cannot listen for http"):
            await node.start_app()
        await taken.aclose()
        await node.start_app()
        assert node.is_ready


async def test_only_a_stopped_broker_is_reset(tmp_path: Path) -> None:
    async with running(config_at(tmp_path, amqp="127.0.0.1:0")) as node:
        assert node.shared is not None
        async with node.shared.catalogue.changing() as edit:
            edit.put_vhost("v")
        with pytest.raises(NotPossible, match="stop_app"):
            await node.reset()
        assert node.shared.catalogue.vhost("v") is not None
        await node.stop_app()
        await node.reset()
        await node.start_app()
        assert node.shared is not None
        assert node.shared.catalogue.vhost("v") is None


async def test_a_first_start_that_fails_is_an_error(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    try:
        with pytest.raises(StoreLocked):
            await Node(config_at(tmp_path), lambda line: None).run(Listeners())
    finally:
        store.close()


async def test_a_drain_is_announced_before_any_connection_is_closed(
    tmp_path: Path,
) -> None:
    config = replace(config_at(tmp_path), stop=StopTable(unready_s=30.0))
    announced: list[str] = []
    async with running(config, announced) as node, trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(node.leave)
        await trio.sleep_until(began + 29)
        assert (node.state, node.is_ready) == (NodeState.DRAINING, False)
        assert node.api is not None
        await trio.sleep_until(began + 31)
        assert node.state.value == "leaving"
    states = ["STATUS=running", "READY=1", "STOPPING=1", "STATUS=draining", "STATUS=leaving"]
    assert announced == states


async def test_the_settings_of_new_connections_can_be_changed(tmp_path: Path) -> None:
    async with running(config_at(tmp_path, amqp="127.0.0.1:0")) as node:
        assert node.shared is not None
        assert node.shared.authority is not None
        assert node.shared.amqp.is_loopback_only("guest")
        await node.adjust({"channel_max": 7, "loopback_users": [], "consumer_timeout_s": 1.5})
        assert node.shared.amqp.now.consumer_timeout_s == 1.5
        assert node.shared.amqp.now.channel_max == 7
        assert not node.shared.amqp.is_loopback_only("guest")
        for wrong in (
            {"channel_max": "7"},
            {"heartbeat": 1},
            {"log_level": "loud"},
            {"consumer_timeout_s": -1},
            {"loopback_users": "guest"},
            {"channel_max": None},
            {"channel_max": 65_536},
        ):
            with pytest.raises(NotPossible):
                await node.adjust(wrong)
        await node.stop_app()
        with pytest.raises(NotPossible):
            await node.adjust({"channel_max": 7})
        await node.start_app()
        assert node.shared.amqp.now.channel_max == 2047


@given(st.lists(st.sampled_from(NodeState)))
def test_a_node_that_leaves_does_nothing_more(path: list[NodeState]) -> None:
    """Over the table: it can leave from every state, and nothing follows from leaving."""
    state = NodeState.STARTING
    for wanted in path:
        if wanted in MOVES[state]:
            state = wanted
    seen, last = {state}, -1
    while len(seen) != last:
        last = len(seen)
        seen |= {each for one in seen for each in MOVES[one]}
    assert NodeState.LEAVING in seen
    assert not MOVES[NodeState.LEAVING]
