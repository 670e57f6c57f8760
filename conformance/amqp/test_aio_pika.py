"""Everyday work with aio-pika: many things at once on one event loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import DeliveryError
from conformance.amqp.conftest import Named
from conformance.conftest import Target


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(20):
            await scenario

    asyncio.run(bounded())


def test_a_thousand_concurrent_confirmed_publishes_all_arrive(broker: Target, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            publishes = [
                channel.default_exchange.publish(aio_pika.Message(b"%d" % number), queue)
                for number in range(1000)
            ]
            await asyncio.gather(*publishes)
            declared = await channel.declare_queue(queue, durable=True)
            got = set()
            async with declared.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        got.add(int(message.body))
                    if len(got) == 1000:
                        break
            assert got == set(range(1000))

    run(scenario())


def test_request_and_reply(broker: Target, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()

            async def serve(message: AbstractIncomingMessage) -> None:
                async with message.process():
                    reply = aio_pika.Message(
                        message.body[::-1], correlation_id=message.correlation_id
                    )
                    await channel.default_exchange.publish(reply, message.reply_to or "")

            await (await channel.declare_queue(queue, durable=True)).consume(serve)
            answers = await channel.declare_queue(exclusive=True)
            received: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
            await answers.consume(received.put, no_ack=True)
            request = aio_pika.Message(b"abc", reply_to=answers.name, correlation_id="1")
            await channel.default_exchange.publish(request, queue)
            answer = await received.get()
            assert (answer.body, answer.correlation_id) == (b"cba", "1")

    run(scenario())


def test_an_unroutable_publish_raises(broker: Target) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel(on_return_raises=True)
            with pytest.raises(DeliveryError):
                await channel.default_exchange.publish(aio_pika.Message(b"x"), "nobody-home")

    run(scenario())


def test_a_message_that_fails_in_process_is_given_back(broker: Target, queue: str) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"x"), queue)
            declared = await channel.declare_queue(queue, durable=True)
            first = await declared.get()
            with pytest.raises(ZeroDivisionError):
                async with first.process(requeue=True):
                    raise ZeroDivisionError
            second = await declared.get()
            assert (second.body, second.redelivered) == (b"x", True)
            await second.ack()

    run(scenario())


def test_topics_fan_out_to_many_consumers(broker: Target, name: Named) -> None:
    async def scenario() -> None:
        async with await aio_pika.connect(broker.url) as connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(name("news"), "topic", durable=True)
            received: dict[str, list[bytes]] = {}
            over = asyncio.Event()
            for pattern in ("*.eu", "sport.#", "#"):
                queue = await channel.declare_queue(exclusive=True)
                await queue.bind(exchange, pattern)
                bodies = received.setdefault(pattern, [])

                async def keep(message: AbstractIncomingMessage, to: list[bytes] = bodies) -> None:
                    to.append(message.body)
                    if sum(map(len, received.values())) == 8:
                        over.set()

                await queue.consume(keep, no_ack=True)
            for key in ("sport.eu", "sport.us", "politics.eu", "end"):
                await exchange.publish(aio_pika.Message(key.encode()), key)
            await over.wait()
            assert received == {
                "*.eu": [b"sport.eu", b"politics.eu"],
                "sport.#": [b"sport.eu", b"sport.us"],
                "#": [b"sport.eu", b"sport.us", b"politics.eu", b"end"],
            }

    run(scenario())


def test_fifty_connections_at_once(broker: Target, queue: str) -> None:
    async def scenario() -> None:
        connections = await asyncio.gather(*[aio_pika.connect(broker.url) for _ in range(50)])

        async def publish(connection: aio_pika.abc.AbstractConnection, number: int) -> None:
            channel = await connection.channel()
            for part in range(20):
                body = aio_pika.Message(b"%d-%d" % (number, part))
                await channel.default_exchange.publish(body, queue)

        await asyncio.gather(*[publish(c, number) for number, c in enumerate(connections)])
        channel = await connections[0].channel()
        declared = await channel.declare_queue(queue, durable=True, passive=True)
        assert declared.declaration_result.message_count == 1000
        await asyncio.gather(*[connection.close() for connection in connections])

    run(scenario())
