"""Calling: asks another node to serve a client.

The rule: it asks once, within a time limit; every failure becomes one sentence, and leaves the
client untouched.
"""

import logging
from dataclasses import dataclass
from secrets import token_bytes
from typing import Final

import trio

from arneb_cluster.routing.internal_protocol import (
    NONCE_BYTES,
    Asking,
    CallRefused,
    ProtocolBroken,
    Request,
)
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.internal_stream import InternalStream, secured
from arneb_core.api.nodes.placement import NodeAddresses, NotServed

logger = logging.getLogger(__name__)

CALL_S: Final = 5.0
"""The time from the first packet to the answer. A node that takes longer hangs or is cut off, and
its leadership is about to end; clients would give up by themselves soon after."""


class NotTaken(NotServed):
    """The node that was asked does not serve the client; another may."""


@dataclass(frozen=True, slots=True)
class Called:
    """Another node serves the client; its bytes go through this stream."""

    stream: InternalStream
    early: bytes
    """Bytes already received on it."""


async def call(settings: InternalSettings, leader: NodeAddresses, request: Request) -> Called:
    """Ask ``leader`` to serve a client. Raises :class:`NotTaken`."""
    try:
        with trio.fail_after(CALL_S):
            return await _called(settings, leader.internal, request)
    except CallRefused as refused:
        raise NotTaken(f"node '{leader.node}' refused: {refused}") from refused
    except (OSError, ValueError, trio.BrokenResourceError, trio.TooSlowError) as error:
        reason = "no answer in time" if isinstance(error, trio.TooSlowError) else str(error)
        logger.warning("node %s at %s: %s", leader.node, leader.internal, reason)
        raise NotTaken(f"node '{leader.node}' cannot be reached") from error
    except ProtocolBroken as error:
        logger.error("node %s at %s: %s", leader.node, leader.internal, error)
        raise NotTaken(f"node '{leader.node}' cannot be reached") from error


async def _called(settings: InternalSettings, address: str, request: Request) -> Called:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"expected host:port as the internal address, got {address!r}")
    host = host.strip("[]")
    transport = await trio.open_tcp_stream(host, int(port))
    sock = transport.socket
    try:
        if settings.tls is None:
            stream = InternalStream(sock)
        else:
            stream = await secured(sock, settings.tls[1], host)
        asking = Asking(settings.secret, settings.node, token_bytes(NONCE_BYTES), request)
        await stream.send_all(asking.hello())
        while (early := asking.accepted()) is None:
            data = await stream.receive_some()
            if not data:
                raise trio.BrokenResourceError("it has closed the connection without an answer")
            if answer := asking.receive(data):
                await stream.send_all(answer)
        return Called(stream, early)
    except BaseException:
        sock.close()
        raise
