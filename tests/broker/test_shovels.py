"""Shovels between real brokers: created over HTTP, seen by a client, and killed halfway through."""

import http.client
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from conformance.brokers.arneb import Arneb
from conformance.brokers.process import free_port

WITHIN_S = 60.0


class Place:
    """A broker, a client and its API."""

    def __init__(self, directory: Path) -> None:
        self.broker = Arneb(
            directory, listeners=("amqp", "http"), ports={"amqp": free_port(), "http": free_port()}
        )
        self.broker.start()
        self._connection: Any = None

    @property
    def uri(self) -> str:
        return f"amqp://guest:guest@{self.broker.address}"

    @property
    def channel(self) -> Any:
        """A channel in confirm mode, on a connection that is renewed when needed."""
        if self._connection is None or not self._connection.is_open:
            self._connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
            self._channel = self._connection.channel()
            self._channel.confirm_delivery()
        if not self._channel.is_open:
            self._channel = self._connection.channel()
            self._channel.confirm_delivery()
        return self._channel

    def queue(self, name: str, **arguments: Any) -> str:
        self.channel.queue_declare(name, durable=True, arguments=arguments)
        return name

    def publish(self, queue: str, *bodies: bytes, exchange: str = "", **properties: Any) -> None:
        channel = self.channel
        for body in bodies:
            channel.basic_publish(
                exchange, queue, body, pika.BasicProperties(delivery_mode=2, **properties)
            )

    def messages(self, queue: str) -> int:
        """How many of them are delivered and unacknowledged."""
        count: int = self.call("GET", f"queues/%2F/{queue}")[1]["messages"]
        return count

    def ready(self, queue: str) -> int:
        count: int = self.channel.queue_declare(queue, passive=True).method.message_count
        return count

    def drained(self, queue: str) -> list[tuple[Any, bytes]]:
        got = []
        while True:
            method, properties, body = self.channel.basic_get(queue, auto_ack=True)
            if method is None:
                return got
            got.append((properties, body))

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        address = self.broker.http_address
        connection = http.client.HTTPConnection(address.host, address.port, timeout=30)
        proof = "Basic " + b64encode(b"guest:guest").decode()
        headers = {"authorization": proof, "content-type": "application/json"}
        try:
            connection.request(method, f"/api/{path}", json.dumps(body), headers)
            got = connection.getresponse()
            data = got.read()
            return got.status, json.loads(data) if data else None
        finally:
            connection.close()

    def shovel(self, name: str = "s", **value: Any) -> int:
        value = {key.replace("_", "-"): each for key, each in value.items()}
        return self.call("PUT", f"parameters/shovel/%2F/{name}", {"value": value})[0]

    def drop(self, name: str = "s") -> int:
        return self.call("DELETE", f"parameters/shovel/%2F/{name}")[0]

    def state(self, name: str = "s") -> str:
        for each in self.call("GET", "shovels/%2F")[1]:
            if each["name"] == name:
                return str(each["state"])
        return "gone"

    def kill(self) -> None:
        self._leave()
        self.broker.kill()
        self.broker.start()

    def end(self) -> None:
        self._leave()
        self.broker.kill()

    def _leave(self) -> None:
        if self._connection is not None and self._connection.is_open:
            self._connection.close()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    here = Place(tmp_path_factory.mktemp("here"))
    try:
        there = Place(tmp_path_factory.mktemp("there"))
        try:
            yield here, there
        finally:
            there.end()
    finally:
        here.end()


@contextmanager
def a_shovel(place: Place, **value: Any) -> Iterator[None]:
    assert place.shovel(**value) in (201, 204)
    try:
        yield
    finally:
        place.drop()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < end, "the state was not reached in time"
        time.sleep(0.05)


def bodies(got: list[tuple[Any, bytes]]) -> list[bytes]:
    return [body for _, body in got]


SOME = [b"%d" % number for number in range(1200)]


