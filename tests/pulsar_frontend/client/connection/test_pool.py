"""The pool on brokers in memory: whom it asks."""

from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import pytest
import trio
import trio.testing
from anyio.abc import ByteStream

from arneb_pulsar.client import ClientOptions, connect
from arneb_pulsar.client.connection.dialling import Address
from arneb_pulsar.client.errors import ConnectError
from arneb_pulsar.client.testing import FakeBroker

TWO = "pulsar://dead:6650,fake-1:6650"


def play(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


class Dialled:
    """Dials a broker in memory, and notes who was tried."""

    def __init__(self, broker: FakeBroker) -> None:
        self.tried: Counter[str] = Counter()
        self._broker = broker

    async def __call__(self, address: Address) -> ByteStream:
        self.tried[address.host] += 1
        await anyio.sleep(0.001)
        return await self._broker.dial(address)


@pytest.mark.parametrize("askers", [1, 2, 3, 8])
def test_concurrent_callers_all_get_the_open_connection(askers: int) -> None:
    async def main() -> None:
        dial = Dialled(FakeBroker())
        async with connect(TWO, ClientOptions(dial=dial)) as client:
            pool = client._context.pool
            async with anyio.create_task_group() as tasks:
                for _ in range(askers):
                    tasks.start_soon(pool.any)
            # From now on it is asked first.
            before = dial.tried["dead"]
            await pool.any()
            assert dial.tried["dead"] == before

    play(main)


def test_the_last_error_is_raised_when_no_broker_answers() -> None:
    async def main() -> None:
        broker = FakeBroker()
        broker.is_down = True
        async with connect(TWO, ClientOptions(dial=broker.dial)) as client:
            with pytest.raises(ConnectError, match="fake-1"):
                await client._context.pool.any()

    play(main)
