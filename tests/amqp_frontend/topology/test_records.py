"""Records of durable queues, exchanges and bindings: read back unchanged, under keys that fit."""

from hypothesis import given
from hypothesis import strategies as st
from tests.amqp_frontend.fields import fields, short_texts

from arneb_amqp.routing.exchange import Binding, DestinationKind, Exchange
from arneb_amqp.topology.records import (
    QueueRecord,
    binding_key,
    decode_binding,
    decode_exchange,
    decode_queue,
    dump_table,
    encode_binding,
    encode_exchange,
    exchange_key,
    load_table,
)
from arneb_amqp.wire.tables import Field

tables = st.dictionaries(short_texts, fields, max_size=4)
names = st.text(max_size=80)


@given(tables)
def test_tables_are_read_back_with_their_types(table: dict[str, Field]) -> None:
    assert load_table(dump_table(table)) == table


@given(names, names, st.booleans(), tables)
def test_queues_are_read_back(
    vhost: str, name: str, auto_delete: bool, table: dict[str, Field]
) -> None:
    record = QueueRecord(vhost, name, auto_delete, table)
    assert decode_queue(record.encode()) == record
    assert len(record.key.encode("utf-8", "surrogateescape")) < 490


@given(names, st.builds(Exchange, names, names, st.just(True), arguments=tables))
def test_exchanges_are_read_back(vhost: str, exchange: Exchange) -> None:
    assert decode_exchange(encode_exchange(vhost, exchange)) == (vhost, exchange)
    assert len(exchange_key(vhost, exchange.name).encode("utf-8", "surrogateescape")) < 490


@given(names, st.builds(Binding, names, names, names, tables, st.sampled_from(DestinationKind)))
def test_bindings_are_read_back(vhost: str, binding: Binding) -> None:
    back = decode_binding(encode_binding(vhost, binding))
    assert back == (vhost, binding)
    assert binding_key(vhost, back[1]) == binding_key(vhost, binding)


def test_long_names_have_keys_of_their_own() -> None:
    first, second = (QueueRecord("/", "x" * 254 + end) for end in "ab")
    assert first.key != second.key


def test_bindings_that_differ_in_anything_have_keys_of_their_own() -> None:
    bindings = [
        Binding("x", "q", "k"),
        Binding("y", "q", "k"),
        Binding("x", "r", "k"),
        Binding("x", "q", "l"),
        Binding("x", "q", "k", kind=DestinationKind.EXCHANGE),
    ]
    assert len({binding_key("/", each) for each in bindings}) == len(bindings)
