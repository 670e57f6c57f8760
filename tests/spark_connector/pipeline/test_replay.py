"""Replays into a real broker: where messages go, at which rate, and what comes of a broken one."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pika
import pytest
from conformance.brokers.arneb import Arneb

from pyspark_arneb.pipeline.location import Location
from pyspark_arneb.pipeline.replay import Choice, Pace, Plan, Target, replay
from pyspark_arneb.pipeline.session import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 30
EVEN = "get_json_object(body, '$.id') % 2 = 0"


@dataclass(slots=True)
class Shop:
    """A broker with orders."""

    broker: Arneb

    @property
    def location(self) -> Location:
        return Location(url=f"http://127.0.0.1:{self.broker.http_address.port}")

    def connected(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.broker.address.port)
        )

    def declare(self, queue: str, **bindings: str) -> None:
        """A queue, bound by topic exchanges."""
        with self.connected() as connection:
            channel = connection.channel()
            channel.queue_declare(queue, durable=True)
            for exchange, pattern in bindings.items():
                channel.exchange_declare(exchange, "topic", durable=True)
                channel.queue_bind(queue, exchange, pattern)

    def drain(self, queue: str) -> list[tuple[str, bytes, pika.BasicProperties]]:
        """All that is in a queue: routing keys, bodies, properties."""
        found: list[tuple[str, bytes, pika.BasicProperties]] = []
        with self.connected() as connection:
            channel = connection.channel()
            while True:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return found
                found.append((method.routing_key, body, properties))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    running = Shop(Arneb(tmp_path_factory.mktemp("replay"), listeners=("amqp", "http")).start())
    running.declare("orders", events="#")
    with running.connected() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(MESSAGES):
            properties = pika.BasicProperties(
                delivery_mode=2, headers={"n": number, "text": str(number)}, message_id=f"m{number}"
            )
            body = json.dumps({"id": number}).encode()
            channel.basic_publish("events", f"key.{number % 3}", body, properties)
    yield running
    running.broker.stop()


def ids(found: list[tuple[str, bytes, Any]]) -> list[int]:
    return [json.loads(body)["id"] for _, body, _ in found]


def test_a_replay_that_was_broken_off_brings_each_message_once(
    spark: "SparkSession", shop: Shop, tmp_path: Path
) -> None:
    shop.declare("again")
    state, choice, target = tmp_path / "state.json", Choice(["orders"], where=EVEN), "again"
    done = replay(spark, shop.location, choice, Target({"queue": target}), state)
    assert (done.written, done.messages) == (MESSAGES // 2, MESSAGES)
    # As if it had died between the broker's commit and its own note.
    forgetful = Plan.begin(done.name, done.choice, done.target, done.stretches, 50_000)
    forgetful.save(state)
    again = replay(spark, shop.location, choice, Target({"queue": target}), state)
    assert again.written == MESSAGES // 2
    found = shop.drain(target)
    assert ids(found) == list(range(0, MESSAGES, 2)), "once, and in order"
    _, _, properties = found[1]
    assert (properties.headers, properties.message_id) == ({"n": 2, "text": "2"}, "m2")
    with pytest.raises(JobFailed, match="--state: .* belongs to another replay"):
        replay(spark, shop.location, choice, Target({"queue": "orders"}), state)


def test_an_exchange_routes_them_by_their_keys_and_a_rate_cuts_them_small(
    spark: "SparkSession", shop: Shop, tmp_path: Path
) -> None:
    """Two messages a second, so ten at a time: nothing waits before the first ten, and five
    seconds of the clock go by before each ten more."""
    shop.declare("twos", replayed="key.2")
    clock = [0.0]
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        clock[0] += seconds

    calls: list[tuple[int, float]] = []
    target = Target({"exchange": "replayed", "mandatory": "false"})
    done = replay(
        spark,
        shop.location,
        Choice(["orders"]),
        target,
        tmp_path / "state.json",
        pace=Pace(2, lambda: clock[0], sleep),
        progress=lambda plan: calls.append((plan.written, clock[0])),
    )
    assert calls == [(0, 0.0), (10, 0.0), (20, 5.0), (30, 10.0)]
    assert waited == [5.0, 5.0] and done.written == MESSAGES
    found = shop.drain("twos")
    assert ids(found) == list(range(2, MESSAGES, 3))
    assert {key for key, _, _ in found} == {"key.2"}


def test_a_piece_that_is_too_large_for_the_broker_goes_in_parts(
    spark: "SparkSession", tmp_path: Path
) -> None:
    small = Arneb(
        tmp_path / "small",
        listeners=("amqp", "http"),
        settings="[data]\nbatch_bytes_max = 4000\n",
    )
    shop = Shop(small.start())
    try:
        shop.declare("orders")
        shop.declare("again")
        with shop.connected() as connection:
            for number in range(MESSAGES):
                body = json.dumps({"id": number, "text": "x" * 300}).encode()
                connection.channel().basic_publish("", "orders", body)
        target, state = Target({"queue": "again"}), tmp_path / "state.json"
        done = replay(spark, shop.location, Choice(["orders"]), target, state)
        assert done.written == MESSAGES and done.number > 2
        assert ids(shop.drain("again")) == list(range(MESSAGES))
    finally:
        small.stop()


def test_what_the_broker_refuses_is_one_line_and_the_replay_can_go_on(
    spark: "SparkSession", shop: Shop, tmp_path: Path
) -> None:
    state, target = tmp_path / "state.json", Target({"queue": "to come"})
    with pytest.raises(Exception, match='option "queue": '):
        replay(spark, shop.location, Choice(["orders"]), target, state)
    shop.declare("to come")
    assert replay(spark, shop.location, Choice(["orders"]), target, state).written == MESSAGES
    with pytest.raises(JobFailed, match="--where: "):
        replay(spark, shop.location, Choice(["orders"], where="x y z"), target, tmp_path / "other")
    assert not (tmp_path / "other").exists(), "a refused replay must leave no state file"
    with pytest.raises(JobFailed, match="--to-url: is needed"):
        replay(spark, None, Choice(["orders"], sealed="/x"), target, state)
