"""Every headers binding with every message, on both brokers: which binding matches which message.

The rule: tables are raw bytes, so that every type of field is tried with every other, and names may
come in any order. Tables as values, and names that occur twice, are in ``DIFFERENCES.md``.
"""

import itertools
import struct
from collections.abc import Mapping
from typing import Final

import pytest
from conformance.brokers.process import Address
from conformance.differential.conftest import Both
from conformance.differential.link import Link
from pamqp import commands, frame

CHANNEL: Final = 1
METHOD, HEADER, BODY = 1, 2, 3
HEADERS_FLAG: Final = 1 << 13
EXCHANGE: Final = "matching"


def sized(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def field(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + value


def text(value: bytes) -> bytes:
    return b"S" + sized(value)


def double(value: float) -> bytes:
    return b"d" + struct.pack(">d", value)


VALUES: Final[dict[str, bytes]] = {
    "void": b"V",
    "true": b"t\1",
    "false": b"t\0",
    "octet": b"b\1",
    "unsigned octet": b"B\1",
    "short": b"s\0\1",
    "unsigned short": b"u\0\1",
    "int": b"I\0\0\0\1",
    "unsigned int": b"i\0\0\0\1",
    "long": b"l" + struct.pack(">q", 1),
    "another long": b"L" + struct.pack(">q", 1),
    "time": b"T" + struct.pack(">Q", 1),
    "float": b"f" + struct.pack(">f", 1.0),
    "double": double(1.0),
    "decimal": b"D\0" + struct.pack(">I", 1),
    "longer decimal": b"D\1" + struct.pack(">I", 10),
    "nothing": b"b\0",
    "no double": double(0.0),
    "less than no double": double(-0.0),
    "last octet": b"b\xff",
    "last unsigned octet": b"B\xff",
    "last int": b"I\xff\xff\xff\xff",
    "more than a double": b"l" + struct.pack(">q", 2**53 + 1),
    "as much as a double": double(2.0**53),
    "text": text(b"1"),
    "binary": b"x" + sized(b"1"),
    "word for a void": text(b"undefined"),
    "word for a truth": text(b"true"),
    "no text": text(b""),
    "list of an octet": b"A" + sized(b"b\1"),
    "list of a short": b"A" + sized(b"s\0\1"),
    "table of an octet": b"F" + sized(field(b"a", b"b\1")),
    "table of a short": b"F" + sized(field(b"a", b"s\0\1")),
}
TABLES: Final = {name: sized(field(b"h", value)) for name, value in VALUES.items()}

SOME: Final = ("octet", "text", "void", "true")
NAMES: Final = (b"h", b"k", b"x-h", b"x", b"X-h", b"x-", b"")


def pairs() -> dict[str, bytes]:
    """Two fields with different names in both orders, one field, and none."""
    made = {"none": b""}
    for name, value in itertools.product(NAMES, SOME[:3]):
        made[f"{name!r} {value}"] = field(name, VALUES[value])
    for (first, last), *values in itertools.product(
        itertools.permutations(NAMES[:3], 2), SOME[:2], SOME[1:]
    ):
        fields = [
            field(name, VALUES[value]) for name, value in zip((first, last), values, strict=True)
        ]
        made[f"{first!r} {last!r} {values}"] = b"".join(fields)
    return made


def with_mode(mode: str) -> dict[str, bytes]:
    """Arguments of bindings, with ``x-match`` first or last."""
    match = field(b"x-match", text(mode.encode()))
    return {
        f"{name}, mode {where}": sized(match + fields if where == "first" else fields + match)
        for (name, fields), where in itertools.product(pairs().items(), ("first", "last"))
    }


def went(
    address: Address, bindings: Mapping[str, bytes], messages: Mapping[str, bytes]
) -> dict[str, list[str]]:
    """The messages that each binding matched. Each message is sent twice, because a broker may
    cache the result of the first."""
    link = Link(address)
    link.open_channel(CHANNEL)
    link.call(CHANNEL, commands.Exchange.Declare(exchange=EXCHANGE, exchange_type="headers"),
              "Exchange.DeclareOk")  # fmt: skip
    queues = {name: f"{EXCHANGE}-{number}" for number, name in enumerate(bindings)}
    for name, queue in queues.items():
        declare = commands.Queue.Declare(queue=queue, exclusive=True)
        assert link.call(CHANNEL, declare, "Queue.DeclareOk")
        assert bind(link, queue, bindings[name]), f"no binding {name}"
    for name, headers in messages.items():
        for _ in range(2):
            publish(link, headers, name.encode())
    found = {name: taken(link, queue) for name, queue in queues.items()}
    link.call(CHANNEL, commands.Exchange.Delete(exchange=EXCHANGE), "Exchange.DeleteOk")
    link.close()
    return found


def framed(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, CHANNEL, len(payload)) + payload + b"\xce"


def bind(link: Link, queue: str, arguments: bytes) -> object:
    names = field(queue.encode(), b"") + field(EXCHANGE.encode(), b"") + field(b"", b"")
    seen = len(link.events[CHANNEL])
    link.write(framed(METHOD, struct.pack(">HHH", 50, 20, 0) + names + b"\0" + arguments))
    return link.answer(CHANNEL, seen, "Queue.BindOk")


def publish(link: Link, headers: bytes, body: bytes) -> None:
    method = frame.marshal(commands.Basic.Publish(exchange=EXCHANGE), CHANNEL)
    head = struct.pack(">HHQH", 60, 0, len(body), HEADERS_FLAG) + headers
    link.write(method + framed(HEADER, head) + framed(BODY, body))


def taken(link: Link, queue: str) -> list[str]:
    bodies: list[str] = []
    get = commands.Basic.Get(queue=queue, no_ack=True)
    while (answer := link.call(CHANNEL, get, "Basic.GetOk", "Basic.GetEmpty")) is not None:
        if answer.name == "Basic.GetEmpty":
            return bodies
        bodies.append(answer.body.decode())
    raise AssertionError(f"expected the messages of {queue!r}, came a close")


def test_a_value_fits_those_that_erlang_calls_equal(both: Both) -> None:
    rabbitmq, arneb = (went(address, TABLES, TABLES) for address in both)
    assert arneb == rabbitmq


@pytest.mark.parametrize("mode", ["all", "any", "all-with-x", "any-with-x"])
def test_a_mode_says_how_many_must_fit(mode: str, both: Both) -> None:
    messages = {name: sized(fields) for name, fields in pairs().items()}
    rabbitmq, arneb = (went(address, with_mode(mode), messages) for address in both)
    assert arneb == rabbitmq
