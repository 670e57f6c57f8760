"""Messages in chunks that leave when a scenario says so, one after the other.

The rule: the producer is the client's own, and the chunks are as it makes them; only their frames
are held until they are sent, so that what a scenario wants to happen happens between two of them.
"""

from collections.abc import Iterable
from typing import Final

from arneb_pulsar.client import Client, ProducerOptions
from arneb_pulsar.client.producer.producer import Producer

CHUNK_BYTES: Final = 1_000

NO_TIMEOUT: Final = ProducerOptions(
    chunking=True, chunk_bytes_max=CHUNK_BYTES, batching=None, send_timeout_s=0
)


class Held:
    """A producer whose frames leave when :meth:`send` is called."""

    def __init__(self, producer: Producer[bytes]) -> None:
        connection = producer._attachment.connection
        assert connection is not None
        self._connection = connection
        self._send = connection.machine.send_frames
        self._frames: list[bytes] = []
        connection.machine.send_frames = self._hold  # type: ignore[method-assign]

    def _hold(self, frames: Iterable[bytes]) -> None:
        self._frames += frames

    def send(self, count: int) -> None:
        going, self._frames = self._frames[:count], self._frames[count:]
        self._send(going)
        self._connection.flush()


async def held(client: Client, topic: str, body: bytes, key: str | None = None) -> Held:
    """A message of which no chunk has left yet. Nothing else leaves by the client's connection."""
    producer = await client.create_producer(topic, NO_TIMEOUT)
    assert isinstance(producer, Producer)
    found = Held(producer)
    producer.send_nowait(body, key=key)
    return found
