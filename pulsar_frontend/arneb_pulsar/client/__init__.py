"""A Pulsar client for trio and asyncio; see docs/internals/client.md.

It shares ``wire``, ``names`` and ``patterns`` with the broker, and imports nothing else of it.
"""

from arneb_pulsar.client.client import Client
from arneb_pulsar.client.codec.compression import Compression
from arneb_pulsar.client.connecting import ClientOptions, connect
from arneb_pulsar.client.connection.dialling import TlsOptions
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.consumer.options import (
    ConsumerOptions,
    CryptoFailureAction,
    DeadLetterPolicy,
    InitialPosition,
    KeyShared,
    SubscriptionType,
)
from arneb_pulsar.client.ids import EARLIEST, LATEST, MessageId
from arneb_pulsar.client.producer.options import AccessMode, Batching, ProducerOptions

__all__ = [
    "EARLIEST",
    "LATEST",
    "AccessMode",
    "Batching",
    "Client",
    "ClientOptions",
    "Compression",
    "ConsumerOptions",
    "CryptoFailureAction",
    "DeadLetterPolicy",
    "InitialPosition",
    "KeyShared",
    "Message",
    "MessageId",
    "ProducerOptions",
    "SubscriptionType",
    "TlsOptions",
    "connect",
]
