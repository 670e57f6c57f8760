"""The broker's configuration: read from a TOML file and the command line, then checked once.

The rule: after :func:`load_config` nothing reads a file, a flag or the environment again;
each part is given the frozen values that concern it.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

from arneb.logins.principals import DEFAULT_ACCESS, AccessTable
from arneb.logins.settings import DEFAULT_LOGINS, OAUTH, LoginTable
from arneb.settings.addresses import Address, Listen, parse_listen
from arneb.settings.cluster import ALONE, ClusterTable
from arneb.settings.data_limits import DEFAULT_DATA_LIMITS, DataLimits
from arneb.settings.environment import first_start_of, merged, settings_in
from arneb.settings.http_limits import HttpLimits, check_prefix
from arneb.settings.process import (
    DEFAULT_AUDIT,
    DEFAULT_DEBUG,
    DEFAULT_LOG,
    DEFAULT_STOP,
    DEFAULT_TRACES,
    AuditTable,
    DebugTable,
    LogFormat,
    LogLevel,
    LogTable,
    StopTable,
    TracesTable,
)
from arneb.settings.table import ConfigInvalid, Reader, by_our_names, read_settings
from arneb.settings.tls import NO_FILE, TlsConfig, TlsVersion, read_tls
from arneb.settings.watermarks import DEFAULT_WATERMARKS, Watermarks, memory_available_bytes
from arneb_amqp.config import AmqpConfig, CertificateLogin, SanType
from arneb_core.api.statistics import READER_LIMIT_S
from arneb_core.api.topics.settings import (
    DEFAULT_DELAYS,
    NOTHING_KEPT,
    WITHOUT_END,
    DelayedSettings,
    Retention,
    TrackerKind,
)
from arneb_pulsar.config import PulsarConfig

__all__ = ["Address", "Config", "ConfigInvalid", "Listen", "load_config", "parse_listen"]

Choice = TypeVar("Choice", bound=Enum)

NOTHING: Final[Mapping[str, str]] = {}

AMQP_ADDRESS: Final = Address("127.0.0.1", 5672)
PULSAR_ADDRESS: Final = Address("127.0.0.1", 6650)
HTTP_ADDRESS: Final = Address("127.0.0.1", 15672)
HTTP_PULSAR_ADDRESS: Final = Address("127.0.0.1", 8080)


def choice_of(kind: type[Choice]) -> Callable[[Any], Choice]:
    """Return a reader that accepts the values of an enum, and raises :class:`ValueError`."""
    known = [each.value for each in kind]

    def read(value: Any) -> Choice:
        if value not in known:
            raise ValueError(f"expected one of {', '.join(known)}, got {value!r}")
        return kind(value)

    return read


@dataclass(frozen=True, slots=True)
class TlsTable(TlsConfig):
    """A listener for TLS, off until it has an address; its files are in PEM."""

    listen: Listen = None
    """Where to listen for TLS. The usual ports are 5671 for AMQP, 6651 for Pulsar, 15671 for HTTP
    and 8443 for Pulsar's admin API."""

    def __post_init__(self) -> None:
        TlsConfig.__post_init__(self)
        if self.listen is not None and self.certificate == NO_FILE:
            raise ValueError("expected certificate beside listen")


@dataclass(frozen=True, slots=True)
class AmqpTable(AmqpConfig):
    """For RabbitMQ clients: where they connect, who they are, and the limits of a connection."""

    listen: Listen = AMQP_ADDRESS
    """Where to listen for AMQP 0-9-1."""
    tls: TlsTable = TlsTable()
    """AMQP 0-9-1 over TLS."""


@dataclass(frozen=True, slots=True)
class PulsarTable(PulsarConfig):
    """For Pulsar clients: where they connect, and defaults where no policy says otherwise."""

    listen: Listen = PULSAR_ADDRESS
    """Where to listen for the Pulsar protocol."""
    tls: TlsTable = TlsTable()
    """The Pulsar protocol over TLS."""

    def __post_init__(self) -> None:
        PulsarConfig.__post_init__(self)
        if "tls" in self.authentication.methods and self.tls.client_ca == NO_FILE:
            raise ValueError("authentication.methods: expected tls.client_ca for method tls")


