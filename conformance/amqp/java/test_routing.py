"""Java's AlternateExchange, AlternateExchangeEquivalence, CcRoutes, DefaultExchange,
HeadersExchangeValidation, InternalExchange and Routing: which queues a message reaches."""

from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import refused, settle, wait_until
from conformance.amqp.java.common import got, inequivalent, temporary
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

LETTERS = ("x", "u", "v")


class Chain:
    """Exchanges x, u and v with a queue each; an exchange may have another as its alternate."""

    def __init__(self, channel: BlockingChannel, name: Named) -> None:
        self.channel = channel
        self.returned: list[str] = []
        self.names = {letter: name(letter) for letter in LETTERS}
        channel.add_on_return_callback(lambda _, method, *__: self.returned.append(method))
        for queue in self.names.values():
            channel.queue_declare(queue)

    def make(self, letter: str, alternate: str | None) -> None:
        made = self.names[letter]
        arguments = {"alternate-exchange": self.names[alternate]} if alternate else {}
        self.channel.exchange_delete(made)
        self.channel.exchange_declare(made, "direct", arguments=arguments)
        self.channel.queue_bind(made, made, letter)

    def check(self, key: str, reached: str, *, mandatory: bool = False) -> bool:
        """Publish to x and check that only the queue ``reached`` receives it; the result is whether
        the message was returned."""
        self.returned.clear()
        self.channel.basic_publish(self.names["x"], key, b"ae", mandatory=mandatory)
        found = "".join(each for each in LETTERS if got(self.channel, self.names[each]) is not None)
        assert found == reached
        settle(self.channel.connection, 0.02)
        return bool(self.returned)


@pytest.fixture
def chain(channel: BlockingChannel, name: Named) -> Chain:
    return Chain(channel, name)


def test_alternate_exchange_missing(chain: Chain) -> None:
    chain.make("x", "u")
    chain.check("x", "x")
    chain.check("u", "")
    chain.make("u", "v")
    chain.check("u", "u")
    chain.check("v", "")
    chain.make("v", None)
    chain.check("v", "v")
    chain.check("z", "")


def test_alternate_exchange_ae(chain: Chain) -> None:
    for letter, alternate in (("x", "u"), ("u", "v"), ("v", "x")):
        chain.make(letter, alternate)
    for key in (*LETTERS, "z"):
        reached = key if key in LETTERS else ""
        assert not chain.check(key, reached)
        assert chain.check(key, reached, mandatory=True) == (key == "z")


def test_alternate_exchange_cycle_breaking(chain: Chain) -> None:
    for letter, alternate in (("x", "u"), ("u", "v"), ("v", "x")):
        chain.make(letter, alternate)
    assert not chain.check("z", "")


def test_alternate_exchange_equivalence_alternate_exchange_equivalence(
    channel: BlockingChannel, name: Named
) -> None:
    exchange = name("alternate")
    for _ in range(2):
        channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": "UME"})


def test_alternate_exchange_equivalence_alternate_exchange_non_equivalence(
    channel: BlockingChannel, name: Named
) -> None:
    exchange = name("alternate")
    channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": "UME"})
    text = inequivalent("exchange", exchange, "alternate-exchange", "somewhere", "UME")
    with refused(406, text):
        channel.exchange_declare(exchange, "direct", arguments={"alternate-exchange": "somewhere"})


@pytest.fixture
def three(channel: BlockingChannel, name: Named) -> list[str]:
    queues = [name("cc") for _ in range(3)]
    for queue in queues:
        channel.queue_declare(queue, auto_delete=True)
    return queues


def copied(
    channel: BlockingChannel, exchange: str, key: str, cc: list[Any] | None, bcc: list[str] | None
) -> None:
    headers = {"CC": cc, "BCC": bcc}
    headers = {key: value for key, value in headers.items() if value is not None}
    channel.basic_publish(exchange, key, b"", pika.BasicProperties(headers=headers))


def reached(channel: BlockingChannel, queues: list[str], *, cc: bool) -> list[str]:
    """The queues that have exactly one copy. The copy has the header CC if ``cc``, and never
    BCC."""
    found = []
    for queue in queues:
        method, properties, _ = channel.basic_get(queue, auto_ack=True)
        if method is None:
            continue
        assert method.message_count == 0
        assert ("CC" in (properties.headers or {})) == cc
        assert "BCC" not in (properties.headers or {})
        found.append(queue)
    return found


def test_cc_routes_cc_list(channel: BlockingChannel, three: list[str]) -> None:
    copied(channel, "", three[0], three[1:], None)
    assert reached(channel, three, cc=True) == three


def test_cc_routes_cc_ignore_empty_and_invalid_routes(
    channel: BlockingChannel, three: list[str]
) -> None:
    copied(channel, "", three[0], [], ["frob"])
    assert reached(channel, three, cc=True) == three[:1]
    copied(channel, "", three[0], [1, None, three[1]], None)
    assert reached(channel, three, cc=True) == three[:2]