@pytest.mark.parametrize("mode", ["on-confirm", "on-publish", "no-ack"])
@pytest.mark.parametrize("ends", ["inside", "out", "in", "through"])
def test_what_enters_at_one_end_arrives_at_the_other(
    places: tuple[Place, Place], mode: str, ends: str
) -> None:
    here, there = places
    source = there if ends in ("in", "through") else here
    target = there if ends in ("out", "through") else here
    name = f"{ends}-{mode}"
    source.queue(f"{name}-from")
    source.publish(f"{name}-from", *SOME, content_type="text/x", headers={"a": 1})
    uris = {
        "src_uri": "amqp://" if source is here else there.uri,
        "dest_uri": "amqp://" if target is here else there.uri,
    }
    with a_shovel(
        here, **uris, src_queue=f"{name}-from", dest_queue=f"{name}-to", ack_mode=mode,
        src_prefetch_count=300,
    ):  # fmt: skip
        until(lambda: here.state() == "running")
        until(lambda: target.ready(f"{name}-to") == len(SOME))
        source.publish(f"{name}-from", b"later")
        until(lambda: target.ready(f"{name}-to") == len(SOME) + 1)
        (status,) = here.call("GET", "shovels/%2F")[1]
        assert status["src_queue"], status["dest_queue"] == (f"{name}-from", f"{name}-to")
        assert "guest" not in json.dumps([status["src_uri"], status["dest_uri"]])
    got = target.drained(f"{name}-to")
    assert bodies(got) == [*SOME, b"later"]
    assert (got[0][0].content_type, got[0][0].headers) == ("text/x", {"a": 1})
    until(lambda: source.ready(f"{name}-from") == 0)


def test_it_is_deleted_when_it_has_moved_what_was_there(places: tuple[Place, Place]) -> None:
    here, there = places
    here.queue("dead")
    here.publish("dead", *SOME[:30])
    moves = {
        "src_uri": "amqp://",
        "dest_uri": there.uri,
        "src_queue": "dead",
        "dest_queue": "alive",
    }
    assert here.shovel(**moves, src_delete_after="queue-length") == 201
    until(lambda: here.call("GET", "parameters/shovel/%2F/s")[0] == 404)
    until(lambda: here.state() == "gone")
    assert bodies(there.drained("alive")) == SOME[:30]
    here.publish("dead", *SOME[:30])
    assert here.shovel(**moves, src_delete_after=7) == 201
    until(lambda: here.state() == "gone")
    assert (there.ready("alive"), here.ready("dead")) == (7, 23)


def test_it_moves_as_many_as_requested_and_no_more(places: tuple[Place, Place]) -> None:
    here, there = places
    here.queue("many")
    here.publish("many", *SOME[:10])
    moves = {"src_uri": "amqp://", "src_queue": "many", "dest_uri": there.uri, "dest_queue": "few"}
    assert here.shovel(**moves, src_delete_after=4) == 201
    until(lambda: here.state() == "gone")
    assert bodies(there.drained("few")) == SOME[:4]
    until(lambda: here.ready("many") == 6)


def test_an_exchange_can_be_a_source_and_a_destination(places: tuple[Place, Place]) -> None:
    here, there = places
    there.queue("all")
    there.channel.queue_bind("all", "amq.topic", "#")
    moves = {
        "src_uri": "amqp://", "src_exchange": "amq.direct", "src_exchange_key": "k",
        "dest_uri": there.uri, "dest_exchange": "amq.topic",
        "dest_add_forward_headers": True, "dest_add_timestamp_header": True,
        "dest_publish_properties": {"app_id": "moved"},
    }  # fmt: skip
    with a_shovel(here, **moves):
        until(lambda: here.state() == "running")
        here.publish("k", b"one", exchange="amq.direct")
        here.publish("other", b"two", exchange="amq.direct")
        until(lambda: there.ready("all") == 1)
    ((properties, body),) = there.drained("all")
    assert (body, properties.app_id) == (b"one", "moved")
    (hop,) = properties.headers["x-shovelled"]
    assert hop["shovel-name"] == "s"
    assert (hop["src-exchange"], hop["dest-exchange"]) == ("amq.direct", "amq.topic")
    assert "guest" not in hop["dest-uri"]
    assert properties.headers["x-shovelled-timestamp"] > 1_000_000


def test_what_a_full_queue_refuses_stays_where_it_was(places: tuple[Place, Place]) -> None:
    here, there = places
    for place in places:
        place.queue("full", **{"x-max-length": 3, "x-overflow": "reject-publish"})
        here.queue("patient")
        here.publish("patient", *SOME[:8])
        uri = "amqp://" if place is here else there.uri
        with a_shovel(
            here, src_uri="amqp://", dest_uri=uri, src_queue="patient", dest_queue="full"
        ):
            until(lambda place=place: place.ready("full") == 3)
            taken = bodies(place.drained("full"))
            until(lambda place=place: place.ready("full") == 3)
            taken += bodies(place.drained("full"))
            until(lambda place=place: place.ready("full") == 2)
            taken += bodies(place.drained("full"))
        assert sorted(taken) == SOME[:8]
        assert here.ready("patient") == 0


