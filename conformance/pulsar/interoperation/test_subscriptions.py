"""Consumers of two libraries on one subscription, of each type.

| type | |
|---|---|
| Exclusive | the second consumer is refused, and admitted when the first has left |
| Failover | one is active; the other continues after what it acknowledged |
| Shared | each message goes to one; if it is returned, the other gets it, counted as a redelivery |
| Key_Shared | each key goes to one consumer, in order |

With batch-index acknowledgements, a consumer does not get what another has acknowledged of a batch.
"""

import pytest
from conformance.pulsar.interoperation.conftest import OTHERS, Libraries
from conformance.pulsar.interoperation.libraries import (
    Incoming,
    Outgoing,
    Receiver,
    Receiving,
    Refused,
    Sending,
    take,
)

SILENCE_S = 0.5


PAIRS = [pair for other in OTHERS for pair in (("ours", other), (other, "ours"))]


def sent(libraries: Libraries, topic: str, count: int) -> list[Outgoing]:
    messages = [Outgoing(b"%d" % number) for number in range(count)]
    libraries["ours"].sender(topic, Sending()).send(messages)
    return messages


def drained(*consumers: Receiver, count: int) -> list[list[Incoming]]:
    """Receive and acknowledge until ``count`` messages have come; the result is a list for each
    consumer."""
    found: list[list[Incoming]] = [[] for _ in consumers]
    for _ in range(100):
        for got, consumer in zip(found, consumers, strict=True):
            while (message := consumer.receive(SILENCE_S)) is not None:
                consumer.acknowledge(message)
                got.append(message)
        if sum(map(len, found)) >= count:
            break
    return found


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_exclusive(libraries: Libraries, topic: str, first: str, second: str) -> None:
    holder = libraries[first].receiver(topic, Receiving(type="Exclusive"))
    with pytest.raises(Refused, match=r"(?i)busy|exclusive"):
        libraries[second].receiver(topic, Receiving(type="Exclusive"))
    sent(libraries, topic, 3)
    assert take(holder, 1)[0].value == b"0"
    holder.close()
    after = libraries[second].receiver(topic, Receiving(type="Exclusive"))
    assert [each.value for each in take(after, 2)] == [b"1", b"2"]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_failover(libraries: Libraries, topic: str, first: str, second: str) -> None:
    """A hash of the topic and of the consumers' names decides which of the two is active."""
    consumers = [
        libraries[each].receiver(topic, Receiving(type="Failover", name=each))
        for each in (first, second)
    ]
    sent(libraries, topic, 4)
    active = next(each for each in consumers * 20 if each.receive(SILENCE_S) is not None)
    (standby,) = (each for each in consumers if each is not active)
    second_message = active.receive()
    assert second_message is not None
    assert second_message.value == b"1"
    assert standby.receive(SILENCE_S) is None
    active.acknowledge(second_message, cumulative=True)
    active.close()
    assert [each.value for each in take(standby, 2)] == [b"2", b"3"]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_shared(libraries: Libraries, topic: str, first: str, second: str) -> None:
    one = libraries[first].receiver(topic, Receiving(queue_size=5))
    two = libraries[second].receiver(topic, Receiving(queue_size=5))
    messages = sent(libraries, topic, 40)
    found = drained(one, two, count=40)
    assert all(found)
    values = sorted(int(each.value) for got in found for each in got)
    assert values == list(range(len(messages)))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_what_one_leaves_the_other_gets(
    libraries: Libraries, topic: str, first: str, second: str
) -> None:
    """A returned message comes with a redelivery count; a message left by a consumer that closes
    comes as well."""
    one = libraries[first].receiver(topic, Receiving())
    sent(libraries, topic, 3)
    given_back, done, left = one.receive(), one.receive(), one.receive()
    assert given_back is not None
    assert done is not None
    assert left is not None
    one.acknowledge(done)
    one.negative_acknowledge(given_back)
    again = one.receive()
    assert again is not None
    assert (again.value, again.redelivery_count) == (given_back.value, 1)
    two = libraries[second].receiver(topic, Receiving())
    one.close()
    found = {each.value: each.redelivery_count for each in take(two, 2)}
    assert sorted(found) == [given_back.value, left.value]
    assert found[given_back.value] >= 1
    assert two.receive(SILENCE_S) is None


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_what_one_has_done_of_a_batch_the_other_does_not_get(
    libraries: Libraries, topic: str, first: str, second: str
) -> None:
    one = libraries[first].receiver(topic, Receiving(batch_index_acks=True))
    messages = [Outgoing(b"%d" % number) for number in range(6)]
    libraries[second].sender(topic, Sending(packing="batch")).send(messages)
    found = [one.receive() for _ in messages]
    for index in (1, 4):
        done = found[index]
        assert done is not None
        one.acknowledge(done)
    one.close()
    two = libraries[second].receiver(topic, Receiving(batch_index_acks=True))
    assert [each.value for each in take(two, 4)] == [b"0", b"2", b"3", b"5"]
    assert two.receive(SILENCE_S) is None


@pytest.mark.parametrize("packing", ["single", "key batch"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_key_shared(
    libraries: Libraries, topic: str, first: str, second: str, packing: str
) -> None:
    one = libraries[first].receiver(topic, Receiving(type="Key_Shared"))
    two = libraries[second].receiver(topic, Receiving(type="Key_Shared"))
    messages = [Outgoing(b"%d" % number, key=f"key-{number % 20}") for number in range(100)]
    libraries[second].sender(topic, Sending(packing=packing)).send(messages)
    found = drained(one, two, count=100)
    keys = [{each.key for each in got} for got in found]
    assert all(keys)
    assert not keys[0] & keys[1]
    for got in found:
        for key in {each.key for each in got}:
            values = [int(each.value) for each in got if each.key == key]
            assert values == sorted(values)
    assert sum(map(len, found)) == len(messages)
