"""Connecting: a client's options, and the ``async with`` that holds it.

The rule: the client owns all tasks, and they end with it. When the block ends normally, accepted
messages are stored and acknowledgements sent first; when it ends with an error, or is cancelled,
nothing is waited for.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Final

import anyio
import httpx

from arneb_pulsar.client.client import Client
from arneb_pulsar.client.connection.authentication import Authentication, NoAuthentication
from arneb_pulsar.client.connection.backoff import CAP_S, INITIAL_S
from arneb_pulsar.client.connection.dialling import Dial, TlsOptions, dialler, parse_service_url
from arneb_pulsar.client.connection.pool import Pool
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.lookup.lookup import BinaryLookup, HttpLookup, Lookup
from arneb_pulsar.client.tasks.clock import Clock
from arneb_pulsar.client.tasks.room import Room
from arneb_pulsar.client.tasks.statistics_log import INTERVAL_S, StatisticsLog

OPERATION_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
MEMORY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes without a receipt that all producers of a client may hold together, as in Java's client."""


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """A client's options, apart from the service URL."""

    authentication: Authentication = field(default_factory=NoAuthentication)
    tls: TlsOptions = field(default_factory=TlsOptions)
    listener_name: str = ""
    """Which of the brokers' advertised listeners to connect to; empty = the default one."""
    connections_per_broker: int = 1
    memory_bytes_max: int = MEMORY_BYTES_MAX
    """Bytes without a receipt that all producers may hold together; 0 = no bound."""
    operation_timeout_s: float = OPERATION_TIMEOUT_S
    connect_timeout_s: float = CONNECT_TIMEOUT_S
    backoff_initial_s: float = INITIAL_S
    backoff_cap_s: float = CAP_S
    """The longest pause between two attempts to reconnect."""
    statistics_interval_s: float = INTERVAL_S
    """How often to log a line of statistics for each active producer and consumer; 0 = never."""
    dial: Dial | None = None
    """Opens the streams to brokers; None = TCP and TLS."""
    seed: int | None = None
    """The seed of random choices, such as back-off and connections; None = a random seed."""

    def __post_init__(self) -> None:
        if self.connections_per_broker < 1:
            raise ConfigurationError(
                f"expected 1 or more connections per broker, got {self.connections_per_broker}"
            )
        if self.memory_bytes_max < 0:
            raise ConfigurationError(f"expected 0 or more bytes, got {self.memory_bytes_max}")
        if min(self.operation_timeout_s, self.connect_timeout_s) <= 0:
            raise ConfigurationError("expected timeouts of more than 0 s")
        if self.statistics_interval_s < 0:
            raise ConfigurationError(
                f"expected an interval of 0 s or more, got {self.statistics_interval_s}"
            )
        if not 0 < self.backoff_initial_s <= self.backoff_cap_s:
            raise ConfigurationError("expected 0 < backoff_initial_s <= backoff_cap_s")


@asynccontextmanager
async def connect(url: str, options: ClientOptions | None = None) -> AsyncIterator[Client]:
    """Open a client of the Pulsar service at ``url``: ``pulsar://host:port``, ``pulsar+ssl://``,
    ``http://`` or ``https://``, with several ``host:port`` separated by commas.

    Connections are made when they are needed. The client is closed when the block ends: see the
    module's rule. Raises :class:`InvalidUrl`, :class:`ConfigurationError` for unusable TLS files,
    and what the block raises, unwrapped.
    """
    options = options or ClientOptions()
    service = parse_service_url(url)
    random = Random(options.seed)
    clock = Clock()
    raised: BaseException | None = None
    tls = cache(options.tls.context)
    verify = tls() if service.tls else True
    async with AsyncExitStack() as opened, anyio.create_task_group() as tasks:
        pool = Pool(
            options.dial or dialler(tls, options.connect_timeout_s),
            options.authentication,
            clock,
            tasks,
            random,
            addresses=service.addresses,
            per_broker=options.connections_per_broker,
            timeout_s=options.connect_timeout_s,
        )
        lookup: Lookup
        if service.by_http:
            timeout_s = options.operation_timeout_s
            http = httpx.AsyncClient(timeout=timeout_s, verify=verify)
            await opened.enter_async_context(http)
            lookup = HttpLookup(
                service, http, options.authentication, listener=options.listener_name
            )
        else:
            lookup = BinaryLookup(
                pool, listener=options.listener_name, timeout_s=options.operation_timeout_s
            )
        context = ClientContext(
            tasks,
            pool,
            lookup,
            clock,
            random,
            Room(options.memory_bytes_max, "bytes of the client's memory"),
            wall_ms,
            options.operation_timeout_s,
            options.backoff_initial_s,
            options.backoff_cap_s,
        )
        tasks.start_soon(clock.run)
        client = Client(context, service)
        if options.statistics_interval_s:
            _log_statistics(client, clock, options.statistics_interval_s)
        try:
            yield client
            await client.close()
        except BaseException as error:
            # Raised outside the task group, which would wrap it in an exception group.
            raised = error
        pool.close()
        tasks.cancel_scope.cancel()
    if raised is not None:
        raise raised


def _log_statistics(client: Client, clock: Clock, interval_s: float) -> None:
    """Log statistics every ``interval_s`` until the client is closed."""
    log = StatisticsLog(client.measured, clock.now())

    def tick(now: float) -> None:
        log.write(now)
        timer.set(now + interval_s)

    timer = clock.timer(tick)
    timer.set(clock.now() + interval_s)


def wall_ms() -> int:
    """Return the time of day, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
