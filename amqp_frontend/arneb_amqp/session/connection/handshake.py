"""The handshake: how a client logs in, and the limits both sides keep.

Pure functions of the client's methods; :mod:`arneb_amqp.session.connection.session` calls them in
order and moves the state.
"""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from pamqp.commands import Connection

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import (
    NO_METHOD,
    AmqpError,
    access_refused,
    command_invalid,
    not_allowed,
    syntax_error,
)
from arneb_amqp.session.effects import LogIn
from arneb_amqp.wire.constants import FRAME_BYTES_MIN
from arneb_amqp.wire.replies import make
from arneb_amqp.wire.tables import (
    Field,
    Table,
    boolean,
    decode_table,
    longstr,
    lookup_bool,
    lookup_table,
    table,
)

PRODUCT: Final = "RabbitMQ"
VERSION: Final = "3.13.7"
"""Clients adapt to product and version; these name the behaviour implemented here."""

BY_PASSWORD: Final = ("PLAIN", "AMQPLAIN")
EXTERNAL: Final = "EXTERNAL"
"""The client's certificate names the user."""
LOCALES: Final = "en_US"

CHANNEL_MAX_MIN: Final = 1

CAPABILITIES: Final = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


@dataclass(frozen=True, slots=True)
class Client:
    """What ``connection.start-ok`` says about the client."""

    cancel_notify: bool = False
    blocked_notify: bool = False
    failure_notify: bool = False
    """Whether it wants to be told of a failed login; else the socket is closed without a word."""
    properties: Table = field(default_factory=dict)
    """All its client properties."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits both sides have agreed on; 0 is no limit, and no heartbeat."""

    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int


def start(config: AmqpConfig, mechanisms: Sequence[str]) -> Connection.Start:
    """The broker's first method."""
    capabilities = {name: boolean(value) for name, value in CAPABILITIES.items()}
    properties: dict[str, Field] = {
        "capabilities": table(capabilities),
        "cluster_name": longstr(config.cluster_name),
        "copyright": longstr("Copyright the Arneb authors"),
        "information": longstr("This is Arneb. Licensed under Apache-2.0."),
        "platform": longstr(f"Arneb on Python {platform.python_version()}"),
        "product": longstr(PRODUCT),
        "version": longstr(VERSION),
    }
    return make(
        Connection.Start,
        version_major=0,
        version_minor=9,
        server_properties=properties,
        mechanisms=" ".join(mechanisms),
        locales=LOCALES,
    )


def tune(config: AmqpConfig) -> Connection.Tune:
    """The broker's offer of limits."""
    return make(
        Connection.Tune,
        channel_max=config.channel_max,
        frame_max=config.frame_bytes_max,
        heartbeat=config.heartbeat_s,
    )


def introduced(properties: Table) -> Client:
    """Read the client's properties."""
    capabilities = lookup_table(properties, "capabilities")
    return Client(
        cancel_notify=lookup_bool(capabilities, "consumer_cancel_notify"),
        blocked_notify=lookup_bool(capabilities, "connection.blocked"),
        failure_notify=lookup_bool(capabilities, "authentication_failure_close"),
        properties=properties,
    )


def login_of(method: Connection.StartOk, mechanisms: Sequence[str]) -> LogIn:
    """Read the client's login. Raises 502 or 503 when it is malformed, and 403 when it names
    nobody."""
    mechanism, response = method.mechanism, cast("bytes", method.response)
    if mechanism not in mechanisms:
        raise command_invalid(f"unknown authentication mechanism '{mechanism}'")
    read = _MECHANISMS.get(mechanism)
    if read is None:
        assert mechanism == EXTERNAL, f"{mechanism} is offered, and nobody reads it"
        return LogIn(mechanism, "", None)
    name, password = read(response)
    return LogIn(mechanism, name, password)


def login_refused(mechanism: str) -> AmqpError:
    """RabbitMQ's 403, which does not say why."""
    return access_refused(
        f"Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile.",
        NO_METHOD,
    )


def check(limits: Limits, config: AmqpConfig) -> None:
    """Raises 530 for a limit outside what was offered."""
    _check("frame_max", limits.frame_bytes_max, FRAME_BYTES_MIN, config.frame_bytes_max)
    _check("channel_max", limits.channel_max, CHANNEL_MAX_MIN, config.channel_max)


def _check(name: str, wanted: int, minimum: int, offered: int) -> None:
    if wanted and wanted < minimum:
        raise not_allowed(
            f"negotiated {name} = {wanted} is lower than the minimum allowed value ({minimum})"
        )
    if offered and not 0 < wanted <= offered:
        detail = " (no limit)" if name == "channel_max" and not wanted else ""
        raise not_allowed(
            f"negotiated {name} = {wanted}{detail} is higher than the maximum allowed value "
            f"({offered})"
        )


def _plain(response: bytes) -> tuple[str, str]:
    """RFC 4616, without an authorisation identity: NUL user NUL password."""
    empty, *parts = response.split(b"\0")
    if empty or len(parts) != 2:
        raise syntax_error("expected NUL, user, NUL, password as the PLAIN response")
    name, password = (part.decode("utf-8", "surrogateescape") for part in parts)
    return name, password


def _amqplain(response: bytes) -> tuple[str, str]:
    """A field table without its size."""
    try:
        fields = decode_table(response)
    except AmqpError:
        fields = {}
    name, password = fields.get("LOGIN"), fields.get("PASSWORD")
    if name is None or password is None:
        raise syntax_error("AMQPLAIN auth info is missing LOGIN or PASSWORD field")
    if not (isinstance(name.value, bytes) and isinstance(password.value, bytes)):
        raise login_refused("AMQPLAIN")  # nobody is called so; octets are as good as a string
    return name.text, password.text


_MECHANISMS: Final[dict[str, Callable[[bytes], tuple[str, str]]]] = {
    "PLAIN": _plain,
    "AMQPLAIN": _amqplain,
}
