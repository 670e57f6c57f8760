"""Entries made of SENDs: what the header says, what the checksum refuses."""

import re

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import IDS, bodies, metadata, mutated

from arneb_core.api.encoding.hashing import key_hash, murmur3_32
from arneb_core.api.entries.entry import HEADER_BYTES, Origin, messages_in, read_header
from arneb_pulsar.packing import entries
from arneb_pulsar.packing.entries import batch_size_of, make_entries, make_entry
from arneb_pulsar.packing.metadata_pattern import OWN_PATTERN_MESSAGES, MetadataPattern
from arneb_pulsar.wire.checksum import SIZE, join_body, split_body, verify_body
from arneb_pulsar.wire.errors import ChecksumMismatch, PayloadError
from arneb_pulsar.wire.metadata import BATCH_MESSAGES_MAX, parse_metadata
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata

NOW_MS = 1_700_000_000_000


def plain(producer_name: str = "p", **fields: object) -> MessageMetadata:
    return MessageMetadata(producer_name=producer_name, sequence_id=3, publish_time=5, **fields)


@given(metadata(), st.binary(max_size=5000), st.integers(1, BATCH_MESSAGES_MAX))
def test_an_entry_keeps_the_body_and_says_what_is_in_it(
    head: MessageMetadata, payload: bytes, messages: int
) -> None:
    head.num_messages_in_batch = messages
    body = join_body(head.SerializeToString(), payload)
    entry = make_entry(body, NOW_MS)
    assert entry[HEADER_BYTES:] == body
    header = read_header(entry)
    key = head.ordering_key or head.partition_key.encode()
    assert header.origin is Origin.PULSAR
    assert header.messages == messages
    assert header.publish_time_ms == NOW_MS
    assert header.deliver_at_ms == max(0, head.deliver_at_time)
    assert header.key_hash == (key_hash(key) if key else 0)
    assert batch_size_of(entry) == messages


def expected(entries: list[bytes]) -> tuple[list[bytes], int, bool]:
    """What is said of a run."""
    delayed = any(read_header(each).deliver_at_ms for each in entries)
    return entries, sum(map(messages_in, entries)), delayed


def known_after(sent: list[bytes]) -> MetadataPattern:
    """The form of the producer that sent these."""
    pattern = MetadataPattern()
    pattern.learn(sent)
    return pattern


@given(st.lists(bodies(), max_size=8))
def test_a_run_of_entries_is_made_of_its_bodies(sent: list[bytes]) -> None:
    one_by_one = [make_entry(body, NOW_MS) for body in sent]
    assert make_entries(sent, NOW_MS) == expected(one_by_one)
    for body in sent:  # whoever sent one of them before
        for messages in (1, OWN_PATTERN_MESSAGES):
            pattern = known_after([body] * messages)
            assert make_entries(sent, NOW_MS, pattern) == expected(one_by_one)


@st.composite
def usual_metadata(draw: st.DrawFn) -> bytes:
    """Metadata of one and the same producer, whole or damaged before its checksum was made."""
    head = MessageMetadata(
        producer_name="me", sequence_id=draw(IDS), publish_time=draw(st.integers(0, 1 << 42))
    )
    if draw(st.booleans()):
        head.partition_key = draw(st.text(alphabet="aH\x01\x02é", max_size=70))
    if draw(st.booleans()):
        head.uncompressed_size = draw(st.integers(0, (1 << 32) - 1))
    if draw(st.booleans()):
        head.deliver_at_time = draw(st.integers(1 << 35, (1 << 42) - 1) | st.integers(-2, 1 << 43))
    if draw(st.integers(0, 9)) == 0:
        head.num_messages_in_batch = draw(st.integers(1, 3))
    data = head.SerializeToString()
    return draw(mutated(data)) if draw(st.integers(0, 4)) == 0 else data


@given(st.lists(usual_metadata(), max_size=8))
def test_the_usual_form_is_read_as_protobuf_reads_it(heads: list[bytes]) -> None:
    sent = [join_body(head, b"payload") for head in heads]
    own = known_after([join_body(plain("me").SerializeToString(), b"")] * OWN_PATTERN_MESSAGES)
    try:
        one_by_one = [make_entry(body, NOW_MS) for body in sent]
    except PayloadError:
        for pattern in (MetadataPattern(), own):
            with pytest.raises(PayloadError):
                make_entries(sent, NOW_MS, pattern)
    else:
        for pattern in (MetadataPattern(), own):
            assert make_entries(sent, NOW_MS, pattern) == expected(one_by_one)


@pytest.mark.parametrize("delays", [[0, 1, 2], [0, 1, 0, 2, 3], [0, 0, 5], [4, 0, 6]])
def test_each_of_a_run_has_its_own_time_wherever_it_stands(delays: list[int]) -> None:
    """The first never matches the pattern: the producer's name is found by parsing it."""
    later = [{"deliver_at_time": NOW_MS + each} if each else {} for each in delays]
    sent = [join_body(plain(**fields).SerializeToString(), b"payload") for fields in later]
    made = make_entries(sent, NOW_MS)
    assert made == expected([make_entry(body, NOW_MS) for body in sent])
    assert made[2]


def test_a_run_is_delayed_though_its_only_time_follows_a_key() -> None:
    heads = plain(), plain(partition_key="key", deliver_at_time=NOW_MS + 1)
    sent = [join_body(head.SerializeToString(), b"payload") for head in heads]
    entries, messages, is_delayed = make_entries(sent, NOW_MS)
    assert entries == [make_entry(body, NOW_MS) for body in sent]
    assert (messages, is_delayed) == (2, True)


