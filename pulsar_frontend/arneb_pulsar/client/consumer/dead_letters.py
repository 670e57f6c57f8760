"""Dead letters and retries: moving messages to the dead-letter topic or the retry topic.

The rule: a message is acknowledged only once it is stored in the other topic; one that cannot be
stored there is redelivered.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Generic, TypeVar

import anyio

from arneb_pulsar.client.consumer.machine import ConsumerMachine
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.consumer.options import ConsumerOptions, DeadLetterPolicy
from arneb_pulsar.client.context import ClientContext
from arneb_pulsar.client.errors import PulsarError
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.names import TopicName

LOG = logging.getLogger("arneb_pulsar.client")

T = TypeVar("T")

RECONSUMETIMES: Final = "RECONSUMETIMES"
DELAY_TIME: Final = "DELAY_TIME"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_SUBSCRIPTION: Final = "REAL_SUBSCRIPTION"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
OLD_ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_IDY_TIME"
"""Property names of the official clients; the last is the spelling of older versions."""

MakeProducer = Callable[[str, str], Awaitable[Producing[bytes]]]
"""Makes a producer for (topic, name of an initial subscription)."""


def dead_letter_topic(topic: TopicName, subscription: str) -> str:
    """Return the default dead-letter topic."""
    return f"{topic.base}-{subscription}-DLQ"


def retry_topic(topic: TopicName, subscription: str) -> str:
    """Return the default retry topic."""
    return f"{topic.base}-{subscription}-RETRY"


def named_letters(topic: TopicName, subscription: str, options: ConsumerOptions) -> ConsumerOptions:
    """Return the options with the default topic names, made from ``topic``, filled in."""
    policy = options.dead_letters or (DeadLetterPolicy() if options.retry else None)
    if policy is None:
        return options
    named = replace(
        policy,
        topic=policy.topic or dead_letter_topic(topic, subscription),
        retry_topic=policy.retry_topic or retry_topic(topic, subscription),
    )
    return replace(options, dead_letters=named)


class DeadLetters(Generic[T]):
    """The dead-letter and retry topics of one consumer. Producers are made on first use."""

    def __init__(
        self,
        context: ClientContext,
        topic: TopicName,
        subscription: str,
        policy: DeadLetterPolicy,
        make: MakeProducer,
    ) -> None:
        self._context = context
        self._topic = topic
        self._subscription = subscription
        self._policy = policy
        self._make = make
        self._producers: dict[str, Producing[bytes]] = {}
        self._making = anyio.Lock()
        self._burying = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<DeadLetters of {self._subscription!r} on {self._topic}>"

    def bury(self, machine: ConsumerMachine[T], changed: Callable[[], None]) -> None:
        """Start moving the machine's given-up messages to the dead-letter topic, in a task."""
        if not self._burying and not self._closed:
            self._burying = True
            self._context.tasks.start_soon(self._bury, machine, changed)

    async def reconsume_later(
        self, message: Message[T], delay_s: float, more: dict[str, str]
    ) -> None:
        """Send a message to the retry or the dead-letter topic; the caller acknowledges it."""
        properties = self._properties(message) | more
        times = int(properties.get(RECONSUMETIMES, "0")) + 1
        if times > self._policy.redeliveries_max:
            await self._send_dead(message, properties)
            return
        topic = self._policy.retry_topic
        properties[RECONSUMETIMES] = str(times)
        properties[DELAY_TIME] = str(int(delay_s * 1000))
        properties[RETRY_TOPIC] = topic
        producer = await self._producer(topic, "")
        await producer.send(
            message.data,
            key=message.key_as_sent,
            ordering_key=message.ordering_key,
            properties=properties,
            event_time_ms=message.event_time_ms,
            deliver_after_s=delay_s,
        )

    def close(self) -> None:
        """Move no more messages, and close the producers in tasks."""
        self._closed = True
        for each in self._producers.values():
            self._context.tasks.start_soon(each.close)

    async def _bury(self, machine: ConsumerMachine[T], changed: Callable[[], None]) -> None:
        try:
            while machine.given_up and not self._closed:
                message = machine.given_up[0]
                try:
                    await self._send_dead(message, self._properties(message))
                except PulsarError as error:
                    LOG.error("%r could not be sent to the dead-letter topic: %s", message, error)
                    failed, machine.given_up = machine.given_up, []
                    machine.dead_letters_failed(failed, self._context.clock.now())
                else:
                    # A reconnection may have cleared the list meanwhile.
                    if machine.given_up and machine.given_up[0] is message:
                        machine.given_up.pop(0)
                    machine.dead_letter_stored(message, self._context.clock.now())
                changed()
        finally:
            self._burying = False

    async def _send_dead(self, message: Message[T], properties: dict[str, str]) -> None:
        topic = self._policy.topic
        producer = await self._producer(topic, self._policy.initial_subscription)
        await producer.send(
            message.data,
            key=message.key_as_sent,
            ordering_key=message.ordering_key,
            properties=properties,
            event_time_ms=message.event_time_ms,
        )

    def _properties(self, message: Message[T]) -> dict[str, str]:
        properties = message.properties
        properties.setdefault(REAL_TOPIC, message.topic)
        properties.setdefault(REAL_SUBSCRIPTION, self._subscription)
        properties.setdefault(ORIGIN_MESSAGE_ID, str(message.id))
        properties.setdefault(OLD_ORIGIN_MESSAGE_ID, str(message.id))
        return properties

    async def _producer(self, topic: str, subscription: str) -> Producing[bytes]:
        found = self._producers.get(topic)
        if found is None or found.is_closed:
            async with self._making:
                found = self._producers.get(topic)
                if found is None or found.is_closed:
                    found = self._producers[topic] = await self._make(topic, subscription)
                    if self._closed:
                        await found.close()
        return found