def test_cc_routes_bcc(channel: BlockingChannel, three: list[str]) -> None:
    copied(channel, "", three[0], None, three[1:2])
    assert reached(channel, three, cc=False) == three[:2]


def test_cc_routes_no_duplicates(channel: BlockingChannel, three: list[str]) -> None:
    copied(channel, "", three[0], [three[0]] * 2, [three[0]])
    assert reached(channel, three, cc=True) == three[:1]


@pytest.fixture
def pair(channel: BlockingChannel, name: Named) -> tuple[str, str]:
    direct, topic = name("direct"), name("topic")
    channel.exchange_declare(direct, "direct", auto_delete=True)
    channel.exchange_declare(topic, "topic", auto_delete=True)
    return direct, topic


def test_cc_routes_direct_exchange_without_bindings(
    channel: BlockingChannel, three: list[str], pair: tuple[str, str]
) -> None:
    copied(channel, pair[0], three[1], [three[0]], None)
    assert reached(channel, three, cc=True) == []


def test_cc_routes_topic_exchange(
    channel: BlockingChannel, three: list[str], pair: tuple[str, str]
) -> None:
    channel.queue_bind(three[1], pair[1], "routing_key")
    copied(channel, pair[1], "", ["routing_key"], None)
    assert reached(channel, three, cc=True) == three[1:2]


def test_cc_routes_bound_exchanges(
    channel: BlockingChannel, three: list[str], pair: tuple[str, str]
) -> None:
    """The first exchange routes the message because of the key in CC, the second because of the key
    in BCC."""
    direct, topic = pair
    channel.exchange_bind(topic, direct, "routing_key1")
    channel.queue_bind(three[1], topic, "routing_key2")
    copied(channel, direct, "", ["routing_key1"], ["routing_key2"])
    assert reached(channel, three, cc=True) == three[1:2]


def test_cc_routes_non_array(channel: BlockingChannel, three: list[str]) -> None:
    channel.basic_publish("", three[0], b"", pika.BasicProperties(headers={"CC": 0}))
    text = 'invalid message: {unacceptable_type_in_header,"CC",signedint}'
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        channel.basic_get(three[0])


REFUSED = "ACCESS_REFUSED - operation not permitted on the default exchange"


