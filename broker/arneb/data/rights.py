"""Rights: who may consume from a topic, and who may produce to it.

The rule: every handler checks rights here and nowhere else, for every topic, before it uses the
topic. A topic that may not be consumed is not shown either.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

import trio
from starlette.requests import Request

from arneb.data.errors import DataError

ASKED_A_TURN: Final = 500
"""Topics whose rights are checked between two checkpoints: some 3 ms."""


class Rights(Protocol):
    """What one client may do."""

    @property
    def name(self) -> str:
        """The client's name; empty without authentication."""
        ...

    def may_continue(self, owner: str) -> bool:
        """Whether the client may continue, see and abort a query of ``owner``."""
        ...

    def may_consume(self, topic: str, subscription: str = "") -> bool:
        """Whether the client may read a topic, and have a cursor of that name on it."""
        ...

    def may_produce(self, topic: str) -> bool:
        """Whether the client may append to a topic, which need not exist yet."""
        ...

    def may_publish(self, vhost: str, exchange: str, routing_key: str) -> bool:
        """Whether the client may publish to an exchange (``""``: the default one) with this key."""
        ...


RightsOf = Callable[[Request], Rights]
"""Returns the rights of a request's authenticated sender."""


class Everything:
    """Every right."""

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
    """Grant every right to every sender."""
    return Everything()


async def expect_consume(rights: Rights, topics: Iterable[str], subscription: str = "") -> None:
    """Raise ``forbidden`` for the first of ``topics`` that ``subscription`` may not consume."""
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
    """Return the error for a missing right."""
    return DataError(403, "forbidden", f"expected the right to {right} {what}, which you lack")
