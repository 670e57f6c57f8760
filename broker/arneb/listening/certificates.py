"""Certificates: those of a broker's TLS listeners, read again when their files change.

The rule: a connection keeps the certificate it began with, new ones get the current one, and files
that cannot be used change nothing. Files are checked every few seconds, and read once they stayed
the same between two checks: certificate and key are seldom written at the same moment.
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

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 2.0
"""The time between two checks of the files; a renewed certificate is used within twice that."""

WARNED_BEFORE: Final = timedelta(days=30)
"""How long before a certificate expires the log starts to warn, at the start and once a day."""

Seen = tuple[tuple[int, int, int] | None, ...]
"""The modification time, size and inode of each file; None = it does not exist."""


@dataclass(slots=True)
class _Listener:
    """One listener's certificate and files."""

    name: str
    config: TlsConfig
    handshakes: Handshakes
    expires: datetime | None
    read: Seen
    """The files as they were when they were last read, or found unusable."""
    looked: Seen

    def __repr__(self) -> str:
        return f"<_Listener {self.name} until {self.expires}>"


class Certificates:
    """The certificates of one broker, by listener name."""

    def __init__(
        self,
        configs: Mapping[str, TlsConfig],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Raises a :class:`ValueError` that names the listener."""
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
        """Return the handshakes of a listener, with its current certificate."""
        return self._listeners[name].handshakes

    @property
    def expiries(self) -> Mapping[str, datetime]:
        """When the certificate of each listener expires."""
        found = self._listeners.values()
        return {each.name: each.expires for each in found if each.expires is not None}

    async def follow(self, name: str, config: Config) -> None:
        """Read a listener's files again; their names may have changed. Raises :class:`ValueError`
        with the reason, and then keeps the previous ones."""
        listener = self._listeners[name]
        was, listener.config = listener.config, config.tls.get(name, listener.config)
        if error := await self._read(listener):
            listener.config = was
            raise ValueError(error)

    async def watch(self) -> NoReturn:
        """Check the files until cancelled."""
        while True:
            self.warn()
            await trio.sleep(CHECK_INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        """Read the files that changed before the previous check, and not since."""
        for each in self._listeners.values():
            seen = await trio.to_thread.run_sync(_look, each.config)
            is_unchanged = seen == each.looked
            each.looked = seen
            if is_unchanged and seen != each.read:
                await self._read(each)

    def warn(self) -> None:
        """Log which certificates expire soon, once a day."""
        now = self._now()
        if self._warned is not None and now - self._warned < timedelta(days=1):
            return
        self._warned = now
        for name, expires in self.expiries.items():
            if expires <= now:
                logger.warning("the certificate of %s expired at %s", name, _shown(expires))
            elif expires <= now + WARNED_BEFORE:
                logger.warning(
                    "the certificate of %s expires in %d days, at %s",
                    name, (expires - now).days, _shown(expires),
                )  # fmt: skip

    async def _read(self, listener: _Listener) -> str:
        """Read the files; return what is wrong if they cannot be used."""
        seen = await trio.to_thread.run_sync(_look, listener.config)
        try:
            context = await trio.to_thread.run_sync(read_tls, listener.config)
            expires = await trio.to_thread.run_sync(expires_at, listener.config.certificate)
        except ValueError as error:
            listener.read = seen
            logger.error("%s keeps its certificate: %s", listener.name, error)
            return str(error)
        listener.read, listener.expires = seen, expires
        listener.handshakes.use(context)
        self._warned = None
        logger.warning("%s has a new certificate, valid until %s", listener.name, _shown(expires))
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
