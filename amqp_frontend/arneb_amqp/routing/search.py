"""A search: finds where one message goes, in steps between which others have their turn.

The rule: if the topology changes between two steps, the search starts over, because its findings
may be wrong. It ends after a bounded number of steps, restarts included.
"""

from collections.abc import Generator, Iterable, Mapping
from typing import Final

from arneb_amqp.errors import precondition_failed
from arneb_amqp.routing.router import Router, RouteResult
from arneb_amqp.wire.tables import Field

STEPS_MAX: Final = 5_000
"""Steps of some 2 ms: a message not routed by then has taken ten seconds of everybody's time. Only
thousands of hard bindings and hundreds of routing keys in ``CC`` come near it."""


class Search:
    """The search for the queues of one message.

    Invariant: ``result`` is set once :meth:`step` has returned True.
    """

    def __init__(
        self,
        router: Router,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Field] | None = None,
        extra_keys: Iterable[str] = (),
    ) -> None:
        self._router = router
        self._asked = exchange, routing_key, headers, tuple(extra_keys)
        self._generation = -1
        self._steps: Generator[None, None, RouteResult] | None = None
        self._result: RouteResult | None = None
        self.steps = 0
        """The number of steps taken."""

    def __repr__(self) -> str:
        return f"<Search in {self._asked[0]!r}, {self.steps} steps>"

    @property
    def result(self) -> RouteResult:
        """Where the message goes."""
        assert self._result is not None, "not found yet"
        return self._result

    def step(self) -> bool:
        """Take a step; True when the result is found.

        Raises 404 when there is no such exchange, and 406 when it takes too long.
        """
        if self._steps is None or self._generation != self._router.generation:
            self._generation = self._router.generation
            self._steps = self._router.search(*self._asked)
        self.steps += 1
        if self.steps > STEPS_MAX:
            name = self._asked[0]
            raise precondition_failed(f"routing by exchange '{name}' took too long")
        try:
            next(self._steps)
        except StopIteration as found:
            self._result = found.value
            return True
        return False

    def answers(
        self,
        exchange: str,
        routing_key: str,
        headers: Mapping[str, Field] | None,
        extra_keys: tuple[str, ...],
    ) -> bool:
        """Whether it is over, was for the same message, and is still valid."""
        return (
            self._result is not None
            and self._generation == self._router.generation
            and self._asked == (exchange, routing_key, headers, extra_keys)
        )


class StillSearching(Exception):
    """The message's destinations are not known yet; ask again when ``search`` is over."""

    def __init__(self, search: Search) -> None:
        super().__init__()
        self.search = search
