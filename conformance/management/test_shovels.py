"""Shovels: the same parameter has the same effect on both brokers, and is shown and refused
alike."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pika
import pytest
from conformance.brokers.certificates import make_certificate
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.management.conftest import Managed

WITHIN_S: Final = 30.0

VARYING: Final = frozenset({"node", "timestamp", "vhost"})
"""Fields of a status of which only the type is compared."""


class Bench:
    """One broker, with a vhost for one test."""

    def __init__(self, broker: Managed, vhost: str) -> None:
        self.broker = broker
        self.vhost = vhost
        self.network = f"amqp://guest:guest@{broker.amqp}/{quote(vhost, safe='')}"
        broker.api.call("PUT", f"vhosts/{vhost}", {})
        broker.api.call(
            "PUT", f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"}
        )
        parameters = pika.ConnectionParameters(broker.amqp.host, broker.amqp.port, vhost)
        self.connection = pika.BlockingConnection(parameters)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def close(self) -> None:
        self.connection.close()
        self.broker.api.call("DELETE", f"vhosts/{self.vhost}")

    def set(self, value: dict[str, Any], name: str = "s") -> Any:
        path = f"parameters/shovel/{self.vhost}/{name}"
        return self.broker.api.call("PUT", path, {"value": value})

    def statuses(self) -> list[dict[str, Any]]:
        return list(self.broker.api.call("GET", f"shovels/{self.vhost}").json)

    def running(self) -> dict[str, Any]:
        def state() -> Any:
            [*rows] = self.statuses()
            return rows[0] if rows and rows[0]["state"] == "running" else None

        status = eventually(state)
        # RabbitMQ has this field since 3.12
        assert status.pop("blocked_status", "running") == "running"
        return {
            name: type(value).__name__ if name in VARYING else str(value).replace(
                str(self.broker.amqp), "HOST:PORT").replace(self.vhost, "VHOST")
            for name, value in status.items()
        }  # fmt: skip

    def fill(self, queue: str, count: int) -> None:
        self.channel.queue_declare(queue, durable=True)
        for number in range(count):
            properties = pika.BasicProperties(
                headers={"n": number}, content_type="a/b", delivery_mode=2, message_id=str(number)
            )
            self.channel.basic_publish("", queue, b"%d" % number, properties)

    def taken(self, queue: str, count: int) -> list[Any]:
        """The messages that arrive in a queue, in order."""
        found: list[Any] = []

        def take() -> bool:
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            while method is not None:
                found.append((method.exchange, method.routing_key, body, evened(self, properties)))
                method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            return len(found) >= count

        eventually(take)
        assert len(found) == count
        return found

    def gone(self) -> bool:
        parameters = self.broker.api.call("GET", f"parameters/shovel/{self.vhost}").json
        return not parameters and not self.statuses()


def evened(bench: Bench, properties: Any) -> dict[str, Any]:
    shown = {name: value for name, value in vars(properties).items() if value is not None}
    headers = dict(shown.get("headers") or {})
    if "x-shovelled-timestamp" in headers:
        headers["x-shovelled-timestamp"] = type(headers["x-shovelled-timestamp"]).__name__
    for each in headers.get("x-shovelled", ()):
        each["shovelled-by"] = "CLUSTER"
        for name in ("src-uri", "dest-uri", "shovel-vhost"):
            value = each[name].replace(str(bench.broker.amqp), "HOST:PORT")
            each[name] = value.replace(bench.vhost, "VHOST")
    return {**shown, "headers": headers}


def eventually(what: Callable[[], Any]) -> Any:
    end = time.monotonic() + WITHIN_S
    while not (found := what()):
        assert time.monotonic() < end, f"{what} did not come about in {WITHIN_S} s"
        time.sleep(0.1)
    return found


@pytest.fixture
def benches(
    pair: tuple[Managed, Managed], request: pytest.FixtureRequest
) -> Iterator[tuple[Bench, Bench]]:
    vhost = f"shovels-{abs(hash(request.node.name)) % 10**6}"
    made = [Bench(each, vhost) for each in pair]
    yield made[0], made[1]
    for each in made:
        each.close()


def both(benches: tuple[Bench, Bench], what: Callable[[Bench], Any]) -> Any:
    """The outcome, which must be the same on both brokers."""
    ours, theirs = (what(each) for each in benches)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
@pytest.mark.parametrize("way", ["local", "network"])
def test_a_queue_is_moved_and_the_status_says_so(
    benches: tuple[Bench, Bench], way: str, ack_mode: str
) -> None:
    def play(bench: Bench) -> Any:
        bench.fill("from", 20)
        uri = f"amqp:///{bench.vhost}" if way == "local" else bench.network
        value = {
            "src-uri": uri, "src-queue": "from", "src-prefetch-count": 7, "ack-mode": ack_mode,
            "dest-uri": [uri], "dest-queue": "to", "src-protocol": "amqp091",
        }  # fmt: skip
        assert bench.set(value).status == 201
        status = bench.running()
        moved = bench.taken("to", 20)
        eventually(lambda: queue_length(bench, "from") == 0)
        assert bench.set(value).status == 204
        bench.broker.api.call("DELETE", f"parameters/shovel/{bench.vhost}/s")
        eventually(bench.gone)
        return status, moved

    status, _ = both(benches, play)
    assert status["state"] == "running"
    assert "guest" not in status["src_uri"] + status["dest_uri"]


def queue_length(bench: Bench, queue: str) -> int:
    return int(bench.channel.queue_declare(queue, passive=True).method.message_count)


def test_headers_say_which_way_a_message_came(benches: tuple[Bench, Bench]) -> None:
    def play(bench: Bench) -> Any:
        bench.fill("from", 1)
        uri = f"amqp:///{bench.vhost}"
        value = {
            "src-uri": uri, "src-queue": "from", "dest-uri": uri, "dest-exchange": "amq.direct",
            "dest-exchange-key": "k", "dest-add-forward-headers": True,
            "dest-add-timestamp-header": True,
            "dest-publish-properties": {"priority": 3, "content_type": "c/d"},
        }  # fmt: skip
        bench.channel.queue_declare("bound")
        bench.channel.queue_bind("bound", "amq.direct", "k")
        bench.set(value)
        return bench.running(), bench.taken("bound", 1)

    _, [(exchange, key, _, properties)] = both(benches, play)
    assert (exchange, key, properties["priority"]) == ("amq.direct", "k", 3)
    assert properties["headers"]["x-shovelled"][0]["shovel-name"] == "s"


def test_an_exchange_is_taken_from_and_keys_stay(benches: tuple[Bench, Bench]) -> None:
    def play(bench: Bench) -> Any:
        bench.channel.exchange_declare("in", "topic")
        bench.channel.exchange_declare("out", "topic")
        bench.channel.queue_declare("seen")
        bench.channel.queue_bind("seen", "out", "#")
        uri = f"amqp:///{bench.vhost}"
        bench.set(
            {"src-uri": uri, "src-exchange": "in", "src-exchange-key": "a.*", "dest-uri": uri,
             "dest-exchange": "out"}
        )  # fmt: skip
        status = bench.running()
        bench.channel.basic_publish("in", "a.b", b"1")
        bench.channel.basic_publish("in", "b.b", b"2")
        bench.channel.basic_publish("in", "a.c", b"3")
        return status, bench.taken("seen", 2)

    _, moved = both(benches, play)
    assert [(key, body) for _, key, body, _ in moved] == [("a.b", b"1"), ("a.c", b"3")]


@pytest.mark.parametrize("after", ["queue-length", 5, 0])
def test_a_shovel_that_is_done_goes_with_its_parameter(
    benches: tuple[Bench, Bench], after: str | int
) -> None:
    def play(bench: Bench) -> Any:
        bench.fill("from", 10)
        uri = f"amqp:///{bench.vhost}"
        bench.set(
            {"src-uri": uri, "src-queue": "from", "dest-uri": uri, "dest-queue": "to",
             "src-delete-after": after}
        )  # fmt: skip
        eventually(bench.gone)
        bench.channel.queue_declare("to", durable=True)
        moved = queue_length(bench, "to")
        return moved, queue_length(bench, "from")

    moved, left = both(benches, play)
    assert moved + left == 10


def test_a_destination_that_is_not_there_is_tried_again(benches: tuple[Bench, Bench]) -> None:
    def play(bench: Bench) -> Any:
        bench.fill("from", 3)
        uri = bench.network
        bench.set(
            {"src-uri": uri, "src-queue": "from", "dest-uri": uri, "dest-exchange": "later",
             "reconnect-delay": 1}
        )  # fmt: skip
        time.sleep(3)  # long enough for several attempts
        bench.channel.exchange_declare("later", "fanout")
        bench.channel.queue_declare("arrived")
        bench.channel.queue_bind("arrived", "later", "")
        eventually(lambda: queue_length(bench, "arrived") + queue_length(bench, "from") == 3)
        bench.running()
        return [body for _, _, body, _ in bench.taken("arrived", queue_length(bench, "arrived"))]

    ours = play(benches[0])
    assert ours == [b"0", b"1", b"2"]  # RabbitMQ loses messages that are not routed to any queue


GOOD: Final = {"src-uri": "amqp://", "src-queue": "q", "dest-uri": "amqp://", "dest-queue": "r"}


@pytest.mark.parametrize(
    "changed",
    [
        {"src-uri": None}, {"dest-uri": None}, {"src-queue": None}, {"src-exchange": "x"},
        {"dest-exchange": "x"}, {"dest-queue": None}, {"ack-mode": "sometimes"},
        {"ack-mode": "no-ack", "src-delete-after": 5}, {"src-delete-after": "soon"},
        {"src-delete-after": -1}, {"src-prefetch-count": "many"}, {"reconnect-delay": "soon"},
        {"unknown-key": 1}, {"src-uri": "http://h"}, {"src-uri": 5},
        {"dest-add-forward-headers": "yes"}, {"dest-add-timestamp-header": 1},
        {"dest-publish-properties": "x"}, {"src-queue": 5}, {"dest-exchange-key": "k"},
        {"src-protocol": "amqp091"}, {"reconnect-delay": 0}, {"src-prefetch-count": 1},
        {"src-exchange-key": "k"}, {"prefetch-count": 5, "delete-after": "never"},
        {"add-forward-headers": True, "add-timestamp-header": True},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_taken_and_what_is_refused(
    benches: tuple[Bench, Bench], changed: dict[str, Any]
) -> None:
    value = {name: each for name, each in {**GOOD, **changed}.items() if each is not None}

    def play(bench: Bench) -> Any:
        answer = bench.set(value)
        bench.broker.api.call("DELETE", f"parameters/shovel/{bench.vhost}/s")
        return answer.status, answer.json and answer.json["error"]

    both(benches, play)


def test_amqp_1_0_is_refused_with_a_sentence(benches: tuple[Bench, Bench]) -> None:
    value = {"src-uri": "amqp://", "src-protocol": "amqp10", "src-address": "a", **GOOD}
    answer = benches[0].set(value)
    assert answer.status == 400
    assert "AMQP 1.0 is not spoken here; amqp091 is" in answer.json["reason"]


def test_a_broker_is_reached_by_tls_and_its_certificate_is_checked(
    pair: tuple[Managed, Managed], tmp_path: Path
) -> None:
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    make_certificate(certificates, "server", make_certificate(certificates, "root"))
    there = RabbitMQ(tmp_path / "there", certificates).start()
    try:
        ours = Bench(pair[0], "by-tls")
        try:
            ours.fill("from", 5)
            address = there.amqps_address
            base = f"amqps://guest:guest@127.0.0.1:{address.port}/%2F"
            files = (
                f"cacertfile={certificates}/root.crt&certfile={certificates}/server.crt"
                f"&keyfile={certificates}/server.key"
            )
            more = "&heartbeat=3&connection_timeout=20000&auth_mechanism=plain"
            value = {**GOOD, "src-uri": "amqp:///by-tls", "src-queue": "from", "reconnect-delay": 1}
            wrong = f"{base}?{files}&verify=verify_peer&server_name_indication=elsewhere.example"
            ours.set({**value, "dest-uri": wrong})
            [status] = eventually(
                lambda: [each for each in ours.statuses() if each["state"] == "terminated"]
            )
            assert "certificate" in status["reason"].lower()
            ours.set({**value, "dest-uri": f"{base}?{files}&verify=verify_peer{more}"})
            parameters = pika.ConnectionParameters(there.address.host, there.address.port)
            with pika.BlockingConnection(parameters) as connection:
                channel = connection.channel()
                channel.queue_declare("r", durable=True)

                def length() -> int:
                    declared = channel.queue_declare("r", passive=True)
                    return int(declared.method.message_count)

                eventually(lambda: length() == 5)
        finally:
            ours.close()
    finally:
        there.stop()
