"""Arguments of declarations: RabbitMQ's texts for those that differ."""

import pytest

from arneb_amqp.errors import ChannelException
from arneb_amqp.topology.arguments import assert_equivalent
from arneb_amqp.wire.tables import Field, FieldType, array, boolean, long, longstr, signedint

WORDS = "queue 'q' in vhost '/'"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (signedint(1), signedint(2), "received '2' but current is '1'"),
        (signedint(1), None, "received none but current is the value '1' of type 'signedint'"),
        (None, longstr("x"), "received the value 'x' of type 'longstr' but current is none"),
        (longstr("1"), signedint(1), "received '1' but current is '1'"),
        (boolean(True), boolean(False), "received 'false' but current is 'true'"),
        (signedint(1), Field(FieldType.DOUBLE, 1000.0), "received '1.0e3' but current is '1'"),
        (
            None,
            Field(FieldType.VOID, None),
            "received the value 'undefined' of type 'void' but current is none",
        ),
        (signedint(1), Field(FieldType.VOID, None), "received none but current is '1'"),
        (Field(FieldType.VOID, None), signedint(1), "received '1' but current is none"),
        (
            array([signedint(1)]),
            None,
            "received none but current is the value '[{signedint,1}]' of type 'array'",
        ),
    ],
)
def test_different_arguments(old: Field | None, new: Field | None, text: str) -> None:
    tables = ({"a": field} if field is not None else {} for field in (old, new))
    with pytest.raises(ChannelException) as caught:
        assert_equivalent(*tables, "a", WORDS)
    assert caught.value.explanation == f"inequivalent arg 'a' for {WORDS}: {text}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, None),
        (signedint(1), long(1)),
        (signedint(1), Field(FieldType.UNSIGNEDBYTE, 1)),
        (longstr("x"), longstr("x")),
    ],
)
def test_same_arguments(old: Field | None, new: Field | None) -> None:
    tables = ({"a": field} if field is not None else {} for field in (old, new))
    assert_equivalent(*tables, "a", WORDS)


def test_a_missing_argument_may_have_a_default() -> None:
    assert_equivalent({}, {"a": longstr("x")}, "a", WORDS, default="x")
    assert_equivalent({"a": longstr("x")}, {}, "a", WORDS, default="x")
    with pytest.raises(ChannelException, match="inequivalent"):
        assert_equivalent({}, {"a": longstr("y")}, "a", WORDS, default="x")
