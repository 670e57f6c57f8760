"""Rights: who may consume from a topic, and who may produce to it.

The rule: every handler asks here and nowhere else, for every topic that it touches, before it
touches it. What may not be consumed is not shown either.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio
from starlette.requests import Request

from arneb.data.errors import DataError

ASKED_A_TURN: Final = 500
"""Topics whose rights are looked up between two checkpoints: some 3 ms."""


class Rights(Protocol):
    """What one client may do."""

    @property
    def name(self) -> str:
        """Who it is; empty where nobody is asked."""
        ...

    def may_continue(self, owner: str) -> bool:
        """Go on with, look at and give up what the client of that name has begun."""
        ...

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        """Read what is stored of it, and keep a place in it under that name."""
        ...

    def may_produce(self, topic: str) -> bool:
        """Append to it; it may not be there yet."""
        ...

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        """Publish to an exchange, ``""`` being the default one, by that key."""
        ...


RightsOf = Callable[[Request], Rights]
"""Those of whoever sent a request, who was let in before."""


class Everything:
    """The rights of everybody who was let in."""

    name = ""

    def may_continue(self, owner: str) -> bool:
        """Yes."""
        return True

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        """Yes."""
        return True

    def may_produce(self, topic: str) -> bool:
        """Yes."""
        return True

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        """Yes."""
        return True


def everything(request: Request) -> Rights:
    """Whoever was let in may do everything."""
    return Everything()


async def expect_consume(rights: Rights, topics: Iterable[str], subscription: str = "") -> None:
    """Raise ``forbidden`` for the first of ``topics`` that may not be consumed by that name."""
    for number, topic in enumerate(topics, 1):
        if number % ASKED_A_TURN == 0:
            await trio.lowlevel.checkpoint()
        if not rights.may_consume(topic, subscription):
            raise forbidden("consume from", topic)


def expect_produce(rights: Rights, topic: str) -> None:
    """Raise ``forbidden`` if nothing may be produced to ``topic``."""
    if not rights.may_produce(topic):
        raise forbidden("produce to", topic)


def forbidden(right: str, what: str) -> DataError:
    """A right that is lacking."""
    return DataError(403, "forbidden", f"expected the right to {right} {what}, which you lack")
