"""One running broker: the engine, its doors, and an orderly end.

The order is the whole point. Starting: every port is bound, then the store is opened, then
the doors open. Stopping: the doors close, so nothing new comes in and what is in flight
goes back, and only then the engine writes what it still holds and closes the store.
"""

import gc
import os
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final, NoReturn

import trio

from arneb import __version__
from arneb.config import Config
from arneb.listeners import Listeners
from arneb_core.engine import Engine, open_engine

STOP_WITHIN_S: Final = 4.5
"""A stop that takes longer is broken off, to keep the promise of 5 s. Nothing confirmed is
lost then either: the store is as safe against this as against a crash."""

BROKEN_OFF: Final = 1
"""The exit status of a stop that was not orderly."""

Say = Callable[[str], None]
"""Tells the user one line."""


async def run_broker(config: Config, say: Say) -> None:
    """Serve until SIGTERM or Ctrl-C, then stop in order; a second signal ends the process.

    Raises :class:`BindFailed` and :class:`StoreUnusable`, with nothing touched.
    """
    try:
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
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
        "pulsar": config.pulsar.listen,
        "http": config.http.listen,
    }
    listeners = await Listeners.bind(wanted)
    async with trio.open_nursery() as watch:
        serving = trio.CancelScope()
        watch.start_soon(_obey, signals, serving, say)
        try:
            with serving:
                async with open_engine(config.data_dir) as core:
                    say(f"arneb {__version__}, data in {config.data_dir.absolute()}")
                    await _serve_doors(core, config, listeners, say)
        finally:
            await listeners.close()
        say("stopped")
        watch.cancel_scope.cancel()


async def _serve_doors(core: Engine, config: Config, listeners: Listeners, say: Say) -> None:
    async with trio.open_nursery() as nursery:
        for door in listeners.by_door:
            addresses = listeners.addresses(door)  # a door may take its sockets over
            await nursery.start(partial(_DOORS[door], core, config, listeners))
            for address in addresses:
                say(f"{door} ready on {address}")
        # What start-up left behind stays for good: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        await trio.sleep_forever()


async def _serve_amqp(
    core: Engine, config: Config, listeners: Listeners, *, task_status: trio.TaskStatus[Any]
) -> None:
    from arneb_amqp.server import serve_amqp

    await serve_amqp(core, listeners.by_door["amqp"], config=config.amqp, task_status=task_status)


async def _serve_pulsar(
    core: Engine, config: Config, listeners: Listeners, *, task_status: trio.TaskStatus[Any]
) -> None:
    from arneb_pulsar.server import serve_pulsar

    await serve_pulsar(
        core, listeners.by_door["pulsar"], config=config.pulsar, task_status=task_status
    )


async def _serve_http(
    core: Engine, config: Config, listeners: Listeners, *, task_status: trio.TaskStatus[Any]
) -> None:
    from arneb.http.app import http_app
    from arneb.http.server import serve_http

    await serve_http(http_app(core), listeners.by_door["http"], task_status=task_status)


# Imported only when the door is on: start-up time and memory are for what is used.
_DOORS: Final = {"amqp": _serve_amqp, "pulsar": _serve_pulsar, "http": _serve_http}


async def _obey(signals: AsyncIterator[int], serving: trio.CancelScope, say: Say) -> None:
    """Stop at the first signal; end the process at the second, or when time is up."""
    first = await anext(signals)
    say(f"stopping on {signal.Signals(first).name}")
    serving.cancel()
    with trio.move_on_after(STOP_WITHIN_S):
        second = await anext(signals)
        _break_off(f"ended at once on {signal.Signals(second).name}", say)
    _break_off(f"the stop took longer than {STOP_WITHIN_S} s and was broken off", say)


def _break_off(reason: str, say: Say) -> NoReturn:
    say(reason)
    os._exit(BROKEN_OFF)
