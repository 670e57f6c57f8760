"""What SUBSCRIBE asks for, in the core's terms."""

from typing import Final

from arneb_core.api.entries.ledger_ids import LARGEST
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_pulsar.packing.message_ids import place_of
from arneb_pulsar.session.client import ClientTraits
from arneb_pulsar.session.errors import RemoteProtocolError, RequestRefused
from arneb_pulsar.session.fields import properties_of, subscription_of, text_of, topic_of
from arneb_pulsar.session.interface.effects import AttachConsumer, ConsumerKey
from arneb_pulsar.session.schemas import schema_of
from arneb_pulsar.wire.proto import pulsar_pb2 as pb
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandSubscribe, KeySharedMeta

TYPES: Final = {each.traits.number: each for each in SubscriptionType}
"""Subscription types by their wire codes."""


def attachment(key: ConsumerKey, command: CommandSubscribe, client: ClientTraits) -> AttachConsumer:
    """Return the attachment that ``client`` asks for. Raises :class:`RequestRefused`."""
    subscription_type = TYPES.get(command.subType)
    if subscription_type is None:
        raise RemoteProtocolError(f"expected a subscription type, got {command.subType}")
    if command.read_compacted and subscription_type.traits.sharing:
        text = "readCompacted only allowed on failover or exclusive subscriptions"
        raise RequestRefused(pb.NotAllowedError, text)
    initial, start = _beginning(command)
    return AttachConsumer(
        key=key,
        topic=topic_of(command.topic),
        subscription=subscription_of(command.subscription),
        type=subscription_type,
        name=text_of(command.consumer_name, "consumer_name"),
        priority=command.priority_level,
        durable=command.durable,
        create_topic=command.force_topic_creation,
        initial=initial,
        start=start,
        compacted=command.read_compacted,
        rollback_s=command.start_message_rollback_duration_sec,
        sharing=sharing_of(command.keySharedMeta),
        properties=properties_of(command.metadata),
        subscription_properties=properties_of(command.subscription_properties),
        schema=schema_of(command.schema) if command.HasField("schema") else None,
        reads_broker_metadata=client.reads_broker_metadata,
        consumer_id=command.consumer_id,
    )


def sharing_of(meta: KeySharedMeta) -> KeySharing:
    """Return how the consumer wants keys to be shared out. If it does not say, the broker splits
    them among consumers, as in Pulsar."""
    in_order = not meta.allowOutOfOrderDelivery
    if meta.keySharedMode == pb.STICKY:
        ranges = tuple((each.start, each.end) for each in meta.hashRanges)
        return KeySharing(KeySharingMode.STICKY, ranges, in_order)
    return KeySharing(KeySharingMode.CONSISTENT_HASHING, (), in_order)


def _beginning(command: CommandSubscribe) -> tuple[InitialPosition, tuple[int, int] | None]:
    """Return where a new subscription starts: at an end of the log, or at an entry, inclusive, by
    ledger id and entry id."""
    initial = InitialPosition.LATEST
    if command.initialPosition == CommandSubscribe.Earliest:
        initial = InitialPosition.EARLIEST
    if command.durable or not command.HasField("start_message_id"):
        return initial, None
    ledger, entry = place_of(command.start_message_id)
    if ledger < 0:
        return InitialPosition.EARLIEST, None
    if ledger == LARGEST:
        return InitialPosition.LATEST, None
    return initial, (ledger, entry)
