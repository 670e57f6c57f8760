"""The PROXY protocol: the header is read and nothing after it, in whatever pieces it comes."""

import itertools
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeVar

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.connections.endpoints import Endpoint, Endpoints, plain
from arneb_core.api.connections.proxy_protocol import (
    BINARY_BYTES_MAX,
    SIGNATURE,
    TEXT_BYTES_MAX,
    BadProxyHeader,
    read_proxy_header,
)

T = TypeVar("T")

BEHIND = b"AMQP\0\0\t\1 and more"
"""What a client says after its proxy."""

PORTS = st.integers(0, 0xFFFF)


def positions(version: int) -> st.SearchStrategy[Endpoints]:
    addresses = st.ip_addresses(v=version).filter(lambda each: plain(each) == each)
    ends = st.builds(Endpoint, addresses, PORTS)
    return st.builds(Endpoints, ends, ends)


PROXIED = positions(4) | positions(6)


def in_text(proxied: Endpoints) -> bytes:
    source, reached = proxied.source, proxied.destination
    line = f"PROXY TCP{source.address.version} {source.address} {reached.address} "
    return f"{line}{source.port} {reached.port}\r\n".encode()


def in_binary(proxied: Endpoints, remarks: bytes = b"", *, command: int = 0x21) -> bytes:
    source, reached = proxied.source, proxied.destination
    family = 0x11 if source.address.version == 4 else 0x21
    ends = source.address.packed + reached.address.packed
    rest = ends + source.port.to_bytes(2) + reached.port.to_bytes(2) + remarks
    return SIGNATURE + bytes((command, family)) + len(rest).to_bytes(2) + rest


def read(pieces: list[bytes], read_behind: int = 0) -> tuple[Endpoints | None, bytes]:
    """What comes of a connection that says this, and how it goes on."""

    async def main() -> tuple[Endpoints | None, bytes]:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            sock = trio.socket.from_stdlib_socket(ours)

            async def say() -> None:
                for piece in pieces:
                    theirs.sendall(piece)
                    await trio.testing.wait_all_tasks_blocked()
                theirs.shutdown(socket.SHUT_WR)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(say)
                found = await read_proxy_header(sock)
                rest = b""
                while more := await sock.recv(4096):
                    rest += more
                return found, rest

    return run(main)


def run(main: Callable[[], Awaitable[T]]) -> T:
    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    at = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(at)]


@given(PROXIED, st.booleans(), st.binary(max_size=40), st.lists(st.integers(0, 300), max_size=4))
def test_a_proxy_header_is_read_however_it_is_cut(
    proxied: Endpoints, binary: bool, remarks: bytes, cuts: list[int]
) -> None:
    header = in_binary(proxied, remarks) if binary else in_text(proxied)
    assert read(split(header + BEHIND, cuts)) == (proxied, BEHIND)


MAPPED = Endpoints(
    Endpoint(IPv6Address("::ffff:192.0.2.1"), 1), Endpoint(IPv6Address("::ffff:192.0.2.2"), 2)
)


@pytest.mark.parametrize("header", [in_text(MAPPED), in_binary(MAPPED)])
def test_an_address_of_ipv4_inside_ipv6_is_that_of_ipv4(header: bytes) -> None:
    expected = Endpoints(
        Endpoint(IPv4Address("192.0.2.1"), 1), Endpoint(IPv4Address("192.0.2.2"), 2)
    )
    assert read([header]) == (expected, b"")


@pytest.mark.parametrize("binary", [False, True])
def test_a_proxy_header_is_read_byte_by_byte(binary: bool) -> None:
    proxied = Endpoints(
        Endpoint(IPv6Address("2001:db8::1"), 40_000), Endpoint(IPv6Address("2001:db8::2"), 5672)
    )
    header = in_binary(proxied) if binary else in_text(proxied)
    assert read([bytes((each,)) for each in header + BEHIND]) == (proxied, BEHIND)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n",
        SIGNATURE + b"\x20\0\0\0",
        SIGNATURE + b"\x20\x11\0\x0c" + bytes(12),
        SIGNATURE + b"\x21\0\0\x05later",
        SIGNATURE + b"\x21\x31\0\xd8" + bytes(216),
    ],
)
def test_a_header_need_not_name_the_client(header: bytes) -> None:
    assert read([header + BEHIND]) == (None, BEHIND)


GOOD = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"AMQP\0\0\t\1",
        BEHIND,
        b"\x16\x03\x01" + bytes(40),
        GOOD[:-2],
        GOOD.replace(b" ", b"  ", 1),
        GOOD.replace(b"TCP4", b"TCP6"),
        GOOD.replace(b"TCP4", b"UDP4"),
        GOOD.replace(b"192.0.2.1", b"192.0.2.256"),
        GOOD.replace(b"192.0.2.1", b"192.000.2.1"),
        GOOD.replace(b"192.0.2.1", b"localhost"),
        GOOD.replace(b" 1 2", b" 1 65536"),
        GOOD.replace(b" 1 2", b" 1 +2"),
        GOOD.replace(b" 1 2", b" 01 2"),
        GOOD.replace(b" 1 2", b" 1"),
        GOOD.replace(b" 1 2", b" 1 \xc2\xb2"),
        b"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
        b"PROXY " + b"x" * TEXT_BYTES_MAX + b"\r\n",
        SIGNATURE + b"\x11\x11\0\x0c" + bytes(12),
        SIGNATURE + b"\x22\x11\0\x0c" + bytes(12),
        SIGNATURE + b"\x21\x12\0\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\0\x0b" + bytes(11),
        SIGNATURE + b"\x21\x21\0\x0c" + bytes(12),
        SIGNATURE + b"\x21\x11\0\x0c" + bytes(11),
        SIGNATURE + b"\x21\x11" + (BINARY_BYTES_MAX + 1).to_bytes(2) + bytes(BINARY_BYTES_MAX + 1),
    ],
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        read([data])


@given(PROXIED, st.booleans(), st.integers(0, 200), st.integers(1, 255))
def test_a_byte_that_is_another_is_read_as_something_or_refused(
    proxied: Endpoints, binary: bool, at: int, by: int
) -> None:
    header = bytearray(in_binary(proxied) if binary else in_text(proxied))
    header[at % len(header)] ^= by
    try:
        found, _ = read([bytes(header) + BEHIND])
    except BadProxyHeader:
        return
    for each in () if found is None else (found.source, found.destination):
        assert isinstance(each.address, IPv4Address | IPv6Address)
        assert 0 <= each.port <= 0xFFFF


def test_an_address_is_read_as_it_is_meant() -> None:
    found, _ = read([GOOD])
    assert found == Endpoints(
        Endpoint(ip_address("192.0.2.1"), 1), Endpoint(ip_address("192.0.2.2"), 2)
    )
