"""Hypothesis strategies for entries, as the frontends write them and damaged."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st
from log_generator import START_MS, amqp_entry, moment, pulsar_entry
from pamqp.commands import Basic

from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import EntryFlag
from arneb_pulsar.codec import encode_messages

SHORT = st.text(max_size=12)
WHOLE_SECONDS = st.integers(0, 250_000_000_000).map(lambda seconds: moment(seconds * 1000))
HEADERS = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.text(max_size=8) | st.integers(-(1 << 31), (1 << 31) - 1) | st.booleans() | st.none(),
    max_size=3,
)
PROPERTIES = st.builds(
    Basic.Properties,
    content_type=st.none() | st.sampled_from(["application/json", "text/plain"]),
    content_encoding=st.none() | st.just("gzip"),
    headers=st.none() | HEADERS,
    delivery_mode=st.none() | st.sampled_from([1, 2]),
    priority=st.none() | st.integers(1, 9),
    correlation_id=st.none() | SHORT,
    reply_to=st.none() | SHORT,
    expiration=st.none() | st.just("60000"),
    message_id=st.none() | SHORT,
    timestamp=st.none() | WHOLE_SECONDS,
    message_type=st.none() | SHORT,
    app_id=st.none() | SHORT,
)
KEYS = st.binary(max_size=6)
VALUES = st.binary(max_size=24)
TIMES = st.integers(START_MS, START_MS + 10**10)


def amqp_entries() -> st.SearchStrategy[bytes]:
    """Single entries of any shape."""
    return st.builds(
        amqp_entry,
        VALUES,
        routing_key=KEYS,
        exchange=st.sampled_from([b"", b"amq.topic"]),
        properties=PROPERTIES,
        publish_time_ms=TIMES,
        channel=st.integers(1, 4),
        flags=st.sampled_from([EntryFlag.NONE, EntryFlag.TRANSIENT, EntryFlag.DEAD_LETTERED]),
    )


@st.composite
def uniform_runs(draw: st.DrawFn) -> list[bytes]:
    """Runs as one publisher makes them: everything stands in the same place in each entry."""
    properties = draw(PROPERTIES)
    exchange = draw(st.sampled_from([b"", b"amq.topic"]))
    key_bytes = draw(st.integers(0, 4))
    key = st.binary(min_size=key_bytes, max_size=key_bytes)
    count = draw(st.integers(1, 6))
    stamps = draw(st.booleans()) and properties.timestamp is not None
    run = []
    for _ in range(count):
        if stamps:
            properties.timestamp = draw(WHOLE_SECONDS)
        entry = amqp_entry(
            draw(st.binary(min_size=1, max_size=24)),
            routing_key=draw(key),
            exchange=exchange,
            properties=properties,
            publish_time_ms=draw(TIMES),
            channel=draw(st.integers(1, 3)),
        )
        run.append(entry)
    return run


def amqp_runs() -> st.SearchStrategy[list[bytes]]:
    """Runs of either kind."""
    return uniform_runs() | st.lists(amqp_entries(), min_size=1, max_size=6)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[list[bytes]]) -> list[bytes]:
    """A run in which one entry was changed, cut off or prolonged."""
    run = list(draw(whole))
    index = draw(st.integers(0, len(run) - 1))
    entry = run[index]
    change: Callable[[], bytes] = draw(
        st.sampled_from(
            [
                lambda: _with_byte(entry, draw(st.integers(0, len(entry) - 1)), draw(BYTES)),
                lambda: entry[: draw(st.integers(0, len(entry) - 1))],
                lambda: entry + draw(st.binary(min_size=1, max_size=3)),
            ]
        )
    )
    run[index] = change()
    return run


def damaged_or_not(entries: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    """The run, or with one of its entries damaged."""
    return st.just(entries) | damaged(st.just(entries))


BYTES = st.integers(0, 255)


def _with_byte(entry: bytes, place: int, byte: int) -> bytes:
    return entry[:place] + bytes((byte,)) + entry[place + 1 :]


MESSAGES = st.builds(
    Message,
    value=VALUES,
    key=st.none() | KEYS,
    properties=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    event_time_ms=st.just(0) | TIMES,
    producer_name=st.sampled_from(["p1", "p2"]),
    publish_time_ms=TIMES,
    sequence_id=st.integers(0, 1 << 40),
    ordering_key=st.none() | st.binary(min_size=1, max_size=4),
).flatmap(lambda message: st.sampled_from([message, replace(message, value=b"", is_null=True)]))


@st.composite
def pulsar_entries(draw: st.DrawFn) -> bytes:
    """Single messages and batches."""
    messages = draw(st.lists(MESSAGES, min_size=1, max_size=4))
    if draw(st.booleans()):
        messages = [replace(each, batch_index=n) for n, each in enumerate(messages)]
    body = encode_messages(messages)
    return pulsar_entry(body, messages=len(messages), publish_time_ms=draw(TIMES))
