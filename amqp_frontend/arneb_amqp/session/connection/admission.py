"""An admission: what is known of a client that has shaken hands and asked for a vhost.

The rule: it is all that a session needs to go on with a client whose handshake another session has
had, perhaps in another process: who it is, what was agreed on, and where it wants to go.
"""

from dataclasses import dataclass, field

from arneb_amqp.wire.tables import Table


@dataclass(frozen=True, slots=True)
class Terms:
    """What a connection and its client have agreed on."""

    client_properties: Table
    mechanism: str
    channel_max: int
    frame_bytes_max: int
    heartbeat_s: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Who comes, on which terms, and where to."""

    user: str
    secret: str | None = field(repr=False)
    """What must be shown again by whoever asks for verdicts: a token. None: the name is enough."""
    terms: Terms
    vhost: str