@dataclass(frozen=True, slots=True)
class HttpTable(HttpLimits):
    """Health, metrics and Arneb's own API. Where authentication is configured, for Pulsar's clients
    or by naming users of AMQP, it is required here as well, except for ``/healthz`` and
    ``/readyz``."""

    body_bytes_max: int = 10_000_000
    """The maximum size of a request's body, as in RabbitMQ; definitions may have 32 MiB."""
    listen: Listen = HTTP_ADDRESS
    """Where to listen for HTTP."""
    tls: TlsTable = TlsTable()
    """The same over TLS."""
    open_metrics: bool = False
    """Serve ``/metrics`` to everybody, without a login."""
    path_prefix: str = ""
    """A path, such as ``/arneb``, under which everything is served as well, for a proxy that
    forwards paths unchanged; RabbitMQ's ``management.path_prefix``. A proxy that strips the prefix
    needs no setting."""

    def __post_init__(self) -> None:
        HttpLimits.__post_init__(self)
        check_prefix(self.path_prefix)


@dataclass(frozen=True, slots=True)
class HttpPulsarTable(HttpLimits):
    """Pulsar's admin API, and metrics."""

    listen: Listen = HTTP_PULSAR_ADDRESS
    """Where to listen for HTTP."""
    open_metrics: bool = False
    """Serve ``/metrics`` to everybody, even where authentication is configured."""
    tls: TlsTable = TlsTable()
    """The same over TLS."""


@dataclass(frozen=True, slots=True)
class MetricsTable(HttpLimits):
    """Metrics for Prometheus on a port of their own, without a login."""

    listen: Listen = None
    """Where to serve them; off by default. RabbitMQ's port is 15692."""
    per_object: bool = False
    """``/metrics`` lists queues, channels and connections one by one, here and on the port of
    ``[http]``; otherwise it has their sums, and ``/metrics/per-object`` the list."""


@dataclass(frozen=True, slots=True)
class RetentionTable:
    """How long messages are kept after every subscription has acknowledged them. A message is
    removed when it exceeds either bound. A bound that is left out while the other is given does not
    apply. Without this table nothing is retained."""

    time_s: int = 0
    """The maximum age of a message; -1 = unlimited."""
    bytes: int = 0
    """The maximum bytes of newer messages in the topic; a message with more after it is removed.
    -1 = unlimited."""

    def __post_init__(self) -> None:
        if self.time_s < WITHOUT_END or self.bytes < WITHOUT_END:
            raise ValueError(
                f"expected -1 or more, got time_s = {self.time_s}, bytes = {self.bytes}"
            )

    @property
    def retention(self) -> Retention:
        """The same as the core's :class:`Retention`."""
        if not (self.time_s or self.bytes):
            return NOTHING_KEPT
        time_s, size = self.time_s or WITHOUT_END, self.bytes or WITHOUT_END
        return Retention(time_s if time_s == WITHOUT_END else time_s * 1000, size)


