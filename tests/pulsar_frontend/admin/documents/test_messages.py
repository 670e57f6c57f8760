"""What the admin API says of a message: clients rebuild it from its headers."""

from base64 import b64decode

import pytest
from tests.pulsar_frontend.conftest import OpenBroker
from tests.pulsar_frontend.raw_client import body_of, connected

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import position_at
from arneb_pulsar.admin.api import answer
from arneb_pulsar.admin.documents.messages import message_of
from arneb_pulsar.wire.checksum import join_body
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

MOST = (1 << 64) - 1


def shown(
    metadata: pb.MessageMetadata, payload: bytes = b"x"
) -> tuple[list[tuple[str, str]], bytes]:
    body = join_body(metadata.SerializeToString(), payload)
    return message_of(position_at(3, 4), EntryHeader(Origin.PULSAR).pack() + body)


def message(**fields: object) -> pb.MessageMetadata:
    found = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)
    return pb.MessageMetadata.FromString(
        found.SerializeToString() + pb.MessageMetadata(**fields).SerializePartialToString()  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("field", "value", "header", "text"),
    [
        ("null_value", True, "null-value", "true"),
        ("null_partition_key", True, "null-partition-key", "true"),
        ("partition_key_b64_encoded", True, "partition-key-b64-encoded", "true"),
        ("ordering_key", b"\xff\0", "Base64-ordering-key", "/wA="),
        ("schema_version", b"\0" * 7 + b"\1", "Base64-schema-version", "AAAAAAAAAAE="),
        ("deliver_at_time", 1_000, "deliver-at-time", "1970-01-01T00:00:01.000Z"),
        ("event_time", 0, "event-time", "1970-01-01T00:00:00.000Z"),
        ("compression", pb.LZ4, "compression", "LZ4"),
        ("uncompressed_size", 9, "uncompressed-size", "9"),
        ("encryption_algo", "AES", "encryption-algo", "AES"),
        ("encryption_param", b"iv", "Base64-encryption-param", "aXY="),
        ("highest_sequence_id", 9, "highest-sequence-id", "9"),
        ("txnid_most_bits", MOST, "txnid-most-bits", "-1"),
        ("uuid", "u", "uuid", "u"),
        ("num_chunks_from_msg", 3, "num-chunks-from-msg", "3"),
        ("num_chunks_from_msg", 3, "PROPERTY-TOTAL-CHUNKS", "3"),
        ("total_chunk_msg_size", 30, "total-chunk-msg-size", "30"),
        ("chunk_id", 0, "chunk-id", "0"),
        ("marker_type", 2, "marker-type", "2"),
        ("replicated_from", "c", "replicated-from", "c"),
    ],
)
def test_everything_that_is_known_of_a_message_is_shown(
    field: str, value: object, header: str, text: str
) -> None:
    headers, _ = shown(message(**{field: value}))
    assert ("X-Pulsar-" + header, text) in headers


def test_what_a_message_does_not_have_is_not_shown() -> None:
    headers, _ = shown(message())
    assert [name.removeprefix("X-Pulsar-") for name, _ in headers] == [
        "Message-ID", "PROPERTY", "publish-time", "producer-name", "sequence-id", "Is-Encrypted",
    ]  # fmt: skip


def test_a_field_with_several_values_is_shown_for_each() -> None:
    keys = [pb.EncryptionKeys(key=each, value=b"v") for each in ("a", "b")]
    headers, payload = shown(message(encryption_keys=keys, replicate_to=["x", "y"]), b"secret")
    values = [b64decode(value) for name, value in headers if name.endswith("encryption-keys")]
    assert [pb.EncryptionKeys.FromString(each) for each in values] == keys
    assert [value for name, value in headers if name.endswith("replicated-to")] == ["x", "y"]
    assert (dict(headers)["X-Pulsar-Is-Encrypted"], payload) == ("true", b"secret")


def test_the_size_of_a_stored_batch_is_shown() -> None:
    metadata = message(num_messages_in_batch=2)
    headers, _ = shown(metadata, b"12345")
    head = len(metadata.SerializeToString())
    size = len(join_body(metadata.SerializeToString(), b"12345")) - head
    headers_by_name = dict(headers)
    assert headers_by_name["X-Pulsar-num-batch-message"] == "2"
    assert headers_by_name["X-Pulsar-batch-size"] == str(size)


def test_what_cannot_be_unpacked_is_shown_as_it_is() -> None:
    metadata = message(compression=pb.ZSTD, uncompressed_size=100)
    headers, payload = shown(metadata, b"no such thing")
    assert (dict(headers)["X-Pulsar-compression"], payload) == ("ZSTD", b"no such thing")


@pytest.mark.real_time
@pytest.mark.parametrize("exposed", [True, False])
async def test_the_brokers_own_metadata_is_shown_where_it_is_exposed(
    open_broker: OpenBroker, exposed: bool
) -> None:
    """An entry has the number of its last message, as where consumers are told."""
    settings = {"expose_broker_entry_metadata": exposed}
    async with open_broker(**settings) as running, connected(running.context) as (client,):
        await client.producer("t")
        await client.publish(b"a", b"b")
        body = body_of(b"batch", num_messages_in_batch=3)
        await client.send(pb.CommandSend(producer_id=1, sequence_id=2, num_messages=3), body=body)
        await client.take(3)
        log = "/admin/v2/persistent/public/default/t"
        for path, number in (
            ("subscription/none/position/1", "0"),
            ("examinemessage?initialPosition=earliest&messagePosition=2", "1"),
            ("ledger/1/entry/2", "4"),
        ):
            path, _, query = path.partition("?")
            asked = dict(each.split("=") for each in query.split("&") if each)
            reply = await answer(running.context, "GET", f"{log}/{path}", asked, b"", "here")
            headers_by_name = dict(reply.headers)
            found = headers_by_name.get("X-Pulsar-Broker-Entry-METADATA-index")
            assert (reply.status, found) == (200, number if exposed else None)
            assert ("X-Pulsar-Broker-Entry-METADATA-timestamp" in headers_by_name) is exposed
