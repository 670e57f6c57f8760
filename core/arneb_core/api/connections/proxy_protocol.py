"""The PROXY protocol: a proxy in front says, before anything else, which client connects.

The rule: exactly the header is read from the connection, in version 1 or 2, and nothing after it.
What is not a header, or names an impossible address, is refused. A header that leaves the address
open (``UNKNOWN``, ``LOCAL``, as health checks send it) means the proxy itself. Trusting headers is
trusting everybody who reaches the port, so they are read only where the settings say so, and are
required there.

Source: https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
"""

import logging
import socket
from ipaddress import ip_address
from typing import Final

import trio

from arneb_core.api.connections.endpoints import Address, Endpoint, Endpoints, plain
from arneb_core.api.errors import describe

logger = logging.getLogger(__name__)

BEGINNING_BYTES: Final = 12
"""Enough to distinguish the versions, and no more than the shortest header has."""

SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
"""The beginning of a version 2 header."""

TEXT: Final = b"PROXY "
TEXT_BYTES_MAX: Final = 107
"""The longest header of version 1, its line end included."""

HEAD_BYTES: Final = 4
"""Of version 2, after the signature: command, family, and the length of the rest."""

BINARY_BYTES_MAX: Final = 4096
"""The rest in version 2. The addresses are 36 bytes; the others are options, a certificate's name
at most, and no client has logged in yet."""

_LOCAL: Final = 0x20
_PROXIED: Final = 0x21
_UNSPECIFIED: Final = 0x00
_TCP: Final = {0x11: 4, 0x21: 16}
"""Bytes of an address, by family."""
_UNIX: Final = 0x31

_TEXT_FAMILIES: Final = {b"TCP4": 4, b"TCP6": 6}


class BadProxyHeader(ValueError):
    """What came is no header of the PROXY protocol; the text says what is wrong."""


def parse_text(header: bytes) -> Endpoints | None:
    """Parse a version 1 header without its line end; None if it leaves the address open. Raises
    :class:`BadProxyHeader`."""
    words = header.split(b" ")
    if words[:2] == [b"PROXY", b"UNKNOWN"]:
        return None
    if len(words) != 6 or words[0] != b"PROXY" or words[1] not in _TEXT_FAMILIES:
        raise BadProxyHeader(f"expected a family, two addresses and two ports, got {header!r}")
    ends = [_text_address(each, _TEXT_FAMILIES[words[1]]) for each in words[2:4]]
    ports = [_text_port(each) for each in words[4:]]
    return Endpoints(Endpoint(ends[0], ports[0]), Endpoint(ends[1], ports[1]))


def parse_binary(head: bytes, rest: bytes) -> Endpoints | None:
    """Parse a version 2 header without its signature: the four bytes of ``head``, and the rest they
    announce; None if it leaves the address open. Raises :class:`BadProxyHeader`."""
    command, family = head[0], head[1]
    if command == _LOCAL:
        return None
    if command != _PROXIED:
        raise BadProxyHeader(f"expected version 2 and a command of 0 or 1, got {command:#04x}")
    if family in (_UNSPECIFIED, _UNIX):
        return None
    size = _TCP.get(family)
    if size is None:
        raise BadProxyHeader(f"expected an address of TCP, got family {family:#04x}")
    if len(rest) < 2 * size + 4:
        raise BadProxyHeader(f"expected {2 * size + 4} bytes of addresses, got {len(rest)}")
    ends = [plain(ip_address(rest[at : at + size])) for at in (0, size)]
    ports = [int.from_bytes(rest[at : at + 2]) for at in (2 * size, 2 * size + 2)]
    return Endpoints(Endpoint(ends[0], ports[0]), Endpoint(ends[1], ports[1]))


async def endpoints_behind(
    proxy: Endpoints | None, sock: trio.socket.SocketType, within_s: float
) -> Endpoints | None:
    """Return the client behind a proxy, or the proxy itself if the header leaves that open. None:
    no header came within that time, and the connection is to be closed."""
    try:
        with trio.fail_after(within_s):
            return await read_proxy_header(sock) or proxy
    except (BadProxyHeader, OSError, trio.TooSlowError) as error:
        shown = "a client" if proxy is None else proxy.source
        logger.warning("refused %s, of the PROXY protocol: %s", shown, describe(error))
        return None


async def read_proxy_header(sock: trio.socket.SocketType) -> Endpoints | None:
    """Read the header that a connection begins with; None if it leaves the address open. Raises
    :class:`BadProxyHeader` and :class:`OSError`; the caller limits the time."""
    beginning = await _exactly(sock, BEGINNING_BYTES)
    if beginning == SIGNATURE:
        head = await _exactly(sock, HEAD_BYTES)
        size = int.from_bytes(head[2:])
        if size > BINARY_BYTES_MAX:
            raise BadProxyHeader(f"expected at most {BINARY_BYTES_MAX} bytes, got {size}")
        return parse_binary(head, await _exactly(sock, size))
    if not beginning.startswith(TEXT):
        raise BadProxyHeader(f"expected a header of the PROXY protocol, got {beginning!r}")
    return parse_text(await _line(sock, beginning))


async def _line(sock: trio.socket.SocketType, line: bytes) -> bytes:
    """Return the line that begins with ``line``, without its end; what follows is left unread."""
    while True:
        seen = await sock.recv(TEXT_BYTES_MAX - len(line), socket.MSG_PEEK)
        if not seen:
            raise BadProxyHeader(f"expected a line end, got the end after {line!r}")
        end = (line + seen).find(b"\r\n")
        wanted = len(seen) if end < 0 else end + 2 - len(line)
        line += await _exactly(sock, wanted)
        if end >= 0:
            return line[:end]
        if len(line) >= TEXT_BYTES_MAX:
            raise BadProxyHeader(f"expected a line end within {TEXT_BYTES_MAX} bytes, got {line!r}")


async def _exactly(sock: trio.socket.SocketType, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = await sock.recv(size - len(found))
        if not more:
            raise BadProxyHeader(f"expected {size} bytes, got the end after {found[:40]!r}")
        found += more
    return found


def _text_address(word: bytes, version: int) -> Address:
    try:
        address = ip_address(word.decode("ascii"))
    except ValueError:
        raise BadProxyHeader(f"expected an address, got {word!r}") from None
    if address.version != version or b"%" in word:
        raise BadProxyHeader(f"expected an address of TCP{version}, got {word!r}")
    return plain(address)


def _text_port(word: bytes) -> int:
    is_number = word.isdigit() and len(word) <= 5 and (word == b"0" or word[:1] != b"0")
    if not is_number or int(word) > 0xFFFF:
        raise BadProxyHeader(f"expected a port, got {word!r}")
    return int(word)
