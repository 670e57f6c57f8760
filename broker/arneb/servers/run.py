"""One running broker: the engine, its servers, and an orderly end.

The rule is an order. Starting: every port is bound, then the store is opened, then the servers
start. Stopping: the servers close, so that nothing new arrives and messages in flight return to
their queues; only then does the engine write what it still holds and close the store.
"""

from contextlib import AsyncExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from arneb.listening.access import access, shut_out
from arneb.listening.listeners import Listeners
from arneb.logs.log_lines import Say
from arneb.monitoring.observed import node_name
from arneb.runtime.garbage import GarbageSchedule, Living
from arneb.servers.shared import PULSARS, OwnNode, Shared
from arneb.settings.config import Config
from arneb.settings.tls import NO_FILE
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.catalogue import Catalogue
from arneb_core.access.errors import AccessError
from arneb_core.api.entries.codec import name_codecs
from arneb_core.api.errors import CoreError, StoreUnusable, describe
from arneb_core.api.process.supervision import supervise
from arneb_core.engine.engine import Engine

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from arneb.servers.handed_over import HandedOver


CODECS: Final = ("arneb_amqp.codec", "arneb_pulsar.codec")
"""The entry points of ``arneb.codecs``, as the project's metadata names them."""


async def serve_all(
    core: Engine,
    config: Config,
    listeners: Listeners,
    say: Say,
    node: OwnNode,
    handed: "HandedOver | None" = None,
) -> None:
    """Serve the clients of every listener, or those that are handed over, until cancelled. Raises
    :class:`StoreUnusable`."""
    name_codecs(*CODECS)
    try:
        catalogue = await _open_catalogue(core, config, handed)
    except (ValueError, AccessError) as error:
        where = f"the vhosts and users stored in {config.data_dir}"
        raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error
    # The stack is outermost: the last spans are sent after every server has ended.
    async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
        if handed is not None:
            await handed.share.begin(catalogue, nursery)
        shared = Shared(core, config, listeners, catalogue, node, nursery, handed)
        _say_access(shared, say)
        if shared.proofs.required:
            shared.follow_proofs()
        try:
            if config.traces.endpoint:
                await _trace(shared, stack)
            if not listeners.by_name.keys().isdisjoint(PULSARS):
                await _know_transactions(shared)
                if handed is not None:
                    await handed.share.begin_tenants(shared.pulsar.context, nursery)
            await shared.alarms.look()
            nursery.start_soon(supervise, "the memory and disk alarms", shared.alarms.watch)
            nursery.start_soon(supervise, "the loop's lateness", shared.lateness.watch)
            for name in listeners.by_name:
                await _start_server(name, shared, nursery, say)
            if config.tls:
                nursery.start_soon(supervise, "the certificates", shared.certificates.watch)
            node.serves(shared)
            # Start-up is not measured: it delays no client.
            with nullcontext() if shared.watchdog is None else shared.watchdog.watching():
                async with trio.Lock() if handed is None else handed.collecting:
                    await GarbageSchedule(partial(_living, shared.core)).run()
        finally:
            await shared.backends.close()


async def _open_catalogue(core: Engine, config: Config, handed: "HandedOver | None") -> Catalogue:
    if handed is None:
        return await open_catalogue(core, config.amqp)
    share = handed.share
    seed = await share.seed(config.amqp.seed)
    catalogue = await open_catalogue(core, config.amqp, seed, share.belonging)
    share.check(catalogue, core.topics)
    return catalogue


def _say_access(shared: Shared, say: Say) -> None:
    """Say who may connect, and which settings of vhosts and users the store overrides."""
    for line in access(shared.config, shared.catalogue.tables):
        say(line)
    for line in shared.catalogue.ignored:
        say(f"ignored: {line}")
    if (passwords := shared.proofs.passwords) is not None:
        for line in shut_out(shared.config, passwords.shut_out):
            say(line)


