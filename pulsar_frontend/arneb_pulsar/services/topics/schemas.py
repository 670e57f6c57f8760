"""The schema registry: which schemas topics have, version by version.

The rule: a version is on disk before it is given out, and none is ever changed. Partitions
share the schemas of their topic. Large definitions are compared in a thread, so as not to hold up
the event loop.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from struct import Struct
from typing import Final, TypeVar

import trio

from arneb_core.api.core import Core, Unit
from arneb_core.api.process.name_locks import NameLocks
from arneb_pulsar.names import TopicName
from arneb_pulsar.schemas.compatibility import (
    IncompatibleSchema,
    Strategy,
    check_consumer,
    check_producer,
    check_valid,
    is_same,
)
from arneb_pulsar.schemas.schema import Schema, Version, from_wire, to_wire
from arneb_pulsar.services.clock import Clock
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SCHEMAS: Final = "pulsar/schema/"
"""Key prefix of schemas; the topic's namespace and local name follow, then the version."""

Found = TypeVar("Found")

HEAD: Final = Struct(">QB")
"""The head of a stored version: the time, and whether a schema follows."""

SMALL_BYTES: Final = 16 * 1024
"""Bytes of a definition that is compared within a millisecond."""


class SchemaRegistry:
    """The schemas of all topics."""

    def __init__(
        self, core: Core, strategy_of: Callable[[TopicName], Strategy], clock: Clock
    ) -> None:
        self._core = core
        self._clock = clock
        self._strategy_of = strategy_of
        self._locks = NameLocks()
        """By the name of the topic."""
        self._versions: dict[str, list[Version]] = {}
        for key, value in core.metadata(SCHEMAS).items():
            name, _, number = key.removeprefix(SCHEMAS).rpartition("/")
            self._versions.setdefault(name, []).append(_unpack(int(number), value))
        for versions in self._versions.values():
            versions.sort(key=lambda each: each.number)

    def __repr__(self) -> str:
        return f"<SchemaRegistry of {len(self._versions)} topics>"

    def versions(self, topic: TopicName) -> Sequence[Version]:
        """Return the versions since the last deletion, oldest first."""
        living: list[Version] = []
        for each in self._all(topic):
            if each.schema is None:
                living.clear()
            else:
                living.append(each)
        return living

    def find(self, topic: TopicName, number: int | None = None) -> Version | None:
        """Return that version, or the latest; None if there is none. A deleted version is not found
        by its number either, as in Pulsar."""
        versions = self.versions(topic)
        if number is None:
            return versions[-1] if versions else None
        return next((each for each in versions if each.number == number), None)

    def strategy(self, topic: TopicName) -> Strategy:
        """Return how a new schema must be compatible with the topic's present ones."""
        return self._strategy_of(topic)

    async def attach(self, topic: TopicName, schema: Schema, *, may_add: bool = True) -> Version:
        """Return the version of a schema, which is attached already or, if ``may_add``, now. Raises
        :class:`IncompatibleSchema` and :class:`CommitFailed`."""
        async with self._locks.holding(_name_of(topic)):
            living = self.versions(topic)
            if not may_add:
                if (same := await _look(partial(_find_same, living, schema), schema)) is None:
                    raise IncompatibleSchema(NO_UPDATES)
                return same
            strategy = self._strategy_of(topic)
            known = await _look(partial(_find_or_check, living, schema, strategy), schema)
            return known or await self._add(topic, schema)

    async def check_consumer(self, topic: TopicName, schema: Schema) -> None:
        """Raise :class:`IncompatibleSchema` if a consumer may not come with that schema."""
        present = [each.schema for each in self.versions(topic) if each.schema is not None]
        strategy = self._strategy_of(topic)
        await _look(partial(_check_consumer, present, schema, strategy), schema)

    async def version_of(self, topic: TopicName, schema: Schema) -> Version | None:
        """Return the version with the same schema; None if it is not attached."""
        return await _look(partial(_find_same, self.versions(topic), schema), schema)

    async def check(self, topic: TopicName, schema: Schema) -> None:
        """Raise :class:`IncompatibleSchema` if the schema could not be attached."""
        living = self.versions(topic)
        strategy = self._strategy_of(topic)
        await _look(partial(_find_or_check, living, schema, strategy), schema)

    async def delete(self, topic: TopicName) -> Version:
        """Delete all schemas; version numbers continue from those so far."""
        async with self._locks.holding(_name_of(topic)):
            return await self._add(topic, None)

    @asynccontextmanager
    async def removal(self, topic: TopicName) -> AsyncIterator[list[tuple[str, bytes | None]]]:
        """Remove all schemas with the topic: the body does that durably, in the commit that removes
        the topic, so that schemas of one recreated cannot go instead."""
        name = _name_of(topic)
        async with self._locks.holding(_name_of(topic)):
            with trio.CancelScope(shield=True):  # what is on disk must be in memory too
                yield [(_key(name, each.number), None) for each in self._versions.get(name, ())]
                self._versions.pop(name, None)

    async def forget(self, topic: TopicName) -> None:
        """Remove all schemas of a topic, deletions included."""
        async with self.removal(topic) as keys:
            if keys:
                await self._core.committed(Unit(metadata=keys))

    # Inside

    def _all(self, topic: TopicName) -> Sequence[Version]:
        """Return all versions, deletions included, oldest first."""
        return self._versions.get(_name_of(topic), ())

    async def _add(self, topic: TopicName, schema: Schema | None) -> Version:
        name = _name_of(topic)
        versions = self._versions.get(name, [])
        number = versions[-1].number + 1 if versions else 0
        version = Version(number, schema, self._clock.wall_ms())
        with trio.CancelScope(shield=True):
            await self._core.committed(Unit(metadata=[(_key(name, number), _pack(version))]))
            self._versions.setdefault(name, []).append(version)
        return version


NO_UPDATES: Final = "Schema not found and schema auto updating is disabled."


async def _look(look: Callable[[], Found], schema: Schema) -> Found:
    if len(schema.data) <= SMALL_BYTES:
        return look()
    return await trio.to_thread.run_sync(look)


def _find_or_check(living: Sequence[Version], schema: Schema, strategy: Strategy) -> Version | None:
    """Return the version with the same schema; None if the schema may become one."""
    check_valid(schema)
    if (same := _find_same(living, schema)) is not None:
        return same
    check_producer([each.schema for each in living if each.schema is not None], schema, strategy)
    return None


def _find_same(living: Sequence[Version], schema: Schema) -> Version | None:
    found = (each for each in living if each.schema is not None and is_same(each.schema, schema))
    return next(found, None)


def _check_consumer(present: Sequence[Schema], schema: Schema, strategy: Strategy) -> None:
    check_valid(schema)
    check_consumer(present, schema, strategy)


def _name_of(topic: TopicName) -> str:
    base = topic.base
    return f"{base.namespace}/{base.local}"


def _key(name: str, number: int) -> str:
    return f"{SCHEMAS}{name}/{number}"


def _pack(version: Version) -> bytes:
    head = HEAD.pack(version.timestamp_ms, version.schema is not None)
    if version.schema is None:
        return head
    return head + to_wire(version.schema, "").SerializeToString()


def _unpack(number: int, data: bytes) -> Version:
    timestamp_ms, present = HEAD.unpack_from(data)
    if not present:
        return Version(number, None, timestamp_ms)
    message = pb.Schema.FromString(data[HEAD.size :])
    properties = {each.key: each.value for each in message.properties}
    return Version(number, from_wire(message, properties), timestamp_ms)
