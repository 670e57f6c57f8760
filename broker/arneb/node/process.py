"""The process: signals, one node, the control socket, and an end within a time limit.

The rule: every port is bound, then the data directory is locked, then the control socket opens, and
only then is anything read. The first signal stops the process in order, the second kills it.
"""

import logging
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from arneb.control.place import ControlPlace
from arneb.control.serving import serve_control
from arneb.listening.listeners import Listeners
from arneb.logs.audit_log import NO_AUDIT, AuditLog, AuditRecord
from arneb.logs.log_lines import Say
from arneb.node.node import Node, listens
from arneb.runtime.descriptors import raise_limit
from arneb.runtime.ending import STOP_WITHIN_S, break_off_after
from arneb.runtime.service_manager import ServiceManager
from arneb.settings.config import Config
from arneb_core.api.process.supervision import sole_error, supervise

if TYPE_CHECKING:
    from arneb.settings.reloading import Reloading

logger = logging.getLogger(__name__)

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
SIGNALS: Final = (*STOP_SIGNALS, signal.SIGHUP)

SWITCH_INTERVAL_S: Final = 0.0005
"""How long the event loop may keep the writer thread waiting for the interpreter lock. A commit
takes the lock some ten times; beside a busy loop, the median commit took 6 to 16 ms at Python's
default of 5 ms, and takes 1 ms now."""


async def run_broker(
    config: Config,
    say: Say,
    reloading: "Reloading | None" = None,
    audit: AuditLog = NO_AUDIT,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then stop in order; a second signal kills the process. On
    SIGHUP, ``reloading`` reads the settings again.

    Raises :class:`BindFailed` and :class:`StoreUnusable`, with nothing changed.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    raise_limit()
    try:
        with trio.open_signal_receiver(*SIGNALS) as signals:
            await run_watched(config, say, signals, reloading, audit)
    except BaseExceptionGroup as group:
        # Nurseries wrap even a single error; callers expect it unwrapped.
        raise sole_error(group) from None


async def run_watched(
    config: Config,
    say: Say,
    signals: AsyncIterator[int],
    reloading: "Reloading | None" = None,
    audit: AuditLog = NO_AUDIT,
) -> None:
    """Run the broker, with its signals from an iterator."""
    listeners = await Listeners.bind(listens(config))
    try:
        claim = await trio.to_thread.run_sync(ControlPlace.claim, config.data_dir)
    except BaseException:
        await listeners.close()
        raise
    try:
        async with ServiceManager.of_environment() as manager, trio.open_nursery() as watch:
            node = Node(
                config, say, manager, reloading, lambda: watch.start_soon(end, node, say), audit
            )
            obey = partial(_obey, signals, node, say)
            watch.start_soon(supervise, "the signal handler", obey)
            try:
                await watch.start(serve_control, node, claim)
            except OSError as error:
                logger.warning("no control socket in %s: %s", config.data_dir, error)
            await node.run(listeners)
            say("stopped")
            watch.cancel_scope.cancel()
    finally:
        claim.leave()


async def _obey(signals: AsyncIterator[int], node: Node, say: Say) -> None:
    """Handle signals until one stops the process, and make sure that it ends."""
    async for number in signals:
        name = signal.Signals(number).name
        if number == signal.SIGHUP:
            outcome = "done" if await node.reload() else "rejected"
            await node.audit.record(AuditRecord("", "signal", "", name, outcome))
            continue
        await node.audit.record(AuditRecord("", "signal", "", name, "done"))
        say(f"stopping on {name}")
        await end(node, say)
        return


async def end(node: Node, say: Say) -> None:
    """Stop in order and for good, within the time limit."""
    # The default handler kills the process on the next signal, even if a hung disk blocks us.
    for each in STOP_SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    break_off_after(STOP_WITHIN_S + node.config.stop.unready_s, say)
    await node.leave()
