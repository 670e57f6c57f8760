"""The audit as a job: it finds in a large history what the checks find in a small one."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark_connector.pipeline.conftest import MakeLog
from tests.spark_connector.pipeline.histories import SUBSCRIPTION, TOPIC, ModelBroker
from tests.spark_connector.pipeline.test_client_history import played as clients_played

from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.history import history_entry, history_topic
from arneb_core.engine.engine import Engine
from arneb_core.testing.engine_kit import append, attach, make_entry, pass_time, quiet
from pyspark_arneb.pipeline.audit import audit_broker, audit_clients
from pyspark_arneb.pipeline.checks.broker_history import check_history, read_batch
from pyspark_arneb.pipeline.checks.client_history import check_events
from pyspark_arneb.pipeline.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORY = [
    *[("publish", 2), ("deliver", 2), ("ack", 0), ("requeue", 0), ("deliver", 1), ("flush", 0)] * 5,
    ("reject", 0), ("crash", 0), ("deliver", 2), ("ack", 1), ("expire", 0), ("purge", 0),
]  # fmt: skip


async def written(engine: Engine, texts: list[str]) -> None:
    """A history's topic with these batches."""
    name = history_topic(TOPIC, SUBSCRIPTION)
    await engine.create_topic(name)
    await append(engine, name, [history_entry(text.encode(), 5) for text in texts])


def test_a_history_that_the_broker_kept_is_clean(spark: "SparkSession", make_log: MakeLog) -> None:
    async def play(engine: Engine) -> None:
        topic = await engine.create_topic(TOPIC)
        subscription = await topic.subscribe(SUBSCRIPTION, initial=InitialPosition.EARLIEST)
        await engine.keep_history(topic, SUBSCRIPTION)
        await append(engine, TOPIC, [make_entry(b"x")] * 50)
        consumer: Any
        consumer, sink = attach(subscription, permits=50)
        await quiet(engine)
        consumer.acknowledge(sink.positions[:20])
        consumer.release(sink.positions[20:30], count=True)
        consumer.reject(sink.positions[30:35])
        await pass_time(engine, 1)

    found = audit_broker(spark, Location(path=str(make_log(play))))
    assert found.is_clean, found.anomalies
    assert found.looked_at["delivered"] == 50
    assert (found.looked_at["acknowledged"], found.looked_at["departed"]) == (20, 5)


@pytest.mark.parametrize("spoil", [False, True], ids=["clean", "spoiled"])
def test_it_finds_what_the_checks_find(
    spark: "SparkSession", make_log: MakeLog, spoil: bool
) -> None:
    broker = ModelBroker()
    for operation, number in STORY:
        broker.do(operation, number)
    broker.flush()
    texts = broker.batches
    if spoil:
        head, *lines = texts[0].splitlines()
        doubled = next(each for each in lines if '"acknowledged"' in each)
        again = {**json.loads(lines[0]), "entries": json.loads(doubled)["entries"], "age_ms": [1]}
        texts[0] = "\n".join([head, *lines, json.dumps(again)])
        texts[1] = "\n".join(each for each in texts[1].splitlines() if '"acknowledged"' not in each)
    expected = check_history(map(read_batch, texts))
    assert bool(expected) is spoil

    async def play(engine: Engine) -> None:
        await written(engine, texts)

    path = str(make_log(play))
    found = audit_broker(spark, Location(path=path), history_topic(TOPIC, SUBSCRIPTION))
    assert sorted(found.anomalies) == sorted(expected)
    assert found.counts == Counter(each.kind for each in expected)


def test_what_is_no_history_is_named_by_its_place(spark: "SparkSession", make_log: MakeLog) -> None:
    async def play(engine: Engine) -> None:
        await written(engine, ["no history"])

    found = audit_broker(spark, Location(path=str(make_log(play))))
    (anomaly,) = found.anomalies
    assert (anomaly.kind, anomaly.what) == ("unreadable", "1:0")


def test_a_queue_without_a_history_has_nothing_that_could_be_looked_at(
    spark: "SparkSession", make_log: MakeLog
) -> None:
    async def play(engine: Engine) -> None:
        await written(engine, ["no history"])

    found = audit_broker(spark, Location(path=str(make_log(play))), "other-amqp-HISTORY")
    assert not found.looked_at and not found.anomalies


def test_clients_histories_are_checked_against_one_another(
    spark: "SparkSession", tmp_path: Path
) -> None:
    events = clients_played(
        [("send", 0), ("send", 1), ("receive", 0), ("receive", 1), ("ack", 0)] * 20
    )
    events = [
        each for each in events if each.message != "p1-7" or each.event in ("sent", "confirmed")
    ]
    expected = check_events(events)
    assert [each.what for each in expected] == ["p1-7"]
    by_client: dict[str, list[str]] = {}
    for each in events:
        fields = {
            "event": each.event, "client": each.client, "step": each.step, "message": each.message,
            "queue": each.queue, "at": each.at_ms, "sender": each.sender, "number": each.number,
            "redelivered": each.redelivered, "durable": each.durable,
        }  # fmt: skip
        by_client.setdefault(each.client, []).append(json.dumps(fields))
    for client, lines in by_client.items():
        (tmp_path / f"{client}.jsonl").write_text("\n".join([*lines, "", ""]))
    (tmp_path / "damaged.jsonl").write_text("this is no line\n")
    found = audit_clients(spark, str(tmp_path / "*.jsonl"), drained=True, exactly_once=False)
    assert [each for each in found.anomalies if each.kind != "unreadable"] == expected
    assert found.counts == {"lost": 1, "unreadable": 1}
    assert found.without(["lost", "unreadable"]).is_clean