async def _start_server(name: str, shared: Shared, nursery: trio.Nursery, say: Say) -> None:
    """Start one server, and say where it is ready. Raises :class:`StoreUnusable`."""
    # A server may take over its sockets, so note the addresses before it starts.
    # Handed-over clients have no listeners; their node has reported the addresses.
    addresses = [] if shared.handed else shared.listeners.addresses(name)
    try:
        await nursery.start(partial(_SERVERS[name], shared))
    except (OSError, StoreUnusable):
        raise
    except Exception as error:
        # A frontend reads its own rows, and damaged ones can cause any error.
        where = f"what is stored in {shared.config.data_dir} for {name}"
        raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error
    for address in addresses:
        say(f"{name} ready on {address}")


async def _trace(shared: Shared, stack: AsyncExitStack) -> None:
    """Trace messages until ``stack`` closes."""
    from arneb.monitoring.traces import traced

    shared.tracing = await stack.enter_async_context(traced(shared.config.traces))
    if not shared.listeners.by_name.keys().isdisjoint(PULSARS):
        from arneb.monitoring.pulsar_traces import PulsarTraces

        traces = PulsarTraces(shared.tracing.spans)
        shared.pulsar.context.message_observer.observer = traces


async def _know_transactions(shared: Shared) -> None:
    """Load which messages open transactions have acknowledged, before anybody consumes."""
    try:
        await shared.pulsar.context.transactions.start()
    except (CoreError, ValueError) as error:
        where = f"the open transactions stored in {shared.config.data_dir}"
        raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error


def _living(core: Engine) -> Living:
    return Living(trio.lowlevel.current_statistics().tasks_living, len(core.topics))


