"""Dialling: addresses, and opening a stream to one.

The rule: all other code sees an :class:`anyio.abc.ByteStream`; only the dialler knows whether it is
TCP, TLS or a broker in memory.
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

from arneb_pulsar.client.connection.verification import make_context
from arneb_pulsar.client.errors import (
    ConfigurationError,
    ConnectError,
    InvalidUrl,
    TlsFailed,
    UnknownAddress,
)

PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}
"""The schemes of service URLs, with their default ports."""


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
    """A parsed service URL: one or several addresses of one cluster."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]

    @property
    def by_http(self) -> bool:
        """Whether topics are looked up over HTTP."""
        return self.scheme.startswith("http")

    @property
    def tls(self) -> bool:
        """Whether connections to brokers use TLS."""
        return self.scheme in ("pulsar+ssl", "https")

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The addresses as brokers' addresses."""
        return tuple(Address(host, port, self.tls) for host, port in self.hosts)

    def __str__(self) -> str:
        return f"{self.scheme}://" + ",".join(f"{host}:{port}" for host, port in self.hosts)


def parse_service_url(url: str) -> ServiceUrl:
    """Parse ``pulsar://host:port,host:port``, or the same with ``pulsar+ssl``, ``http`` or
    ``https``. Raises :class:`InvalidUrl`."""
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
    """Parse the broker URL in a lookup's response. Raises :class:`InvalidUrl`."""
    found = parse_service_url(url)
    return found.addresses[0]


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How brokers' certificates are verified, and the client's own for mutual TLS."""

    trust_certificates: str | None = None
    """A file of trusted certificates; by default the system's."""
    certificate: str | None = None
    """A file with the client's certificate and its chain."""
    key: str | None = None
    verify_hostname: bool = True
    allow_insecure: bool = False
    """Accept any certificate. Only for experiments."""

    def context(self) -> ssl.SSLContext:
        """Return the SSL context. Raises :class:`ConfigurationError` for unusable files."""
        try:
            context = make_context(cafile=self.trust_certificates)
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
    """Return a function that dials TCP, with TLS from ``context`` if the address needs it."""

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
    """Wrap a stream in TLS; close it if that fails. Raises as :meth:`TLSStream.wrap`."""
    try:
        # Brokers close connections without TLS's close_notify.
        return await TLSStream.wrap(
            stream, hostname=host, ssl_context=context, standard_compatible=False
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(stream)
        raise


def _not_connected(where: str, error: BaseException) -> ConnectError:
    """Return the error for a broker that cannot be reached."""
    text = str(error) or type(error).__name__
    return ConnectError(f"expected a Pulsar broker at {where}: {text}")
