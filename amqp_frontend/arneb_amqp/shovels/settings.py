"""Settings of a shovel: its parameter's value, read and checked.

The rule: RabbitMQ's keys, including the older ones, its defaults and its error texts. Settings that
are not supported here are refused with a sentence.

Source: ``rabbit_shovel_parameters``, RabbitMQ 3.13.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from arneb_amqp.client.uris import BrokerUri, InvalidUri, parse_uri
from arneb_amqp.wire.route import is_short

COMPONENT: Final = "shovel"
"""The component of shovels' parameters."""

PREFETCH: Final = 1000
RECONNECT_S: Final = 5.0
PREFETCH_MAX: Final = 65_535
"""The bound of ``basic.qos``."""


class InvalidShovel(ValueError):
    """The parameter does not describe a shovel; the text says why."""


class AckMode(Enum):
    """When the source gives a message up."""

    ON_CONFIRM = "on-confirm"
    """When the destination has stored it."""
    ON_PUBLISH = "on-publish"
    """When it is sent."""
    NO_ACK = "no-ack"
    """When it is received."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source: a queue or an exchange."""

    uris: tuple[BrokerUri, ...]
    queue: str | None = None
    exchange: str | None = None
    exchange_key: str = ""
    queue_arguments: Mapping[str, Any] = field(default_factory=dict)
    """As JSON values, for a queue that does not exist yet."""
    consumer_arguments: Mapping[str, Any] = field(default_factory=dict)
    prefetch: int = PREFETCH


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination; with neither a queue nor an exchange, messages keep their exchange and
    key."""

    uris: tuple[BrokerUri, ...]
    queue: str | None = None
    exchange: str | None = None
    exchange_key: str | None = None
    queue_arguments: Mapping[str, Any] = field(default_factory=dict)
    publish_properties: Mapping[str, Any] = field(default_factory=dict)
    forward_headers: bool = False
    timestamp_header: bool = False


@dataclass(frozen=True, slots=True)
class ShovelSettings:
    """All settings of a shovel."""

    source: Source
    destination: Destination
    ack_mode: AckMode = AckMode.ON_CONFIRM
    reconnect_s: float = RECONNECT_S
    """0 = never."""
    delete_after: int | None = None
    """The shovel and its parameter are deleted after this many messages."""
    deletes_after_length: bool = False
    """Whether that number is the queue's length at the start."""

    @property
    def local_vhosts(self) -> set[str | None]:
        """The vhosts of this broker that it uses; None: its own."""
        uris = (*self.source.uris, *self.destination.uris)
        return {uri.vhost for uri in uris if uri.is_local}


Check = Callable[[Any], str | None]


