"""Java's DeadLetterExchange and XDeathHeaderGrowth: what happens to messages that leave a queue
without being acknowledged."""

import itertools
import time
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, refused, take, wait_until
from conformance.amqp.java.common import got, inequivalent, pause, ready, temporary, wait_ready
from pika.adapters.blocking_connection import BlockingChannel

COUNT = 10
TTL_MS = 300
EARLY_MS, LATE_MS = 25, 250
"""How much earlier or later than its TTL a message may be dead-lettered, in milliseconds."""

Death = dict[str, Any]


class Grave:
    """A dead letter exchange (direct) with a queue bound to it, and the key of that binding."""

    def __init__(self, channel: BlockingChannel, name: Named) -> None:
        self.channel = channel
        self.key = name("test")
        self.exchange = name("dlx")
        self.queue = name("dlq")
        self.source = name("source")
        channel.exchange_declare(self.exchange, "direct")
        channel.queue_declare(self.queue, exclusive=True)

    def declare(
        self, *, exchange: Any = None, key: Any = None, queue: str = "", **arguments: Any
    ) -> str:
        """Declare a queue that dead-letters to the exchange. ``arguments`` are its ``x-``
        arguments, with underscores for dashes and without the prefix."""
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        named["x-dead-letter-exchange"] = self.exchange if exchange is None else exchange
        if key is not None:
            named["x-dead-letter-routing-key"] = key
        made = queue or self.source
        self.channel.queue_declare(made, exclusive=True, arguments=named)
        return made

    def bind(self) -> None:
        """Bind the source to amq.direct and the dead letter queue to its exchange, both with the
        key."""
        self.channel.queue_bind(self.source, "amq.direct", self.key)
        self.channel.queue_bind(self.queue, self.exchange, self.key)

    def publish(self, count: int, **properties: Any) -> None:
        for _ in range(count):
            self.channel.basic_publish(
                "amq.direct", self.key, b"test message", pika.BasicProperties(**properties)
            )

    def buried(self, count: int, queue: str = "") -> list[list[Death]]:
        """Check that exactly ``count`` messages are dead-lettered; the result is the ``x-death`` of
        each."""
        found = []
        for _, properties, body in take(self.channel, queue or self.queue, count):
            assert body == b"test message"
            found.append(deaths(properties))
        assert ready(self.channel, queue or self.queue) == 0
        return found


def deaths(properties: Any) -> list[Death]:
    died: list[Death] = properties.headers["x-death"]
    return died


def once(death: list[Death], grave: Grave, reason: str) -> bool:
    """Whether the message died once, in the source queue, with its original routing key."""
    (only,) = death
    return (only["queue"], only["reason"], only["exchange"], only["routing-keys"]) == (
        grave.source, reason, "amq.direct", [grave.key],
    )  # fmt: skip


@pytest.fixture
def grave(channel: BlockingChannel, name: Named) -> Grave:
    return Grave(channel, name)


def test_dead_letter_exchange_declare_queue_with_existing_dead_letter_exchange(
    grave: Grave,
) -> None:
    grave.declare()


def test_dead_letter_exchange_declare_queue_with_non_existing_dead_letter_exchange(
    grave: Grave,
) -> None:
    grave.declare(exchange="some.random.exchange.name")


def test_dead_letter_exchange_declare_queue_with_equivalent_dead_letter_exchange(
    grave: Grave,
) -> None:
    for _ in range(2):
        grave.declare()


def test_dead_letter_exchange_declare_queue_with_equivalent_dead_letter_routing_key(
    grave: Grave,
) -> None:
    for _ in range(2):
        grave.declare(key="routing_key")


def test_dead_letter_exchange_declare_queue_with_invalid_dead_letter_exchange_arg(
    grave: Grave,
) -> None:
    text = (
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in "
        f"queue '{grave.source}' in vhost '/'"
    )
    with refused(406, text):
        grave.declare(exchange=133)


def test_dead_letter_exchange_redeclare_queue_with_invalid_dead_letter_exchange_arg(
    grave: Grave,
) -> None:
    grave.declare(exchange="dlx_foo")
    text = inequivalent("queue", grave.source, "x-dead-letter-exchange", "dlx_bar", "dlx_foo")
    with refused(406, text):
        grave.declare(exchange="dlx_bar")


