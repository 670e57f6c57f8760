"""Dialling: addresses, and the stream to one of them.

The rule: everything above sees an :class:`anyio.abc.ByteStream`; whether it is TCP, TLS or a broker
in memory only whoever dials knows.
"""

import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

from arneb_pulsar.client.errors import (
    ConfigurationError,
    ConnectError,
    InvalidUrl,
    TlsFailed,
    UnknownAddress,
)

PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}
"""The schemes of service URLs, and their ports where the URL names none."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where one broker listens."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"pulsar{'+ssl' if self.tls else ''}://{host}:{self.port}"


Dial = Callable[[Address], Awaitable[ByteStream]]
"""Opens a stream to an address. Raises :class:`~arneb_pulsar.client.errors.ConnectError`."""


@dataclass(frozen=True, slots=True)
class ServiceUrl:
    """What ``connect`` was given: one or several addresses of one cluster."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]

    @property
    def by_http(self) -> bool:
        """Topics are looked up with HTTP."""
        return self.scheme.startswith("http")

    @property
    def tls(self) -> bool:
        """Brokers are spoken to by TLS."""
        return self.scheme in ("pulsar+ssl", "https")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where brokers listen."""
        return tuple(Address(host, port, self.tls) for host, port in self.hosts)

    def __str__(self) -> str:
        return f"{self.scheme}://" + ",".join(f"{host}:{port}" for host, port in self.hosts)


def parse_service_url(url: str) -> ServiceUrl:
    """``pulsar://host:port,host:port``, or ``pulsar+ssl``, ``http``, ``https``. Raises
    :class:`InvalidUrl`."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in PORTS:
        raise InvalidUrl(f"expected a URL that begins with one of {', '.join(PORTS)}, got {url!r}")
    hosts = []
    for part in rest.rstrip("/").split(","):
        try:
            found = urlsplit(f"//{part}")
            port = found.port or PORTS[scheme]
        except ValueError as error:
            raise InvalidUrl(f"expected host:port in {url!r}, got {part!r}: {error}") from error
        if not found.hostname or found.path or found.username:
            raise InvalidUrl(f"expected host:port in {url!r}, got {part!r}")
        hosts.append((found.hostname, port))
    return ServiceUrl(scheme, tuple(hosts))


def parse_address(url: str) -> Address:
    """The one broker that a lookup's answer names. Raises :class:`InvalidUrl`."""
    found = parse_service_url(url)
    return found.addresses[0]


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How brokers prove who they are, and the client proves itself (mutual TLS)."""

    trust_certificates: str | None = None
    """A file of certificates; by default those of the system."""
    certificate: str | None = None
    """The client's own, with its chain."""
    key: str | None = None
    verify_hostname: bool = True
    allow_insecure: bool = False
    """Take any certificate. For experiments."""

    def context(self) -> ssl.SSLContext:
        """Raises :class:`ConfigurationError` for files that are none."""
        try:
            context = ssl.create_default_context(cafile=self.trust_certificates)
        except OSError as error:
            where = self.trust_certificates
            raise ConfigurationError(f"expected certificates in {where}: {error}") from error
        if self.allow_insecure or not self.verify_hostname:
            context.check_hostname = False
        if self.allow_insecure:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key)
            except OSError as error:
                where = f"{self.certificate} and its key in {self.key or 'the same file'}"
                raise ConfigurationError(f"expected a certificate in {where}: {error}") from error
        return context


def dialler(context: Callable[[], ssl.SSLContext], timeout_s: float) -> Dial:
    """Dials TCP, and TLS where the address wants it, with what ``context`` gives."""

    async def dial(address: Address) -> ByteStream:
        try:
            with anyio.fail_after(timeout_s):
                stream: ByteStream = await anyio.connect_tcp(address.host, address.port)
                if address.tls:
                    stream = await _secured(stream, address.host, context())
        except TimeoutError as error:
            raise _not_connected(f"{address}, within {timeout_s} s", error) from error
        except socket.gaierror as error:
            raise UnknownAddress(f"expected the address of {address}: {error}") from error
        except ssl.SSLError as error:
            raise TlsFailed(f"expected TLS with {address}: {error}") from error
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise _not_connected(str(address), error) from error
        return stream

    return dial


async def _secured(stream: ByteStream, host: str, context: ssl.SSLContext) -> ByteStream:
    """TLS over a stream, which is closed where that fails. Raises as :meth:`TLSStream.wrap`."""
    try:
        # Brokers end connections without TLS's farewell.
        return await TLSStream.wrap(
            stream, hostname=host, ssl_context=context, standard_compatible=False
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(stream)
        raise


def _not_connected(where: str, error: BaseException) -> ConnectError:
    """What an application is told of a broker that cannot be reached."""
    text = str(error) or type(error).__name__
    return ConnectError(f"expected a Pulsar broker at {where}: {text}")
