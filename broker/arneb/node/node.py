"""The node: one process that has a data directory, and the broker in it, which may be restarted.

The rule: the states are a table, and whoever steers asks for a move and waits for what comes of it.
The order of a start is: every port is bound, the directory is taken, the control socket opens, then
the store, then the servers. The control socket stays open until the process ends.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import trio

from arneb import __version__
from arneb.control.serving import NotPossible
from arneb.listening.listeners import BindFailed, Listeners
from arneb.logs.audit_log import NO_AUDIT, AuditLog
from arneb.logs.log_lines import Say, set_log_level
from arneb.monitoring.observed import node_name
from arneb.runtime.ending import StartAgain, end_if_broken
from arneb.runtime.garbage import starting, thaw
from arneb.runtime.service_manager import NO_MANAGER, ServiceManager
from arneb.servers.run import serve_all
from arneb.servers.shared import Shared
from arneb.settings.config import Address, Config, Listen
from arneb.settings.process import LogLevel
from arneb.settings.reloading import Hook, Reloading
from arneb.settings.shards import directories_of
from arneb.settings.shown import shown_settings
from arneb.store.opening import opener
from arneb_core.api.clock import wall_clock_ms
from arneb_core.api.errors import StoreUnusable, describe
from arneb_core.api.statistics import LongReader
from arneb_core.api.supervision import sole_error
from arneb_core.store.directory.directory import erase

if TYPE_CHECKING:
    from starlette.types import ASGIApp

STARTED: Final = "Server startup complete"
"""What scripts that start a RabbitMQ wait for."""


def _version() -> str:
    """And what the hot modules are: mypyc's, or Python as it is written."""
    found = find_spec("arneb_amqp.wire.fast")
    is_source = found is None or found.origin is None or found.origin.endswith(".py")
    return f"arneb {__version__}, {'pure Python' if is_source else 'compiled'}"


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: object) -> bool:
    return _is_count(value) or (isinstance(value, float) and 0 <= value < float("inf"))


ADJUSTABLE: Final[Mapping[str, Callable[[object], bool]]] = {
    "channel_max": _is_count,
    "consumer_timeout_s": _is_time,
    "loopback_users": _are_texts,
}
"""What may be changed for AMQP's next clients, and which values are possible."""


