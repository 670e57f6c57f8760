"""End-to-end encryption: what clients with the key, without it and with another one receive."""

from pathlib import Path

import pulsar
import pytest
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import SILENCE_MS, WITHIN_MS, numbers, payloads, send, take
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

EARLIEST = pulsar.InitialPosition.Earliest
ON_FAILURE = pulsar.ConsumerCryptoFailureAction
COMPRESSIONS = [
    pulsar.CompressionType.NONE,
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


def made_keys(directory: Path) -> pulsar.CryptoKeyReader:
    """A key pair that clients encrypt with; the broker never sees it."""
    key = rsa.generate_private_key(65537, 2048)
    public, private = directory / "public.pem", directory / "private.pem"
    spki, plain = PublicFormat.SubjectPublicKeyInfo, NoEncryption()
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, spki))
    old_form = PrivateFormat.TraditionalOpenSSL
    private.write_bytes(key.private_bytes(Encoding.PEM, old_form, plain))
    return pulsar.CryptoKeyReader(str(public), str(private))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pulsar.CryptoKeyReader:
    return made_keys(tmp_path_factory.mktemp("keys"))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("options", [{}, {"batching_enabled": True}, {"chunking_enabled": True}])
def test_a_consumer_with_the_key_opens_messages(
    client: pulsar.Client,
    topic: str,
    keys: pulsar.CryptoKeyReader,
    compression: pulsar.CompressionType,
    options: dict[str, bool],
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


def test_a_reader_opens_messages_too(
    client: pulsar.Client, topic: str, keys: pulsar.CryptoKeyReader
) -> None:
    producer = client.create_producer(topic, encryption_key="key", crypto_key_reader=keys)
    ids = send(producer, numbers(5))
    reader = client.create_reader(topic, ids[1], crypto_key_reader=keys)
    assert [reader.read_next(WITHIN_MS).data() for _ in range(3)] == numbers(3, first=2)


def test_a_message_says_how_it_was_closed(
    client: pulsar.Client, topic: str, keys: pulsar.CryptoKeyReader
) -> None:
    consumer = client.subscribe(topic, "s", crypto_key_reader=keys)
    client.create_producer(topic).send(b"open")
    producer = client.create_producer(
        topic,
        encryption_key="my key",
        crypto_key_reader=keys,
        compression_type=pulsar.CompressionType.ZSTD,
    )
    producer.send(b"secret" * 100)
    plain, opened = take(consumer, 2)
    assert plain.encryption_context() is None
    context = opened.encryption_context()
    (key,) = context.keys()
    assert key.key == "my key"
    assert len(key.value) == 256
    assert context.param()
    assert context.compression_type() == pulsar.CompressionType.ZSTD
    assert context.uncompressed_message_size() == 600
    assert context.batch_size() == -1
    assert not context.is_decryption_failed()


@pytest.mark.parametrize("has_key", [False, True], ids=["none", "another"])
@pytest.mark.parametrize(
    "action", [ON_FAILURE.FAIL, ON_FAILURE.DISCARD, ON_FAILURE.CONSUME], ids=str
)
def test_without_the_key_messages_stay_closed(
    connect: Connect,
    topic: str,
    tmp_path: Path,
    keys: pulsar.CryptoKeyReader,
    action: pulsar.ConsumerCryptoFailureAction,
    has_key: bool,
) -> None:
    """Receiving fails and the messages wait for a consumer with the key; or they are discarded; or
    they are delivered encrypted."""
    wrong = made_keys(tmp_path) if has_key else None
    client = connect()
    consumer = client.subscribe(topic, "s", crypto_key_reader=wrong, crypto_failure_action=action)
    producer = connect().create_producer(topic, encryption_key="key", crypto_key_reader=keys)
    send(producer, [b"secret"])
    if action is ON_FAILURE.CONSUME:
        message = consumer.receive(WITHIN_MS)
        assert b"secret" not in message.data()
        assert message.encryption_context().is_decryption_failed()
        consumer.acknowledge(message)
    else:
        with pytest.raises(pulsar.Timeout):
            consumer.receive(SILENCE_MS)
    client.close()
    send(producer, [b"later"])
    consumer = connect().subscribe(topic, "s", crypto_key_reader=keys)
    waited = [b"secret"] if action is ON_FAILURE.FAIL else []
    expected = [*waited, b"later"]
    assert payloads(take(consumer, len(expected))) == expected
