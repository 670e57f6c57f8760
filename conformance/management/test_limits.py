"""How clients experience the limits of users and virtual hosts, and rights on routing keys: the
same on both brokers.

The rule: a play acts and records the outcome, line by line, and does not know which broker it runs
on.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pika
import pytest
from conformance.management.conftest import Managed
from pika.exceptions import AMQPConnectionError, AMQPError

USER: Final = "limited"
VHOST: Final = "limits"
WITHIN_S: Final = 30.0


@dataclass(slots=True)
class Play:
    """One broker, and the outcomes recorded on it."""

    broker: Managed
    outcomes: list[str] = field(default_factory=list)
    opened: list[pika.BlockingConnection] = field(default_factory=list)

    def call(self, method: str, path: str, body: Any = None) -> None:
        """Make a call to the management API, which must succeed."""
        status = self.broker.api.call(method, path, body).status
        assert status in (201, 204), f"{method} {path}: {status}"

    def limit(self, whose: str, name: str, value: int) -> None:
        kind = "user-limits" if whose == USER else "vhost-limits"
        self.call("PUT", f"{kind}/{whose}/{name}", {"value": value})

    def open(self, count: int = 1) -> pika.BlockingConnection | None:
        """Open ``count`` connections and record each outcome; the result is the last one, None if
        it was refused."""
        address, login = self.broker.amqp, pika.PlainCredentials(USER, USER)
        connection = None
        for _ in range(count):
            parameters = pika.ConnectionParameters(
                address.host, address.port, VHOST, login, heartbeat=0
            )
            try:
                connection = pika.BlockingConnection(parameters)
            except AMQPConnectionError as error:
                self.outcomes.append(str(error))
            else:
                self.opened.append(connection)
                self.outcomes.append("opened")
        return connection

    def channels(self, connection: pika.BlockingConnection | None, count: int) -> None:
        assert connection is not None
        for _ in range(count):
            self.hear(connection.channel)

    def hear(self, act: Callable[[], object]) -> None:
        """Call ``act`` and record its outcome."""
        try:
            act()
        except AMQPError as error:
            code, text = getattr(error, "reply_code", 0), getattr(error, "reply_text", str(error))
            # RabbitMQ 3.13 names the missing right.
            self.outcomes.append(f"{code} {text}".replace("write access", "access"))
        else:
            self.outcomes.append("done")

    def api_connections(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.broker.api.call("GET", "connections").json
        return found

    def close(self) -> None:
        """Close the play's connections and wait until the broker no longer counts them."""
        for connection in self.opened:
            if connection.is_open:
                connection.close()
        self.opened.clear()
        end = time.monotonic() + WITHIN_S
        while any(
            each["vhost"] == VHOST for each in self.broker.api.call("GET", "connections").json
        ):
            assert time.monotonic() < end, "expected no connection"
            time.sleep(0.1)


def connections_of_a_vhost(play: Play) -> None:
    play.limit(VHOST, "max-connections", 2)
    play.open(3)
    play.limit(VHOST, "max-connections", 3)
    play.open(2)
    play.limit(VHOST, "max-connections", -1)
    play.open(2)
    play.close()
    play.limit(VHOST, "max-connections", 0)
    play.open()


def connections_of_a_user(play: Play) -> None:
    play.limit(USER, "max-connections", 1)
    play.open(2)
    play.close()
    play.open(2)
    play.call("DELETE", f"user-limits/{USER}/max-connections")
    play.open(2)
    play.close()
    play.limit(USER, "max-connections", 0)
    play.open()


def channels_of_a_user(play: Play) -> None:
    """A client that opens one channel too many loses its connection; others go on."""
    play.limit(USER, "max-channels", 3)
    first, second = play.open(), play.open()
    play.channels(first, 2)
    play.channels(second, 2)
    play.channels(first, 1)
    play.close()
    play.limit(USER, "max-channels", 0)
    play.channels(play.open(), 1)


def queues_of_a_vhost(play: Play) -> None:
    """A queue that exists already can still be declared."""
    play.limit(VHOST, "max-queues", 1)
    connection = play.open()
    assert connection is not None
    for queue in ("a", "b", "a"):
        channel = connection.channel()
        play.hear(partial(channel.queue_declare, queue))


def topics_of_a_user(play: Play) -> None:
    rights = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    play.call("PUT", f"topic-permissions/{VHOST}/{USER}", rights)
    connection = play.open()
    assert connection is not None
    connection.channel().queue_declare("q")
    for exchange in ("amq.topic", "amq.direct"):
        for key in ("a.b", "b.c", ""):
            channel = connection.channel()
            channel.confirm_delivery()
            play.hear(partial(channel.basic_publish, exchange, key, b""))


PLAYS: Final = (
    connections_of_a_vhost, connections_of_a_user, channels_of_a_user, queues_of_a_vhost,
    topics_of_a_user,
)  # fmt: skip


@pytest.fixture
def plays(pair: tuple[Managed, Managed]) -> Iterator[tuple[Play, Play]]:
    """A play on each broker, with a user and a virtual host of its own."""
    ours, theirs = Play(pair[0]), Play(pair[1])
    full = {"configure": ".*", "write": ".*", "read": ".*"}
    for each in (ours, theirs):
        each.call("PUT", f"users/{USER}", {"password": USER, "tags": ""})
        each.call("PUT", f"vhosts/{VHOST}", {})
        each.call("PUT", f"permissions/{VHOST}/{USER}", full)
    yield ours, theirs
    for each in (ours, theirs):
        each.close()
        each.call("DELETE", f"vhosts/{VHOST}")
        each.call("DELETE", f"users/{USER}")


@pytest.mark.parametrize("act", PLAYS)
def test_clients_hear_the_same(plays: tuple[Play, Play], act: Callable[[Play], None]) -> None:
    for play in plays:
        act(play)
    ours, theirs = plays
    assert ours.outcomes == theirs.outcomes
    assert len(set(ours.outcomes)) > 1, "expected something to be taken and something to be refused"