def test_dead_letter_exchange_declare_queue_with_invalid_dead_letter_routing_key_arg(
    grave: Grave,
) -> None:
    text = (
        "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue "
        f"'{grave.source}' in vhost '/': {{unacceptable_type,signedint}}"
    )
    with refused(406, text):
        grave.declare(exchange="amq.direct", key=144)


def test_dead_letter_exchange_redeclare_queue_with_invalid_dead_letter_routing_key_arg(
    grave: Grave,
) -> None:
    grave.declare(exchange="amq.direct", key="dlx_rk")
    text = inequivalent("queue", grave.source, "x-dead-letter-routing-key", "dlx_rk2", "dlx_rk")
    with refused(406, text):
        grave.declare(exchange="amq.direct", key="dlx_rk2")


def test_dead_letter_exchange_declare_queue_with_routing_key_but_no_dead_letter_exchange(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("queue")
    text = (
        "PRECONDITION_FAILED - invalid arg 'x-dead-letter-routing-key' for queue "
        f"'{queue}' in vhost '/': routing_key_but_no_dlx_defined"
    )
    with refused(406, text):
        channel.queue_declare(queue, exclusive=True, arguments={"x-dead-letter-routing-key": "foo"})


def test_dead_letter_exchange_redeclare_queue_with_routing_key_but_no_dead_letter_exchange(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("queue")
    channel.queue_declare(queue, exclusive=True)
    text = (
        "PRECONDITION_FAILED - inequivalent arg 'x-dead-letter-routing-key' for queue "
        f"'{queue}' in vhost '/': received the value 'foo' of type 'longstr' but current is none"
    )
    with refused(406, text):
        channel.queue_declare(queue, exclusive=True, arguments={"x-dead-letter-routing-key": "foo"})


def test_dead_letter_exchange_dead_letter_queue_ttl_expired_messages(grave: Grave) -> None:
    grave.declare(message_ttl=TTL_MS)
    grave.bind()
    grave.publish(COUNT)
    assert all(once(death, grave, "expired") for death in grave.buried(COUNT))


def test_dead_letter_exchange_dead_letter_queue_zero_ttl_expired_messages(grave: Grave) -> None:
    grave.declare(message_ttl=0)
    grave.bind()
    grave.publish(COUNT)
    assert all(once(death, grave, "expired") for death in grave.buried(COUNT))


def test_dead_letter_exchange_dead_letter_queue_ttl_prompt_expiry(grave: Grave) -> None:
    """Each message is dead-lettered when its TTL expires, whatever happened to the queue
    meanwhile."""
    channel = grave.channel
    grave.declare(message_ttl=TTL_MS)
    grave.bind()
    arrived: list[tuple[float, float]] = []

    def bury(_: Any, __: Any, ___: Any, body: bytes) -> None:
        arrived.append((float(body), time.monotonic()))

    def publish() -> None:
        channel.basic_publish("amq.direct", grave.key, repr(time.monotonic()).encode())

    def all_in_time(count: int) -> None:
        wait_until(channel.connection, lambda: len(arrived) == count)
        lives = [(died - born) * 1000 for born, died in arrived]
        assert all(TTL_MS - EARLY_MS <= life <= TTL_MS + LATE_MS for life in lives), lives
        arrived.clear()

    channel.basic_consume(grave.queue, bury, auto_ack=True)
    for _ in range(20):
        publish()
        pause(channel, TTL_MS / 30)
    all_in_time(20)
    # The first message starts a timer and is consumed; when that timer fires, the second is
    # unacknowledged.
    publish()
    assert got(channel, grave.source) is not None
    pause(channel, TTL_MS / 2)
    publish()
    method, _, _ = take(channel, grave.source, 1)[0]
    pause(channel, TTL_MS / 4)
    publish()
    pause(channel, TTL_MS / 2)
    channel.basic_reject(method.delivery_tag, requeue=True)
    all_in_time(2)


def test_dead_letter_exchange_dead_letter_deleted_dlx(grave: Grave) -> None:
    channel = grave.channel
    grave.declare(message_ttl=1)
    grave.bind()
    channel.exchange_delete(grave.exchange)
    grave.publish(COUNT)
    pause(channel, 60)
    assert ready(channel, grave.queue) == 0
    channel.exchange_declare(grave.exchange, "direct")
    channel.queue_bind(grave.queue, grave.exchange, grave.key)
    grave.publish(COUNT)
    grave.buried(COUNT)


def test_dead_letter_exchange_dead_letter_per_message_ttl_removed(grave: Grave) -> None:
    """A message that expired in one queue does not expire again in the next."""
    grave.declare(message_ttl=1)
    grave.bind()
    grave.publish(1, expiration="100")
    pause(grave.channel, 250)
    ((_, properties, _),) = take(grave.channel, grave.queue, 1)
    assert properties.expiration is None
    assert once(deaths(properties), grave, "expired")
    assert deaths(properties)[0]["original-expiration"] == "100"


def refuse_all(grave: Grave, how: str) -> None:
    grave.declare()
    grave.bind()
    grave.publish(COUNT)
    for method, _, _ in take(grave.channel, grave.source, COUNT):
        getattr(grave.channel, how)(method.delivery_tag, requeue=False)
    assert all(once(death, grave, "rejected") for death in grave.buried(COUNT))


def test_dead_letter_exchange_dead_letter_on_reject(grave: Grave) -> None:
    refuse_all(grave, "basic_reject")


def test_dead_letter_exchange_dead_letter_on_nack(grave: Grave) -> None:
    refuse_all(grave, "basic_nack")


def test_dead_letter_exchange_dead_letter_no_dead_letter_queue(grave: Grave) -> None:
    grave.channel.queue_delete(grave.queue)
    grave.declare(message_ttl=1)
    grave.channel.queue_bind(grave.source, "amq.direct", grave.key)
    grave.publish(COUNT)
    wait_ready(grave.channel, grave.source, 0)


def test_dead_letter_exchange_dead_letter_multiple_dead_letter_queues(grave: Grave) -> None:
    grave.declare(message_ttl=1)
    grave.bind()
    second = temporary(grave.channel)
    grave.channel.queue_bind(second, grave.exchange, grave.key)
    grave.publish(COUNT)
    for queue in (grave.queue, second):
        assert all(once(death, grave, "expired") for death in grave.buried(COUNT, queue))


def test_dead_letter_exchange_dead_letter_twice(grave: Grave, name: Named) -> None:
    """Messages reach the last queue in two ways, one of them with one more death; the way that
    leads back to the source ends there."""
    channel = grave.channel
    grave.declare(message_ttl=1)
    channel.queue_delete(grave.queue)
    grave.declare(queue=grave.queue, message_ttl=1)
    last = temporary(channel)
    grave.bind()
    channel.queue_bind(last, grave.exchange, grave.key)
    grave.publish(COUNT)
    lengths = []
    for death in grave.buried(2 * COUNT, last):
        lengths.append(len(death))
        queues = [(each["queue"], each["reason"]) for each in death]
        assert queues[-1] == (grave.source, "expired")
        assert queues[:-1] in ([], [(grave.queue, "expired")])
    assert sorted(lengths) == [1] * COUNT + [2] * COUNT


def test_dead_letter_exchange_dead_letter_self(grave: Grave) -> None:
    grave.declare(exchange="amq.direct", key=grave.key, message_ttl=1)
    grave.channel.queue_bind(grave.source, "amq.direct", grave.key)
    grave.publish(COUNT)
    pause(grave.channel, 100)
    assert ready(grave.channel, grave.source) == 0


def test_dead_letter_exchange_dead_letter_cycle(grave: Grave, name: Named) -> None:
    """A message goes round and round, because a consumer rejects it each time."""
    channel = grave.channel
    first, second = name("first"), name("second")
    grave.declare(queue=first, exchange="", key=second, message_ttl=1)
    grave.declare(queue=second, exchange="", key=first)
    channel.basic_publish("", first, b"")
    rejected: list[int] = []

    def reject(on: BlockingChannel, method: Any, *_: Any) -> None:
        on.basic_reject(method.delivery_tag, requeue=False)
        rejected.append(method.delivery_tag)

    channel.basic_consume(second, reject)
    wait_until(channel.connection, lambda: len(rejected) >= 10)


def test_dead_letter_exchange_dead_letter_new_rk(grave: Grave) -> None:
    """The queue sets another routing key: ``x-death`` names the keys of CC, and no copies are made
    for them again."""
    grave.declare(key="test-other", message_ttl=1)
    grave.bind()
    other = temporary(grave.channel)
    grave.channel.queue_bind(other, grave.exchange, "test-other")
    grave.publish(COUNT, headers={"CC": ["foo"], "BCC": ["bar"]})
    for _, properties, _ in take(grave.channel, other, COUNT):
        assert {"CC", "BCC"}.isdisjoint(properties.headers)
        (death,) = deaths(properties)
        assert (death["queue"], death["reason"]) == (grave.source, "expired")
        assert (death["exchange"], sorted(death["routing-keys"])) == (
            "amq.direct",
            sorted([grave.key, "foo"]),
        )
    assert ready(grave.channel, grave.queue) == ready(grave.channel, other) == 0


def test_dead_letter_exchange_republish(grave: Grave) -> None:
    """A message published with the headers of a dead letter is dead-lettered like any other, and
    its ``x-death`` is extended."""
    channel = grave.channel
    grave.declare(message_ttl=30)
    grave.bind()
    grave.publish(1)
    ((_, properties, _),) = take(channel, grave.queue, 1)
    assert once(deaths(properties), grave, "expired")

    channel.queue_delete(grave.source)
    grave.declare(max_length=0)
    grave.bind()
    headers: dict[str, Any] = dict(properties.headers)
    grave.publish(1, headers=headers)
    ((_, properties, _),) = take(channel, grave.queue, 1)
    latest, earlier = deaths(properties)
    assert once([latest], grave, "maxlen")
    assert once([earlier], grave, "expired")

    headers["x-death"] = "[I, am, not, array]"
    grave.publish(1, headers=headers)
    ((_, properties, _),) = take(channel, grave.queue, 1)
    assert once(deaths(properties), grave, "maxlen")


class Chain:
    """A chain of queues, each dead-lettering to the next through a fanout; the last dead-letters to
    itself."""

    def __init__(self, channel: BlockingChannel, name: Named, length: int) -> None:
        self.channel = channel
        self.queues = [name("queue") for _ in range(length)]
        exchanges = [name("fanout") for _ in range(length - 1)]
        for exchange in exchanges:
            channel.exchange_declare(exchange, "fanout")
        for queue, exchange in zip(self.queues, [*exchanges, exchanges[-1]], strict=True):
            arguments = {
                "x-dead-letter-exchange": exchange,
                "x-dead-letter-routing-key": "some-routing-key",
            }
            if queue != self.queues[-1]:
                arguments["x-message-ttl"] = 1  # type: ignore[assignment]
            channel.queue_declare(queue, arguments=arguments)
        for exchange, (_, following) in zip(
            exchanges, itertools.pairwise(self.queues), strict=True
        ):
            channel.queue_bind(following, exchange)

    def deaths_after(self, rejects: int, headers: dict[str, Any]) -> list[Death]:
        """Publish to the first queue and reject the message ``rejects`` times in the last; the
        result is its ``x-death`` after that."""
        inbox = Inbox(self.channel, self.queues[-1])
        self.channel.basic_publish(
            "", self.queues[0], b"msg", pika.BasicProperties(headers=headers)
        )
        for count in range(1, rejects + 1):
            inbox.wait(count)
            self.channel.basic_reject(inbox.tags[-1], requeue=False)
        inbox.wait(rejects + 1)
        return deaths(inbox.got[-1][1])


def counts(found: list[Death]) -> dict[str, int]:
    return {each["queue"]: each["count"] for each in found}


def test_x_death_header_growth_bounded_x_death_header_growth(connect: Connect, name: Named) -> None:
    """``x-death`` has one entry per queue, however often the message died there."""
    chain = Chain(connect().channel(), name, 4)
    found = chain.deaths_after(9, {})
    assert len(found) == 4
    assert counts(found) == dict(zip(chain.queues, (1, 1, 1, 9), strict=True))


def test_x_death_header_growth_handling_of_x_death_headers_from_earlier_versions(
    connect: Connect, name: Named
) -> None:
    """A long ``x-death`` that the client made up is accepted, and its entries are merged."""
    chain = Chain(connect().channel(), name, 3)
    old = ["queue97"] * 3 + ["queue98", "queue99"]
    made_up = [
        {"reason": "expired", "queue": queue, "exchange": "x0", "routing-keys": ["k1", "k2"]}
        for queue in old
        for _ in range(4)
    ]
    found = chain.deaths_after(9, {"x-death": made_up})
    expected = dict(zip(chain.queues, (1, 1, 9), strict=True))
    expected |= {"queue97": 12, "queue98": 4, "queue99": 4}
    assert counts(found) == expected
    assert len(found) == len(expected)