def _name(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"should be binary, actually was {_shown(value)}"
    return None if is_short(value) else "should be less than 255 bytes"


def _number(value: Any) -> str | None:
    if type(value) in (int, float) and value >= 0:
        return None
    return f"should be a number of at least 0, actually was {_shown(value)}"


def _whole(value: Any) -> str | None:
    if type(value) is int and 0 <= value <= PREFETCH_MAX:
        return None
    return f"should be a number up to {PREFETCH_MAX}, actually was {_shown(value)}"


def _flag(value: Any) -> str | None:
    return None if type(value) is bool else f"should be boolean, actually was {_shown(value)}"


def _object(value: Any) -> str | None:
    fits = isinstance(value, dict) or value == []
    return None if fits else f"should be a map, actually was {_shown(value)}"


def _ack_mode(value: Any) -> str | None:
    if value in [each.value for each in AckMode]:
        return None
    return f"should be one of no-ack, on-publish, on-confirm, actually was {_shown(value)}"


def _delete_after(value: Any) -> str | None:
    if value in ("never", "queue-length") or (type(value) is int and value >= 0):
        return None
    return f'should be a number greater than or equal to 0, "never" or "queue-length", actually was {_shown(value)}'  # noqa: E501


def _protocol(value: Any) -> str | None:
    if value == "amqp10":
        return "says amqp10: AMQP 1.0 is not spoken here; amqp091 is"
    return None if value == "amqp091" else f"should be amqp091, actually was {_shown(value)}"


def _uris(value: Any) -> str | None:
    listed = value if isinstance(value, list) else [value]
    if not listed or not all(isinstance(each, str) for each in listed):
        return "should be a URI or a list of URIs"
    for each in listed:
        try:
            parse_uri(each)
        except InvalidUri as error:
            return f"is not a valid URI: {error}"
    return None


CHECKS: Final[Mapping[str, Check]] = {
    "src-uri": _uris,
    "src-protocol": _protocol,
    "src-queue": _name,
    "src-queue-args": _object,
    "src-exchange": _name,
    "src-exchange-key": _name,
    "src-prefetch-count": _whole,
    "src-delete-after": _delete_after,
    "src-consumer-args": _object,
    "dest-uri": _uris,
    "dest-protocol": _protocol,
    "dest-queue": _name,
    "dest-queue-args": _object,
    "dest-exchange": _name,
    "dest-exchange-key": _name,
    "dest-publish-properties": _object,
    "dest-add-forward-headers": _flag,
    "dest-add-timestamp-header": _flag,
    "prefetch-count": _whole,
    "reconnect-delay": _number,
    "add-forward-headers": _flag,
    "add-timestamp-header": _flag,
    "publish-properties": _object,
    "ack-mode": _ack_mode,
    "delete-after": _delete_after,
}
"""The keys; those of AMQP 1.0 are refused with its protocol."""


def shovel_in(value: Mapping[str, Any]) -> ShovelSettings:
    """Return the shovel that a parameter's value describes. Raises :class:`InvalidShovel`."""
    faults = [f"Key {name} {fault}" for name in ("src-protocol", "dest-protocol")
              if name in value and (fault := _protocol(value[name]))]  # fmt: skip
    faults = faults or _faults(value)
    if faults:
        raise InvalidShovel("\n".join(faults))
    after = value.get("src-delete-after", value.get("delete-after", "never"))
    mode = AckMode(value.get("ack-mode", AckMode.ON_CONFIRM.value))
    if type(after) is int and mode is AckMode.NO_ACK:
        raise InvalidShovel("Cannot specify 'no-ack' and numerical 'delete-after'")
    source = Source(
        _parsed(value["src-uri"]), value.get("src-queue"), value.get("src-exchange"),
        value.get("src-exchange-key", ""), _of(value, "src-queue-args"),
        _of(value, "src-consumer-args"),
        value.get("src-prefetch-count", value.get("prefetch-count", PREFETCH)),
    )  # fmt: skip
    destination = Destination(
        _parsed(value["dest-uri"]), value.get("dest-queue"), value.get("dest-exchange"),
        value.get("dest-exchange-key"), _of(value, "dest-queue-args"),
        _of(value, "dest-publish-properties") or _of(value, "publish-properties"),
        value.get("dest-add-forward-headers", value.get("add-forward-headers", False)),
        value.get("dest-add-timestamp-header", value.get("add-timestamp-header", False)),
    )  # fmt: skip
    return ShovelSettings(
        source, destination, mode, float(value.get("reconnect-delay", RECONNECT_S)),
        after if type(after) is int else None, after == "queue-length",
    )  # fmt: skip


def _faults(value: Mapping[str, Any]) -> list[str]:
    faults = [f"Key {name} is mandatory" for name in ("src-uri", "dest-uri") if name not in value]
    for one, other, is_needed in (
        ("src-exchange", "src-queue", True), ("dest-exchange", "dest-queue", False),
    ):  # fmt: skip
        if one in value and other in value:
            faults.append(f"Cannot specify '{one}' and '{other}'")
        elif is_needed and one not in value and other not in value:
            faults.append(f"Must specify '{one}' or '{other}'")
    unknown = [name for name in value if name not in CHECKS]
    if unknown:
        faults.append(f"Unrecognised terms {unknown}")
    for name, check in CHECKS.items():
        if name in value and (fault := check(value[name])):
            faults.append(f"Key {name} {fault}")
    return faults


def _parsed(value: str | list[str]) -> tuple[BrokerUri, ...]:
    return tuple(map(parse_uri, [value] if isinstance(value, str) else value))


def _of(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return value.get(name) or {}


def _shown(value: Any) -> str:
    return repr(value)[:100]


def without_passwords(value: Any) -> Any:
    """Return a parameter's value for display: URIs without users and passwords."""
    if not isinstance(value, dict):
        return value
    shown = dict(value)
    for name in ("src-uri", "dest-uri"):
        uris = value.get(name)
        if isinstance(uris, str):
            shown[name] = _shown_uri(uris)
        elif isinstance(uris, list):
            shown[name] = [_shown_uri(each) for each in uris if isinstance(each, str)]
    return shown


def _shown_uri(text: str) -> str:
    try:
        return parse_uri(text).shown
    except InvalidUri:
        return "amqp://"
