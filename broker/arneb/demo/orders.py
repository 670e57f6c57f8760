"""Orders: the demo's messages, and the turnover that they add up to."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

QUEUE: Final = "orders"
COUNTRIES: Final = ("DE", "FR", "IN", "JP", "US")


@dataclass(frozen=True, slots=True)
class Order:
    """One order; everything else about it follows from its number."""

    number: int

    @property
    def country(self) -> str:
        return COUNTRIES[self.number % len(COUNTRIES)]

    @property
    def cents(self) -> int:
        return 100 + self.number * 37 % 9_900

    def to_json(self) -> bytes:
        """Return the message body."""
        return json.dumps(
            {"number": self.number, "country": self.country, "cents": self.cents}
        ).encode()

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """Return the order in a message body. Raises :class:`ValueError` if it was altered."""
        order = cls(json.loads(body)["number"])
        if order.to_json() != body:
            raise ValueError(f"expected {order.to_json()!r}, got {body!r}")
        return order


@dataclass(frozen=True, slots=True)
class Turnover:
    """Orders and cents by country, as Spark must find them."""

    orders: dict[str, int]
    cents: dict[str, int]

    @classmethod
    def of(cls, orders: Iterable[Order]) -> Self:
        count: Counter[str] = Counter()
        cents: Counter[str] = Counter()
        for order in orders:
            count[order.country] += 1
            cents[order.country] += order.cents
        return cls(dict(count), dict(cents))
