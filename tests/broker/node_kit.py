"""Nodes in this process, for tests of what controls them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import trio

from arneb.ctl.calling import Answer, SocketCaller
from arneb.logs.audit_log import NO_AUDIT, AuditLog
from arneb.node import process
from arneb.settings.config import Config, load_config
from arneb.settings.reloading import Reloading


class Signals(AsyncIterator[int]):
    """Signals that a test sends."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[int](10)

    async def __anext__(self) -> int:
        return await self._receive.receive()

    def send(self, number: int) -> None:
        self._send.send_nowait(number)


def config_at(tmp_path: Path, **listeners: str) -> Config:
    """Listeners at the given addresses, all others off."""
    every = {"amqp": "off", "pulsar": "off", "http": "off", "http_pulsar": "off"}
    return load_config(None, data_dir=tmp_path / "data", **{**every, **listeners})  # type: ignore[arg-type]


@dataclass
class Steering:
    """A node's process, run inside this one."""

    directory: Path
    signals: Signals
    printed: list[str] = field(default_factory=list)
    _heard: trio.Event = field(default_factory=trio.Event)

    def say(self, line: str) -> None:
        """What the process prints for its user."""
        self.printed.append(line)
        self._heard.set()
        self._heard = trio.Event()

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """One request through the control socket."""
        caller = SocketCaller(self.directory, timeout_s=20)
        return await trio.to_thread.run_sync(partial(caller.call, method, path, body, headers))

    async def until(self, line: str) -> None:
        """Wait until that was printed."""
        with trio.fail_after(20):
            while line not in self.printed:
                await self._heard.wait()


@asynccontextmanager
async def steered(
    config: Config, reloading: Reloading | None = None, audit: AuditLog = NO_AUDIT
) -> AsyncIterator[Steering]:
    """A process that serves; it is stopped at the end, if it has not ended by then."""
    steering = Steering(config.data_dir, Signals())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            process.run_watched, config, steering.say, steering.signals, reloading, audit
        )
        await steering.until("Server startup complete")
        yield steering
        nursery.cancel_scope.cancel()