@given(st.lists(bodies(), min_size=1, max_size=4), st.data())
def test_a_damaged_body_is_refused_in_a_run_as_alone(
    sent: list[bytes], data: st.DataObject
) -> None:
    damaged = data.draw(mutated(sent[0]))
    try:
        entry = make_entry(damaged, NOW_MS)
    except PayloadError as error:
        with pytest.raises(type(error)):
            make_entries([*sent, damaged], NOW_MS)
    else:
        assert make_entries([*sent, damaged], NOW_MS)[0][-1] == entry


@given(bodies(), st.data())
def test_any_change_after_the_checksum_is_seen(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(2, len(body) - 1))
    changed = bytes([*body[:at], body[at] ^ data.draw(st.integers(1, 255)), *body[at + 1 :]])
    with pytest.raises(ChecksumMismatch):
        verify_body(changed)


@given(bodies())
def test_a_body_cut_short_is_refused(body: bytes) -> None:
    for size in range(len(body)):
        with pytest.raises(PayloadError):
            make_entry(body[:size], NOW_MS)


def test_a_body_without_a_checksum_is_taken_as_it_is() -> None:
    head = plain().SerializeToString()
    body = SIZE.pack(len(head)) + head + b"payload"
    entry = make_entry(body, NOW_MS)
    assert entry[HEADER_BYTES:] == body
    assert make_entries([body], NOW_MS) == ([entry], 1, False)
    assert body[split_body(body)[1] :] == b"payload"


@pytest.mark.parametrize("messages", [0, -1, BATCH_MESSAGES_MAX + 1])
def test_an_impossible_number_of_messages_is_refused(messages: int) -> None:
    body = join_body(plain(num_messages_in_batch=messages).SerializeToString(), b"")
    with pytest.raises(PayloadError, match="messages"):
        make_entries([body], NOW_MS)


def test_metadata_without_a_required_field_is_refused() -> None:
    head = MessageMetadata(producer_name="p", sequence_id=3).SerializePartialToString()
    for make in (make_entry, lambda body, now: make_entries([body], now)):
        with pytest.raises(PayloadError, match="required"):
            make(join_body(head, b""), NOW_MS)


@given(st.binary(max_size=60))
def test_random_metadata_is_parsed_or_refused(data: bytes) -> None:
    try:
        found = parse_metadata(data)
    except PayloadError as error:
        assert isinstance(error.__cause__, DecodeError) or "required" in str(error)
    else:
        assert found.IsInitialized()


def test_a_base64_key_is_hashed_as_its_bytes() -> None:
    head = plain(partition_key="a2V5MQ==", partition_key_b64_encoded=True)
    entry = make_entry(join_body(head.SerializeToString(), b""), NOW_MS)
    assert read_header(entry).key_hash == 462881061


@pytest.mark.parametrize(
    ("key", "expected", "slot"),
    [
        (b"key1", 462881061, 293),
        (b"key2", 1936800180, 14772),
        (b"key01", 39696932, 47652),
        (b"key02", 751761803, 63883),
    ],
)
def test_keys_hash_as_in_pulsars_clients(key: bytes, expected: int, slot: int) -> None:
    assert key_hash(key) == expected
    assert expected % 65536 == slot


def test_murmur_is_unsigned() -> None:
    assert murmur3_32(b"Order-3459134") == 3112179635
    assert murmur3_32(b"Order-3459134") % 65536 == 6067
    assert murmur3_32(b"") == 0


def test_many_producers_in_turn_have_no_form_made_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [
        join_body(
            MessageMetadata(
                producer_name=f"p-{each % 1_000}", sequence_id=3, publish_time=5
            ).SerializeToString(),
            b"payload",
        )
        for each in range(2_000)
    ]
    monkeypatch.setattr("re.compile", None)
    known = [MetadataPattern() for _ in range(1_000)]
    for each, body in enumerate(sent):
        pattern = known[each % 1_000]
        assert make_entries([body], NOW_MS, pattern)[0] == [make_entry(body, NOW_MS)]
        pattern.learn([body])


def test_a_producer_of_many_messages_has_one_form_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = join_body(plain("a+b").SerializeToString(), b"payload")
    other = join_body(plain("a-b").SerializeToString(), b"payload")
    made, pattern = [], MetadataPattern()
    compiled = re.compile
    monkeypatch.setattr("re.compile", lambda *form: made.append(form) or compiled(*form))
    pattern.learn([body] * (OWN_PATTERN_MESSAGES - 1))
    assert made == []
    for _ in range(3):
        pattern.learn([body] * OWN_PATTERN_MESSAGES)
    assert len(made) == 1
    assert repr(pattern) == "<MetadataPattern of b'a+b', own pattern>"
    sent = [body, other, body]
    assert make_entries(sent, NOW_MS, pattern)[0] == [make_entry(each, NOW_MS) for each in sent]
    monkeypatch.setattr(entries, "parse_metadata", None)
    assert make_entries([body], NOW_MS, pattern)[1] == 1


def test_a_message_of_a_producer_that_is_known_is_not_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a thousand topics have one producer each, each message is a run of its own."""
    heads = [
        MessageMetadata(producer_name="me", sequence_id=each, publish_time=5) for each in (1, 2)
    ]
    first, second = (join_body(each.SerializeToString(), b"payload") for each in heads)
    expected_entry = make_entry(second, NOW_MS)
    pattern = known_after([first])
    monkeypatch.setattr(entries, "parse_metadata", None)
    assert make_entries([second], NOW_MS, pattern) == ([expected_entry], 1, False)
