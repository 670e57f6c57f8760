"""Read-ahead: how far a client is read while what it has published is not stored yet."""

from dataclasses import dataclass
from typing import cast

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from arneb_amqp.errors import AmqpError
from arneb_amqp.server.transport.read_ahead import (
    UNSTORED_BYTES_MAX,
    UNSTORED_BYTES_SHARE,
    WAITING_BYTES_MUCH,
    ReadAhead,
)
from arneb_amqp.session.effect_queue import EffectQueue
from arneb_amqp.session.effects import Token
from arneb_core.api.core import Core

READ = 64 * 1024


@dataclass
class Waiting:
    """A core with so many bytes on their way to its store."""

    waiting_bytes: int = 0


class Publisher:
    """A publisher that ignores what it is told."""

    def end_run(self) -> None: ...

    def committed(self, last_tag: int, error: AmqpError | None, *, refused: bool) -> None: ...

    def send_confirms(self) -> None: ...


def bytes_read(ahead: ReadAhead) -> int:
    """What is read until the connection has to wait."""
    reads = 1
    while not ahead.goes_too_far(READ):
        reads += 1
    return reads * READ


@pytest.mark.parametrize(
    ("waiting_bytes", "bound"),
    [
        (0, UNSTORED_BYTES_MAX),
        (WAITING_BYTES_MUCH, UNSTORED_BYTES_MAX),
        (WAITING_BYTES_MUCH + 1, UNSTORED_BYTES_SHARE),
    ],
)
def test_a_client_is_read_a_megabyte_ahead_or_its_share(waiting_bytes: int, bound: int) -> None:
    ahead = ReadAhead(cast("Core", Waiting(waiting_bytes)), EffectQueue())
    assert bytes_read(ahead) == bound + READ


def test_a_client_that_was_read_far_is_held_to_a_share_when_others_arrive() -> None:
    core = Waiting()
    ahead = ReadAhead(cast("Core", core), EffectQueue())
    assert not ahead.goes_too_far(UNSTORED_BYTES_MAX)
    core.waiting_bytes = WAITING_BYTES_MUCH + 1
    assert ahead.goes_too_far(0)


async def test_it_is_read_again_when_what_was_published_up_to_the_last_mark_is_stored() -> None:
    effects = EffectQueue()
    ahead = ReadAhead(cast("Core", Waiting()), effects)
    read: list[str] = []

    async def catch_up(name: str) -> None:
        await ahead.caught_up()
        read.append(name)

    def stored(token: int) -> None:
        effects.committed(Token(token))
        ahead.committed()

    def publish() -> None:
        effects.append(("q",), [b"entry"], Publisher(), 0)

    publish()
    await catch_up("nothing was published before the first mark")
    publish()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(catch_up, "the first append")
        await wait_all_tasks_blocked()
        assert "waiting" in repr(ahead)
        assert len(read) == 1
        stored(1)
    assert read[1:] == ["the first append"]
    assert "waiting" not in repr(ahead)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(catch_up, "the second")
        publish()
        ahead.committed()  # of another connection
        await wait_all_tasks_blocked()
        assert len(read) == 2
        stored(2)
    assert read[2:] == ["the second"]
    assert bytes_read(ahead) == UNSTORED_BYTES_MAX + READ, "counting starts again at the mark"
