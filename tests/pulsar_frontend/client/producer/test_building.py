"""What a message may have; anything else is refused before the message has a number."""

import pytest

from arneb_pulsar.client.codec.schemas.schema import BytesSchema
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.building import Builder

NOW_MS = 1_000_000


def built(value: bytes | None = b"x", **keywords: object) -> OutgoingMessage:
    return Builder(BytesSchema()).build("t", value, NOW_MS, keywords)  # type: ignore[arg-type]


def test_what_is_said_stands_in_the_message() -> None:
    properties = {"a": "b"}
    message = built(key="k", ordering_key=b"o", properties=properties, event_time_ms=5)
    properties["a"] = "changed later"
    assert (message.key, message.ordering_key, message.event_time_ms) == ("k", b"o", 5)
    assert message.properties == {"a": "b"}
    assert built(deliver_after_s=1.5).deliver_at_ms == NOW_MS + 1_500
    assert built(deliver_after_s=-1.5).deliver_at_ms == 0
    assert built(deliver_at_ms=7).deliver_at_ms == 7
    assert built(None).null_value


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": 5},
        {"ordering_key": "text"},
        {"properties": "x"},
        {"properties": {"a": 1}},
        {"properties": {1: "a"}},
        {"event_time_ms": "1"},
        {"event_time_ms": -1},
        {"deliver_at_ms": 1.5},
        {"deliver_after_s": "1"},
        {"deliver_after_s": float("nan")},
        {"deliver_after_s": float("inf")},
        {"deliver_at_ms": 1, "deliver_after_s": 1.0},
        {"sequence_id": "1"},
        {"sequence_id": 1 << 63},
        {"deliver_after": 1},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="expected"):
        built(**wrong)
