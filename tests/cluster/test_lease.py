"""A leader whose log does not answer delivers nothing, answers nothing, and continues when it may;
a superseded leader never does."""

import queue
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from pika.exceptions import ProbableAccessDeniedError
from tests.cluster.member_kit import Cluster, OneNode, blocking, cluster_of, until
from tests.cluster.test_member import publish

pytestmark = pytest.mark.real_time


class Client:
    """One AMQP client with its own thread: it consumes, and can be asked to publish or get."""

    def __init__(self, node: OneNode) -> None:
        self.got: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.notices: list[str] = []
        self.is_connected = Event()
        self._node = node
        self._wanted: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def ask(self, what: str, body: bytes = b"") -> None:
        self._wanted.put((what, body))

    def _run(self) -> None:
        try:
            connection = self._node.connect()
            connection.add_on_connection_blocked_callback(lambda *_: self.notices.append("blocked"))
            connection.add_on_connection_unblocked_callback(
                lambda *_: self.notices.append("unblocked")
            )
            channel = connection.channel()
            channel.confirm_delivery()
            self.is_connected.set()
            while True:
                connection.process_data_events(0.02)
                if self._wanted.empty():
                    continue
                what, body = self._wanted.get()
                if what == "end":
                    break
                if what == "get":
                    self.got.put((what, channel.basic_get("orders", auto_ack=True)[2]))
                else:
                    channel.basic_publish("", "orders", body)
                    self.got.put((what, body))
            connection.close()
        except Exception as error:
            self.got.put(("lost", error))

    def close(self) -> None:
        self.ask("end")
        self._thread.join(20)
        assert not self._thread.is_alive()


async def until_silent(leader: OneNode, cluster: Cluster) -> None:
    """Pulsar answers nobody, and the leader's lease has ended."""
    cluster.service.broker.is_down = True
    cluster.service.broker.cut()
    assert leader.node is not None
    assert leader.node.shared is not None
    lease = leader.node.shared.core.lease
    await until(lambda: not lease.holds)


async def test_without_an_answering_log_nothing_is_answered_and_http_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 1) as cluster, httpx.AsyncClient(
        timeout=20
    ) as http:  # fmt: skip
        leader = await cluster.leader()
        await blocking(publish, leader, b"a")
        getter, publisher = Client(leader), Client(leader)
        # Both are there before the log falls silent: only they are told that it did.
        assert await blocking(getter.is_connected.wait, 20)
        publisher.ask("publish", b"b")
        assert await blocking(publisher.got.get, True, 20) == ("publish", b"b")
        await until_silent(leader, cluster)
        getter.ask("get")
        publisher.ask("publish", b"c")
        guest = ("guest", "guest")
        answer = await http.get(leader.url("/api/queues"), auth=guest)
        assert answer.status_code == 503
        assert "does not answer" in answer.json()["reason"]
        for path in ("/healthz", "/metrics"):
            assert (await http.get(leader.url(path), auth=guest)).status_code == 200
        with pytest.raises(ProbableAccessDeniedError, match="320.*does not answer"):
            await blocking(leader.connect)
        assert getter.got.empty()
        assert publisher.got.empty()
        cluster.service.broker.is_down = False
        assert await blocking(getter.got.get, True, 20) == ("get", b"a")
        assert await blocking(publisher.got.get, True, 20) == ("publish", b"c")
        clients = (getter, publisher)
        await until(lambda: all(each.notices[-1:] == ["unblocked"] for each in clients))
        for each in clients:
            # On a busy machine it may fall silent again.
            assert each.notices == ["blocked", "unblocked"] * (len(each.notices) // 2)
            await blocking(each.close)


async def test_a_superseded_leader_closes_its_clients_without_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await blocking(publish, leader, b"a")
        client = Client(leader)
        client.ask("get")
        assert await blocking(client.got.get, True, 20) == ("get", b"a")
        assert leader.node is not None
        assert leader.node.shared is not None
        lease = leader.node.shared.core.lease
        broker, topic = cluster.service.broker, "persistent://public/arneb/main"
        # Another producer has expelled the leader's, as a candidate's does.
        for each in list(broker.topic(topic).producers):
            each.ended()
        broker.topic(topic).epoch += 1
        await until(lambda: not lease.holds)
        client.ask("get")
        what, _ = await blocking(client.got.get, True, 20)
        assert what == "lost"
        await cluster.leader()
        assert other.node is not None
