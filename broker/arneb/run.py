"""One running broker: the engine, its servers, and an orderly end.

The order is the whole point. Starting: every port is bound, then the store is opened, then
the servers start. Stopping: the servers close, so nothing new comes in and what is in flight
goes back, and only then the engine writes what it still holds and closes the store.
"""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from functools import cached_property, partial
from threading import Timer
from typing import TYPE_CHECKING, Any, Final

import trio

from arneb import __version__
from arneb.access import access, has_named, shut_out
from arneb.alarms import Alarms
from arneb.config import Config
from arneb.descriptors import raise_limit
from arneb.garbage import GarbageSchedule, Living
from arneb.listeners import Listeners
from arneb.tls import NO_FILE
from arneb.turn_watchdog import TurnWatchdog
from arneb.watermarks import read_levels
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.errors import AccessError
from arneb_core.api.errors import StoreUnusable, describe
from arneb_core.api.supervision import supervise
from arneb_core.engine.engine import Engine, open_engine

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from arneb.logins.backends import Backends
    from arneb_amqp.server.roster import Roster
    from arneb_amqp.topology.topology import Topology
    from arneb_core.access.authority import Authority
    from arneb_core.access.catalogue import Catalogue
    from arneb_pulsar.authentication.files import Proofs
    from arneb_pulsar.server import PulsarServer

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

STOP_WITHIN_S: Final = 4.5
"""A stop that takes longer is broken off, to keep the promise of 5 s. Nothing confirmed is
lost then either: the store is as safe against this as against a crash."""

BROKEN_OFF: Final = 1
"""The exit status of a stop that took too long, or that an error in the commit path brought."""

SWITCH_INTERVAL_S: Final = 0.0005
"""How long the event loop may keep the writer thread waiting for the interpreter. Beside a busy
loop a commit needs it some ten times; at Python's 5 ms its median was 6 to 16 ms, now 1."""

Say = Callable[[str], None]
"""Tells the user one line."""


async def run_broker(config: Config, say: Say) -> None:
    """Serve until SIGTERM or Ctrl-C, then stop in order; a second signal kills the process.

    Raises :class:`BindFailed` and :class:`StoreUnusable`, with nothing touched.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    raise_limit()
    try:
        with trio.open_signal_receiver(*STOP_SIGNALS) as signals:
            await _run_watched(config, say, signals)
    except BaseExceptionGroup as group:
        # Nurseries wrap what a caller wants to see bare, even when it is one error only.
        raise sole_error(group) from None


def sole_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error in ``group``, however deep; ``group`` itself if there are several."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return group if isinstance(error, BaseExceptionGroup) else error


async def _run_watched(config: Config, say: Say, signals: AsyncIterator[int]) -> None:
    wanted = {
        "amqp": config.amqp.listen,
        "amqp-tls": config.amqp.tls.listen,
        "pulsar": config.pulsar.listen,
        "pulsar-tls": config.pulsar.tls.listen,
        "http": config.http.listen,
        "http-pulsar": config.http_pulsar.listen,
    }
    listeners = await Listeners.bind(wanted)
    async with trio.open_nursery() as watch:
        serving = trio.CancelScope()
        obey = partial(_obey, signals, serving, say)
        watch.start_soon(supervise, "the signal handler", obey)
        try:
            with serving:
                kept = config.retention.retention
                async with open_engine(
                    config.data_dir,
                    retention=kept,
                    delays=config.delayed,
                    reader_limit_s=config.store.reader_limit_s,
                ) as core:
                    say(f"arneb {__version__}, data in {config.data_dir.absolute()}")
                    await _serve_all(core, config, listeners, say)
        finally:
            await listeners.close()
        say("stopped")
        watch.cancel_scope.cancel()


class Shared:
    """What the servers of one broker have in common."""

    def __init__(
        self, core: Engine, config: Config, listeners: Listeners, catalogue: "Catalogue"
    ) -> None:
        self.core = core
        self.catalogue = catalogue
        self.config = config
        self.listeners = listeners
        self.watchdog = TurnWatchdog() if config.debug.turn_watchdog else None
        read = partial(read_levels, room_inside=core.room_inside)
        self.alarms = Alarms(config.alarms, config.data_dir, read=read)
        self.alarms.resource_alarms.listen(core.alarms_changed)

        self.topology: Topology | None = None
        """AMQP's, if that is served."""
        self.addresses = {name: listeners.addresses(name) for name in listeners.by_name}
        """Where is listened, by the name of the listener: a server may take its sockets over."""

    @cached_property
    def roster(self) -> "Roster":
        """Who is connected by AMQP."""
        from arneb_amqp.server.roster import Roster

        return Roster()

    @cached_property
    def authority(self) -> "Authority":
        """Lets in the users of AMQP and of the HTTP ports."""
        from arneb_core.access.authority import Authority

        return Authority(self.backends.in_order, self.config.amqp.is_loopback_only)

    @cached_property
    def backends(self) -> "Backends":
        """Who knows the users."""
        from arneb.logins.backends import Backends

        return Backends(self.config.logins, self.catalogue.tables, time.time)

    @cached_property
    def proofs(self) -> "Proofs":
        """What clients of Pulsar and of the HTTP ports prove themselves by."""
        from arneb_pulsar.authentication.files import read_proofs

        return read_proofs(self.config.pulsar.authentication)

    @cached_property
    def pulsar(self) -> "PulsarServer":
        """Pulsar's server, whose context its administrators look after."""
        from arneb_pulsar.server import PulsarServer
        from arneb_pulsar.services.context import make_context

        return PulsarServer(make_context(self.core, self.config.pulsar))


