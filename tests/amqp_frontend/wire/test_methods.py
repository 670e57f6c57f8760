"""Methods: every one is encoded and decoded, compared with pamqp, and as strict as RabbitMQ is."""

import inspect
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame
from pamqp.base import Frame as Command
from tests.amqp_frontend.fields import octets_as_text, tables

from arneb_amqp.errors import ConnectionException, ReplyCode
from arneb_amqp.wire.access import Access
from arneb_amqp.wire.constants import BASIC_PUBLISH, ChannelId, DeliveryTag
from arneb_amqp.wire.methods import (
    decode_method,
    encode_ack,
    encode_method,
    encode_nack,
    has_content,
    method_ids,
)

ONE = ChannelId(1)
METHODS: list[type[Command]] = [
    *cast("list[type[Command]]", list(commands.INDEX_MAPPING.values())),
    Access.Request,
    Access.RequestOk,
]

_texts = st.text(max_size=60)
VALUES = {
    "bit": st.booleans(),
    "octet": st.integers(0, (1 << 8) - 1),
    "short": st.integers(0, (1 << 16) - 1),
    "long": st.integers(0, (1 << 32) - 1),
    "longlong": st.integers(0, (1 << 64) - 1),
    "shortstr": _texts,
    "longstr": st.binary(max_size=60),
    "table": tables,
}


@st.composite
def methods(draw: st.DrawFn) -> Command:
    kind = draw(st.sampled_from(METHODS))
    method = kind.__new__(kind)
    for name in kind.attributes():
        values = VALUES[kind.amqp_type(name)]
        if has_content(kind) and kind.amqp_type(name) == "shortstr":
            values = octets_as_text(60)
        setattr(method, name, draw(values))
    return method


def fields_of(method: Command) -> dict[str, object]:
    return {name: getattr(method, name) for name in method.attributes()}


@given(methods())
def test_a_method_survives_encoding(method: Command) -> None:
    decoded = decode_method(encode_method(ONE, method)[7:-1])
    assert type(decoded) is type(method)
    assert fields_of(decoded) == fields_of(method)


@given(methods(), st.data())
def test_a_damaged_method_is_a_connection_error(method: Command, data: st.DataObject) -> None:
    raw = bytearray(encode_method(ONE, method)[7:-1])
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    if len(raw) < 4:
        return
    try:
        decode_method(bytes(raw))
    except ConnectionException as problem:
        assert problem.reply_code in {
            ReplyCode.FRAME_ERROR,
            ReplyCode.SYNTAX_ERROR,
            ReplyCode.NOT_IMPLEMENTED,
        }


@given(methods(), st.binary(min_size=1, max_size=3))
def test_octets_left_over_are_refused(method: Command, more: bytes) -> None:
    with pytest.raises(ConnectionException, match="cannot decode") as caught:
        decode_method(encode_method(ONE, method)[7:-1] + more)
    assert caught.value.method == method_ids(method)


@pytest.mark.parametrize(
    "method",
    [
        commands.Connection.Tune(2047, 131072, 60),
        commands.Connection.Close(320, "CONNECTION_FORCED - bye", 0, 0),
        commands.Channel.OpenOk(),
        commands.Channel.Close(404, "NOT_FOUND - no queue 'q' in vhost '/'", 60, 20),
        commands.Queue.DeclareOk("q", 3, 1),
        commands.Basic.ConsumeOk("tag"),
        commands.Basic.Cancel("tag", True),
        commands.Basic.GetEmpty(),
        commands.Basic.QosOk(),
        commands.Confirm.SelectOk(),
        commands.Connection.Blocked("low on memory"),
    ],
)
def test_pamqp_reads_what_a_broker_sends(method: Command) -> None:
    _, channel, read = frame.unmarshal(encode_method(ONE, method))
    assert channel == 1
    assert type(read) is type(method)
    assert fields_of(cast("Command", read)) == fields_of(method)


def test_every_method_of_pamqp_is_known() -> None:
    classes = [each for _, each in inspect.getmembers(commands, inspect.isclass)]
    inner = [method for each in classes for _, method in inspect.getmembers(each, inspect.isclass)]
    indexes = {method.index for method in inner if issubclass(method, Command) and method.index}
    assert indexes <= {method.index for method in METHODS}


def test_confirms_are_prepared_in_advance() -> None:
    tag = DeliveryTag((1 << 64) - 1)
    for multiple in (False, True):
        _, _, read = frame.unmarshal(encode_ack(ONE, DeliveryTag(7), multiple))
        assert fields_of(cast("Command", read)) == {"delivery_tag": 7, "multiple": multiple}
        expected = commands.Basic.Nack(0, multiple, True)
        expected.delivery_tag = tag
        assert encode_nack(ONE, tag, multiple) == encode_method(ONE, expected)


def test_a_ticket_may_be_anything() -> None:
    """py-amqp and old clients send tickets; RabbitMQ ignores them."""
    raw = encode_method(ONE, commands.Queue.Declare(queue="q"))[7:-1]
    declare = decode_method(raw[:4] + b"\x00\x65" + raw[6:])
    assert fields_of(declare)["ticket"] == 101


def test_names_are_checked_for_utf8_unless_content_follows() -> None:
    declare = encode_method(ONE, commands.Queue.Declare(queue="q"))[7:-1]
    with pytest.raises(ConnectionException, match="FRAME_ERROR - Malformed UTF-8 in shortstr"):
        decode_method(declare.replace(b"\x01q", b"\x01\xff"))
    publish = encode_method(ONE, commands.Basic.Publish(routing_key="q"))[7:-1]
    method = decode_method(publish.replace(b"\x01q", b"\x01\xff"))
    assert fields_of(method)["routing_key"] == "\udcff"


def test_a_malformed_table_names_its_method() -> None:
    raw = encode_method(ONE, commands.Queue.Unbind(queue="q"))[7:-1]
    with pytest.raises(ConnectionException) as caught:
        decode_method(raw[:-4] + b"\x00\x00\x00\x02\x01k")
    assert caught.value.reply_code is ReplyCode.SYNTAX_ERROR
    assert caught.value.method == (50, 50)


def test_ids_and_contents() -> None:
    assert method_ids(commands.Basic.Publish) == BASIC_PUBLISH
    with_content = {method.name for method in METHODS if has_content(method)}
    assert with_content == {"Basic.Publish", "Basic.Return", "Basic.Deliver", "Basic.GetOk"}


@pytest.mark.parametrize(
    "method",
    [
        commands.Basic.ConsumeOk("x" * 256),
        commands.Queue.PurgeOk(1 << 32),
        commands.Queue.PurgeOk(cast("int", "many")),
        commands.Basic.ConsumeOk(cast("str", 5)),
    ],
)
def test_a_value_that_does_not_fit_is_refused(method: Command) -> None:
    with pytest.raises(ValueError, match="expected"):
        encode_method(ONE, method)


def test_the_ticket_that_old_clients_ask_for() -> None:
    asked = decode_method(b"\x00\x1e\x00\x0a\x05/data\x1e")
    assert isinstance(asked, Access.Request)
    assert (asked.realm, asked.exclusive) == ("/data", False)
    assert asked.passive and asked.active and asked.write and asked.read
    granted = encode_method(ONE, Access.RequestOk())
    assert granted == b"\x01\x00\x01\x00\x00\x00\x06\x00\x1e\x00\x0b\x00\x01\xce"
