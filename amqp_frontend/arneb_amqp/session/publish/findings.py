"""Findings: what a property list holds that matters when a message is published.

The rule: a list that most messages share is looked at once; what is wrong in it is an error of
RabbitMQ's, in the order in which RabbitMQ looks.
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
    """What matters in one property list."""

    headers: Mapping[str, Field] | None = None
    copies: tuple[str, ...] = ()
    replacement: bytes | None = None
    """The list that receivers see, if it is another one."""
    expiration_ms: int | None = None
    is_fleeting: bool = False
    """Not to be relied on for the next message."""
    priority: int = 0


NOTHING: Final = Findings()


def look(raw: bytes, rights: Rights, reply_to: ReplyTo) -> Findings:
    """What matters in a property list of a channel whose answers go where ``reply_to`` says.
    Raises RabbitMQ's errors for what is wrong there."""
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
