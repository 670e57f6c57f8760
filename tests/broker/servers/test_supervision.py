"""A whole broker in which every await of every background task raises once, and which continues to
serve."""

import signal
import urllib.request
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pika
import pytest
import trio
from tests.pulsar_frontend.raw_client import RawClient

from arneb.node import process
from arneb.servers.shared import Shared
from arneb.settings.config import load_config
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.process import supervision
from arneb_core.api.process.supervision import BackOff
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.engine.scheduling import maintenance
from arneb_core.testing.awaits import FaultyAwaits
from arneb_core.testing.engine_kit import append
from arneb_pulsar.services.operations import policy_enforcer
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandConnect, CommandConnected

TASKS = {
    "the dispatch pump",
    "the flush of cursors",
    "the takeover of the journal",
    "the retry of failed reads",
    "the alarm clock",
    "the look for what is stale",
    "the making of room",
    "the AMQP flusher",
    "AMQP timers",
    "AMQP queue maintenance",
    "the check of backlog quotas",
    "the check for idle topics",
    "the check for topics to compact",
    "compaction",
    "the memory and disk alarms",
    "the signal handler",
    "accepting connections",
}
"""What every broker does in the background; there may be more."""

AT_THE_START = {"retention after a start"}
"""Finished before there is a topic here, so it waits for nothing that could fail."""

WITHIN_S = 20.0
ROUNDS_QUIET = 6
"""After so many rounds in a row without an await that has not failed yet, the test ends."""

CONFIG = """
[amqp]
listen = "127.0.0.1:0"
[pulsar]
listen = "127.0.0.1:0"
inactive_check_s = 0.05
inactive_topic_s = 60
backlog_quota_check_s = 0.05
[http]
listen = "127.0.0.1:0"
[http_pulsar]
listen = "127.0.0.1:0"
[alarms]
check_interval_s = 0.05
"""


class Signals(AsyncIterator[int]):
    """Sends SIGTERM when the test has seen enough."""

    def __init__(self) -> None:
        self.come = trio.Event()

    async def __anext__(self) -> int:
        await self.come.wait()
        return signal.SIGTERM


class Running:
    """A running broker."""

    def __init__(self, ports: dict[str, int], shared: Shared) -> None:
        self.ports = ports
        self.shared = shared
        self._numbers = count()

    def amqp(self) -> None:
        """Publish, consume and acknowledge over AMQP; leave things that are deleted by
        themselves."""
        parameters = pika.ConnectionParameters(
            "127.0.0.1", self.ports["amqp"], heartbeat=1, blocked_connection_timeout=10,
            socket_timeout=5,
        )  # fmt: skip
        connection = pika.BlockingConnection(parameters)
        channel = connection.channel()
        number = next(self._numbers)
        expires = {"x-expires": 20}
        channel.queue_declare(f"goes {number}", durable=True, arguments=expires)
        channel.exchange_declare(
            f"keeps {number}",
            "x-delayed-message",
            durable=True,
            arguments={"x-delayed-type": "fanout"},
        )
        channel.exchange_delete(f"keeps {number}")
        channel.queue_declare("canary", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "canary", b"%d" % number)
        method, _, body = channel.basic_get("canary")
        assert method is not None
        channel.basic_ack(method.delivery_tag)
        while body != b"%d" % number:  # from a round that was interrupted
            method, _, body = channel.basic_get("canary")
            assert method is not None
            channel.basic_ack(method.delivery_tag)
        connection.close()

    async def pulsar(self) -> None:
        """Connect over Pulsar's protocol."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.ports["pulsar"])
        async with stream:
            client = RawClient(stream)
            await client.send(CommandConnect(client_version="test", protocol_version=19))
            await client.expect(CommandConnected)

    def http(self) -> None:
        """Request something from both HTTP ports."""
        for port, path in (("http", "/healthz"), ("http-pulsar", "/admin/v2/clusters")):
            url = f"http://127.0.0.1:{self.ports[port]}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.status == 200

    async def core(self) -> None:
        """Give the core's tasks something to do."""
        engine = self.shared.core
        name = f"persistent://public/default/t{next(self._numbers)}"
        topic = await engine.create_topic(name)
        await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        for _ in range(20):  # one after the other, so that they go to the journal
            await append(engine, name, [EntryHeader(Origin.AMQP).pack() + b"x"])
        engine._maintenance.try_again(topic.subscriptions["s"])  # type: ignore[arg-type]
        engine._maintenance.room_is_short = True
        engine.wake_at(topic.subscriptions["s"], 1)  # type: ignore[arg-type]
        self.shared.pulsar.context.compactor.want(topic)

    async def serves(self) -> None:
        """All ports serve."""
        await trio.to_thread.run_sync(self.amqp)
        await self.pulsar()
        await trio.to_thread.run_sync(self.http)
        await self.core()


@pytest.mark.real_time
async def test_every_await_of_every_background_task_may_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR")
    file = tmp_path / "arneb.toml"
    file.write_text(CONFIG)
    awaits = FaultyAwaits()
    monkeypatch.setattr(supervision, "attempt", awaits.attempt)
    monkeypatch.setattr(supervision, "BackOff", lambda *seconds: BackOff(0.001, 0.02))
    for module, name in (
        (maintenance, "STALE_CHECK_INTERVAL_S"),
        (maintenance, "SHORT_OF_ROOM_S"),
        (maintenance, "READ_RETRY_S"),
        (maintenance, "ALARM_WAIT_S_MAX"),
        (policy_enforcer, "COMPACTION_CHECK_S"),
    ):
        monkeypatch.setattr(module, name, 0.05)
    monkeypatch.setattr(process, "break_off_after", lambda seconds, say: None)
    monkeypatch.setattr(process.signal, "signal", lambda *args: None)  # type: ignore[attr-defined]
    shared: list[Shared] = []
    keep = Shared.__init__

    def made(self: Shared, *args: Any) -> None:
        keep(self, *args)
        shared.append(self)

    monkeypatch.setattr(Shared, "__init__", made)
    lines: list[str] = []
    signals = Signals()
    config = load_config(file, data_dir=tmp_path / "data")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.run_watched, config, lines.append, signals)
        with trio.move_on_after(WITHIN_S):
            while sum("ready on" in line for line in lines) < 4:
                await trio.lowlevel.checkpoint()
            ports = {
                line.partition(" ")[0]: int(line.rpartition(":")[2])
                for line in lines
                if "ready on" in line
            }
            running = Running(ports, shared[0])
            quiet_rounds = 0
            while quiet_rounds < ROUNDS_QUIET or awaits.outstanding:
                before = len(awaits.failed)
                # While tasks fail, clients may have to reconnect.
                with suppress(Exception), trio.move_on_after(10):
                    await running.serves()
                quiet_rounds = quiet_rounds + 1 if len(awaits.failed) == before else 0
        assert not awaits.outstanding, awaits.runs
        await running.serves()
        signals.come.set()
    assert lines[-1] == "stopped"
    assert set(awaits.runs) >= TASKS
    assert {name for name, _ in awaits.failed} == set(awaits.runs) - AT_THE_START
