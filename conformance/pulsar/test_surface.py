"""What the official wheel offers beside producing and consuming: encryption, table views,
knowing the end, batches of what is received, deduplication by policy."""

from pathlib import Path
from typing import Any

import pulsar
import pytest
from conformance.pulsar.admin import NAMESPACE, Admin
from conformance.pulsar.conftest import Connect, Named
from conformance.pulsar.helpers import drain, numbers, payloads, send, take
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

EARLIEST = pulsar.InitialPosition.Earliest
COMPRESSIONS = [
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pulsar.CryptoKeyReader:
    """A pair of keys that clients encrypt with; the broker never sees them."""
    directory: Path = tmp_path_factory.mktemp("keys")
    key = rsa.generate_private_key(65537, 2048)
    public, private = directory / "public.pem", directory / "private.pem"
    spki, plain = PublicFormat.SubjectPublicKeyInfo, NoEncryption()
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, spki))
    old_form = PrivateFormat.TraditionalOpenSSL
    private.write_bytes(key.private_bytes(Encoding.PEM, old_form, plain))
    return pulsar.CryptoKeyReader(str(public), str(private))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("options", [{}, {"batching_enabled": True}, {"chunking_enabled": True}])
def test_encrypted_messages_are_opened_by_who_has_the_key(
    client: pulsar.Client,
    topic: str,
    keys: pulsar.CryptoKeyReader,
    compression: pulsar.CompressionType,
    options: dict[str, Any],
) -> None:
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    producer = client.create_producer(
        topic,
        encryption_key="key",
        crypto_key_reader=keys,
        compression_type=compression,
        **options,
    )
    sent = numbers(20)
    if "chunking_enabled" in options:
        sent.append(bytes(range(256)) * 24 * 1024)
    send(producer, sent)
    assert payloads(take(consumer, len(sent))) == sent


def test_who_has_no_key_gets_them_closed(
    connect: Connect, topic: str, keys: pulsar.CryptoKeyReader
) -> None:
    client = connect()
    consumer = client.subscribe(
        topic, "s", crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME
    )
    producer = client.create_producer(topic, encryption_key="key", crypto_key_reader=keys)
    producer.send(b"secret")
    assert b"secret" not in consumer.receive(5000).data()


def test_a_reader_knows_whether_there_is_more(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert not reader.has_message_available()
    ids = send(producer, numbers(3))
    for number in range(3):
        assert reader.has_message_available()
        assert reader.read_next(5000).data() == b"%d" % number
    assert not reader.has_message_available()
    reader.seek(ids[1])
    assert reader.has_message_available()
    at_end = client.create_reader(topic, pulsar.MessageId.latest)
    assert not at_end.has_message_available()
    inclusive = client.create_reader(topic, ids[2], start_message_id_inclusive=True)
    assert inclusive.has_message_available()
    assert inclusive.read_next(5000).data() == b"2"
    exclusive = client.create_reader(topic, ids[2])
    assert not exclusive.has_message_available()
    last = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert last.has_message_available()
    assert last.read_next(5000).data() == b"2"


def test_a_reader_knows_the_end_of_a_batch(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, batching_enabled=True)
    ids = send(producer, numbers(10))
    reader = client.create_reader(topic, ids[4])
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(5000).data())
    assert found == numbers(5, first=5)


def test_messages_are_received_in_batches(client: pulsar.Client, topic: str) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(5, -1, 2000)
    consumer = client.subscribe(topic, "s", batch_receive_policy=policy)
    send(client.create_producer(topic), numbers(10))
    found = [payloads(consumer.batch_receive()) for _ in range(2)]
    assert found == [numbers(5), numbers(5, first=5)]


def test_a_namespace_may_want_deduplication(
    client: pulsar.Client, admin: Admin, name: Named
) -> None:
    namespace = f"public/{name('namespace')}"
    path = NAMESPACE.replace("public/default", namespace)
    admin.put(path)
    admin.post(f"{path}/deduplication", True)
    topic = f"persistent://{namespace}/t"
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic, producer_name="me")
    ids = [producer.send(b"%d" % number, sequence_id=number) for number in (3, 3, 4)]
    assert [each.ledger_id() == -1 for each in ids] == [False, True, False]
    producer.close()
    assert client.create_producer(topic, producer_name="me").last_sequence_id() == 4
    assert drain(client.subscribe(topic, "s")) == [b"3", b"4"]
