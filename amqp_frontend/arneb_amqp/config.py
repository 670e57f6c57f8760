"""The settings of the AMQP door: frozen, checked once, passed explicitly."""

from dataclasses import dataclass
from hmac import compare_digest
from typing import Final

from arneb_amqp.wire.constants import (
    CHANNEL_MAX_DEFAULT,
    FRAME_BYTES_MAX_DEFAULT,
    FRAME_BYTES_MIN,
    HEARTBEAT_S_DEFAULT,
    MESSAGE_BYTES_MAX_DEFAULT,
    PARTIAL_BYTES_MAX_DEFAULT,
)

KIB: Final = 1024

TRANSACTION_BYTES_MAX_DEFAULT: Final = 256 * KIB * KIB
"""A largest message and as much again; with messages of 1 KiB, 170,000. A commit holds all of it
once more, in pages of the store, until it is on disk."""


@dataclass(frozen=True, slots=True)
class User:
    """Who may log in. ``loopback_only``: not from another machine (RabbitMQ's rule for guest)."""

    name: str
    password: str
    loopback_only: bool = False

    def __post_init__(self) -> None:
        if not self.name or not self.password:
            raise ValueError(f"expected a name and a password, got user {self.name!r} without")

    def admits(self, password: str, *, loopback: bool) -> bool:
        """Is that the password, and may the user come from there?"""
        right = compare_digest(
            self.password.encode("utf-8", "surrogateescape"),
            password.encode("utf-8", "surrogateescape"),
        )
        return right and (loopback or not self.loopback_only)


GUEST: Final = User("guest", "guest", loopback_only=True)


@dataclass(frozen=True, slots=True)
class AmqpConfig:
    """What the server offers, demands and bounds."""

    users: tuple[User, ...] = (GUEST,)
    vhosts: tuple[str, ...] = ("/",)
    channel_max: int = CHANNEL_MAX_DEFAULT
    frame_bytes_max: int = FRAME_BYTES_MAX_DEFAULT
    message_bytes_max: int = MESSAGE_BYTES_MAX_DEFAULT
    partial_bytes_max: int = PARTIAL_BYTES_MAX_DEFAULT
    """Messages of which a part has come, on all channels of a connection together; more is 506."""
    transaction_bytes_max: int = TRANSACTION_BYTES_MAX_DEFAULT
    """What the channels of a connection together have published, answered and neither committed
    nor rolled back; more is 506."""
    heartbeat_s: int = HEARTBEAT_S_DEFAULT
    handshake_s: float = 10.0
    """From the accepted socket to ``connection.open``; RabbitMQ's default."""
    close_s: float = 5.0
    """How long a ``connection.close`` waits for its close-ok before the socket is cut."""
    outbox_bytes_high: int = 512 * KIB
    """Above this much unsent output a connection's consumers are assigned nothing."""
    outbox_bytes_low: int = 128 * KIB
    """Below this they are again."""
    outbox_bytes_max: int = 8 * KIB * KIB
    """Above this much the connection is not read either. Far above what deliveries can reach: a
    client with one thread may publish for long before it reads what it has asked for, and must
    not wait for us while we wait for it. What is bounded here are answers that nobody reads."""
    consumer_timeout_s: float = 1800.0
    """A delivery that is unanswered for so long closes its channel; 0 = none does."""
    cluster_name: str = "arneb"

    def __post_init__(self) -> None:
        if self.frame_bytes_max and self.frame_bytes_max < FRAME_BYTES_MIN:
            raise ValueError(
                f"expected frame_bytes_max of at least {FRAME_BYTES_MIN} or 0, "
                f"got {self.frame_bytes_max}"
            )
        for name in ("partial_bytes_max", "transaction_bytes_max"):
            if (most := getattr(self, name)) < self.message_bytes_max:
                raise ValueError(
                    f"expected {name} of at least message_bytes_max, which is "
                    f"{self.message_bytes_max}, got {most}"
                )
        if self.consumer_timeout_s < 0:
            raise ValueError(
                f"expected consumer_timeout_s of at least 0, got {self.consumer_timeout_s}"
            )
        if not 0 <= self.outbox_bytes_low < self.outbox_bytes_high < self.outbox_bytes_max:
            raise ValueError("expected outbox_bytes_low below _high below _max")
