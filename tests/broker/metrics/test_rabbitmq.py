"""RabbitMQ's metrics: complete from the start, correct, and never falling."""

from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from tests.broker.http.management.kit import Caller, managed

from arneb.http.metrics.app import Metrics, Streamed
from arneb.http.metrics.families import BY_NAME, DETAILED_PREFIX, FAMILIES
from arneb.http.metrics.pages import Chosen, RabbitPages
from arneb.http.server.asgi import LEFT

Samples = dict[tuple[str, str], float]

V = "v%2Fm"


def samples_in(page: str) -> Samples:
    """By name and labels, with the labels in order."""
    found: Samples = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
            assert (sample.name, labels) not in found, sample
            found[sample.name, labels] = sample.value
    return found


async def sums(call: Caller) -> Samples:
    return samples_in(await RabbitPages(call.site).sums())


async def objects(call: Caller, *families: str, **chosen: Any) -> Samples:
    wanted = [BY_NAME[each] for each in families]
    pages = RabbitPages(call.site)
    parts = [each async for each in pages.objects(Chosen(**chosen), wanted, DETAILED_PREFIX)]
    return samples_in("".join(parts))


async def publish(call: Caller, key: str, exchange: str = "amq.default") -> None:
    message = {
        "properties": {}, "routing_key": key, "payload": "x" * 10, "payload_encoding": "string",
    }  # fmt: skip
    await call.does("POST", f"exchanges/{V}/{exchange}/publish", message)


async def take(call: Caller, queue: str, ackmode: str, count: int = 1) -> None:
    asked = {"count": count, "ackmode": ackmode, "encoding": "auto"}
    await call.does("POST", f"queues/{V}/{queue}/get", asked)