class NodeState(Enum):
    """What the broker of a node does."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    """It serves on, and says that it is not ready."""
    STOPPING = "stopping"
    """To be started again."""
    STOPPED = "stopped"
    LEAVING = "leaving"
    """The process is about to end."""


MOVES: Final[Mapping[NodeState, frozenset[NodeState]]] = {
    NodeState.STARTING: frozenset(
        {NodeState.RUNNING, NodeState.STOPPING, NodeState.STOPPED, NodeState.LEAVING}
    ),
    NodeState.RUNNING: frozenset({NodeState.DRAINING, NodeState.STOPPING, NodeState.LEAVING}),
    NodeState.DRAINING: frozenset({NodeState.LEAVING}),
    NodeState.STOPPING: frozenset({NodeState.STOPPED, NodeState.LEAVING}),
    NodeState.STOPPED: frozenset({NodeState.STARTING, NodeState.LEAVING}),
    NodeState.LEAVING: frozenset(),
}
"""What may follow on what."""


def _nobody() -> None:
    """Nobody ends the process, and nobody is to be forgotten."""


class Node:
    """One process and its broker. Belongs to the event loop."""

    def __init__(
        self,
        config: Config,
        say: Say,
        manager: ServiceManager = NO_MANAGER,
        reloading: Reloading | None = None,
        end: Callable[[], None] = _nobody,
        audit: AuditLog = NO_AUDIT,
    ) -> None:
        """``end`` is called when the process is to end, as asked by the control socket."""
        self.config = config
        self.state = NodeState.STARTING
        self.shared: Shared | None = None
        """What the servers have in common while the broker runs."""
        self.others: dict[str, Shared] = {}
        """The same of other shards than the first that this node leads."""
        self.trusted: ASGIApp | None = None
        """What whoever is trusted is answered, where this node may lead several shards."""
        self.cluster: Callable[[], Mapping[str, Any]] | None = None
        """Tells how it does as a member of a cluster."""
        self.hands_over: Callable[[str, str], Awaitable[Mapping[str, Any]]] | None = None
        self.flushes: Callable[[], Awaitable[None]] | None = None
        self._say = say
        self._manager = manager
        self._reloading = reloading
        self.end = end
        self.audit = audit
        self._serving = trio.CancelScope()
        self._changed = trio.Event()
        self._followers: list[Callable[[], None]] = []
        self._failure = ""
        """Why the last start failed."""

    def __repr__(self) -> str:
        return f"<Node {self.state.value}, {self.config.data_dir}>"

    @property
    def is_ready(self) -> bool:
        """Clients may be sent here."""
        return self.state is NodeState.RUNNING

    @property
    def api(self) -> "ASGIApp | None":
        """What is served without a login to whoever may open the control socket."""
        alone = None if self.shared is None else self.shared.api.trusted
        return self.trusted or alone

    def about(self) -> Mapping[str, Any]:
        """What it is and how it is, as JSON's values."""
        return {
            "node": node_name(),
            "state": self.state.value,
            "pid": os.getpid(),
            "version": __version__,
            "data_dir": str(self.config.data_dir.absolute()),
            "failure": self._failure,
            "now_ms": wall_clock_ms(),
            "cluster": None if self.cluster is None else self.cluster(),
            "long_readers": [asdict(each) for each in self._long_readers],
        }

    @property
    def _long_readers(self) -> Sequence[LongReader]:
        return [r for each in self._brokers for r in each.core.statistics().long_readers]

    @property
    def _brokers(self) -> Sequence[Shared]:
        """Those that run: of a node that is alone one at the most."""
        return [each for each in (self.shared, *self.others.values()) if each is not None]

    def environment(self) -> Mapping[str, Any]:
        """Its settings as JSON's values, without secrets."""
        return shown_settings(self.config)

    async def run(self, listeners: Listeners) -> None:
        """Serve until :meth:`leave`; whatever was bound is closed then.

        Raises what the first start raises, and what ends a running broker.
        """
        is_first, is_again = True, False
        bound = {name: listeners.addresses(name) for name in listeners.by_name}
        while True:
            try:
                await self._serve(listeners)
            except (StoreUnusable, OSError, BaseExceptionGroup) as error:
                cause = sole_error(error) if isinstance(error, BaseExceptionGroup) else error
                is_start = self.state is NodeState.STARTING and not is_first
                if isinstance(cause, StartAgain):
                    is_again = await self._starts_again(str(cause))
                elif not is_start or not isinstance(cause, StoreUnusable | OSError):
                    raise
                else:
                    self._failure = describe(cause)
            finally:
                await listeners.close()
                self.shared = None
                for forget in self._followers:
                    forget()
                self._followers.clear()
            if self.state is NodeState.LEAVING:
                return
            is_first = False
            self._move(NodeState.STOPPED)
            thaw()
            if is_again:
                self._move(NodeState.STARTING)
            else:
                self._say("the broker is stopped, its process goes on")
            is_again = False
            listeners = await self._bound_again(bound)

    async def _serve(self, listeners: Listeners) -> None:
        config = self.config
        with trio.CancelScope() as self._serving:
            if self.state is not NodeState.STARTING:
                return  # told to stop before it began
            if config.cluster.is_on:
                from arneb.clustered.member import serve_member

                await serve_member(config, listeners, self._say, self)  # no start, it lasts
                return
            with starting():
                async with opener(config)(config.data_dir) as core, trio.open_nursery() as nursery:
                    self._say(f"{_version()}, data in {config.data_dir.absolute()}")
                    nursery.start_soon(end_if_broken, core, self._say)
                    await serve_all(core, config, listeners, self._say, self)

    async def _starts_again(self, why: str) -> bool:
        """The broker has ended by itself, to be started again, unless somebody has stopped it."""
        if self.state is NodeState.DRAINING:
            await self._until(NodeState.LEAVING)
        if self.state not in (NodeState.STARTING, NodeState.RUNNING):
            return False
        self._say(f"starting the broker again: {why}")
        self._move(NodeState.STOPPING)
        return True

    async def _bound_again(self, bound: Mapping[str, list[Address]]) -> Listeners:
        """Wait until the broker is to run again, and bind the same ports."""
        while True:
            await self._until(NodeState.STARTING, NodeState.LEAVING)
            if self.state is NodeState.LEAVING:
                return Listeners()
            wanted = {
                name: replace(address, port=bound[name][0].port)
                for name, address in listens(self.config).items()
                if address is not None
            }
            try:
                return await Listeners.bind(wanted)
            except BindFailed as error:
                self._failure = str(error)
                self._move(NodeState.STOPPED)

    # What serving tells

    def serves(self, shared: Shared) -> None:
        """Every server accepts clients."""
        if self.state is NodeState.STARTING:
            self.shared = shared
            self.is_up()

    def is_up(self) -> None:
        """Every port is served."""
        if self.state is NodeState.STARTING:
            self._move(NodeState.RUNNING)
            self._say(STARTED)
            self._manager.ready()

    def follow(self, name: str, hook: Hook, *followed: str) -> Callable[[], None]:
        """Have ``hook`` called with the settings when they are read again, for as long as this
        broker runs, or until what is returned is called; ``followed`` hold at once then."""
        if self._reloading is None:
            return _nobody
        forget = self._reloading.add(name, hook, *followed)
        self._followers.append(forget)

        def forget_early() -> None:
            if forget in self._followers:
                self._followers.remove(forget)
                forget()

        return forget_early

    # What operators ask for

    async def stop_app(self) -> None:
        """Stop the broker and keep the process. Raises :class:`NotPossible`."""
        if self.state in (NodeState.STARTING, NodeState.RUNNING):
            self._move(NodeState.STOPPING)
            self._say("stopping the broker, as asked by the control socket")
            self._serving.cancel()
        elif self.state not in (NodeState.STOPPING, NodeState.STOPPED):
            raise NotPossible("the process is about to end")
        await self._until(NodeState.STOPPED, NodeState.LEAVING)

    async def start_app(self) -> None:
        """Start a broker that was stopped. Raises :class:`NotPossible`."""
        if self.state is NodeState.STOPPING:
            await self._until(NodeState.STOPPED, NodeState.LEAVING)
        if self.state is NodeState.STOPPED:
            self._move(NodeState.STARTING)
        await self._until(NodeState.RUNNING, NodeState.STOPPED, NodeState.LEAVING)
        if self.state is not NodeState.RUNNING:
            raise NotPossible(self._failure or "the process is about to end")

    async def reset(self) -> None:
        """Remove all that the stopped broker has stored. Raises :class:`NotPossible`."""
        if self.state is not NodeState.STOPPED:
            raise NotPossible("expected a broker that is stopped: `stop_app` first")
        try:
            for each in directories_of(self.config.data_dir):
                await trio.to_thread.run_sync(erase, each)
        except (StoreUnusable, OSError) as error:
            raise NotPossible(describe(error)) from error
        self._say(f"removed all that was stored in {self.config.data_dir}")

    async def adjust(self, settings: Mapping[str, Any]) -> None:
        """Other settings until the broker is started again: ``channel_max``, ``consumer_timeout_s``
        and ``loopback_users`` for AMQP's next clients, and ``log_level``. Raises
        :class:`NotPossible`."""
        given = dict(settings)
        level = given.pop("log_level", None)
        for name, value in given.items():
            check = ADJUSTABLE.get(name)
            if check is None:
                raise NotPossible(f"{name} cannot be changed while the broker runs")
            if not check(value):
                raise NotPossible(f"{name}: {value!r} is not possible")
        if given and not self._brokers:
            raise NotPossible("expected a broker that runs")
        if level is not None:
            try:
                set_log_level(LogLevel(level))
            except ValueError:
                known = ", ".join(each.value for each in LogLevel)
                raise NotPossible(f"expected one of {known}, got {level!r}") from None
        for each in self._brokers if given else ():
            each.amqp.now = each.amqp.now.adjusted(**given)

    async def hand_over(self, shard: str, successor: str) -> Mapping[str, Any]:
        """See :class:`.Steered`."""
        if self.hands_over is None:
            raise NotPossible(f"{node_name()} is not a member of a cluster")
        return await self.hands_over(shard, successor)

    async def leave(self) -> None:
        """Stop for good: say that nobody is to come, wait as long as is set, end what runs."""
        if self.state in (NodeState.DRAINING, NodeState.LEAVING):
            return
        self._manager.stopping()
        if self.state is NodeState.RUNNING and self.config.stop.unready_s:
            self._move(NodeState.DRAINING)
            await trio.sleep(self.config.stop.unready_s)
        self._move(NodeState.LEAVING)
        self._serving.cancel()

    async def reload(self) -> bool:
        """Look at the settings again, and open files anew that others may have moved; whether all
        of that went well."""
        if self._reloading is None:
            return True
        with self._manager.reloading():
            for line in await self._reloading.run(self.config):
                self._say(line)
        return self._reloading.is_done

    def _move(self, state: NodeState) -> None:
        assert state in MOVES[self.state], f"{self.state.value} -> {state.value}"
        self.state = state
        self._changed.set()
        self._changed = trio.Event()
        self._manager.status(state.value)

    async def _until(self, *states: NodeState) -> None:
        while self.state not in states:
            await self._changed.wait()


def listens(config: Config) -> dict[str, Listen]:
    """Where each server is to listen, by the name of its listener."""
    return {
        "amqp": config.amqp.listen,
        "amqp-tls": config.amqp.tls.listen,
        "pulsar": config.pulsar.listen,
        "pulsar-tls": config.pulsar.tls.listen,
        "http": config.http.listen,
        "http-tls": config.http.tls.listen,
        "http-pulsar": config.http_pulsar.listen,
        "metrics": config.metrics.listen,
        "http-pulsar-tls": config.http_pulsar.tls.listen,
        "internal": config.cluster.internal.listen if config.cluster.is_on else None,
    }