@dataclass(frozen=True, slots=True)
class StoreTable:
    """The store in the data directory."""

    reader_limit_s: float = READER_LIMIT_S
    """The data file grows while a process reads the store in one transaction. A process that reads
    for longer than this, such as a long Spark query, is named in the log; Arneb's own readers are
    told to start over."""

    def __post_init__(self) -> None:
        if not 1 <= self.reader_limit_s <= 86400:
            raise ValueError(f"expected reader_limit_s from 1 to 86400, got {self.reader_limit_s}")


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file. Paths in it are relative to the file."""

    data_dir: Path = Path("arneb-data")
    """The directory for everything that the broker stores. It is created if it does not exist."""
    load_definitions: Path = NO_FILE
    """A file of definitions in RabbitMQ's export format, or a directory of such ``*.json`` files;
    imported at each start, before AMQP clients are admitted."""
    amqp: AmqpTable = AmqpTable()
    pulsar: PulsarTable = PulsarTable()
    http: HttpTable = HttpTable()
    http_pulsar: HttpPulsarTable = HttpPulsarTable()
    metrics: MetricsTable = MetricsTable()
    logins: LoginTable = DEFAULT_LOGINS
    access: AccessTable = DEFAULT_ACCESS
    data: DataLimits = DEFAULT_DATA_LIMITS
    retention: RetentionTable = RetentionTable()
    delayed: DelayedSettings = DEFAULT_DELAYS
    cluster: ClusterTable = ALONE
    alarms: Watermarks = DEFAULT_WATERMARKS
    store: StoreTable = StoreTable()
    stop: StopTable = DEFAULT_STOP
    log: LogTable = DEFAULT_LOG
    audit: AuditTable = DEFAULT_AUDIT
    traces: TracesTable = DEFAULT_TRACES
    debug: DebugTable = DEFAULT_DEBUG

    @property
    def tls(self) -> Mapping[str, TlsTable]:
        """The tables of the TLS listeners that are on, by the names of their parent tables."""
        tables = {
            "amqp": self.amqp.tls,
            "pulsar": self.pulsar.tls,
            "http": self.http.tls,
            "http_pulsar": self.http_pulsar.tls,
        }
        return {name: table for name, table in tables.items() if table.listen is not None}

    def __post_init__(self) -> None:
        if self.access.authorization.enabled and not self.pulsar.authentication.methods:
            raise ValueError(
                "access.authorization: expected pulsar.authentication.methods beside enabled"
            )


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
    rabbitmq_conf: Path | None = None,
    environment: Mapping[str, str] = NOTHING,
    tell: Callable[[str], None] = lambda line: None,
) -> Config:
    """Load the settings; each source overrides those before it: RabbitMQ's environment variables,
    ``rabbitmq_conf``, ``file``, Arneb's environment variables, the command line. ``tell`` gets one
    line for each thing ignored.
    Raises :class:`ConfigInvalid`.
    """
    table: Mapping[str, Any] = first_start_of(environment)
    if rabbitmq_conf is not None:
        from arneb.settings.rabbitmq.conf import read_files, translate

        text = read_files(rabbitmq_conf)
        [first_user] = table.get("amqp", {}).get("users", [None])
        found = translate(text, str(rabbitmq_conf), memory_available_bytes, first_user)
        for note in found.notes:
            tell(f"{rabbitmq_conf}: {note}")
        table = merged(table, found.table)
    if file is not None:
        table = merged(table, _read_file(file))
    variables, notes = settings_in(Config, environment)
    for note in notes:
        tell(note)
    config = _read_table(merged(table, variables), file)
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
    """Read the files that settings name, to refuse bad ones now and not when a client connects."""
    wanted = {f"{name}.tls": tls for name, tls in config.tls.items()}
    if OAUTH in config.logins.backends:
        from arneb.logins.keys import Keys

        try:
            Keys(config.logins.oauth)
        except ValueError as error:
            raise ConfigInvalid(f"logins.oauth: {error}") from error
    if not wanted and not config.pulsar.authentication.methods:
        return
    from arneb_pulsar.authentication.files import read_proofs

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


def _read_file(file: Path) -> Mapping[str, Any]:
    try:
        return by_our_names(Config, tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigInvalid(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{file}: not UTF-8 text at byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(f"{file}: not TOML: {error}") from error
    except ValueError as error:
        raise ConfigInvalid(f"{file}: a number with too many digits") from error
    except RecursionError as error:
        raise ConfigInvalid(f"{file}: lists or tables nested too deeply") from error


def _read_table(table: Mapping[str, Any], file: Path | None) -> Config:
    """Read the settings from a table; its paths are relative to ``file``."""
    parent = Path() if file is None else file.parent

    def read_path(value: Any) -> Path:
        if not isinstance(value, str) or not value or "\0" in value:
            raise ValueError(f"expected a path, got {value!r}")
        return parent / value

    readers: Mapping[Any, Reader] = {
        Listen: parse_listen,
        Path: read_path,
        TrackerKind: choice_of(TrackerKind),
        CertificateLogin: choice_of(CertificateLogin),
        SanType: choice_of(SanType),
        TlsVersion: choice_of(TlsVersion),
        LogLevel: choice_of(LogLevel),
        LogFormat: choice_of(LogFormat),
    }
    try:
        return read_settings(Config, table, readers)
    except ConfigInvalid as error:
        raise ConfigInvalid(str(error) if file is None else f"{file}: {error}") from error
