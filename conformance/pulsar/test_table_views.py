"""Table views: the last value of each key, now and as it changes."""

import threading

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import WITHIN_MS
from pulsar.schema import StringSchema

WITHIN_S = WITHIN_MS / 1000


class Seen:
    """What a view reports, and a way to wait for it."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self._changed = threading.Condition()

    def __call__(self, key: str, value: object) -> None:
        with self._changed:
            self.values[key] = value
            self._changed.notify_all()

    def wait_for(self, expected: dict[str, object]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.values == expected, WITHIN_S), self.values


def put(producer: pulsar.Producer, **values: object) -> None:
    for key, value in values.items():
        producer.send(value, partition_key=key)


def test_a_view_has_what_was_there_and_follows(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, schema=StringSchema())
    put(producer, a="1", b="2")
    put(producer, a="3")
    view = client.create_table_view(topic, schema=StringSchema(), subscription_name="mine")
    assert (view.get("a"), view.get("b"), view.get("c"), len(view)) == ("3", "2", None, 2)
    seen: dict[str, object] = {}
    view.for_each(seen.__setitem__)
    assert seen == {"a": "3", "b": "2"}
    listener = Seen()
    view.for_each_and_listen(listener)
    listener.wait_for({"a": "3", "b": "2"})
    put(producer, c="4", a="5")
    listener.wait_for({"a": "5", "b": "2", "c": "4"})
    assert (view.get("a"), len(view)) == ("5", 3)
    view.close()


def test_a_view_of_all_partitions(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{local(topic)}/partitions", 3)
    producer = client.create_producer(topic)
    expected = {f"key {number}": b"%d" % number for number in range(30)}
    put(producer, **dict.fromkeys(expected, b"old"))
    put(producer, **expected)
    view = client.create_table_view(topic)
    assert len(view) == 30
    assert {key: view.get(key) for key in expected} == expected
    listener = Seen()
    view.for_each_and_listen(listener)
    put(producer, new=b"x")
    listener.wait_for({**expected, "new": b"x"})


def test_an_empty_value_takes_the_key_away(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    put(producer, a=b"1", b=b"2")
    put(producer, a=b"")
    view = client.create_table_view(topic)
    assert (view.get("a"), view.get("b"), len(view)) == (None, b"2", 1)


def test_many_views_of_one_topic(connect: Connect, topic: str) -> None:
    producer = connect().create_producer(topic)
    views = [connect().create_table_view(topic) for _ in range(3)]
    seen = [Seen() for _ in views]
    for view, each in zip(views, seen, strict=True):
        view.for_each_and_listen(each)
    put(producer, a=b"1", b=b"2")
    for each in seen:
        each.wait_for({"a": b"1", "b": b"2"})


def test_a_view_has_to_read_what_is_there(client: pulsar.Client, topic: str) -> None:
    put(client.create_producer(topic, schema=StringSchema()), a="1")
    wrong = pulsar.schema.JsonSchema(Wrong)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_table_view(topic, schema=wrong)


class Wrong(pulsar.schema.Record):  # type: ignore[misc]
    """A record, and not a string."""

    number = pulsar.schema.Integer()
