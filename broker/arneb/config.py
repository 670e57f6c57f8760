"""The broker's configuration: a TOML file, then the command line, then checked once.

The rule: after :func:`load_config` nothing reads a file, a flag or the environment again;
everyone is handed the frozen value that concerns them.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from arneb.http.limits import HttpLimits
from arneb.log_lines import LogFormat, LogLevel
from arneb.settings import ConfigInvalid, Reader, read_settings
from arneb.watermarks import DEFAULT_WATERMARKS, Watermarks
from arneb_amqp.config import AmqpConfig
from arneb_core.api.settings import (
    DEFAULT_DELAYS,
    NOTHING_KEPT,
    WITHOUT_END,
    DelayedSettings,
    Retention,
    TrackerKind,
)
from arneb_core.api.statistics import READER_LIMIT_S
from arneb_pulsar.config import NO_FILE, PulsarConfig, TlsConfig

__all__ = ["Address", "Config", "ConfigInvalid", "Listen", "load_config", "parse_listen"]

Choice = TypeVar("Choice", bound=Enum)

OFF: Final = "off"
PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a listener binds; port 0 takes any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        """``HOST:PORT``, with brackets around an IPv6 host."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Listen = Address | None
"""None: the listener is off."""


def parse_listen(value: Any) -> Listen:
    """The listener that ``HOST:PORT``, ``[HOST]:PORT`` or ``off`` asks for.

    Raises :class:`ValueError` that says what was expected and what came.
    """
    if value == OFF:
        return None
    if not isinstance(value, str):
        raise ValueError(f'expected "HOST:PORT" or "{OFF}", got {value!r}')
    host, colon, port = value.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not host or (":" in host and not bracketed):
        raise ValueError(f'expected "HOST:PORT" or "{OFF}", got "{value}"')
    if not (port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ValueError(f'expected a port from 0 to {PORT_MAX} after "{host}:", got "{port}"')
    return Address(host[1:-1] if bracketed else host, int(port))


def choice_of(kind: type[Choice]) -> Callable[[Any], Choice]:
    """A reader that takes the values of an enum, and raises :class:`ValueError` for others."""
    known = [each.value for each in kind]

    def read(value: Any) -> Choice:
        if value not in known:
            raise ValueError(f"expected one of {', '.join(known)}, got {value!r}")
        return kind(value)

    return read


@dataclass(frozen=True, slots=True)
class TlsTable(TlsConfig):
    """The tables ``[amqp.tls]`` and ``[pulsar.tls]``: listeners for TLS, off until they have an
    address."""

    listen: Listen = None

    def __post_init__(self) -> None:
        TlsConfig.__post_init__(self)
        if self.listen is not None and self.certificate == NO_FILE:
            raise ValueError("expected certificate beside listen")


@dataclass(frozen=True, slots=True)
class AmqpTable(AmqpConfig):
    """The table ``[amqp]``: the frontend's own settings, and where it listens."""

    listen: Listen = Address("127.0.0.1", 5672)
    tls: TlsTable = TlsTable()


@dataclass(frozen=True, slots=True)
class PulsarTable(PulsarConfig):
    """The table ``[pulsar]``, likewise."""

    listen: Listen = Address("127.0.0.1", 6650)
    tls: TlsTable = TlsTable()

    def __post_init__(self) -> None:
        PulsarConfig.__post_init__(self)
        if "tls" in self.authentication.methods and self.tls.client_ca == NO_FILE:
            raise ValueError("authentication.methods: expected tls.client_ca for method tls")


@dataclass(frozen=True, slots=True)
class HttpTable(HttpLimits):
    """The table ``[http]``: health, metrics and what there is. Where authentication is configured,
    for Pulsar's clients or by naming users of AMQP, it is asked for here as well; health is for
    everybody, and metrics are if they are opened."""

    listen: Listen = Address("127.0.0.1", 15672)
    open_metrics: bool = False


@dataclass(frozen=True, slots=True)
class HttpPulsarTable(HttpLimits):
    """The table ``[http_pulsar]``: Pulsar's admin API, and metrics."""

    listen: Listen = Address("127.0.0.1", 8080)
    open_metrics: bool = False


@dataclass(frozen=True, slots=True)
class RetentionTable:
    """The table ``[retention]``: how long entries stay that every subscription has acknowledged.

    An entry goes when it is older than ``time_s`` or when ``bytes`` of newer ones are there; -1
    has no end, and a bound that is left out while the other is given is none. Without the table
    nothing is kept.
    """

    time_s: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        if self.time_s < WITHOUT_END or self.bytes < WITHOUT_END:
            raise ValueError(
                f"expected -1 or more, got time_s = {self.time_s}, bytes = {self.bytes}"
            )

    @property
    def retention(self) -> Retention:
        """The same in the core's words."""
        if not (self.time_s or self.bytes):
            return NOTHING_KEPT
        time_s, size = self.time_s or WITHOUT_END, self.bytes or WITHOUT_END
        return Retention(time_s if time_s == WITHOUT_END else time_s * 1000, size)


@dataclass(frozen=True, slots=True)
class StoreTable:
    """The table ``[store]``."""

    reader_limit_s: float = READER_LIMIT_S
    """Who reads the store for longer in one transaction, in whatever process, is named in the log
    and told to begin anew."""

    def __post_init__(self) -> None:
        if not 1 <= self.reader_limit_s <= 86400:
            raise ValueError(f"expected reader_limit_s from 1 to 86400, got {self.reader_limit_s}")


@dataclass(frozen=True, slots=True)
class LogTable:
    """The table ``[log]``: what the broker writes on standard error."""

    level: LogLevel = LogLevel.WARNING
    """The least severe records that are written: ``debug``, ``info``, ``warning`` or ``error``."""

    format: LogFormat = LogFormat.TEXT
    """``text``, or ``json``: one JSON object a line, what is printed on standard output
    included."""


@dataclass(frozen=True, slots=True)
class DebugTable:
    """The table ``[debug]``: what helps to find faults and costs something."""

    turn_watchdog: bool = False
    """Measure how long every task keeps the event loop; ``/api/turns`` shows it."""


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. ``data_dir`` is relative to the file that names it."""

    data_dir: Path = Path("arneb-data")
    amqp: AmqpTable = AmqpTable()
    pulsar: PulsarTable = PulsarTable()
    http: HttpTable = HttpTable()
    http_pulsar: HttpPulsarTable = HttpPulsarTable()
    retention: RetentionTable = RetentionTable()
    delayed: DelayedSettings = DEFAULT_DELAYS
    alarms: Watermarks = DEFAULT_WATERMARKS
    store: StoreTable = StoreTable()
    log: LogTable = LogTable()
    debug: DebugTable = DebugTable()


def load_config(
    file: Path | None,
    *,
    data_dir: Path | None = None,
    amqp: str | None = None,
    pulsar: str | None = None,
    http: str | None = None,
    http_pulsar: str | None = None,
    log_level: str | None = None,
    log_format: str | None = None,
    watch_turns: bool = False,
) -> Config:
    """What ``file`` says, with the command line's values in place of the file's.

    Raises :class:`ConfigInvalid`.
    """
    config = Config() if file is None else _read_file(file)
    if data_dir is not None:
        config = replace(config, data_dir=data_dir)
    if amqp is not None:
        config = replace(config, amqp=replace(config.amqp, listen=_flag("--amqp", amqp)))
    if pulsar is not None:
        config = replace(config, pulsar=replace(config.pulsar, listen=_flag("--pulsar", pulsar)))
    if http is not None:
        config = replace(config, http=replace(config.http, listen=_flag("--http", http)))
    if http_pulsar is not None:
        listen = _flag("--http-pulsar", http_pulsar)
        config = replace(config, http_pulsar=replace(config.http_pulsar, listen=listen))
    if log_level is not None:
        config = replace(config, log=replace(config.log, level=LogLevel(log_level)))
    if log_format is not None:
        config = replace(config, log=replace(config.log, format=LogFormat(log_format)))
    if watch_turns:
        config = replace(config, debug=replace(config.debug, turn_watchdog=True))
    _check_files(config)
    return config


def _check_files(config: Config) -> None:
    """Read the files that settings name, to refuse them now and not when a client comes."""
    tables = {"amqp.tls": config.amqp.tls, "pulsar.tls": config.pulsar.tls}
    wanted = {where: tls for where, tls in tables.items() if tls.listen is not None}
    if not wanted and not config.pulsar.authentication.methods:
        return
    from arneb_pulsar.authentication.files import read_proofs, read_tls

    where = "pulsar.authentication"
    try:
        read_proofs(config.pulsar.authentication)
        for name, tls in wanted.items():
            where = name
            read_tls(tls)
    except ValueError as error:
        raise ConfigInvalid(f"{where}: {error}") from error


def _flag(name: str, value: str) -> Listen:
    try:
        return parse_listen(value)
    except ValueError as error:
        raise ConfigInvalid(f"{name}: {error}") from error


def _read_file(file: Path) -> Config:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigInvalid(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{file}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{file}: not TOML: {error}") from error

    def read_path(value: Any) -> Path:
        if not isinstance(value, str) or not value:
            raise ValueError(f"expected a path, got {value!r}")
        return file.parent / value

    readers: Mapping[Any, Reader] = {
        Listen: parse_listen,
        Path: read_path,
        TrackerKind: choice_of(TrackerKind),
        LogLevel: choice_of(LogLevel),
        LogFormat: choice_of(LogFormat),
    }
    try:
        return read_settings(Config, table, readers)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{file}: {error}") from error
