"""Places: topics, subscriptions and policies that were created, changed or deleted with the admin
API."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Final

from conformance.pulsar.admin import Admin, Refused
from tests.crash.players.player import Loop, Player, until_gone
from tests.crash.verdict import some

NUMBER: Final = 3
PARTITIONS: Final = 2
TTL_S: Final = (5_000, 6_000, 7_000)

Thing = tuple[str, ...]
"""A kind and a topic's name, and for a subscription also its name."""
Value = Any
"""What is read back; None if it does not exist."""


@dataclass(slots=True)
class PlaceBook:
    """The possible values of each thing: one, or two while an answer is outstanding."""

    values: dict[Thing, list[Value]] = field(default_factory=dict)

    def ask(self, thing: Thing, value: Value) -> None:
        self.values[thing] = [*self.values[thing], value]

    def answer(self, thing: Thing, value: Value) -> None:
        self.values[thing] = [value]

    def of(self, topic: str) -> list[Thing]:
        """Everything that is deleted with a topic."""
        return [each for each in self.values if each[1] == topic]


def judge_places(book: PlaceBook, found: dict[Thing, Value]) -> list[str]:
    """Every broken promise; ``found`` is the value of each thing."""
    wrong = [
        (thing, value, book.values[thing])
        for thing, value in found.items()
        if value not in book.values[thing]
    ]
    return list(some("something else than was said (thing, found, said)", wrong))


class PlacePlayer(Player):
    """One administrator."""

    name = "places"

    _book: PlaceBook
    _changes = 0

    async def prepare(self) -> None:
        things: list[Thing] = []
        for number in range(NUMBER):
            topic, divided = self.called(f"topic{number}"), self.called(f"divided{number}")
            things += [("topic", topic), ("ttl", topic), ("retention", topic)]
            things += [("subscription", topic, name) for name in ("one", "two")]
            things.append(("partitions", divided))
        self._book = PlaceBook({each: [None] for each in things})

    async def clear(self) -> None:
        """Nothing to delete: this player's topics end with the run."""

    def summary(self) -> str:
        there = sum(values != [None] for values in self._book.values.values())
        return f"{there} of {len(self._book.values)} there, {self._changes} changes"

    async def start(self) -> list[Loop]:
        return [until_gone(self._change())]

    async def judge(self) -> list[str]:
        admin = Admin(self.broker.admin_url)
        found = await asyncio.to_thread(
            lambda: {each: self._read(admin, each) for each in self._book.values}
        )
        anomalies = judge_places(self._book, found)
        for thing, value in found.items():
            self._book.answer(thing, value)
        return anomalies

    def _read(self, admin: Admin, thing: Thing) -> Value:
        kind, topic = thing[:2]
        if kind == "topic":
            name = f"persistent://public/default/{topic}"
            return True if name in admin.get("") else None
        if kind == "partitions":
            document = admin.get_if_there(f"{topic}/partitions") or {}
            return document.get("partitions") or None
        if kind == "subscription":
            return (
                True if thing[2] in (admin.get_if_there(f"{topic}/subscriptions") or ()) else None
            )
        path = {"ttl": "messageTTL", "retention": "retention"}[kind]
        document = admin.get_if_there(f"{topic}/{path}")
        if kind == "retention" and document:
            return document["retentionTimeInMinutes"]
        return document or None

    async def _change(self) -> None:
        admin = Admin(self.broker.admin_url)
        while True:
            thing = self.dice.choice(list(self._book.values))
            kind, topic = thing[:2]
            if kind not in ("topic", "partitions") and self._book.values["topic", topic] != [True]:
                continue
            self._changes += 1
            before = self._book.values[thing][0]
            value = self._another(kind, before)
            goes = [*self._book.of(topic)] if kind == "topic" and value is None else [thing]
            for each in goes:
                self._book.ask(each, value)
            await self._call(self._request(admin, thing, value))
            for each in goes:
                self._book.answer(each, value)

    def _another(self, kind: str, before: Value) -> Value:
        if kind in ("ttl", "retention"):
            return self.dice.choice([each for each in (*TTL_S, None) if each != before])
        return (PARTITIONS if kind == "partitions" else True) if before is None else None

    def _request(self, admin: Admin, thing: Thing, value: Value) -> Callable[[], object]:
        kind, topic = thing[:2]
        path = {
            "topic": topic,
            "partitions": f"{topic}/partitions",
            "subscription": f"{topic}/subscription/{thing[-1]}",
            "ttl": f"{topic}/messageTTL",
            "retention": f"{topic}/retention",
        }[kind]
        if value is None:
            query = {"force": "true"} if kind == "topic" else {}
            return lambda: admin.delete(path, **query)
        if kind == "ttl":
            return lambda: admin.post(path, messageTTL=str(value))
        if kind == "retention":
            document = {"retentionTimeInMinutes": value, "retentionSizeInMB": 1}
            return lambda: admin.post(path, document)
        if kind == "partitions":
            return lambda: admin.put(path, value)
        return lambda: admin.put(path)

    async def _call(self, call: Callable[[], object]) -> None:
        """A refused call is a fault of the test; an interrupted one ends the loop."""
        try:
            await asyncio.to_thread(call)
        except HTTPException as error:
            raise ConnectionError(str(error)) from error
        except Refused as refused:
            if refused.status < 500:
                raise
            raise ConnectionError(str(refused)) from refused
