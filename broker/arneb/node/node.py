"""The node: one process that has a data directory, and the broker in it, which may be restarted.

The rule: the states and their moves are a table; a caller requests a move and waits for its result.
A start binds every port, locks the directory, and opens the control socket, then the store, then
the servers. The control socket stays open until the process ends.
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
from arneb_core.api.errors import StoreUnusable, describe
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.api.process.supervision import sole_error
from arneb_core.api.statistics import LongReader
from arneb_core.store.directory.directory import erase

if TYPE_CHECKING:
    from starlette.types import ASGIApp

STARTED: Final = "Server startup complete"
"""The line that scripts which start RabbitMQ wait for."""


def _version() -> str:
    """Return the version, and whether the hot modules are compiled by mypyc."""
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
    "channel_max": lambda value: type(value) is int and value in range(1 << 16),
    "consumer_timeout_s": _is_time,
    "loopback_users": _are_texts,
}
"""Settings that can be changed for new AMQP connections, each with a check of its values."""


class NodeState(Enum):
    """The state of a node's broker."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    """Still serving, but reported as not ready."""
    STOPPING = "stopping"
    """The broker is stopping; the process stays, and can start it again."""
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
"""The states that may follow each state."""


def _do_nothing() -> None:
    """Do nothing: the process cannot be ended, and no hook has to be removed."""


class Node:
    """One process and its broker. Belongs to the event loop."""

    def __init__(
        self,
        config: Config,
        say: Say,
        manager: ServiceManager = NO_MANAGER,
        reloading: Reloading | None = None,
        end: Callable[[], None] = _do_nothing,
        audit: AuditLog = NO_AUDIT,
    ) -> None:
        """``end`` is called when the control socket requests the end of the process."""
        self.config = config
        self.state = NodeState.STARTING
        self.shared: Shared | None = None
        """What the servers share while the broker runs."""
        self.others: dict[str, Shared] = {}
        """The same for each shard that this node leads beside the first, by name."""
        self.trusted: ASGIApp | None = None
        """The API for trusted callers, where this node may lead several shards."""
        self.cluster: Callable[[], Mapping[str, Any]] | None = None
        """Returns the node's state as a cluster member."""
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
        """Why the last start failed; empty if none did."""

    def __repr__(self) -> str:
        return f"<Node {self.state.value}, {self.config.data_dir}>"

    @property
    def is_ready(self) -> bool:
        """Whether clients may be sent here."""
        return self.state is NodeState.RUNNING

    @property
    def api(self) -> "ASGIApp | None":
        """The API that the control socket serves, without a login."""
        alone = None if self.shared is None else self.shared.api.trusted
        return self.trusted or alone

    def about(self) -> Mapping[str, Any]:
        """The node's identity and state, as JSON values."""
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
        """The running brokers; at most one outside a cluster."""
        return [each for each in (self.shared, *self.others.values()) if each is not None]

    def environment(self) -> Mapping[str, Any]:
        """The settings as JSON values, without secrets."""
        return shown_settings(self.config)

    async def run(self, listeners: Listeners) -> None:
        """Serve until :meth:`leave`, then close every bound port.

        Raises the error of a failed first start, and any error that ends a running broker.
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
                self._say("the broker is stopped, its process keeps running")
            is_again = False
            listeners = await self._bound_again(bound)

    async def _serve(self, listeners: Listeners) -> None:
        config = self.config
        with trio.CancelScope() as self._serving:
            if self.state is not NodeState.STARTING:
                return  # told to stop before it began
            if config.cluster.is_on:
                from arneb.clustered.member import serve_member

                await serve_member(config, listeners, self._say, self)  # runs long: no starting()
                return
            with starting():
                async with opener(config)(config.data_dir) as core, trio.open_nursery() as nursery:
                    self._say(f"{_version()}, data in {config.data_dir.absolute()}")
                    nursery.start_soon(end_if_broken, core, self._say)
                    await serve_all(core, config, listeners, self._say, self)

    async def _starts_again(self, why: str) -> bool:
        """Prepare to restart a broker that ended by itself; False if it was told to stop."""
        if self.state is NodeState.DRAINING:
            await self._until(NodeState.LEAVING)
        if self.state not in (NodeState.STARTING, NodeState.RUNNING):
            return False
        self._say(f"starting the broker again: {why}")
        self._move(NodeState.STOPPING)
        return True

    async def _bound_again(self, bound: Mapping[str, list[Address]]) -> Listeners:
        """Wait until the broker is started again, and bind the same ports."""
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

    # Reported by the servers

    def serves(self, shared: Shared) -> None:
        """Note that every server of the broker accepts clients."""
        if self.state is NodeState.STARTING:
            self.shared = shared
            self.is_up()

    def is_up(self) -> None:
        """Note that every port is served."""
        if self.state is NodeState.STARTING:
            self._move(NodeState.RUNNING)
            self._say(STARTED)
            self._manager.ready()

    def follow(self, name: str, hook: Hook, *followed: str) -> Callable[[], None]:
        """Call ``hook`` with the settings at each reload while this broker runs; changes of the
        settings ``followed`` then take effect at once. Return a function that removes the hook."""
        if self._reloading is None:
            return _do_nothing
        forget = self._reloading.add(name, hook, *followed)
        self._followers.append(forget)

        def forget_early() -> None:
            if forget in self._followers:
                self._followers.remove(forget)
                forget()

        return forget_early

    # Requested by operators

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
        """Remove everything that the stopped broker has stored. Raises :class:`NotPossible`."""
        if self.state is not NodeState.STOPPED:
            raise NotPossible("expected a broker that is stopped: `stop_app` first")
        try:
            for each in directories_of(self.config.data_dir):
                await trio.to_thread.run_sync(erase, each)
        except (StoreUnusable, OSError) as error:
            raise NotPossible(describe(error)) from error
        self._say(f"removed all that was stored in {self.config.data_dir}")

    async def adjust(self, settings: Mapping[str, Any]) -> None:
        """Change settings until the broker is restarted: ``channel_max``, ``consumer_timeout_s``
        and ``loopback_users`` for new AMQP connections, and ``log_level``. Raises
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
        """Stop for good: report not ready, wait for the configured time, end the broker."""
        if self.state in (NodeState.DRAINING, NodeState.LEAVING):
            return
        self._manager.stopping()
        if self.state is NodeState.RUNNING and self.config.stop.unready_s:
            self._move(NodeState.DRAINING)
            await trio.sleep(self.config.stop.unready_s)
        self._move(NodeState.LEAVING)
        self._serving.cancel()

    async def reload(self) -> bool:
        """Read the settings again, and reopen files that may have been moved. Return whether all
        of that succeeded."""
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
    """Return the configured address of each listener, by its name."""
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
