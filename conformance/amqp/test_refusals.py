"""Every common mistake, and the exact code and text that answer it.

The texts are RabbitMQ's, because clients and operators search logs for them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import refused
from pika.adapters.blocking_connection import BlockingChannel

Do = Callable[[BlockingChannel, str], Any]
"""The mistake, made on a fresh channel; the text is the name of a durable queue."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake and its answer; ``{q}`` in the text stands for the queue's name."""

    name: str
    do: Do
    code: int
    text: str
    ends_connection: bool = False


def _consume(channel: BlockingChannel, queue: str, **arguments: Any) -> None:
    channel.basic_consume(queue, lambda *_: None, **arguments)


def _publish(channel: BlockingChannel, exchange: str, key: str, **properties: Any) -> None:
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))
    # whatever the answer, channel.close comes before it
    channel.queue_declare(key or "unused", passive=True)


def _consume_twice(channel: BlockingChannel, queue: str) -> None:
    _consume(channel, queue, exclusive=True)
    _consume(channel, queue)


def _ack_twice(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    tag = channel.basic_get(queue)[0].delivery_tag
    channel.basic_ack(tag)
    channel.basic_ack(tag)
    channel.basic_get(queue)


MISTAKES = [
    Mistake("passive declare of a missing queue",
            lambda c, q: c.queue_declare("nope", passive=True),
            404, "NOT_FOUND - no queue 'nope' in vhost '/'"),
    Mistake("passive declare of a missing exchange",
            lambda c, q: c.exchange_declare("nope", passive=True),
            404, "NOT_FOUND - no exchange 'nope' in vhost '/'"),
    Mistake("purge of a missing queue", lambda c, q: c.queue_purge("nope"),
            404, "NOT_FOUND - no queue 'nope' in vhost '/'"),
    Mistake("get from a missing queue", lambda c, q: c.basic_get("nope"),
            404, "NOT_FOUND - no queue 'nope' in vhost '/'"),
    Mistake("consume from a missing queue", lambda c, q: _consume(c, "nope"),
            404, "NOT_FOUND - no queue 'nope' in vhost '/'"),
    Mistake("bind a missing queue", lambda c, q: c.queue_bind("nope", "amq.direct", "k"),
            404, "NOT_FOUND - no queue 'nope' in vhost '/'"),
    Mistake("bind to a missing exchange", lambda c, q: c.queue_bind(q, "nope", "k"),
            404, "NOT_FOUND - no exchange 'nope' in vhost '/'"),
    Mistake("publish to a missing exchange", lambda c, q: _publish(c, "nope", q),
            404, "NOT_FOUND - no exchange 'nope' in vhost '/'"),
    Mistake("empty queue name with none declared before", lambda c, q: c.queue_purge(""),
            404, "NOT_FOUND - no previously declared queue"),
    Mistake("redeclare as auto-delete",
            lambda c, q: c.queue_declare(q, durable=True, auto_delete=True),
            406, "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '{q}' in vhost "
            "'/': received 'true' but current is 'false'"),
    Mistake("redeclare as exclusive",
            lambda c, q: c.queue_declare(q, durable=True, exclusive=True),
            405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{q}' in vhost "
            "'/'. It could be originally declared on another connection or the exclusive property "
            "value does not match that of the original declaration."),
    Mistake("declare a reserved queue name", lambda c, q: c.queue_declare("amq.mine"),
            403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"),
    Mistake("declare a reserved exchange name", lambda c, q: c.exchange_declare("amq.mine"),
            403, "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'"),
    Mistake("declare an unknown exchange type", lambda c, q: c.exchange_declare("x", "wibble"),
            503, "COMMAND_INVALID - unknown exchange type 'wibble'", ends_connection=True),
    Mistake("declare the default exchange as an unknown type",
            lambda c, q: c.exchange_declare("", "wibble"),
            503, "COMMAND_INVALID - unknown exchange type 'wibble'", ends_connection=True),
    Mistake("redeclare amq.direct as fanout",
            lambda c, q: c.exchange_declare("amq.direct", "fanout", durable=True),
            406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost "
            "'/': received 'fanout' but current is 'direct'"),
    Mistake("redeclare amq.direct as a type that Erlang quotes",
            lambda c, q: c.exchange_declare("amq.direct", "x-consistent-hash", durable=True),
            406, "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost "
            "'/': received ''x-consistent-hash'' but current is 'direct'"),
    Mistake("redeclare amq.direct as transient",
            lambda c, q: c.exchange_declare("amq.direct", "direct", durable=False),
            406, "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'amq.direct' in "
            "vhost '/': received 'false' but current is 'true'"),
    Mistake("declare the default exchange",
            lambda c, q: c.exchange_declare("", "direct", durable=True),
            403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
    Mistake("delete the default exchange", lambda c, q: c.exchange_delete(""),
            403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
    Mistake("bind to the default exchange", lambda c, q: c.queue_bind(q, "", "k"),
            403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
    Mistake("delete amq.topic", lambda c, q: c.exchange_delete("amq.topic"),
            403, "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not "
            "allowed"),
    Mistake("bind with a wrong x-match",
            lambda c, q: c.queue_bind(q, "amq.headers", arguments={"x-match": "wrong"}),
            406, "PRECONDITION_FAILED - Invalid x-match field value <<\"wrong\">>; expected all, "
            "any, all-with-x, or any-with-x"),
    Mistake("bind to a consistent hash without a weight",
            lambda c, q: (c.exchange_declare("hash", "x-consistent-hash", auto_delete=True),
                          c.queue_bind(q, "hash", "")),
            406, "PRECONDITION_FAILED - The binding key must be an integer: <<>>"),
    Mistake("declare a queue mode that holds a quotation mark",
            lambda c, q: c.queue_declare("other", arguments={"x-queue-mode": 'a"b'}),
            406, "PRECONDITION_FAILED - invalid arg 'x-queue-mode' for queue 'other' in vhost '/': "
            "\"unsupported queue mode 'a\\\"b'\""),
    Mistake("declare a queue type beyond Latin-1",
            lambda c, q: c.queue_declare("other", arguments={"x-queue-type": "€"}),
            406, "PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'other' in vhost '/': "
            "[117,110,115,117,112,112,111,114,116,101,100,32,113,117,101,117,101,32,116,121,112,101,"
            "32,39,226,130,172,39]"),
    Mistake("redeclare with a void argument",
            lambda c, q: c.queue_declare(q, durable=True, arguments={"x-expires": None}),
            406, "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue '{q}' in vhost '/': "
            "received the value 'undefined' of type 'void' but current is none"),
    Mistake("a leader locator of classic queues for a quorum queue",
            lambda c, q: c.queue_declare("other", durable=True, arguments={
                "x-queue-type": "quorum", "x-queue-leader-locator": "min-masters"}),
            406, "PRECONDITION_FAILED - invalid arg 'x-queue-leader-locator' for queue 'other' in "
            "vhost '/': invalid_queue_locator_arg"),
    Mistake("ack an unknown tag", lambda c, q: (c.basic_ack(99), c.basic_get(q)),
            406, "PRECONDITION_FAILED - unknown delivery tag 99"),
    Mistake("nack an unknown tag", lambda c, q: (c.basic_nack(99), c.basic_get(q)),
            406, "PRECONDITION_FAILED - unknown delivery tag 99"),
    Mistake("reject an unknown tag", lambda c, q: (c.basic_reject(99), c.basic_get(q)),
            406, "PRECONDITION_FAILED - unknown delivery tag 99"),
    Mistake("ack a tag twice", _ack_twice, 406, "PRECONDITION_FAILED - unknown delivery tag 1"),
    Mistake("consume beside an exclusive consumer", _consume_twice,
            403, "ACCESS_REFUSED - queue '{q}' in vhost '/' in exclusive use"),
    Mistake("prefetch by size", lambda c, q: c.basic_qos(prefetch_size=10),
            540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)", ends_connection=True),
    Mistake("recover without requeue", lambda c, q: c.basic_recover(requeue=False),
            540, "NOT_IMPLEMENTED - requeue=false", ends_connection=True),
    Mistake("publish as another user", lambda c, q: _publish(c, "", q, user_id="bob"),
            406, "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was "
            "'guest'"),
    Mistake("publish with everything wrong",
            lambda c, q: _publish(c, "", q, user_id="bob", expiration="abc", headers={"CC": 1},
                                  reply_to="amq.rabbitmq.reply-to"),
            406, "PRECONDITION_FAILED - fast reply consumer does not exist"),
    Mistake("publish as another user with a wrong expiration",
            lambda c, q: _publish(c, "", q, user_id="bob", expiration="abc", headers={"CC": 1}),
            406, "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was "
            "'guest'"),
    Mistake("publish with a wrong expiration", lambda c, q: _publish(c, "", q, expiration="abc"),
            406, "PRECONDITION_FAILED - invalid expiration 'abc': no_integer"),
    Mistake("publish with an expiration that is a time",
            lambda c, q: _publish(c, "", q, expiration="2031-12-31T23:59:59.999Z"),
            406, "PRECONDITION_FAILED - invalid expiration '2031-12-31T23:59:59.999Z': "
            "{{leftover_string,\n" + 48 * " " + "\"-12-31T23:59:59.999Z\"}}"),
    Mistake("publish with an expiration that holds a quotation mark",
            lambda c, q: _publish(c, "", q, expiration='5"'),
            406, "PRECONDITION_FAILED - invalid expiration '5\"': {{leftover_string,\"\\\"\"}}"),
    Mistake("publish with an expiration of the largest number",
            lambda c, q: _publish(c, "", q, expiration=str((1 << 64) - 1)),
            406, "PRECONDITION_FAILED - invalid expiration '18446744073709551615': "
            "{{value_too_large,\n" + 44 * " " + "18446744073709551615}}"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_answered_as_rabbitmq_answers_it(
    connect: Connect, name: Named, mistake: Mistake
) -> None:
    queue = name("queue")
    connect().channel().queue_declare(queue, durable=True)
    channel = connect().channel()
    text = mistake.text.format(q=queue)
    with refused(mistake.code, text, connection=mistake.ends_connection):
        mistake.do(channel, queue)


def test_unbinding_what_is_not_bound_is_no_error(channel: BlockingChannel, queue: str) -> None:
    channel.queue_unbind(queue, "amq.direct", "never-bound")
    channel.queue_unbind(queue, "never-made", "k")


def test_cancelling_an_unknown_consumer_is_no_error(channel: BlockingChannel) -> None:
    channel.basic_cancel("nobody")


def test_acking_everything_when_there_is_nothing_is_no_error(
    channel: BlockingChannel, queue: str
) -> None:
    channel.basic_ack(0, multiple=True)
    channel.queue_declare(queue, passive=True)