async def _serve_amqp(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb_amqp.server import serve_amqp
    from arneb_amqp.server.listener import GOODBYE_S
    from arneb_amqp.topology.topology import Topology

    by_name = shared.listeners.by_name
    listeners: list[trio.abc.Listener[Any]] = [*by_name.get("amqp", ())]
    if secured := by_name.get("amqp-tls"):
        from arneb_amqp.server.transport.tls import SecuredListener

        handshakes = shared.certificates.handshakes("amqp")
        listeners += [SecuredListener(each, handshakes.records) for each in secured]
    config = shared.config.amqp
    shared.topology = await Topology.open(shared.core, shared.catalogue, config)
    shared.topology.broker_events.node = node_name()
    await _load_definitions(shared)
    shared.start_shovels()
    if shared.tracing is not None:
        shared.tracing.see(shared.topology)
    await serve_amqp(
        shared.core,
        listeners,
        config=config,
        adjustable=shared.amqp,
        topology=shared.topology,
        authority=shared.authority,
        resource_alarms=shared.alarms.resource_alarms,
        roster=shared.roster,
        admitting=None if shared.handed is None else shared.handed.admitting,
        goodbye_s=GOODBYE_S if shared.handed is None else shared.handed.goodbye_s,
        node=None if shared.handed is None else shared.handed.occupancy,
        task_status=task_status,
    )


async def _load_definitions(shared: Shared) -> None:
    if (path := shared.config.load_definitions) == NO_FILE:
        return
    from arneb.http.management.definitions.importing import load_definitions

    assert shared.topology is not None, "there is a topology where AMQP is served"
    if shared.handed is None:
        await load_definitions(shared.catalogue, shared.topology, path)
        return
    await shared.handed.share.load_definitions(shared.catalogue, shared.topology, path)


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
    listeners = shared.listeners.by_name["pulsar-tls"]
    urls, (address, *_) = shared.pulsar.context.urls, shared.listeners.addresses("pulsar-tls")
    urls.tls = urls.tls or f"pulsar+ssl://{address}"
    handshakes = shared.certificates.handshakes("pulsar")
    await shared.pulsar.serve_tls(listeners, handshakes.secure, task_status=task_status)


async def _serve_http(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.access.audited import Audited
    from arneb.http.access.guarded import HEALTH, METRICS, READY, Guarded
    from arneb.http.routing.targets import OWN_PATHS
    from arneb.http.server.server import ByTls, serve_http

    table, api = shared.config.http, shared.api
    opened = (HEALTH, READY, METRICS) if table.open_metrics else (HEALTH, READY)
    app: ASGIApp = Guarded(
        api.own,
        shared.authenticator,
        opened,
        shared.authority,
        has_named=lambda: shared.has_named,
        is_super=shared.authorizer.is_super,
    )
    if api.site is not None:
        from arneb.http.management.app import ManagementApp

        app = ManagementApp(api.site, app)
    if shared.handed is not None:
        from arneb.http.routing.caught_up import CaughtUp

        app = CaughtUp(app, shared.handed.share.catch_up)
    app = shared.leased(Audited(app, shared.node.audit, "http"), OWN_PATHS)
    if api.site is not None:
        from arneb.http.page.files import PageFiles

        app = PageFiles(app)  # outside the lease: page files show nothing that is stored
    bodies = api.bodies
    if prefix := table.path_prefix:
        from arneb.http.server.prefixed import Prefixed

        app = Prefixed(app, prefix)
        bodies = {**bodies, **{prefix + path: size for path, size in bodies.items()}}
    by_name, by_tls = shared.listeners.by_name, None
    if secured := by_name.get("http-tls"):
        handshakes = shared.certificates.handshakes("http")
        by_tls = ByTls(secured, handshakes.secure)
    listeners = by_name.get("http", ())
    serving = shared.serving("http")
    await serve_http(
        app, listeners, table, bodies, by_tls, serving=serving, task_status=task_status
    )


async def _serve_http_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    """One server has the clients of both listeners."""
    if "http" in shared.listeners.by_name:
        task_status.started()
    else:
        await _serve_http(shared, task_status=task_status)


async def _serve_http_pulsar(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.access.audited import Audited
    from arneb.http.api.pulsar_admin import pulsar_admin_app
    from arneb.http.routing.targets import OWN_PULSAR_PATHS
    from arneb.http.server.server import ByTls, serve_http

    table = shared.config.http_pulsar
    app = pulsar_admin_app(
        shared.pulsar.context, shared.core, shared.alarms, open_metrics=table.open_metrics
    )
    by_name, by_tls = shared.listeners.by_name, None
    if secured := by_name.get("http-pulsar-tls"):
        by_tls = ByTls(secured, shared.certificates.handshakes("http_pulsar").secure)
    listeners = by_name.get("http-pulsar", ())
    if shared.handed is not None:
        from arneb.http.routing.caught_up import PULSAR_PATHS, CaughtUp

        app = CaughtUp(app, shared.handed.share.catch_up, PULSAR_PATHS)
    audited = shared.leased(Audited(app, shared.node.audit, "http-pulsar"), OWN_PULSAR_PATHS)
    serving = shared.serving("http-pulsar")
    await serve_http(
        audited, listeners, table, by_tls=by_tls, serving=serving, task_status=task_status
    )


async def _serve_http_pulsar_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    """One server has the clients of both listeners."""
    if "http-pulsar" in shared.listeners.by_name:
        task_status.started()
    else:
        await _serve_http_pulsar(shared, task_status=task_status)


async def _serve_metrics(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.metrics.app import metrics_app
    from arneb.http.server.server import serve_http

    listeners = shared.listeners.by_name["metrics"]
    app, serving = metrics_app(shared.metrics), shared.serving("metrics")
    await serve_http(
        app, listeners, shared.config.metrics, serving=serving, task_status=task_status
    )


# Each imports its server only when its listener is on, to save start-up time and memory.
_SERVERS: Final = {
    "amqp": _serve_amqp,
    "amqp-tls": _serve_amqp_tls,
    "pulsar": _serve_pulsar,
    "pulsar-tls": _serve_pulsar_tls,
    "http": _serve_http,
    "http-tls": _serve_http_tls,
    "http-pulsar": _serve_http_pulsar,
    "http-pulsar-tls": _serve_http_pulsar_tls,
    "metrics": _serve_metrics,
}
