"""Listeners: the sockets of the broker's doors, bound before anything else is touched.

The rule: every port is taken before the data directory is opened, so a port in use is
refused with nothing changed, and clients that connect while the store opens simply wait.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import trio

from arneb.accepting import CarefulListener, RefusalLog
from arneb.config import Address, Listen


class BindFailed(Exception):
    """A listener's address cannot be had; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The bound sockets by the name of their door; a door that is off has none."""

    by_door: Mapping[str, Sequence[CarefulListener]] = field(default_factory=dict)

    @classmethod
    async def bind(cls, wanted: Mapping[str, Listen]) -> Self:
        """Bind every door that is on. Raises :class:`BindFailed`, and then holds none."""
        bound: dict[str, Sequence[CarefulListener]] = {}
        log = RefusalLog()
        try:
            for door, address in wanted.items():
                if address is not None:
                    bound[door] = await _bind(door, address, log)
        except BaseException:
            await cls(bound).close()
            raise
        return cls(bound)

    def addresses(self, door: str) -> list[Address]:
        """Where the door really listens, port 0 resolved."""
        names = [listener.socket.getsockname() for listener in self.by_door[door]]
        return [Address(host, port) for host, port, *_ in names]

    async def close(self) -> None:
        """Close all of them. Idempotent."""
        with trio.CancelScope(shield=True):
            for listeners in self.by_door.values():
                for listener in listeners:
                    await listener.aclose()


async def _bind(door: str, address: Address, log: RefusalLog) -> list[CarefulListener]:
    try:
        bound = await trio.open_tcp_listeners(address.port, host=address.host)
    except OSError as error:
        raise BindFailed(f"cannot listen for {door} on {address}: {_reason(error)}") from error
    return [CarefulListener(each, log) for each in bound]


def _reason(error: OSError) -> str:
    """The operating system's words alone; trio and socket put the address around them."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
