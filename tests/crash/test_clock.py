"""A real broker whose wall clock is set while it works: delayed messages come by that clock, and
soon."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pika
import pytest
from conformance.brokers.arneb import Arneb, run_arneb
from pika.adapters.blocking_connection import BlockingChannel
from tests.crash.running import survives
from tests.crash.set_clock import SetClock, compile_clock

HOUR_S: Final = 3600.0
SINCE_1970_S: Final = time.time()
WITHIN_S: Final = 30.0
"""Long enough for a busy machine. That a message does not come is concluded from one that comes
before it."""

KILLS: Final = 5
SECONDS_PER_KILL_MAX: Final = 100


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[SetClock]:
    shim = compile_clock(tmp_path)
    assert shim is not None, "expected a C compiler on the PATH"
    made = SetClock(shim, tmp_path / "clock")
    yield made
    made.close()


@pytest.fixture
def broker(tmp_path: Path, clock: SetClock) -> Iterator[Arneb]:
    made = Arneb(tmp_path / "broker", listeners=("amqp",), extra=clock.environment)
    yield made
    made.stop()
    assert run_arneb("check", str(made.data)).returncode == 0


@contextmanager
def channel_of(broker: Arneb) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel
    finally:
        connection.close()


def delayed_queue(channel: BlockingChannel) -> None:
    arguments = {"x-delayed-type": "fanout"}
    channel.exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "later")


def publish_later(channel: BlockingChannel, body: bytes, delay_ms: int) -> None:
    properties = pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay_ms})
    channel.basic_publish("later", "", body, properties)


def received(channel: BlockingChannel, queue: str) -> bytes:
    """The next message that comes."""
    for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=WITHIN_S):
        assert body is not None, f"expected a message in {queue} within {WITHIN_S} s"
        return bytes(body)
    raise AssertionError("the consumer was cancelled")


def test_set_back_by_an_hour_nothing_comes_early(broker: Arneb, clock: SetClock) -> None:
    broker.start()
    with channel_of(broker) as channel:
        delayed_queue(channel)
        publish_later(channel, b"before", 1)
        assert received(channel, "q") == b"before"
        clock.set(-HOUR_S)
        published = time.monotonic()
        publish_later(channel, b"second", 2000)
        publish_later(channel, b"first", 1000)
        assert [received(channel, "q"), received(channel, "q")] == [b"first", b"second"]
        assert time.monotonic() - published >= 2.0


def test_what_waits_comes_soon_after_the_clock_was_corrected(
    broker: Arneb, clock: SetClock
) -> None:
    """On a machine without a clock battery, the clock says 1970 until the network has corrected
    it."""
    broker.start()
    with channel_of(broker) as channel:
        delayed_queue(channel)
        channel.queue_declare("dead", durable=True)
        dying = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        channel.queue_declare("dying", durable=True, arguments=dying | {"x-message-ttl": 60_000})
        publish_later(channel, b"due in the meantime", 1500)
        durable = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "dying", b"expired in the meantime", durable)
    broker.kill()

    clock.set(-SINCE_1970_S)
    broker.start()
    with channel_of(broker) as channel:
        clock.set(2 * HOUR_S)
        assert received(channel, "q") == b"due in the meantime"
        channel.cancel()
        assert received(channel, "dead") == b"expired in the meantime"


def test_before_1970_messages_are_taken_and_delays_pass(broker: Arneb, clock: SetClock) -> None:
    clock.set(-SINCE_1970_S - HOUR_S)
    broker.start()
    with channel_of(broker) as channel:
        delayed_queue(channel)
        channel.basic_publish("", "q", b"plain", pika.BasicProperties(delivery_mode=2))
        assert received(channel, "q") == b"plain"
        publish_later(channel, b"later", 300)
        assert received(channel, "q") == b"later"


def test_no_promise_breaks_while_the_clock_is_set(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    seed: int | None = request.config.getoption("crash_seed")
    per_kill = SECONDS_PER_KILL_MAX
    arguments = ("--set-clock",)
    survives("tests.crash.mixed", KILLS, seed, tmp_path, *arguments, seconds_per_kill_max=per_kill)
