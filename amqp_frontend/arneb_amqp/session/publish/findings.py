"""Findings: the parts of a property list that matter to a publish.

The rule: a list that successive messages share is inspected once; its faults are RabbitMQ's errors,
in the order in which RabbitMQ checks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from arneb_amqp.routing.checks import carbon_copies, check_expiration, is_plain
from arneb_amqp.routing.reply_to import REPLY_TO, ReplyTo
from arneb_amqp.session.rights import Rights
from arneb_amqp.wire.properties import decode_properties, encode_properties, priority_of
from arneb_amqp.wire.tables import Field


@dataclass(frozen=True, slots=True)
class Findings:
    """The parts of one property list that matter."""

    headers: Mapping[str, Field] | None = None
    copies: tuple[str, ...] = ()
    replacement: bytes | None = None
    """The list that receivers see, if it differs."""
    expiration_ms: int | None = None
    is_fleeting: bool = False
    """Whether the next message must be inspected again."""
    priority: int = 0


NOTHING: Final = Findings()


def look(raw: bytes, rights: Rights, reply_to: ReplyTo) -> Findings:
    """Inspect a property list of a channel with the direct replies of ``reply_to``. Raises
    RabbitMQ's errors for its faults."""
    if is_plain(raw):
        priority = priority_of(raw)
        return Findings(priority=priority) if priority else NOTHING
    properties = decode_properties(raw)
    asks = properties.reply_to == REPLY_TO
    answers_to = reply_to.current if asks else properties.reply_to
    if properties.user_id is not None:
        rights.check_user_id(properties.user_id)
    expiration_ms = check_expiration(properties.expiration)
    copies, kept = carbon_copies(properties)
    if asks:
        kept = replace(kept, reply_to=answers_to)
    replacement = None if kept is properties else encode_properties(kept)
    return Findings(
        properties.headers,
        copies,
        replacement,
        expiration_ms,
        is_fleeting=asks,
        priority=properties.priority or 0,
    )