async def _serve_all(core: Engine, config: Config, listeners: Listeners, say: Say) -> None:
    try:
        catalogue = await open_catalogue(core, config.amqp)
    except (ValueError, AccessError) as error:
        where = f"the vhosts and users stored in {config.data_dir}"
        raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error
    shared = Shared(core, config, listeners, catalogue)
    for line in access(config, catalogue.tables):
        say(line)
    for line in catalogue.ignored:
        say(f"ignored: {line}")
    if (passwords := shared.proofs.passwords) is not None:
        for line in shut_out(config, passwords.shut_out):
            say(line)
    try:
        async with trio.open_nursery() as nursery:
            await shared.alarms.look()
            nursery.start_soon(_end_if_broken, shared.core, say)
            nursery.start_soon(supervise, "the memory and disk alarms", shared.alarms.watch)
            for name in listeners.by_name:
                addresses = listeners.addresses(name)  # a server may take its sockets over
                try:
                    await nursery.start(partial(_SERVERS[name], shared))
                except (OSError, StoreUnusable):
                    raise
                except Exception as error:
                    # A frontend reads what it keeps in the store; damaged rows can say anything.
                    where = f"what is stored in {shared.config.data_dir} for {name}"
                    raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error
                for address in addresses:
                    say(f"{name} ready on {address}")
            # What start-up does is nobody's turn: there is nobody yet.
            with nullcontext() if shared.watchdog is None else shared.watchdog.watching():
                await GarbageSchedule(partial(_living, shared.core)).run()
    finally:
        await shared.backends.close()


def _living(core: Engine) -> Living:
    return Living(trio.lowlevel.current_statistics().tasks_living, len(core.topics))


