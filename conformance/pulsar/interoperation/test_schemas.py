"""Every schema in both directions, and its evolution: messages written with one version, read with
the other.

| | same version | older read as newer | newer read as older |
|---|---|---|---|
| bytes, string, Protocol Buffers | ✓ | – | – |
| JSON, Avro | ✓ | ✓ | ✓ |
"""

from typing import Any, Final

import pytest
from conformance.pulsar.interoperation.conftest import WAYS, Libraries
from conformance.pulsar.interoperation.libraries import (
    Outgoing,
    Receiving,
    Refused,
    Sending,
    take,
)

VALUES: Final[dict[str, list[Any]]] = {
    "bytes": [b"", bytes(range(256))],
    "string": ["", "a\N{SNOWMAN}\N{GRINNING FACE}"],
    "protobuf": [{"seconds": 1, "nanos": 2}, {"seconds": -(1 << 40)}, {}],
    "older": [{"item": "hat", "count": 1 << 40}, {"item": None, "count": -1}],
    "newer": [
        {"item": "hat", "count": 2, "gift": "pin"},
        {"item": "", "count": None, "gift": None},
    ],
}
SAME: Final = (
    "bytes",
    "string",
    "protobuf",
    "json older",
    "json newer",
    "avro older",
    "avro newer",
)


@pytest.mark.parametrize("packing", ["single", "batch"])
@pytest.mark.parametrize("schema", SAME)
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_values_come_as_they_were_sent(
    libraries: Libraries, topic: str, sender: str, receiver: str, schema: str, packing: str
) -> None:
    consumer = libraries[receiver].receiver(topic, Receiving(schema=schema))
    producer = libraries[sender].sender(topic, Sending(packing=packing, schema=schema))
    values = VALUES[schema.split(maxsplit=1)[-1]]
    producer.send([Outgoing(each) for each in values])
    assert [each.value for each in take(consumer, len(values))] == values


@pytest.mark.parametrize("kind", ["json", "avro"])
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_newer_readers_read_what_older_writers_wrote(
    libraries: Libraries, topic: str, sender: str, receiver: str, kind: str
) -> None:
    """The topic contains messages of both versions, one after the other."""
    older = libraries[sender].sender(topic, Sending(schema=f"{kind} older"))
    older.send([Outgoing({"item": "hat", "count": 1})])
    newer = libraries[sender].sender(topic, Sending(schema=f"{kind} newer"))
    newer.send([Outgoing({"item": "coat", "count": 2, "gift": "pin"})])
    consumer = libraries[receiver].receiver(topic, Receiving(schema=f"{kind} newer"))
    assert [each.value for each in take(consumer, 2)] == [
        {"item": "hat", "count": 1, "gift": None},
        {"item": "coat", "count": 2, "gift": "pin"},
    ]


@pytest.mark.parametrize("kind", ["json", "avro"])
@pytest.mark.parametrize(("sender", "receiver"), WAYS)
def test_older_readers_read_what_newer_writers_wrote(
    libraries: Libraries, topic: str, sender: str, receiver: str, kind: str
) -> None:
    consumer = libraries[receiver].receiver(topic, Receiving(schema=f"{kind} older"))
    newer = libraries[sender].sender(topic, Sending(schema=f"{kind} newer"))
    newer.send([Outgoing({"item": "coat", "count": 2, "gift": "pin"})])
    assert take(consumer, 1)[0].value == {"item": "coat", "count": 2}


@pytest.mark.parametrize("schema", ["json older", "avro older", "protobuf"])
@pytest.mark.parametrize(("first", "second"), WAYS)
def test_what_one_says_of_a_topic_binds_the_other(
    libraries: Libraries, topic: str, first: str, second: str, schema: str
) -> None:
    libraries[first].sender(topic, Sending(schema=schema)).send([Outgoing({})])
    libraries[second].sender(topic, Sending(schema=schema)).send([Outgoing({})])
    with pytest.raises(Refused, match=r"(?i)incompatible"):
        libraries[second].sender(topic, Sending(schema="string"))
