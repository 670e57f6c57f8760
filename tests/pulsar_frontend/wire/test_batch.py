"""The messages of a batch come apart as they were put together, or are refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar_frontend.wire.strategies import TEXT, mutated

from arneb_pulsar.wire.batch import batch_starts, join_batch, message_at, split_batch
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto.pulsar_pb2 import SingleMessageMetadata

Single = tuple[SingleMessageMetadata, bytes]


def single(properties: dict[str, str], payload: bytes) -> Single:
    metadata = SingleMessageMetadata(payload_size=0)
    for key, value in properties.items():
        metadata.properties.add(key=key, value=value)
    return metadata, payload


BATCHES = st.lists(
    st.builds(single, st.dictionaries(TEXT, TEXT, max_size=2), st.binary(max_size=30)),
    min_size=1,
    max_size=6,
)


@given(BATCHES)
def test_a_batch_comes_apart_as_it_was_put_together(messages: list[Single]) -> None:
    assert split_batch(join_batch(messages), len(messages)) == messages


@given(BATCHES, st.integers(-2, 2), st.data())
def test_where_messages_begin_is_found_just_when_they_can_be_split(
    messages: list[Single], more: int, data: st.DataObject
) -> None:
    count = max(0, len(messages) + more)
    payload = data.draw(st.one_of(st.just(join_batch(messages)), mutated(join_batch(messages))))
    try:
        found = split_batch(payload, count)
    except PayloadError as error:
        with pytest.raises(PayloadError, match=re.escape(str(error))):
            batch_starts(payload, count)
    else:
        starts = batch_starts(payload, count)
        assert [message_at(payload, at) for at in starts] == found


@given(BATCHES, st.integers(-2, 2).filter(bool))
def test_a_batch_of_another_count_is_refused(messages: list[Single], more: int) -> None:
    count = max(0, len(messages) + more)
    with pytest.raises(PayloadError):
        split_batch(join_batch(messages), count)


@given(BATCHES)
def test_a_batch_cut_short_or_too_long_is_refused(messages: list[Single]) -> None:
    data = join_batch(messages)
    for size in range(len(data)):
        with pytest.raises(PayloadError):
            split_batch(data[:size], len(messages))
    with pytest.raises(PayloadError):
        split_batch(data + b"\0", len(messages))


@given(BATCHES, st.data())
def test_a_damaged_batch_is_split_or_refused(messages: list[Single], data: st.DataObject) -> None:
    try:
        found = split_batch(data.draw(mutated(join_batch(messages))), len(messages))
    except PayloadError:
        return
    assert len(found) == len(messages)
