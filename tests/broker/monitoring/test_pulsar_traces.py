"""Traces of Pulsar messages: a property ``traceparent`` creates spans of its trace, as in AMQP."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from tests.pulsar_frontend.raw_client import RawClient, body_of, connected

from arneb.monitoring.pulsar_traces import BATCH_MESSAGES_MAX, PulsarTraces
from arneb.monitoring.traces import Spans
from arneb_amqp.codec import encode_message
from arneb_core.api.entries.codec import Message
from arneb_core.api.entries.entry import HEADER_BYTES, EntryHeader, Origin
from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.engine.engine import open_engine
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.clients.message_observer import SeenClient
from arneb_pulsar.services.context import make_context
from arneb_pulsar.wire.batch import join_batch
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01"
TOPIC = "persistent://public/default/t"
CLIENT = SeenClient("10.0.0.1:5", "shop")


class Traced:
    """An observer, and the spans it has made."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=ParentBased(root=ALWAYS_OFF), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.observer = PulsarTraces(Spans(provider))

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.spans]


def pairs(**properties: str) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=name, value=value) for name, value in properties.items()]


def entry_of(body: bytes, messages: int = 1) -> bytes:
    return EntryHeader(Origin.PULSAR, messages=messages, publish_time_ms=1000).pack() + body


def batch_of(*parents: str | None, **fields: Any) -> bytes:
    singles = [
        (pb.SingleMessageMetadata(properties=pairs(traceparent=each) if each else []), b"xyz")
        for each in parents
    ]
    body = body_of(join_batch(singles), num_messages_in_batch=len(parents), **fields)
    return entry_of(body, len(parents))


@pytest.mark.real_time
async def test_a_message_is_traced_when_it_arrives_and_when_it_leaves(tmp_path: Path) -> None:
    traced = Traced()
    async with open_engine(tmp_path / "data") as core:
        await core.create_topic("an-earlier-one")
        context = make_context(core, PulsarConfig())
        context.message_observer.observer = traced.observer
        async with connected(context) as (client,):
            await client.producer()
            await client.subscribe()
            await client.flow(10)
            await publish(client, 0, b"untraced")
            await publish(client, 1, b"body", traceparent=SAMPLED, tracestate="a=b")
            await client.take(4)
            ledger = LedgerIds(core.topic(TOPIC).id).of(1)
    came, went = traced.spans
    assert (came.name, went.name) == (f"publish {TOPIC}", f"deliver {TOPIC}")
    for span in (came, went):
        assert span.context is not None and span.parent is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert f"{span.parent.span_id:016x}" == PARENT
        assert span.context.trace_state.get("a") == "b"
    assert came.start_time == came.end_time
    assert went.attributes is not None and came.attributes is not None
    assert went.attributes["messaging.system"] == "pulsar"
    assert went.attributes["messaging.destination.subscription.name"] == "s"
    assert went.attributes["messaging.message.id"] == f"{ledger}:1" != "1:1"
    assert came.attributes["messaging.message.body.size"] == 4


async def publish(client: RawClient, sequence_id: int, payload: bytes, **properties: str) -> None:
    send = pb.CommandSend(producer_id=1, sequence_id=sequence_id, num_messages=1)
    body = body_of(payload, sequence_id=sequence_id, properties=pairs(**properties))
    await client.send(send, body=body)


def test_each_message_of_a_batch_has_its_own_trace_and_its_own_delivery() -> None:
    traced = Traced()
    entry = batch_of(SAMPLED, None, SAMPLED)
    traced.observer.sent(CLIENT, TOPIC, [entry])
    assert traced.names == [f"publish {TOPIC}"] * 2
    run = Deliveries([position_at(3, 7)], [entry], masks={position_at(3, 7): 0b100})
    traced.observer.delivered(CLIENT, TOPIC, "s", run, LedgerIds())
    [delivered] = traced.spans[2:]
    assert delivered.attributes is not None
    assert delivered.attributes["messaging.message.id"] == "3:7:2"
    assert delivered.start_time == 1000 * 1_000_000


def test_a_message_has_the_id_that_clients_of_its_topic_see() -> None:
    traced, ids = Traced(), LedgerIds(5)
    run = Deliveries([position_at(3, 7)], [batch_of(SAMPLED)])
    traced.observer.delivered(CLIENT, TOPIC, "s", run, ids)
    [delivered] = traced.spans
    assert delivered.attributes is not None
    assert delivered.attributes["messaging.message.id"] == f"{ids.of(3)}:7:0" != "3:7:0"


@pytest.mark.parametrize(
    "entry",
    [
        batch_of(SAMPLED, compression=pb.LZ4),
        batch_of(SAMPLED, encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]),
        batch_of(*[SAMPLED] * (BATCH_MESSAGES_MAX + 1)),
        entry_of(body_of(b"traceparent")),
        entry_of(b"\x0e\x01 traceparent, and nothing that is whole"),
        entry_of(body_of(b"", uuid="u", num_chunks_from_msg=2, chunk_id=1,
                         properties=pairs(traceparent=SAMPLED))),
        entry_of(body_of(b"", properties=pairs(traceparent=SAMPLED[:-1] + "0"))),
        entry_of(body_of(b"", properties=pairs(traceparent="nonsense"))),
    ],
    ids=["compressed", "encrypted", "large", "a body", "damaged", "a later chunk", "not recorded",
         "no name"],
)  # fmt: skip
def test_unreadable_or_unsampled_messages_have_no_span(entry: bytes) -> None:
    traced = Traced()
    traced.observer.sent(CLIENT, TOPIC, [entry])
    traced.observer.delivered(CLIENT, TOPIC, "s", Deliveries([Position(1)], [entry]), LedgerIds())
    assert not traced.names


def test_messages_published_over_amqp_are_traced_when_pulsar_delivers_them() -> None:
    traced = Traced()
    message = Message(b"x", properties={"traceparent": SAMPLED}, publish_time_ms=5)
    entry = encode_message(message, "q")
    traced.observer.delivered(CLIENT, TOPIC, "s", Deliveries([Position(1)], [entry]), LedgerIds())
    assert traced.names == [f"deliver {TOPIC}"]


@given(st.binary(max_size=40), st.integers(0, 200), st.binary(max_size=4))
def test_damage_causes_no_error(noise: bytes, at: int, change: bytes) -> None:
    entry = batch_of(SAMPLED, SAMPLED)
    cut = HEADER_BYTES + at % (len(entry) - HEADER_BYTES)
    for damaged in (entry[:cut] + change + entry[cut + len(change) :], entry[:cut] + noise):
        traced = Traced()
        traced.observer.sent(CLIENT, TOPIC, [damaged])
