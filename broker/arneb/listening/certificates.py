"""Certificates: what the TLS listeners of a broker show, read again when their files change.

The rule: a connection keeps what it began with, new ones get what is there now, and files that
cannot be used change nothing. Files are looked at every few seconds, and read when they have not
changed between two looks: certificate and key are seldom written at the same moment.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

import trio

from arneb.listening.handshakes import Handshakes
from arneb.settings.config import Config
from arneb.settings.tls import NO_FILE, TlsConfig, expires_at, read_tls

LOGGER: Final = logging.getLogger(__name__)

LOOK_S: Final = 2.0
"""Between two looks at the files; what was renewed is shown within twice as long."""

WARNED_BEFORE: Final = timedelta(days=30)
"""So long before a certificate ends the log says so, at the start and once a day."""

Seen = tuple[tuple[int, int, int] | None, ...]
"""When each file was written, how large it is and which it is; None = it is not there."""


@dataclass(slots=True)
class _Listener:
    """What one listener shows."""

    name: str
    config: TlsConfig
    handshakes: Handshakes
    expires: datetime | None
    read: Seen
    """The files as they were when they were read, or found to be of no use."""
    looked: Seen

    def __repr__(self) -> str:
        return f"<_Listener {self.name} until {self.expires}>"


class Certificates:
    """The certificates of one broker, by the names of its listeners."""

    def __init__(
        self,
        configs: Mapping[str, TlsConfig],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises :class:`ValueError` that names the listener."""
        self._now = now
        self._warned: datetime | None = None
        self._listeners: dict[str, _Listener] = {}
        for name, config in configs.items():
            try:
                seen, context = _look(config), read_tls(config)
                expires = expires_at(config.certificate)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
            handshakes = Handshakes(context)
            self._listeners[name] = _Listener(name, config, handshakes, expires, seen, seen)

    def __repr__(self) -> str:
        return f"<Certificates of {', '.join(self._listeners) or 'nothing'}>"

    def handshakes(self, name: str) -> Handshakes:
        """Begins TLS for a listener, with what it shows now."""
        return self._listeners[name].handshakes

    @property
    def expiries(self) -> Mapping[str, datetime]:
        """When the certificate of each listener ends."""
        found = self._listeners.values()
        return {each.name: each.expires for each in found if each.expires is not None}

    async def follow(self, name: str, config: Config) -> None:
        """Read the files of a listener again, which may be others now. Raises :class:`ValueError`
        with what is wrong; then what was, holds on."""
        listener = self._listeners[name]
        was, listener.config = listener.config, config.tls.get(name, listener.config)
        if error := await self._read(listener):
            listener.config = was
            raise ValueError(error)

    async def watch(self) -> NoReturn:
        """Look at the files until cancelled."""
        while True:
            self.warn()
            await trio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Read the files that have changed before the last look, and not since."""
        for each in self._listeners.values():
            seen = await trio.to_thread.run_sync(_look, each.config)
            settled = seen == each.looked
            each.looked = seen
            if settled and seen != each.read:
                await self._read(each)

    def warn(self) -> None:
        """Say which certificates end soon, once a day."""
        now = self._now()
        if self._warned is not None and now - self._warned < timedelta(days=1):
            return
        self._warned = now
        for name, expires in self.expiries.items():
            if expires <= now:
                LOGGER.warning("the certificate of %s has ended at %s", name, _shown(expires))
            elif expires <= now + WARNED_BEFORE:
                LOGGER.warning(
                    "the certificate of %s ends in %d days, at %s",
                    name, (expires - now).days, _shown(expires),
                )  # fmt: skip

    async def _read(self, listener: _Listener) -> str:
        """What is wrong with the files, if they cannot be used."""
        seen = await trio.to_thread.run_sync(_look, listener.config)
        try:
            context = await trio.to_thread.run_sync(read_tls, listener.config)
            expires = await trio.to_thread.run_sync(expires_at, listener.config.certificate)
        except ValueError as error:
            listener.read = seen
            LOGGER.error("%s keeps its certificate: %s", listener.name, error)
            return str(error)
        listener.read, listener.expires = seen, expires
        listener.handshakes.use(context)
        self._warned = None
        LOGGER.warning("%s has a new certificate, until %s", listener.name, _shown(expires))
        return ""


def _look(config: TlsConfig) -> Seen:
    files = (config.certificate, config.key, config.client_ca)
    return tuple(_stamp(each) for each in files if each != NO_FILE)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _shown(when: datetime | None) -> str:
    return "an unknown time" if when is None else when.isoformat(timespec="seconds")