async def test_every_series_exists_before_anything_has_happened(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        there = await sums(call)
        assert there["rabbitmq_global_messages_received_total", "protocol=amqp091"] == 0
        for kind in ("classic", "quorum", "stream"):
            labels = f"protocol=amqp091,queue_type=rabbit_{kind}_queue"
            assert there["rabbitmq_global_messages_delivered_total", labels] == 0
            assert there["rabbitmq_global_messages_redelivered_total", labels] == 0
        for family in FAMILIES:
            for metric in family.metrics if family.is_summed else ():
                assert (f"rabbitmq_{metric.name}", "") in there, metric
        [identity] = [labels for name, labels in there if name == "rabbitmq_identity_info"]
        assert "rabbitmq_node=arneb@here" in identity
        assert "rabbitmq_cluster=" in identity


async def test_traffic_is_counted(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", f"queues/{V}/q", {"durable": True})
        for _ in range(5):
            await publish(call, "q")
        await publish(call, "nowhere")
        await take(call, "q", "ack_requeue_false")
        await take(call, "q", "ack_requeue_true")
        await take(call, "q", "ack_requeue_true")
        await take(call, "q", "ack_requeue_true", count=9)
        there = await sums(call)
        kind = "protocol=amqp091,queue_type=rabbit_classic_queue"
        assert there["rabbitmq_global_messages_received_total", "protocol=amqp091"] == 6
        assert there["rabbitmq_global_messages_received_confirm_total", "protocol=amqp091"] == 6
        assert there["rabbitmq_global_messages_confirmed_total", "protocol=amqp091"] == 6
        assert there["rabbitmq_global_messages_routed_total", "protocol=amqp091"] == 5
        assert there["rabbitmq_global_messages_unroutable_returned_total", "protocol=amqp091"] == 1
        assert there["rabbitmq_global_messages_delivered_get_auto_ack_total", kind] == 1
        assert there["rabbitmq_global_messages_delivered_get_manual_ack_total", kind] == 6
        assert there["rabbitmq_global_messages_delivered_total", kind] == 7
        assert there["rabbitmq_global_messages_redelivered_total", kind] == 2
        assert there["rabbitmq_global_messages_get_empty_total", kind] == 1
        assert there["rabbitmq_queue_messages_ready", ""] == 4
        assert there["rabbitmq_queues", ""] == 1


async def test_counters_do_not_fall_when_what_they_counted_is_deleted(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        await call.does("PUT", f"exchanges/{V}/x", {"type": "fanout"})
        await call.does("PUT", f"queues/{V}/q", {"arguments": {"x-max-length": 1}})
        await call.does("POST", f"bindings/{V}/e/x/q/q", {})
        for _ in range(3):
            await publish(call, "k", "x")
        await take(call, "q", "ack_requeue_true")
        before = await sums(call)
        gone = "dead_letter_strategy=disabled,queue_type=rabbit_classic_queue"
        assert before["rabbitmq_global_messages_dead_lettered_maxlen_total", gone] == 2
        await call.does("DELETE", f"queues/{V}/q")
        await call.does("DELETE", f"exchanges/{V}/x")
        await call.does("DELETE", f"vhosts/{V}")
        after = await sums(call)
        fallen = {
            each: (value, after[each])
            for each, value in before.items()
            if each[0].startswith("rabbitmq_global_messages") and after[each] < value
        }
        assert fallen == {}
        assert after["rabbitmq_global_messages_received_total", "protocol=amqp091"] == 3
        assert after["rabbitmq_queues_deleted_total", ""] == 1
        assert after["rabbitmq_queues", ""] == 0


@pytest.mark.real_time  # pages are made in threads, and a clock that jumps meanwhile ends the wait
async def test_dead_letters_count_by_the_strategy_of_their_queue(tmp_path: Path) -> None:
    quorum = {"x-queue-type": "quorum", "x-message-ttl": 0}
    moved = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    kept = {"x-overflow": "reject-publish", "x-dead-letter-strategy": "at-least-once"}
    wanted = {"disabled": 1, "at_most_once": 2, "at_least_once": 7, "taken": 3}

    def found(samples: Samples) -> dict[str, float]:
        of = "dead_letter_strategy={},queue_type=rabbit_quorum_queue".format
        name = "rabbitmq_global_messages_dead_lettered_{}_total".format
        died = {
            each: samples[name("expired"), of(each)]
            for each in ("disabled", "at_most_once", "at_least_once")
        }
        return {**died, "taken": samples[name("confirmed"), of("at_least_once")]}

    async with managed(tmp_path) as call:
        await call.does("PUT", f"queues/{V}/dead", {})
        for name, more in (
            ("a", {}),
            ("b", moved),
            ("c", moved | kept),
            ("unrouted", moved | kept | {"x-dead-letter-routing-key": "none"}),
        ):
            body = {"durable": True, "arguments": {**quorum, **more}}
            await call.does("PUT", f"queues/{V}/{name}", body)
        for name, count in (("a", 1), ("b", 2), ("c", 3), ("unrouted", 4)):
            for _ in range(count):
                await publish(call, name)
        with trio.fail_after(30):
            while found(await sums(call)) != wanted:
                await trio.lowlevel.checkpoint()


async def test_a_detailed_page_has_the_families_vhosts_and_names_asked_for(
    tmp_path: Path,
) -> None:
    async with managed(tmp_path) as call:
        for vhost, queue in (("%2F", "a"), (V, "a"), (V, 'odd"\\b')):
            name = queue.replace('"', "%22").replace("\\", "%5C")
            await call.does("PUT", f"queues/{vhost}/{name}", {})
        coarse = await objects(call, "queue_coarse_metrics")
        assert len(coarse) == 9
        assert coarse["rabbitmq_detailed_queue_messages", "queue=a,vhost=/"] == 0
        assert ("rabbitmq_detailed_queue_messages", 'queue=odd"\\b,vhost=v/m') in coarse
        one = await objects(call, "queue_coarse_metrics", vhosts=frozenset({"/"}))
        assert {labels for _, labels in one} == {"queue=a,vhost=/"}
        odd = await objects(call, "queue_consumer_count", names=lambda name: "odd" in name)
        assert {name for name, _ in odd} == {"rabbitmq_detailed_queue_consumers"}
        assert len(odd) == 1
        cluster = await objects(call, "vhost_status", "exchange_bindings", "exchange_names")
        assert cluster["rabbitmq_cluster_vhost_status", "vhost=v/m"] == 1
        assert all(name.startswith("rabbitmq_cluster_") for name, _ in cluster)


async def test_pages_of_many_queues_leave_others_their_turns(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for number in range(120):
            await call.does("PUT", f"queues/{V}/q{number}", {})
        pauses = 0

        async def pause() -> None:
            nonlocal pauses
            pauses += 1

        pages = RabbitPages(call.site, pause)
        await pages.sums()
        assert pauses >= 2
        before = pauses
        lines = 0
        async for part in pages.objects(Chosen(), [BY_NAME["queue_metrics"]]):
            assert part.count("\n") <= 1002
            lines += part.count("\n")
        assert lines >= 120 * len(BY_NAME["queue_metrics"].metrics)
        assert pauses - before >= 2 + len(BY_NAME["queue_metrics"].metrics)


async def test_an_answer_that_lists_objects_is_sent_as_it_is_made(tmp_path: Path) -> None:
    async with managed(tmp_path) as call:
        for number in range(30):
            await call.does("PUT", f"queues/{V}/{'q' * 200}{number}", {})
        metrics = Metrics(call.site.core, call.site.alarms, call.site)
        [route] = [each for each in metrics.routes if each.path == "/metrics/per-object"]
        scope = {"type": "http", "method": "GET", "headers": [], "query_string": b""}
        answer = await route.endpoint(Request(scope))
        assert isinstance(answer, Streamed)
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await answer(scope, None, send)  # type: ignore[arg-type]
        start, *pieces = sent
        assert not any(name == b"content-length" for name, _ in start["headers"])
        assert len(pieces) > 2
        assert all(each[LEFT] for each in pieces[:-1]), (
            "the figures for a page are in memory while it is sent"
        )
        assert [each["more_body"] for each in pieces] == [True] * (len(pieces) - 1) + [False]
        there = samples_in(b"".join(each["body"] for each in pieces).decode())
        labels = f"queue={'q' * 200}7,vhost=v/m"
        assert ("rabbitmq_queue_messages_ready", labels) in there
        assert ("rabbitmq_queue_messages_ready", "") not in there, "one name, one meaning"
        assert ("rabbitmq_channel_messages_published_total", "") not in there
        assert ("rabbitmq_connections", "") in there
