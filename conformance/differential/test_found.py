"""Programs on which the two brokers once differed, as short as they were found."""

import pytest
from conformance.differential.compare import Verdict, compare
from conformance.differential.conftest import Both
from conformance.differential.program import Program, Step

REPLY_TO = "amq.rabbitmq.reply-to"
QUORUM = Step("queue_declare", 0, queue="q2", durable=True, arguments={"x-queue-type": "quorum"})

GET_AND_REJECT = [
    step
    for queue in ("q0", "q0", "q0", "q1", "q1", "q1")
    for step in (Step("get", 0, queue=queue), Step("reject", 0, which=0, requeue=False))
]

FOUND: dict[str, Program] = {
    "cumulative confirms are one for each publish": [
        Step("confirm_select", 1),
        Step("publish", 1, routing_key="q2", many=3),
    ],
    "a run that just fits is not refused": [
        Step(
            "queue_declare",
            0,
            queue="q2",
            arguments={"x-max-length": 2, "x-overflow": "reject-publish"},
        ),
        Step("publish", 0, routing_key="q2", many=2),
        Step("publish", 0, routing_key="q2", many=3),
    ],
    "a queue in use that is not empty is refused as not empty": [
        Step("queue_declare", 0, queue="q2"),
        Step("qos", 2, prefetch_count=1),
        Step("consume", 2, queue="q2", consumer_tag="c0"),
        Step("publish", 1, many=2, routing_key="q2"),
        Step("queue_delete", 2, queue="q2", if_unused=True, if_empty=True),
        Step("queue_delete", 1, queue="q2", if_unused=True),
    ],
    "basic.get takes what the active consumer has no room for": [
        Step("queue_declare", 0, queue="q2", arguments={"x-single-active-consumer": True}),
        Step("get", 2, queue="q2"),
        Step("qos", 0, prefetch_count=1),
        Step("consume", 0, queue="q2", consumer_tag="c0"),
        Step("publish", 1, many=3, routing_key="q2"),
        Step("get", 2, queue="q2"),
        Step("ack", 0, which=0),
    ],
    "headers weigh nothing in a queue with a length in bytes": [
        Step("queue_declare", 0, queue="q2", arguments={"x-max-length-bytes": 20}),
        Step("publish", 0, routing_key="q2", many=2),
        Step("publish", 0, routing_key="q2", properties={"headers": {"h": "h" * 60}}),
        Step("publish", 0, routing_key="q2", size=16),
        Step("publish", 0, routing_key="q2", size=5000),
    ],
    "what comes back is dropped before it goes out again": [
        Step("queue_declare", 0, queue="q2", arguments={"x-max-length": 1}),
        Step("consume", 0, queue="q2", consumer_tag="c0"),
        Step("publish", 0, routing_key="q2", many=4),
        Step("nack", 0, which=1, multiple=True, requeue=True),
    ],
    "what goes to a waiting consumer is not refused": [
        Step(
            "queue_declare",
            0,
            queue="q2",
            durable=True,
            arguments={"x-max-length": 2, "x-overflow": "reject-publish"},
        ),
        Step("qos", 0, prefetch_count=3),
        Step("consume", 0, queue="q2", consumer_tag="c0"),
        Step("confirm_select", 1),
        Step("publish", 1, routing_key="q2", many=7),
    ],
    "a quorum queue is not deleted on conditions": [
        QUORUM,
        Step("queue_delete", 2, queue="q2", if_empty=True),
        Step("queue_delete", 2, queue="q2", if_unused=True, if_empty=True),
        Step("queue_delete", 2, queue="q2"),
    ],
    "consumers of a quorum queue are neither exclusive nor bound by their channel's prefetch": [
        QUORUM,
        Step("consume", 2, queue="q2", consumer_tag="c0", exclusive=True),
        Step("consume", 2, queue="q2", consumer_tag="c1", exclusive=True),
        Step("qos", 2, prefetch_count=1, global_=True),
        Step("publish", 0, routing_key="q2", many=2),
        Step("publish", 0, routing_key="q2", many=2),
    ],
    "consumers on one channel get their messages in the order of the queue": [
        Step("queue_declare", 0, queue="q2"),
        Step("consume", 0, queue="q2", consumer_tag="c0"),
        Step("consume", 0, queue="q2", consumer_tag="c1", no_ack=True),
        Step("consume", 0, queue="q2", consumer_tag="c2"),
        Step("publish", 1, routing_key="q2", many=7),
    ],
    "an answer is routed nowhere and arrives": [
        Step("queue_declare", 0, queue="q0"),
        Step("consume", 0, queue=REPLY_TO, consumer_tag="c2", no_ack=True),
        Step("publish", 0, routing_key="q0", properties={"reply_to": REPLY_TO}),
        Step("consume", 2, queue="q0", consumer_tag="c0"),
        Step("confirm_select", 2),
        Step("publish", 2, routing_key="asker", mandatory=True),
        Step("queue_declare", 2, queue=REPLY_TO, passive=True),
        Step("cancel", 0, consumer_tag="c2"),
        Step("publish", 2, routing_key="asker", mandatory=True),
    ],
    "what a queue delivered before it went fills the channel's prefetch": [
        Step("queue_declare", 0, queue="q0", durable=True),
        Step("queue_declare", 0, queue="q2"),
        Step("consume", 2, queue="q0", consumer_tag="c1"),
        Step("publish", 1, routing_key="q2", many=2),
        Step("consume", 2, queue="q2", consumer_tag="c0"),
        Step("cancel", 2, consumer_tag="c0"),
        Step("publish", 1, routing_key="q0"),
        Step("queue_delete", 0, queue="q2"),
        Step("qos", 2, global_=True, prefetch_count=2),
        Step("publish", 1, routing_key="q0"),
        Step("ack", 2, which=0),
        Step("nack", 2, which=0, requeue=True),
        Step("ack", 2, which=0),
    ],
    "what lives no time takes no room": [
        Step(
            "queue_declare",
            0,
            queue="q1",
            durable=True,
            arguments={"x-message-ttl": 0, "x-max-length": 2, "x-overflow": "reject-publish"},
        ),
        Step("confirm_select", 2),
        Step("publish", 2, routing_key="q1", many=4),
        Step("qos", 0, prefetch_count=2),
        Step("consume", 0, queue="q1", consumer_tag="c0"),
        Step("publish", 2, routing_key="q1", many=7),
    ],
    "who gets a message is not told of what has expired behind it": [
        Step("queue_declare", 0, queue="q1"),
        Step("publish", 0, routing_key="q1"),
        Step("publish", 0, routing_key="q1", properties={"expiration": "0"}),
        Step("publish", 0, routing_key="q1"),
        Step("get", 0, queue="q1"),
    ],
    "what was refused comes behind what was not": [
        Step("queue_declare", 0, queue="q2"),
        Step(
            "queue_declare",
            0,
            queue="q0",
            arguments={
                "x-max-length": 0,
                "x-overflow": "reject-publish-dlx",
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "q2",
            },
        ),
        Step("publish", 0, routing_key="q0", properties={"headers": {"BCC": ["q2"]}}),
        Step("get", 0, queue="q2"),
    ],
    "a full queue refuses dead letters too": [
        Step(
            "queue_declare",
            0,
            queue="q1",
            durable=True,
            arguments={
                "x-max-length": 2,
                "x-overflow": "reject-publish-dlx",
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "q0",
            },
        ),
        Step("queue_declare", 0, queue="q0"),
        Step(
            "queue_declare",
            0,
            queue="q2",
            arguments={
                "x-message-ttl": 0,
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": "q1",
            },
        ),
        Step("publish", 0, routing_key="q2", many=4),
        Step("get", 1, queue="q1"),
        Step("publish", 0, routing_key="q2", many=2),
        Step("consume", 2, queue="q0", consumer_tag="c0"),
        Step("reject", 1, which=0, requeue=False),
    ],
    "a full queue takes nothing of a transaction": [
        Step(
            "queue_declare",
            0,
            queue="q1",
            arguments={"x-max-length": 1, "x-overflow": "reject-publish"},
        ),
        Step("queue_declare", 0, queue="q2"),
        Step("publish", 0, routing_key="q2", many=2),
        Step("get", 1, queue="q2"),
        Step("tx_select", 1),
        Step("publish", 1, routing_key="q1", many=3),
        Step("publish", 1, routing_key="q2", many=3),
        Step("ack", 1, which=0),
        Step("tx_commit", 1),
        Step("get", 1, queue="q1"),
    ],
    "a fault of the broker's own names no method": [
        Step("queue_declare", 0, queue="q0", durable=True, arguments={"x-queue-type": "stream"}),
        Step("qos", 0, prefetch_count=1000),
        Step("consume", 0, queue="q0", arguments={"x-stream-offset": "sideways"}),
    ],
    "an unknown type of exchange is the first mistake": [
        Step("exchange_declare", 0, exchange="", exchange_type="odd"),
        Step("exchange_declare", 0, exchange="amq.new", exchange_type="odd"),
        Step("exchange_declare", 0, exchange="", exchange_type="odd", passive=True),
    ],
    "what the first death says stays in its order": [
        Step("queue_declare", 0, queue="q2"),
        *(
            Step(
                "queue_declare",
                0,
                queue=queue,
                arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave},
            )
            for queue, grave in (("q0", "q1"), ("q1", "q2"))
        ),
        Step("publish", 0, routing_key="q0", properties={"expiration": "60000000"}),
        Step("publish", 0, routing_key="q0", properties={"headers": {"x-death": "long ago"}}),
        Step("publish", 0, routing_key="q0", properties={"headers": {"x-death": []}}),
        *GET_AND_REJECT,
        Step("consume", 0, queue="q2", consumer_tag="c0"),
    ],
    "who waits longest begins the round": [
        Step("queue_declare", 0, queue="q2"),
        Step("publish", 0, routing_key="q2"),
        Step("consume", 1, queue="q2", consumer_tag="c2"),
        Step("get", 1, queue="q2"),
        Step("reject", 1, which=0, requeue=True),
        Step("consume", 2, queue="q2", consumer_tag="c1"),
        Step("publish", 0, routing_key="q2", many=4),
    ],
}


@pytest.mark.parametrize("name", FOUND)
def test_is_answered_alike(name: str, both: Both) -> None:
    report = compare(FOUND[name], both)
    assert report.verdict is Verdict.EQUAL, str(report)
