"""Arrivals: from accepted sockets to clients with known addresses at both ends.

The rule: the TLS handshake and a proxy's header are handled here, each within the handshake
timeout; what the client itself sends is not read.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import trio

from arneb_core.api.connections.endpoints import Endpoints, endpoints_of
from arneb_core.api.connections.proxy_protocol import endpoints_behind
from arneb_pulsar.authentication.grants import Certificate
from arneb_pulsar.config import PulsarConfig

logger = logging.getLogger(__name__)

Secure = Callable[[trio.SocketStream], Awaitable[trio.SSLStream[trio.SocketStream]]]
"""Does the TLS handshake on an accepted socket. Raises :class:`trio.BrokenResourceError`."""

Listeners = Sequence[trio.abc.Listener[trio.SocketStream]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A client that has connected."""

    stream: trio.abc.Stream
    service_url: str
    """The URL by which it reached the broker."""
    address: str
    """The address that it comes from."""
    certificate: Certificate = field(default_factory=dict)
    """The certificate that it showed."""


Handle = Callable[[Arrival], Awaitable[None]]
"""Serves a client, and closes its stream."""


async def arrive(
    stream: trio.SocketStream, config: PulsarConfig, handle: Handle, secure: Secure | None = None
) -> None:
    """Have ``handle`` serve the client of a socket, after a TLS handshake by ``secure`` if that is
    given."""
    try:
        ends: Endpoints | None = endpoints_of(stream.socket)
    except OSError:
        ends = None  # it is gone again
    if ends is not None and config.proxy_protocol:
        ends = await endpoints_behind(ends, stream.socket, config.handshake_timeout_s)
    if ends is None:
        await trio.aclose_forcefully(stream)
        return
    url, address = str(ends.destination), str(ends.source)
    if secure is None:
        await handle(Arrival(stream, f"pulsar://{url}", address))
        return
    try:
        with trio.fail_after(config.handshake_timeout_s):
            secured = await secure(stream)
    except (trio.BrokenResourceError, trio.TooSlowError) as error:
        logger.info("x %s: TLS handshake failed: %s", address, error.__cause__ or error)
        await trio.aclose_forcefully(stream)
        return
    shown: Certificate = secured.getpeercert() or {}
    await handle(Arrival(secured, f"pulsar+ssl://{url}", address, shown))