async def _serve_amqp(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb_amqp.server import serve_amqp
    from arneb_amqp.topology.topology import Topology

    by_name = shared.listeners.by_name
    listeners: list[trio.abc.Listener[Any]] = [*by_name.get("amqp", ())]
    if secured := by_name.get("amqp-tls"):
        from arneb.handshakes import Handshakes
        from arneb.tls import read_tls
        from arneb_amqp.server.tls import SecuredListener

        handshakes = Handshakes(read_tls(shared.config.amqp.tls))
        listeners += [SecuredListener(each, handshakes.secure) for each in secured]
    config = shared.config.amqp
    shared.topology = await Topology.open(shared.core, shared.catalogue, config)
    if (path := shared.config.load_definitions) != NO_FILE:
        from arneb.http.management.importing import load_definitions

        await load_definitions(shared.catalogue, shared.topology, path)
    await serve_amqp(
        shared.core,
        listeners,
        config=config,
        topology=shared.topology,
        authority=shared.authority,
        resource_alarms=shared.alarms.resource_alarms,
        roster=shared.roster,
        task_status=task_status,
    )


async def _serve_amqp_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    """One server has the clients of both listeners."""
    if "amqp" in shared.listeners.by_name:
        task_status.started()
    else:
        await _serve_amqp(shared, task_status=task_status)


async def _serve_pulsar(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    listeners = shared.listeners.by_name["pulsar"]
    urls, (address, *_) = shared.pulsar.context.urls, shared.listeners.addresses("pulsar")
    urls.plain = urls.plain or f"pulsar://{address}"
    await shared.pulsar.serve(listeners, task_status=task_status)


async def _serve_pulsar_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.handshakes import Handshakes
    from arneb.tls import read_tls

    listeners = shared.listeners.by_name["pulsar-tls"]
    urls, (address, *_) = shared.pulsar.context.urls, shared.listeners.addresses("pulsar-tls")
    urls.tls = urls.tls or f"pulsar+ssl://{address}"
    handshakes = Handshakes(read_tls(shared.config.pulsar.tls))
    await shared.pulsar.serve_tls(listeners, handshakes.secure, task_status=task_status)


async def _serve_http(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.data.granted import GrantedRights
    from arneb.data.service import DataService
    from arneb.http.app import http_app
    from arneb.http.server import serve_http

    config, by_name = shared.config, shared.listeners.by_name
    has_pulsar = not by_name.keys().isdisjoint(("pulsar", "pulsar-tls", "http-pulsar"))
    pulsar = shared.pulsar.context if has_pulsar else None
    rights_of = GrantedRights(shared.catalogue)
    data = DataService(shared.core, shared.topology, pulsar, config.data, rights_of)
    app: ASGIApp = http_app(shared.core, shared.alarms, shared.watchdog, data.routes)
    table = shared.config.http
    users = shared.authority if has_named(shared.catalogue.tables) else None
    if shared.proofs.required or users is not None:
        from arneb.http.guarded import HEALTH, METRICS, Guarded
        from arneb_pulsar.services.authenticator import Authenticator

        opened = (HEALTH, METRICS) if table.open_metrics else (HEALTH,)
        app = Guarded(app, Authenticator(shared.proofs), opened, users)
    listeners, bodies = shared.listeners.by_name["http"], dict(data.bodies)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(data.run)
        if shared.topology is not None:
            from arneb.http.management.app import LARGER, ManagementApp
            from arneb.management import make_site

            site = make_site(shared, shared.topology)
            nursery.start_soon(supervise, "the management API's samples", site.rates.run)
            app = ManagementApp(site, app)
            bodies |= LARGER
        await serve_http(app, listeners, table, bodies, task_status=task_status)


async def _serve_http_pulsar(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.pulsar_admin import pulsar_admin_app
    from arneb.http.server import serve_http

    table = shared.config.http_pulsar
    app = pulsar_admin_app(
        shared.pulsar.context, shared.core, shared.alarms, open_metrics=table.open_metrics
    )
    listeners = shared.listeners.by_name["http-pulsar"]
    await serve_http(app, listeners, table, task_status=task_status)


# Imported only when the listener is on: start-up time and memory are for what is used.
_SERVERS: Final = {
    "amqp": _serve_amqp,
    "amqp-tls": _serve_amqp_tls,
    "pulsar": _serve_pulsar,
    "pulsar-tls": _serve_pulsar_tls,
    "http": _serve_http,
    "http-pulsar": _serve_http_pulsar,
}


async def _obey(signals: AsyncIterator[int], serving: trio.CancelScope, say: Say) -> None:
    """Stop in order at the first signal, and see to it that the process ends."""
    number = await anext(signals)
    say(f"stopping on {signal.Signals(number).name}")
    # The next signal is the system's to deal with, even if a disk that hangs blocks us.
    for each in STOP_SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    _break_off_after(STOP_WITHIN_S, say)
    serving.cancel()


async def _end_if_broken(core: Engine, say: Say) -> None:
    """See to it that the process ends soon when the engine cannot go on: whoever waits for a
    commit that was under way waits for ever."""
    await core.broken()
    say("stopping: an error in the commit path, see the log")
    _break_off_after(STOP_WITHIN_S, say)


def _break_off_after(seconds: float, say: Say) -> None:
    """End the process when ``seconds`` have passed, whatever it is waiting for by then."""

    def break_off() -> None:
        say(f"did not stop within {seconds} s, ending the process")
        os._exit(BROKEN_OFF)

    timer = Timer(seconds, break_off)
    timer.daemon = True
    timer.start()