def test_it_continues_when_what_it_needs_exists_again(places: tuple[Place, Place]) -> None:
    here, there = places
    here.queue("waits")
    here.publish("waits", b"a")
    moves = {"src_uri": "amqp://", "dest_uri": there.uri, "src_queue": "waits"}
    with a_shovel(here, **moves, dest_exchange="missing", dest_exchange_key="k", reconnect_delay=1):
        until(lambda: here.state() == "terminated")
        assert "missing" in here.call("GET", "shovels/vhost/%2F/s")[1]["reason"]
        there.channel.exchange_declare("missing", "fanout", durable=True)
        there.queue("found")
        there.channel.queue_bind("found", "missing")
        until(lambda: there.ready("found") == 1)
        assert here.call("DELETE", "shovels/vhost/%2F/s/restart")[0] == 204
        here.publish("waits", b"b")
        until(lambda: there.ready("found") == 2)
    assert here.call("GET", "shovels/vhost/%2F/s")[0] == 404


def test_an_invalid_shovel_is_refused_with_the_reason(places: tuple[Place, Place]) -> None:
    here, _ = places
    good = {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "a", "dest-queue": "b"}
    for change, reason in (
        ({"src-queue": None}, "Must specify 'src-exchange' or 'src-queue'"),
        ({"src-exchange": "x"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        ({"dest-uri": None}, "dest-uri is mandatory"),
        ({"dest-uri": "http://h"}, "expected amqp:// or amqps://"),
        ({"src-protocol": "amqp10"}, "AMQP 1.0 is not spoken here"),
        ({"ack-mode": "maybe"}, "ack-mode should be one of"),
        ({"src-delete-after": "soon"}, "src-delete-after should be"),
        ({"src-delete-after": 5, "ack-mode": "no-ack"}, "Cannot specify 'no-ack' and numerical"),
        ({"wibble": 1}, "Unrecognised terms"),
        ({"src-prefetch-count": -1}, "src-prefetch-count should be"),
    ):
        value = {name: each for name, each in {**good, **change}.items() if each is not None}
        status, answer = here.call("PUT", "parameters/shovel/%2F/bad", {"value": value})
        assert (status, answer["error"]) == (400, "bad_request")
        assert reason in answer["reason"]


def test_only_an_export_shows_a_password(places: tuple[Place, Place]) -> None:
    here, there = places
    uri = there.uri.replace("guest:guest", "u:secret")
    with a_shovel(here, src_uri=uri, dest_uri=["amqp://", uri], src_queue="a", dest_queue="b"):
        until(lambda: here.state() == "terminated")
        for path in ("parameters", "parameters/shovel/%2F/s", "shovels", "shovels/vhost/%2F/s"):
            assert "secret" not in json.dumps(here.call("GET", path)[1])
        exported = here.call("GET", "definitions")[1]["parameters"]
        assert "u:secret" in json.dumps(exported)
    assert "secret" not in here.broker.log


@pytest.mark.parametrize("victim", ["source", "destination", "shovel"])
def test_nothing_is_lost_when_a_broker_is_killed(
    tmp_path: Path, places: tuple[Place, Place], victim: str
) -> None:
    source, target = places
    between = Place(tmp_path)
    try:
        name = f"kill-{victim}"
        source.queue(f"{name}-from")
        target.queue(f"{name}-to")
        every = [b"%05d" % number for number in range(3000)]
        source.publish(f"{name}-from", *every[:2000])
        value = {"src_uri": source.uri, "dest_uri": target.uri, "src_queue": f"{name}-from",
                 "dest_queue": f"{name}-to", "reconnect_delay": 0.2}  # fmt: skip
        assert between.shovel(**value, src_prefetch_count=100) == 201
        killed = {"source": source, "destination": target, "shovel": between}[victim]
        for part in range(2000, 3000, 500):
            until(lambda: target.ready(f"{name}-to") > 0)
            killed.kill()
            source.publish(f"{name}-from", *every[part : part + 500])
        until(lambda: source.messages(f"{name}-from") == 0 and between.state() == "running")
        between.drop()
        until(lambda: between.state() == "gone")
        got = bodies(target.drained(f"{name}-to"))
        assert source.ready(f"{name}-from") == 0
        assert set(got) == set(every)
        # Acknowledgements of the last instant before a kill are lost with the source. What it had
        # delivered is then sent again, but not everything is.
        assert len(got) < 2 * len(every)
    finally:
        between.end()


def test_inside_one_broker_a_kill_duplicates_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    try:
        place.queue("from")
        place.queue("to")
        every = [b"%05d" % number for number in range(3000)]
        place.publish("from", *every)
        value = {
            "src_uri": "amqp://",
            "dest_uri": "amqp://",
            "src_queue": "from",
            "dest_queue": "to",
        }
        assert place.shovel(**value, src_prefetch_count=50) == 201
        for _ in range(2):
            place.kill()
        until(lambda: place.ready("from") == 0 and place.ready("to") == len(every))
        assert bodies(place.drained("to")) == every
    finally:
        place.end()