def test_default_exchange_default_exchange_publish(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    channel.basic_publish("", queue, b"x")
    assert got(channel, queue) == b"x"


def test_default_exchange_bind_to_default_exchange(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    with refused(403, REFUSED):
        channel.queue_bind(queue, "", "foobar")


def test_default_exchange_unbind_from_default_exchange(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    with refused(403, REFUSED):
        channel.queue_unbind(queue, "", queue)


def test_default_exchange_declare_default_exchange(channel: BlockingChannel) -> None:
    with refused(403, REFUSED):
        channel.exchange_declare("", "direct", durable=True)


def test_default_exchange_delete_default_exchange(channel: BlockingChannel) -> None:
    with refused(403, REFUSED):
        channel.exchange_delete("")


def test_headers_exchange_validation_headers_validation(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    other = channel.connection.channel
    other().queue_bind(queue, "amq.headers", arguments={})
    text = "PRECONDITION_FAILED - Invalid x-match field type signedint (value 23); expected longstr"
    with refused(406, text):
        other().queue_bind(queue, "amq.headers", arguments={"x-match": 23})
    text = (
        'PRECONDITION_FAILED - Invalid x-match field value <<"all or any I don\'t mind">>; '
        "expected all, any, all-with-x, or any-with-x"
    )
    with refused(406, text):
        other().queue_bind(queue, "amq.headers", arguments={"x-match": "all or any I don't mind"})
    for match in ("all", "any"):
        other().queue_bind(queue, "amq.headers", arguments={"x-match": match})


def test_internal_exchange_try_publishing_to_internal_exchange(
    channel: BlockingChannel, name: Named
) -> None:
    entry, inner, queue = name("entry"), name("inner"), name("queue")
    channel.queue_declare(queue, exclusive=True, auto_delete=True)
    channel.exchange_declare(entry, "direct", auto_delete=True)
    channel.exchange_declare(inner, "direct", auto_delete=True, internal=True)
    channel.exchange_bind(inner, entry, "")
    channel.queue_bind(queue, inner, "")
    channel.basic_publish(entry, "", b"test-data")
    assert got(channel, queue) == b"test-data"
    channel.basic_publish(inner, "", b"test-data")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'"
    with refused(403, text):
        channel.basic_get(queue)


@pytest.fixture
def two(channel: BlockingChannel, name: Named) -> list[str]:
    queues = [name("foo"), name("bar")]
    for queue in queues:
        channel.queue_declare(queue)
    return queues


def test_routing_m_rdq_routing(channel: BlockingChannel, name: Named, two: list[str]) -> None:
    """An empty queue name means the queue declared last; with an empty key too, its name is also
    the key."""
    exchange = name("mrdq")
    channel.exchange_declare(exchange, "direct")
    for queue, key in ((two[0], "baz"), (two[0], ""), ("", "baz"), ("", "")):
        # The key is passed even if it is empty, because pika replaces a missing one by the queue's
        # name.
        channel._impl.queue_bind(queue, exchange, key, callback=lambda _: None)
        channel.connection.process_data_events(0.05)
    for key, expected in (
        ("", [True, False]),
        (two[0], [False, False]),
        (two[1], [False, True]),
        ("baz", [True, True]),
    ):
        channel.basic_publish(exchange, key, b"mrdq")
        assert [got(channel, queue) is not None for queue in two] == expected, key


def test_routing_double_binding(channel: BlockingChannel, two: list[str]) -> None:
    for key in ("x.#", "#.x"):
        channel.queue_bind(two[0], "amq.topic", key)
    for key in ("x.y", "y.x", "x.x"):
        channel.basic_publish("amq.topic", key, key.encode())
        assert got(channel, two[0]) == key.encode()
        assert got(channel, two[0]) is None


def test_routing_fanout_routing(channel: BlockingChannel) -> None:
    queues = [temporary(channel) for _ in range(2)]
    for queue in queues:
        channel.queue_bind(queue, "amq.fanout")
    channel.basic_publish("amq.fanout", "any key", b"fanout")
    assert [got(channel, queue) for queue in queues] == [b"fanout"] * 2


def test_routing_topic_routing(channel: BlockingChannel) -> None:
    queues = []
    for _ in range(100):
        temporary(channel)
        queues.append(temporary(channel))
        channel.queue_bind(queues[-1], "amq.topic", "#")
    channel.basic_publish("amq.topic", "", b"topic")
    assert [got(channel, queue) for queue in queues] == [b"topic"] * 100


HEADERS: list[tuple[bytes, dict[str, Any] | None]] = [
    (b"0", None),
    (b"0b", {}),
    (b"1", {"h1": "12345"}),
    (b"1b", {"h1": "12345"}),
    (b"2", {"h2": "bar"}),
    (b"3", {"h1": "12345", "h2": "bar"}),
    (b"4", {"h1": "12345", "h2": "bar", "h3": None}),
    (b"5", {"h1": "12345", "h2": "quux"}),
    (b"6", {"h1": "zot", "h2": "quux", "h3": None}),
    (b"7", {"h3": None}),
    (b"8", {"h1": "zot", "h2": "quux"}),
]


def test_routing_headers_routing(channel: BlockingChannel, two: list[str]) -> None:
    """A header required without a value only has to be present."""
    wanted = {"h1": "12345", "h2": "bar", "h3": None}
    for queue, match in zip(two, ("all", "any"), strict=True):
        channel.queue_bind(queue, "amq.match", "", {**wanted, "x-match": match})
    for body, headers in HEADERS:
        channel.basic_publish("amq.match", "", body, pika.BasicProperties(headers=headers))
    found = [[], []]  # type: list[list[bytes]]
    for bodies, queue in zip(found, two, strict=True):
        while (body := got(channel, queue)) is not None:
            bodies.append(body)
    assert found == [[b"4"], [b"1", b"1b", b"2", b"3", b"4", b"5", b"6", b"7"]]


def returns(channel: BlockingChannel) -> list[tuple[int, bytes]]:
    """A list to which returned messages are added from now on: reply code and body."""
    came: list[tuple[int, bytes]] = []
    channel.add_on_return_callback(
        lambda _, method, __, body: came.append((method.reply_code, body))
    )
    return came


def test_routing_basic_return(connect: Connect, two: list[str]) -> None:
    channel = connect().channel()
    came = returns(channel)
    channel.basic_publish("", "unknown", b"mandatory1", mandatory=True)
    wait_until(channel.connection, lambda: came)
    assert came == [(312, b"mandatory1")]
    channel.basic_publish("", two[0], b"mandatory2", mandatory=True)
    assert got(channel, two[0]) == b"mandatory2"
    assert len(came) == 1
    # pika does not expose ``immediate``, so the method is sent directly.
    channel._impl._send_method(
        Basic.Publish(exchange="", routing_key=two[0], immediate=True),
        (pika.BasicProperties(), b"immediate"),
    )
    with refused(540, "NOT_IMPLEMENTED - immediate=true", connection=True):
        channel.basic_qos(prefetch_count=0)


def test_routing_basic_return_transactional(connect: Connect, two: list[str]) -> None:
    channel = connect().channel()
    channel.tx_select()
    came = returns(channel)
    channel.basic_publish("", "unknown", b"mandatory1", mandatory=True)
    settle(channel.connection, 0.1)
    assert came == []
    channel.tx_commit()
    wait_until(channel.connection, lambda: came)
    channel.basic_publish("", two[0], b"mandatory2", mandatory=True)
    channel.tx_commit()
    assert got(channel, two[0]) == b"mandatory2"
    assert len(came) == 1
    channel.basic_publish("", two[0], b"late", mandatory=True)
    channel.queue_delete(two[0])
    channel.tx_commit()
    wait_until(channel.connection, lambda: len(came) > 1)
    assert [body for _, body in came] == [b"mandatory1", b"late"]
