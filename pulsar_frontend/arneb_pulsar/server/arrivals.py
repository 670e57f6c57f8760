"""Arrivals: from accepted sockets to clients, of whom is known where from and where to they came.

The rule: hands are shaken by TLS and a proxy's header is read, each within the time that a
handshake may take, and nothing of what a client says is looked at.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import trio

from arneb_core.api.ends import Ends, ends_of
from arneb_core.api.proxy_protocol import ends_behind
from arneb_pulsar.authentication.grants import Certificate
from arneb_pulsar.config import PulsarConfig

logger = logging.getLogger(__name__)

Secure = Callable[[trio.SocketStream], Awaitable[trio.SSLStream[trio.SocketStream]]]
"""Shakes hands on a connection that was accepted. Raises :class:`trio.BrokenResourceError`."""

Listeners = Sequence[trio.abc.Listener[trio.SocketStream]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A client that has come."""

    stream: trio.abc.Stream
    service_url: str
    """Where it reached us."""
    address: str
    """Where it comes from."""
    certificate: Certificate = field(default_factory=dict)
    """What it showed."""


Handle = Callable[[Arrival], Awaitable[None]]
"""Serves a client, and closes its stream."""


async def arrive(
    stream: trio.SocketStream, config: PulsarConfig, handle: Handle, secure: Secure | None = None
) -> None:
    """Have ``handle`` serve the client of a socket, with whom ``secure`` shakes hands if it comes
    by TLS."""
    try:
        ends: Ends | None = ends_of(stream.socket)
    except OSError:
        ends = None  # it is gone again
    if ends is not None and config.proxy_protocol:
        ends = await ends_behind(ends, stream.socket, config.handshake_timeout_s)
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
