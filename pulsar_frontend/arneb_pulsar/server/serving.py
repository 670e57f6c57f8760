"""Serving: from listeners to one :class:`Peer` for each connection."""

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import PackageNotFoundError, version

import trio

from arneb_core.api.core import Core
from arneb_core.api.listening import serve_listeners
from arneb_core.api.supervision import supervise
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.identity.certificates import Certificate
from arneb_pulsar.server.door import Door
from arneb_pulsar.server.peer import Peer

logger = logging.getLogger(__name__)

Secure = Callable[[trio.SocketStream], Awaitable[trio.SSLStream[trio.SocketStream]]]
"""Shakes hands on a connection that was accepted. Raises :class:`trio.BrokenResourceError`."""


async def serve_pulsar(
    core: Core,
    listeners: Sequence[trio.abc.Listener[trio.SocketStream]],
    *,
    config: PulsarConfig | None = None,
    door: Door | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve Pulsar clients on ``listeners`` until cancelled.

    Returns only by cancellation; every connection then sends what it still has to say, for a
    second at most, and is closed. ``door`` is one that others share; ``config`` is for a new one.
    """
    door = door or make_door(core, config or PulsarConfig())
    if not door.service_url and isinstance(listeners[0], trio.SocketListener):
        door.service_url = f"pulsar://{_render(listeners[0].socket.getsockname())}"

    async def handle(stream: trio.SocketStream, url: str, address: str) -> None:
        await serve_connection(door, stream, f"pulsar://{url}", address)

    await _serve(door, handle, listeners, task_status)


async def serve_tls(
    door: Door,
    listeners: Sequence[trio.abc.Listener[trio.SocketStream]],
    secure: Secure,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The same for clients that come by TLS, with whom ``secure`` shakes hands."""
    if not door.tls_service_url and isinstance(listeners[0], trio.SocketListener):
        door.tls_service_url = f"pulsar+ssl://{_render(listeners[0].socket.getsockname())}"

    async def handle(stream: trio.SocketStream, url: str, address: str) -> None:
        try:
            with trio.fail_after(door.config.handshake_timeout_s):
                secured = await secure(stream)
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            logger.info("x %s: TLS handshake failed: %s", address, error.__cause__ or error)
            await trio.aclose_forcefully(stream)
            return
        certificate: Certificate = secured.getpeercert() or {}
        await serve_connection(door, secured, f"pulsar+ssl://{url}", address, certificate)

    await _serve(door, handle, listeners, task_status)


async def _serve(
    door: Door,
    handle: Callable[[trio.SocketStream, str, str], Awaitable[None]],
    listeners: Sequence[trio.abc.Listener[trio.SocketStream]],
    task_status: trio.TaskStatus[None],
) -> None:
    """Have ``handle`` serve every client, of whom it is told where it came and where from."""

    async def accepted(stream: trio.SocketStream) -> None:
        try:
            ours, theirs = stream.socket.getsockname(), stream.socket.getpeername()
        except OSError:
            await trio.aclose_forcefully(stream)  # it is gone again
        else:
            await handle(stream, _render(ours), _render(theirs))

    async with trio.open_nursery() as connections:
        if not door.kept:
            door.kept = True
            connections.start_soon(door.keeper.run)
            connections.start_soon(
                supervise, "scheduling Pulsar's long requests", door.long_turns.run
            )
        await serve_listeners(
            accepted, listeners, handler_nursery=connections, task_status=task_status
        )


def make_door(core: Core, config: PulsarConfig) -> Door:
    """What the connections of one server share."""
    door = Door(core, config, _server_version(), token=secrets.token_hex(4))
    door.producers.sweep()
    door.registry.sweep()
    door.keeper.begin()
    return door


async def serve_connection(
    door: Door,
    stream: trio.abc.Stream,
    service_url: str,
    address: str,
    certificate: Certificate | None = None,
) -> None:
    """Serve one client; nothing that goes wrong with it reaches the caller.

    ``service_url`` is where the client reached us, ``address`` where it comes from, and
    ``certificate`` what it showed.
    """
    config = door.config
    secured = service_url.startswith("pulsar+ssl:")
    advertised = config.advertised_tls_url if secured else config.advertised_url
    peer = Peer(door, stream, advertised or service_url, address, certificate or {})
    try:
        await peer.run()
    except* Exception:
        # A defect of ours. It costs this client its connection, and nobody else anything.
        logger.exception("unexpected error in the connection of %s", address)


def _render(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _server_version() -> str:
    try:
        return f"Arneb {version('arneb')}"
    except PackageNotFoundError:
        return "Arneb"
