"""An admission: a client that has done its handshake and asked for a vhost.

The rule: it holds all that a session needs to continue with a client after another session's
handshake, perhaps in another process: its user, the agreed terms and its vhost.
"""

from dataclasses import dataclass, field

from arneb_amqp.wire.tables import Table


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that a connection and its client have agreed on."""

    client_properties: Table
    mechanism: str
    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int


@dataclass(frozen=True, slots=True)
class Admission:
    """The client's user, terms and vhost."""

    user: str
    secret: str | None = field(repr=False)
    """The token that must be presented again to obtain verdicts; None: the name is enough."""
    terms: Terms
    vhost: str
